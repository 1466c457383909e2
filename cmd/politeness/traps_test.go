package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/localsite"
)

// TestTraps: a shop's filters go last, are left, or go as they come.
func TestTraps(t *testing.T) {
	const items = 20
	s := localsite.New(t, 0)
	list := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<p>Shop")
		for _, name := range []string{"color", "size", "brand"} {
			fmt.Fprintf(w, `<a href="/shop?%s=1&amp;%s">x</a>`, name, r.URL.RawQuery)
		}
		for i := range items {
			fmt.Fprintf(w, `<a href="/item%c">x</a>`, 'a'+i)
		}
	}
	s.Handle("/shop", http.HandlerFunc(list))
	for i := range items {
		path := fmt.Sprintf("/item%c", 'a'+i)
		s.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<p>All about %s", path)
		}))
	}
	crawl := func(flags ...string) result {
		args := append([]string{"crawl", "-agent", agent, "-delay", "10ms", "-per-host", "1", "-urls-only", "-pages", "25"}, flags...)
		return polite(t, nil, append(args, s.URL+"/shop")...)
	}
	number := func(r result) (items, filters int) {
		for url := range strings.FieldsSeq(r.out) {
			items += strings.Count(url, "/item")
			filters += strings.Count(url, "?")
		}
		return items, filters
	}

	left := crawl("-traps", "left")
	left.expect(t, 0, "/itema", "only postponed URLs are left")
	left.expect(t, 0, "", "parameter color")
	if got, filters := number(left); got != items || filters != 0 {
		t.Errorf("-traps left has %d items and %d filters", got, filters)
	}
	failed := filepath.Join(t.TempDir(), "failed.jsonl")
	crawl("-traps", "left", "-failed", failed)
	reasons := jsonLines(t, failed, "why")
	if len(reasons) == 0 {
		t.Error("-failed has no URL that was postponed")
	}
	for _, why := range reasons {
		if !strings.HasPrefix(why, "parameter ") {
			t.Errorf("-failed says why: %q, want what has postponed the URL", why)
		}
	}
	state := t.TempDir()
	if _, filters := number(crawl("-traps", "left", "-state", state)); filters != 0 {
		t.Errorf("-traps left has %d filters", filters)
	}
	if _, filters := number(crawl("-traps", "last", "-state", state)); filters < 3 {
		t.Errorf("the next run with -traps last has %d filters, want 3 that the first one has left", filters)
	}
	if got, _ := number(crawl()); got != items {
		t.Errorf("%d items were among the first pages, want %d", got, items)
	}
	if _, filters := number(crawl("-traps", "ignored")); filters < 3 {
		t.Errorf("-traps ignored has %d filters, want 3", filters)
	}
	crawl("-traps", "none").expect(t, 2, "", "-traps is last, left or ignored")
}
