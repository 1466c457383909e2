package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/examples/internal/virtual"
)

var defaults = options{depth: 10, pages: 100}

func TestTheSecondPageWaitsForTheSquareOfTheFirstOnesTime(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		t.Setenv("ROBOTS_DEFAULT_DELAY_SECONDS", "0.1")
		o := defaults
		o.state = t.TempDir()
		// 2.56 s after the start of a page that took 1.6 s. A busy machine makes both longer.
		if waited, out := waits(t, o, "/quick"); waited < 0.9 {
			t.Errorf("the second page waited for %.2f s after the first one's end:\n%s", waited, out)
		}
	})
}

// A host that has to wait says so within two seconds.
func TestAPersonSeesWhyNothingHappens(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nCrawl-delay: 30\n")
	}))
	defer site.Close()
	// A person stops the crawl. It would end at once if it knew when.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(2*time.Second, cancel).Stop()
	var out strings.Builder
	if err := run(ctx, &out, defaults, []string{site.URL + "/"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "waiting for 127.0.0.1:") || strings.Count(out.String(), " left in ") != 1 {
		t.Errorf("told:\n%s", out.String())
	}
}

// The tutorial's crawler follows links from a root, skips what is disallowed and goes on.
func TestLinksAreFollowedFromARootAndWhatIsDisallowedIsSkipped(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		var out strings.Builder
		if err := run(t.Context(), &out, defaults, nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`page  http://\S+/, \d+ bytes, 3 links`, `page  http://\S+/slow, `, `page  http://\S+/quick, `,
			`skip  http://\S+/private/diary, Disallow: /private`, `3 visited, 1 disallowed in`,
		} {
			if !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("no %s in\n%s", want, out.String())
			}
		}
		if strings.Contains(out.String(), "start http") && regexp.MustCompile(`start \S+/private`).MatchString(out.String()) {
			t.Errorf("what is disallowed was asked for:\n%s", out.String())
		}
	})
}

// A page that is linked from nowhere but names itself, or another, as canonical is found by that.
func TestCanonicalLinksCountAsLinks(t *testing.T) {
	t.Setenv("ROBOTS_DEFAULT_DELAY_SECONDS", "0.01")
	pages := map[string]string{
		"/":           `<link rel="canonical" href="/start"><a href="/print">print</a>`,
		"/start":      `the same`,
		"/print":      `<link rel="canonical" href="/article">`,
		"/article":    `<link rel="canonical" href="https://elsewhere.example/article">`,
		"/robots.txt": "",
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, pages[r.URL.Path])
	}))
	defer site.Close()
	var out strings.Builder
	if err := run(t.Context(), &out, defaults, []string{site.URL + "/"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/start", "/print", "/article"} {
		if !strings.Contains(out.String(), "page  "+site.URL+path+", ") {
			t.Errorf("%s wasn't found:\n%s", path, out.String())
		}
	}
	if strings.Contains(out.String(), "elsewhere.example") {
		t.Errorf("the crawl left the site:\n%s", out.String())
	}
}

func TestDelayIsThePolitenessDelay(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		t.Setenv("ROBOTS_DEFAULT_DELAY_SECONDS", "0.1") // the flag goes first
		o := defaults
		o.delay = 4 * time.Second
		if waited, out := waits(t, o, "/slow"); waited < 2 || waited > 6.5 {
			t.Errorf("waited for %.2f s, want 2 to 6 s:\n%s", waited, out)
		}
	})
}

func TestBadFlagsAreNamed(t *testing.T) {
	for name, o := range map[string]options{
		"-delay": {delay: -1, depth: 1, pages: 1}, "-depth 0": {pages: 1}, "-pages 0": {depth: 1},
	} {
		if err := run(t.Context(), t.Output(), o, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one about %s", err, name)
		}
	}
}

// waits runs the program and returns how long it waited before a page, in seconds.
func waits(t *testing.T, o options, path string) (waited float64, out string) {
	t.Helper()
	var b strings.Builder
	if err := run(t.Context(), &b, o, nil); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`start http://\S+` + path + `, waited (\d+\.\d+) s`).FindStringSubmatch(b.String())
	if found == nil {
		t.Fatalf("output:\n%s", b.String())
	}
	if _, err := fmt.Sscan(found[1], &waited); err != nil {
		t.Fatal(err)
	}
	return waited, b.String()
}
