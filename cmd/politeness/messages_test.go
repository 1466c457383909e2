package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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
			fmt.Fprint(w, ownWords(r.URL.Path))
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

// ownWords returns the text of a page whose path is a number. No page has a word of another one, so that
// none has to be doubted.
func ownWords(path string) string {
	toLetter := func(digit rune) rune { return digit - '0' + 'a' }
	name := strings.Map(toLetter, strings.TrimPrefix(path, "/"))
	var words []string
	for first := 'a'; first <= 'z'; first++ {
		words = append(words, string(first)+name)
	}
	return strings.Join(words, " ")
}

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

// TestAnErrorOfTwoFieldsIsOne: a flag that sets two fields is wrong once.
func TestAnErrorOfTwoFieldsIsOne(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-delay 3600ns":  "politeness crawl: -delay: 3600ns are nanoseconds: did you mean 3600s?\n",
		"-max-wait 30ns": "politeness crawl: -max-wait: 30ns are nanoseconds: did you mean 30s?\n",
	} {
		r := polite(t, nil, strings.Fields("crawl "+args+" -agent CommandTest/1.0(bot@example.com) http://127.0.0.1:1/")...)
		if r.status != 2 || !strings.HasPrefix(r.errs, want) || strings.Contains(r.errs, "Config") || strings.Count(r.errs, "\n") != 1 {
			t.Errorf("%s: status %d, %q", args, r.status, r.errs)
		}
	}
}

// TestFailedHasWhatIsOver: a URL that waits in -state for the next run hasn't failed.
func TestFailedHasWhatIsOver(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path != "/" {
			fmt.Fprint(w, ownWords(r.URL.Path))
			return
		}
		for i := range 40 {
			fmt.Fprintf(w, `<a href="/%d">x</a>`, i)
		}
	}))
	defer site.Close()
	for _, hasState := range []bool{true, false} {
		failed := filepath.Join(t.TempDir(), "failed.jsonl")
		args := []string{"crawl", "-agent", agent, "-delay", "5ms", "-pages", "12", "-failed", failed}
		if hasState {
			args = append(args, "-state", t.TempDir())
		}
		polite(t, nil, append(args, site.URL+"/")...).expect(t, 0, "", "29 left")
		lines, err := os.ReadFile(failed)
		if err != nil {
			t.Fatal(err)
		}
		want := 29
		if hasState {
			want = 0
		}
		if got := strings.Count(string(lines), `"outcome":"left"`); got != want {
			t.Errorf("-state %v: %d left in -failed, want %d", hasState, got, want)
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
		"crwal http://127.0.0.1:1/":           `there is no command "crwal": did you mean crawl?`,
		"nonsense":                            `there is no command "nonsense"` + "\n",
		"audit extract -hots h log.jsonl":     "politeness audit extract: there is no flag -hots: did you mean -host?\nsee: politeness audit extract -h\n",
		"crawl -pages x http://127.0.0.1:1/":  `invalid value "x" for flag -pages: write a whole number, as in 100`,
	} {
		polite(t, nil, strings.Fields(args)...).expect(t, 2, "", want)
	}
}
