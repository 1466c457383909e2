package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/examples/internal/virtual"
	"github.com/go-politeness/politeness/hostlimit"
)

// TestBooks finds every book by its markup, and says which one it couldn't read.
func TestBooks(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		shop := startShop()
		defer shop.Close()
		var out, messages bytes.Buffer
		if err := run(t.Context(), &out, &messages, hostlimit.Delay{Min: 10 * time.Millisecond}, []string{shop.URL + "/"}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			var b book
			if err := json.Unmarshal([]byte(line), &b); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s: %s, %g, %t", strings.TrimPrefix(b.URL, shop.URL), b.Title, b.Price, b.InStock))
		}
		slices.Sort(got)
		want := []string{
			"/book/1: Book 1, 11.5, true", "/book/2: Book 2, 12.5, false", "/book/3: Book 3, 13.5, true", "/book/4: Book 4, 14.5, false",
			"/book/5: Book 5, 15.5, true", "/book/6: Book 6, 16.5, false", "/book/8: Book 8, 18.5, false", "/book/9: Book 9, 19.5, true",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
		if said := messages.String(); !strings.Contains(said, `1 visit failed (`+shop.URL+`/book/7: price: `) {
			t.Errorf("it doesn't say what it couldn't read:\n%s", said)
		}
	})
}
