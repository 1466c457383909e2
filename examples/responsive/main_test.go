package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/examples/internal/virtual"
)

func TestTheSecondPageWaitsForTheSquareOfTheFirstOnesTime(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		t.Setenv("ROBOTS_DEFAULT_DELAY_SECONDS", "0.1")
		var out strings.Builder
		if err := run(t.Context(), &out, t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`start http://\S+/quick, waited (\d+\.\d+) s`).FindStringSubmatch(out.String())
		if found == nil {
			t.Fatalf("output:\n%s", out.String())
		}
		var waited float64
		if _, err := fmt.Sscan(found[1], &waited); err != nil {
			t.Fatal(err)
		}
		// 2.56 s after the start of a page that took 1.6 s. A busy machine makes both longer.
		if waited < 0.9 {
			t.Errorf("the second page waited for %.2f s after the first one's end:\n%s", waited, out.String())
		}
	})
}
