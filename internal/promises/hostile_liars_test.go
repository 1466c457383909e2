package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/hostlimit"
)

// A liar is a site that lies about itself, and keeps an honest access log by a clock that is wrong.
type liar struct {
	rnd    *rand.Rand
	offset time.Duration // of its clock
	atEnd  bool          // its log notes when requests end, as nginx does
	lies   float64       // share of answers with a lie

	mu    sync.Mutex
	lines []string
}

func newLiar(seed uint64) *liar {
	rnd := rand.New(rand.NewPCG(seed, 59))
	offsets := []time.Duration{0, 0, time.Second, -3 * time.Second, 5 * time.Minute, -time.Hour, 26 * time.Hour, -20 * 365 * 24 * time.Hour}
	return &liar{
		rnd:    rnd,
		offset: offsets[rnd.IntN(len(offsets))],
		atEnd:  rnd.IntN(2) == 0,
		lies:   rnd.Float64(),
	}
}

var (
	lyingStatuses = []int{200, 202, 204, 206, 226, 299, 300, 304, 307, 400, 401, 403, 404, 408, 410, 418, 425, 429, 451, 500, 502, 503, 520, 599}
	lyingWaits    = []string{
		"1", "30", "-5", "0", "1.5", "soon", "99999999999999999999", "Sat, 01 Jan 2000 00:00:10 GMT", "Fri, 31 Dec 1999 00:00:00 GMT", "Tue, 01 Jan 2199 00:00:00 GMT",
		"120, 60", "٣٠", "",
	}
	lyingLimits = []string{`"a";r=0;t=20`, "remaining=0, reset=10", `"a";r=0;t=-1`, "0", `limit=5, remaining=0, reset=9999999999`}
	lyingRobots = []string{
		"", "User-agent: *\nDisallow: /4\n", "User-agent: *\nCrawl-delay: 3\n", "User-agent: *\nCrawl-delay: 0.1\nDisallow: /7\n", "User-agent: *\nDisallow: /\nAllow: /\n",
		"<html>not found</html>", "User-agent: *\nRequest-rate: 1/2\n", "\x1f\x8bno gzip",
	}
)

// oneOf returns one of them.
func oneOf[T any](l *liar, of []T) T { return of[l.rnd.IntN(len(of))] }

// RoundTrip implements http.RoundTripper.
func (l *liar) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	latency := time.Duration(l.rnd.IntN(1500)) * time.Millisecond
	status, header, body := l.answer(req)
	short := l.rnd.IntN(10) == 0 && l.rnd.Float64() < l.lies
	l.mu.Unlock()
	start := time.Now()
	select {
	case <-time.After(latency):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	l.note(req, start, status, len(body))
	resp := &http.Response{
		Status: fmt.Sprint(status, " as it likes"), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Request: req, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}
	if short { // as net/http reads a body that is shorter than its Content-Length
		resp.ContentLength += 1000
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(body), brokenOff{}))
	}
	return resp, nil
}

