package main

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/localsite"
)

// TestHeadersGoToTheStartURLsAlone: they may be credentials, and links lead anywhere.
func TestHeadersGoToTheStartURLsAlone(t *testing.T) {
	t.Parallel()
	other := localsite.New(t, 0)
	s := localsite.New(t, 0)
	s.Handle("/out", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<a href="` + other.URL + `/a">a</a> <a href="/b">b</a> <a href="/away">away</a>`))
	})
	s.Handle("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/c", http.StatusFound) })
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", "all", "-depth", "1", "-private",
		"-header", "Authorization: Basic Og==", "-header", "x-Two:one", "-header", "X-Two: two", s.URL+"/out").expect(t, 0, "/out", "")
	pages := 0
	for _, v := range s.Visits() {
		want := []string{"one", "two"}
		if v.Target == "/robots.txt" {
			want = nil
		} else {
			pages++
		}
		if got := v.Header["X-Two"]; !slices.Equal(got, want) || (v.Header.Get("Authorization") != "") != (want != nil) {
			t.Errorf("%s is asked for with %q and %q", v.Target, got, v.Header["Authorization"])
		}
	}
	if pages != 3 {
		t.Errorf("%d pages were asked for", pages)
	}
	if len(other.Visits()) < 3 {
		t.Errorf("the other site was asked %d times", len(other.Visits()))
	}
	for _, v := range other.Visits() {
		if v.Header["X-Two"] != nil || v.Header["Authorization"] != nil {
			t.Errorf("the other site is asked for %s with %v", v.Target, v.Header)
		}
	}
}

// TestHeaderSites: the sites to which fields are sent.
func TestHeaderSites(t *testing.T) {
	var h headers
	if err := h.Set("Cookie: a=b"); err != nil {
		t.Fatal(err)
	}
	h.allow([]string{"http://Example.com:80/a", "https://secret.example/"})
	for url, want := range map[string]bool{
		"http://example.com/b":        true,
		"https://example.com/b":       true, // to which it redirects
		"http://example.com:8080/":    false,
		"http://www.example.com/":     false,
		"https://secret.example:443/": true,
		"http://secret.example/":      false, // in the clear
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		h.prepare(req)
		if got := req.Header.Get("Cookie") != ""; got != want {
			t.Errorf("%s: sent %t, want %t", url, got, want)
		}
	}
	for text, want := range map[string]string{
		"no colon": "Name: value", ": empty": "Name: value", "a b: c": "Name: value", "A: b\x00": "control character",
		"user-agent: x": "-agent", "Host: example.com": "by the request itself", "content-length: 3": "by the request itself",
	} {
		if err := h.Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestURLsOnly writes a URL a line, behind what a file has.
func TestURLsOnly(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	r := polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", "none", "-urls-only", s.URL+"/a", s.URL+"/b")
	r.expect(t, 0, "", "")
	lines := strings.Fields(r.out)
	slices.Sort(lines)
	if want := []string{s.URL + "/a", s.URL + "/b"}; !slices.Equal(lines, want) {
		t.Errorf("written: %q, want %q", lines, want)
	}
	out := filepath.Join(t.TempDir(), "urls")
	for range 2 {
		polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", "none", "-urls-only", "-o", out, s.URL+"/a").expect(t, 0, "", "")
	}
	polite(t, nil, "crawl", "-agent", agent, "-urls-only", "-body", s.URL+"/a").expect(t, 2, "", "-urls-only writes no bodies")
}

// TestDepthFirst: the links of a page come before its neighbours.
func TestDepthFirst(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	page := func(links ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for _, link := range links {
				_, _ = w.Write([]byte(`<a href="` + link + `">a</a> `))
			}
		}
	}
	s.Handle("/tree", page("/tree/1", "/tree/2", "/tree/3"))
	for _, n := range []string{"1", "2", "3"} {
		s.Handle("/tree/"+n, page("/tree/"+n+"/1"))
		s.Handle("/tree/"+n+"/1", page())
	}
	polite(t, nil, "crawl", "-agent", agent, "-delay", "50ms", "-per-host", "1", "-depth-first", s.URL+"/tree").expect(t, 0, "", "")
	var order []string
	for _, v := range s.Visits() {
		if strings.HasPrefix(v.Target, "/tree/") {
			order = append(order, strings.TrimPrefix(v.Target, "/tree/"))
		}
	}
	// A page's links may come a moment after the next start.
	first := slices.Index(order, "1/1")
	last := slices.Index(order, "3")
	if len(order) != 6 || first < 0 || first > last {
		t.Errorf("asked for in the order %q", order)
	}
}
