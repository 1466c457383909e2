package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/virtual"
	"github.com/go-politeness/politeness/internal/localsite"
)

// What is said of a block of 3 s, and of a robots.txt that is asked for again after 5 minutes. A busy
// machine says it when less of that is left.
var (
	blocked = regexp.MustCompile(`status 429: nobody asks this host for (3\.0|[0-2]\.\d) s, by Retry-After`)
	retried = regexp.MustCompile(`; again in (5m0s|4m5\ds)`)
)

// The program as a newcomer runs it, in less than 30 s, with a log that proves itself.
func TestQuickstart(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "crawl.jsonl")
		var out bytes.Buffer
		began := time.Now()
		if err := run(t.Context(), &out, options{file: file, agent: userAgent, state: t.TempDir()}, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > longest {
			t.Errorf("it took %v", took)
		}
		for _, want := range []string{
			`robots.txt line 6, group QuickstartBot: "Disallow: /private"`,
			`robots.txt line 7, group QuickstartBot: "Allow: /private/press"`,
			"crawl-delay 1s", "slot 1 of 2", "for the delay",
			"for the block to end, first after the block", "redirects to /new", "Budget: 7 of 20 pages", "9 started, 9 ended",
			"allowed 8 and refused 2",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the output doesn't say %q:\n%s", want, &out)
			}
		}
		if !blocked.MatchString(out.String()) {
			t.Errorf("the output doesn't say %q:\n%s", blocked, &out)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		report, err := audit.Check(f)
		if err != nil || !report.OK() {
			t.Errorf("the log doesn't prove itself: %v\n%s", err, report)
		}
	})
}

// What a newcomer sees of a slow and of a dead host: the limits first, lines in the order of events,
// which answer is waited for, and no rule where there is none.
func TestQuickstartExplainsSlowAndDeadHosts(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		s := localsite.Start()
		defer s.Close()
		s.Handle("/slow", func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Second) })
		dead := localsite.Serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		defer dead.Close()
		var out bytes.Buffer
		if err := run(t.Context(), &out, options{agent: userAgent}, []string{s.URL + "/slow", s.URL + "/a", dead.URL + "/"}); err != nil {
			t.Fatal(err)
		}
		said := out.String()
		for _, want := range []string{"for an answer", "not sent   " + dead.URL + "/  no robots.txt (network: ", "; again in 5m0s", "robots.txt allowed 2 and refused 0", "1 block;", "BLOCKED    " + dead.URL + "/robots.txt  no response: "} {
			if !strings.Contains(said, want) {
				t.Errorf("it doesn't say %q", want)
			}
		}
		if !retried.MatchString(said) {
			t.Errorf("it doesn't say %q", retried)
		}
		if limits, first := strings.Index(said, "it ends after 20 pages or 25 s"), strings.Index(said, "seconds"); limits < 0 || limits > first {
			t.Error("it doesn't say its limits before it starts")
		}
		last := 0.0
		for line := range strings.Lines(said) {
			var at float64
			if n, _ := fmt.Sscanf(line, "%f  ", &at); n == 1 {
				if at < last {
					t.Errorf("not in the order of events: %s", line)
				}
				last = at
			}
		}
		if strings.Contains(said, "REFUSED") || t.Failed() {
			t.Errorf("the output:\n%s", said)
		}
	})
}

// What has stopped it: its own time, or a person.
func TestQuickstartSaysWhatHasStoppedIt(t *testing.T) {
	for want, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"Stopped: the quickstart ends after 25 s.": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, longest)
		},
		"Stopped: interrupted.": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(5*time.Second, cancel)
			return ctx, cancel
		},
	} {
		t.Run(want, func(t *testing.T) {
			virtual.Run(t, func(t *testing.T) {
				s := localsite.Start()
				defer s.Close()
				slow := func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }
				s.Handle("/slow", slow)
				silent := localsite.Serve(http.HandlerFunc(slow)) // no robots.txt, either
				defer silent.Close()
				ctx, cancel := end(t.Context())
				defer cancel()
				var out bytes.Buffer
				if err := run(ctx, &out, options{agent: userAgent}, []string{s.URL + "/slow", silent.URL + "/"}); err != nil {
					t.Fatal(err)
				}
				said := out.String()
				for _, want := range []string{
					want, "stopped    " + s.URL + "/slow  its answer hadn't come", "stopped    " + silent.URL + "/  it was waiting for its robots.txt",
				} {
					if !strings.Contains(said, want) {
						t.Errorf("it doesn't say %q", want)
					}
				}
				if strings.Contains(said, "context") || t.Failed() {
					t.Errorf("the output:\n%s", said)
				}
			})
		})
	}
}

func TestQuickstartNamesWhatIsNoURL(t *testing.T) {
	err := checkURLs([]string{"https://example.com/", "example.com", "ftp://example.com/", ":"})
	if err == nil || strings.Count(err.Error(), "(a URL begins with https:// or http://)") != 3 || !strings.Contains(err.Error(), "no URL: example.com (") {
		t.Error(err)
	}
}
