package crawl_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// TestAWarningInTheFirstMinute: if most answers of a host are alike and no pages, the user is told of
// the host once, within a minute, and not of others.
func TestAWarningInTheFirstMinute(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string // empty: no warning
	}{
		"a wall":                   {wallOf(202), "a.example has answered 202 to 5 of its first 5 requests"},
		"forbidden":                {wallOf(403), "a.example has answered 403 to "},
		"nothing there":            {wallOf(404), "a.example has answered 404 to "},
		"pages":                    {page("a page"), ""},
		"unchanged":                {wallOf(304), ""},
		"a third aren't there":     {someOf(3, wallOf(404)), ""},
		"all but each third break": {notSomeOf(3, wallOf(410)), "a.example has answered 410 to "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://a.example").Handle("/", tt.answer)
				r.Site("https://b.example").Handle("/", page("a page"))
				var warnings []string
				var at time.Duration
				var out strings.Builder
				line := crawl.ProgressLine(&out)
				r.crawl.Progress = func(p crawl.Progress) {
					line(p)
					if len(p.Warnings) > 0 {
						at = p.Elapsed
						warnings = append(warnings, p.Warnings...)
					}
				}
				r.run(t.Context(), t, append(numbered("a.example", 60), numbered("b.example", 60)...)...)
				text := strings.Join(warnings, "\n")
				if !strings.Contains(text, tt.want) || tt.want == "" && text != "" || len(warnings) > 1 {
					t.Errorf("warnings %q, want one with %q", warnings, tt.want)
				}
				if at > time.Minute {
					t.Errorf("warned after %v", at)
				}
				if tt.want != "" && strings.Count(out.String(), "warning: a.example has answered") != 1 {
					t.Errorf("the lines are %s", &out)
				}
			})
		})
	}
}

// TestAConditionIsNoPlainQuestion: a server that answers conditions with 409, as a broken proxy does,
// hasn't banned the crawler. No page is asked for twice.
func TestAConditionIsNoPlainQuestion(t *testing.T) {
	for _, status := range []int{400, 405, 406, 409, 412} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Site("https://a.example").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get("If-None-Match") != "" {
					w.WriteHeader(status)
					return
				}
				page("page "+inLetters(req.URL.Path))(w, req)
			}))
			r.crawl.Known = func(_ context.Context, url string) (crawl.Validators, error) {
				if strings.HasSuffix(url, "/0") {
					return crawl.Validators{}, nil // a plain page, by which the host could be checked
				}
				return crawl.Validators{ETag: `"v1"`}, nil
			}
			const pages = 30
			sum := r.run(t.Context(), t, numbered("a.example", pages)...)
			asked := len(r.Requests())
			if sum.Visited() != pages || asked > 1+pages+3 { // robots.txt, the pages, checks of alike answers
				t.Errorf("%d: %d requests for %d pages: %v", status, asked, pages, sum)
			}
			if sum.Elapsed > time.Minute {
				t.Errorf("%d: the host was waited for: %v", status, sum)
			}
		})
	}
}

// someOf answers each n-th request in the given way, and the others with a page of their own.
func someOf(n int, answer http.HandlerFunc) http.HandlerFunc {
	asked := 0
	return func(w http.ResponseWriter, req *http.Request) {
		asked++
		if asked%n == 0 {
			answer(w, req)
			return
		}
		page("page "+inLetters(req.URL.Path))(w, req)
	}
}

// notSomeOf answers all but each n-th request in the given way.
func notSomeOf(n int, answer http.HandlerFunc) http.HandlerFunc {
	asked := 0
	return func(w http.ResponseWriter, req *http.Request) {
		asked++
		if asked%n != 0 {
			answer(w, req)
			return
		}
		page("page "+inLetters(req.URL.Path))(w, req)
	}
}
