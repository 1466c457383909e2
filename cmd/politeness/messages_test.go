package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOneNumberForWhatIsLeft: a run tells how many URLs it leaves, and the next run begins with as
// many.
func TestOneNumberForWhatIsLeft(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			// Each page says something else, so that none has to be doubted.
			fmt.Fprint(w, strings.Repeat("a", len(r.URL.Path)), " page of ", strings.Map(toLetter, r.URL.Path))
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for i := range 40 {
			fmt.Fprintf(w, "<a href=/%d>page</a> ", i)
		}
	}))
	defer site.Close()
	state := filepath.Join(t.TempDir(), "state")
	args := []string{"crawl", "-agent", agent, "-delay", "5ms", "-pages", "12", "-state", state, site.URL + "/"}
	first := polite(t, nil, args...)
	first.expect(t, 0, "", "stopped: 12 pages, the most that -pages allows")
	left := regexp.MustCompile(`(\d+) left`).FindStringSubmatch(first.errs)
	if left == nil || left[1] != "29" {
		t.Fatalf("want 29 left: %q", first.errs)
	}
	polite(t, nil, args...).expect(t, 0, "", "continuing with "+left[1]+" URLs")
}

// toLetter makes a letter of a digit.
func toLetter(r rune) rune { return r - '0' + 'a' }

// TestErrorsNameFlags: who types a command knows no field of a Go type.
func TestErrorsNameFlags(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"crawl -agent x http://127.0.0.1:1/",
		"proxy -agent x -listen 127.0.0.1:0",
	} {
		r := polite(t, nil, strings.Fields(args)...)
		r.expect(t, 2, "", `-agent: "x" has no contact`)
		if strings.Contains(r.errs, "Config") {
			t.Errorf("%s names a field: %q", args, r.errs)
		}
	}
}

// TestAMistypedFlagGetsTheNearest: and one that is like none gets no guess.
func TestAMistypedFlagGetsTheNearest(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"crawl -page 5 http://127.0.0.1:1/":   "there is no flag -page: did you mean -pages?",
		"crawl --dely 5s http://127.0.0.1:1/": "there is no flag -dely: did you mean -delay?",
		"audit -jsno log.jsonl":               "there is no flag -jsno: did you mean -json?",
		"crawl -z http://127.0.0.1:1/":        "there is no flag -z\n",
		"crawl -cookies http://127.0.0.1:1/":  "there is no flag -cookies\n",
	} {
		polite(t, nil, strings.Fields(args)...).expect(t, 2, "", want)
	}
}
