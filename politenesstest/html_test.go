package politenesstest_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/go-politeness/politeness/politenesstest"
)

// TestHTMLIsHTML whatever it begins with.
func TestHTMLIsHTML(t *testing.T) {
	web := politenesstest.NewWeb()
	const body = "<ul><li><a href=/b>é</a></ul>"
	web.Site("https://example.com").Handle("/", politenesstest.HTML(body))
	client := &http.Client{Transport: web}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	const want = "text/html; charset=utf-8"
	if got := resp.Header.Get("Content-Type"); string(text) != body || got != want || err != nil {
		t.Errorf("%q of type %q, %v", text, got, err)
	}
}

// A page whose first element isn't <html>.
func ExampleHTML() {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Handle("/", politenesstest.HTML("<ul><li><a href=/b>next</a></ul>"))
	resp, err := (&http.Client{Transport: web}).Get("https://example.com/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Header.Get("Content-Type"))
	// Output: text/html; charset=utf-8
}
