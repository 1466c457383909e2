package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/localsite"
)

// browsed returns what browse prints, and its report. A browser has to be installed.
func browsed(t *testing.T, pages []page) (string, *audit.Report) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	report, err := browse(ctx, io.MultiWriter(&out, t.Output()), nil, pages)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() || report.Promise("verdicts right").Proved == 0 {
		t.Error(report)
	}
	return out.String(), report
}

func TestBrowse(t *testing.T) {
	t.Parallel()
	s := startSite()
	defer s.Close()
	out, report := browsed(t, sitePages(s.URL))
	for _, want := range []string{
		`\"how many?\": 3 items for visitor=7; currency=eur.`, // a body, and the browser's cookies
		"private data refused.",
		"socket: error.",
		"/trap: page load error net::ERR_BLOCKED_BY_CLIENT",
		"/private/diary: page load error net::ERR_BLOCKED_BY_CLIENT",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for target, want := range map[string]int{
		"/robots.txt": 1, "/shop": 1, "/style.css": 1, "/library.js": 1, "/logo.png": 1, "/frame": 1, "/api/items": 1,
		"/moved": 1, "/e": 1, "/trap": 1, "/private*": 0, "/socket": 0,
	} {
		if got := len(s.Visits(target)); got != want {
			t.Errorf("%s was asked for %d times, not %d", target, got, want)
		}
	}
	for _, v := range s.Visits() {
		if got := v.Header.Get("User-Agent"); got != userAgent {
			t.Errorf("%s was asked for by %q", v.Target, got)
		}
	}
	if v := s.Visits("/robots.txt"); len(v) == 1 && v[0].Header.Get("Cookie") != "" {
		t.Error("robots.txt was asked for with cookies")
	}
	if n := s.MostInFlight(); n > 2 {
		t.Errorf("%d requests at once", n)
	}
	if logged, seen := report.Records[evidence.Started], len(s.Visits()); logged != seen {
		t.Errorf("the log knows of %d requests, the site of %d", logged, seen)
	}
}

// What a page can do besides: some of it goes through politeness, the rest goes nowhere.
func TestNothingGoesRound(t *testing.T) {
	t.Parallel()
	s, other := startSite(), startSite()
	defer s.Close()
	defer other.Close()
	script := func(path, code string) {
		s.Handle(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, code)
		})
	}
	script("/worker.js", `fetch("/from-worker").then(r => postMessage(r.status))`)
	script("/service.js", `addEventListener("install", e => e.waitUntil(fetch("/from-service")))`)
	s.Handle("/all", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>All</title><body>
<iframe src=%s/frame></iframe>
<a ping=/ping href="javascript:void 0" id=ping>ping</a>
<link rel=prefetch href=/prefetched><link rel=preconnect href=/ >
<script>
const worker = new Promise(done => new Worker("/worker.js").onmessage = e => done(e.data))
const service = navigator.serviceWorker.register("/service.js").then(() => "registered", () => "refused")
open("/popup")
navigator.sendBeacon("/beacon", "hello")
document.getElementById("ping").click()
Promise.all([worker, service]).then(([w, s]) => {
	document.body.append("worker " + w + ", service worker " + s)
	document.body.id = "ready"
})
</script>`, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)) // another site than s
	})
	out, report := browsed(t, []page{{s.URL + "/all", "#ready"}})
	if want := "worker 200, service worker refused"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	for _, through := range []struct {
		site   *localsite.Site
		target string
	}{{s, "/all"}, {s, "/worker.js"}, {s, "/from-worker"}, {other, "/frame"}} {
		if len(through.site.Visits(through.target)) != 1 {
			t.Errorf("%s was not asked for once: %v", through.target, through.site.Visits())
		}
	}
	for _, nowhere := range []string{"/popup", "/service.js", "/from-service"} {
		if len(s.Visits(nowhere)) != 0 {
			t.Errorf("%s was asked for", nowhere)
		}
	}
	if logged, seen := report.Records[evidence.Started], len(s.Visits())+len(other.Visits()); logged != seen {
		t.Errorf("the log knows of %d requests, the sites of %d: %v, %v", logged, seen, s.Visits(), other.Visits())
	}
}