// brokenOff is a body that breaks off.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// answer returns an answer that is a lie as often as l.lies says.
func (l *liar) answer(req *http.Request) (status int, header http.Header, body string) {
	status = http.StatusOK
	header = http.Header{"Content-Type": {"text/html"}}
	header.Set("Date", time.Now().Add(l.offset).UTC().Format(http.TimeFormat))
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "<a href=/%d>", i)
	}
	body = b.String()
	isRobots := req.URL.Path == "/robots.txt"
	if isRobots {
		header.Set("Content-Type", "text/plain")
		body = lyingRobots[0]
	}
	if l.rnd.Float64() >= l.lies {
		return status, header, body
	}
	if isRobots {
		body = oneOf(l, lyingRobots)
		header.Set("Cache-Control", oneOf(l, []string{"no-store", "max-age=0", "max-age=99999999999", "private, max-age=-1", "s-maxage=x"}))
	}
	switch l.rnd.IntN(7) {
	case 0:
		status = oneOf(l, lyingStatuses)
	case 1:
		status = oneOf(l, lyingStatuses)
		header.Set("Retry-After", oneOf(l, lyingWaits))
	case 2:
		header.Set("Date", oneOf(l, []string{"", "yesterday", "Sat, 01 Jan 2000 00:00:00 GMT", "Tue, 01 Jan 2199 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"}))
	case 3:
		status = oneOf(l, []int{301, 302, 303, 307, 308})
		header.Set("Location", oneOf(l, []string{req.URL.Path, "/1", "/2", "/3", "//", "?", "http://[", "/../../robots.txt"}))
	case 4:
		header.Set("Ratelimit", oneOf(l, lyingLimits))
		header.Set("X-Ratelimit-Remaining", "0")
		header.Set("X-Ratelimit-Reset", oneOf(l, lyingWaits))
	case 5:
		header.Set("Last-Modified", oneOf(l, lyingWaits))
		header.Set("Etag", oneOf(l, []string{"x", `"`, `W/"a`, ""}))
		header.Set("Age", oneOf(l, lyingWaits))
	case 6:
		header.Set("Content-Length", oneOf(l, lyingWaits))
		header.Set("X-Robots-Tag", oneOf(l, []string{"none", "bot: none", "unavailable_after: 1999"}))
	}
	return status, header, body
}

// note writes a line of the access log.
func (l *liar) note(req *http.Request, start time.Time, status, size int) {
	took := time.Since(start)
	noted := start
	if l.atEnd {
		noted = time.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := fmt.Sprintf(`192.0.2.7 - - [%s] "GET %s HTTP/1.1" %d %d "-" %q`, noted.Add(l.offset).UTC().Format("02/Jan/2006:15:04:05 -0700"),
		req.URL.RequestURI(), status, size, req.Header.Get("User-Agent"))
	if l.atEnd {
		line += fmt.Sprintf(" %.3f", took.Seconds())
	} else {
		line += fmt.Sprintf(" %d", took.Microseconds())
	}
	l.lines = append(l.lines, line)
}

// TestHonestCrawlsOfLyingSitesAreCleared: forty sites with wrong clocks, dates, lengths, statuses,
// waits and redirects in circles, and a robots.txt that is another one each time. The crawl of each
// is cleared by the audit, and by the comparison with the site's own log.
func TestHonestCrawlsOfLyingSitesAreCleared(t *testing.T) {
	requests := 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			site := newLiar(seed)
			var records bytes.Buffer
			sink, err := evidence.NewLog(&records, evidence.LogConfig{Chained: true})
			if err != nil {
				t.Fatal(err)
			}
			cfg := politeness.Config{
				UserAgent: "LiarsBot/1.0 (+https://bot.example/; a@bot.example)",
				Base:      site,
				Evidence:  sink,
				Hosts:     hostlimit.Config{Concurrency: 1 + int(seed%3)},
			}
			cfg.Robots.RecordText = true
			transport, err := politeness.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			c, err := crawl.New(crawl.Config{
				Transport: transport,
				Follow:    crawl.SameHost,
				MaxPages:  60,
				Patience:  2 * time.Hour,
				Visit:     func(context.Context, *crawl.Page) error { return nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
			defer cancel()
			if _, err := c.Run(ctx, "https://liar.example/"); err != nil {
				t.Error(err)
			}
			if err := sink.Close(); err != nil {
				t.Error(err)
			}
			report, err := audit.Check(bytes.NewReader(records.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if !report.OK() {
				t.Errorf("seed %d: the audit accuses: %v", seed, report.Violations)
			}
			text := strings.Join(site.lines, "\n") + "\n"
			comparison, err := accesslog.Compare(bytes.NewReader(records.Bytes()), accesslog.Options{}, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if !comparison.OK() {
				t.Errorf("seed %d: the comparison accuses: %v\n%.2000s", seed, comparison, text)
			}
			requests += len(site.lines)
		})
	}
	if requests < 40*10 {
		t.Errorf("%d requests: too few to show anything", requests)
	}
}
