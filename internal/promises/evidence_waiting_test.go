package promises_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestWaitingIsOnRecordWhenItBegins: nobody who looks at the log has to guess why nothing happens.
func TestWaitingIsOnRecordWhenItBegins(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 30\n").Page("/", "page").
			Handle("/busy", politenesstest.Status(429, "Retry-After", "100"))
		asked := time.Now()
		b.mustGet("https://example.com/", 200)
		first := b.log.Decisions(evidence.Waiting)
		if len(first) != 1 {
			b.Fatalf("%d records of waiting, want that for the crawl-delay after robots.txt", len(first))
		}
		d := first[0]
		if d.Time.Sub(asked) > time.Second || d.Hold != "delay" || d.Delay != 30*time.Second || d.DelaySource != "crawl-delay" ||
			!d.Until.Equal(asked.Add(30*time.Second)) || !d.Allowed || d.URL != "https://example.com/" || d.Reason != "crawl-delay of 30s" {
			b.Errorf("on record %v after the call: %+v", d.Time.Sub(asked), d)
		}

		b.log.Reset()
		time.Sleep(30 * time.Second)
		b.mustGet("https://example.com/busy", 429)
		begin := time.Now()
		b.mustGet("https://example.com/", 200)
		if d := b.log.Decisions(evidence.Waiting); len(d) != 1 || !d[0].Time.Equal(begin) || d[0].Hold != "block" ||
			d[0].Reason != "blocked (status 429)" || !d[0].Until.Equal(begin.Add(100*time.Second)) {
			b.Errorf("for a block: %+v", d)
		}
	})
}

// TestWaitingForAnAnswerIsOnRecord after a second: a slow server isn't a silent crawler. So it is for
// robots.txt, before which nothing else is on record.
func TestWaitingForAnAnswerIsOnRecord(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		asked := time.Now()
		b.site.Handle("/robots.txt", politenesstest.Slow(20*time.Second, politenesstest.Status(404))).
			Handle("/slow", politenesstest.Slow(90*time.Second, politenesstest.Status(200))).
			Handle("/quick", politenesstest.Slow(time.Second-1, politenesstest.Status(200)))
		b.mustGet("https://example.com/slow", 200)
		told := b.log.Decisions(evidence.Waiting)
		if len(told) != 2 || told[0].URL != "https://example.com/robots.txt" || !told[0].RobotsTxt || told[0].Time.Sub(asked) != time.Second || told[1].URL != "https://example.com/slow" {
			b.Fatalf("%+v", told)
		}
		start := b.log.Decisions(evidence.Started)[1]
		if d := told[1]; d.Hold != "answer" || d.Reason != "for an answer" || !d.Until.IsZero() || !d.Allowed || d.Time.Sub(start.Start) != time.Second || d.Trip != start.Trip {
			b.Errorf("%+v", d)
		}
		b.log.Reset()
		b.mustGet("https://example.com/quick", 200)
		if told := b.log.Decisions(evidence.Waiting); len(told) > 0 {
			b.Errorf("of a quick answer: %+v", told)
		}
	})
}

// TestDeadHostIsNotCalledDisallowed: that word, and that error, are for what a site has said.
func TestDeadHostIsNotCalledDisallowed(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Handle("/robots.txt", politenesstest.Drop())
		_, err := b.client.Get("https://example.com/")
		if errors.Is(err, politeness.ErrDisallowed) || !errors.Is(err, politeness.ErrUnreachable) || strings.Contains(err.Error(), "disallowed") ||
			!strings.Contains(err.Error(), "robots.txt can't be fetched: ") {
			b.Error(err)
		}
		if d := b.one(evidence.BlockedByRobots); strings.Contains(d.String(), "disallowed") || !strings.Contains(d.String(), "not sent      https://example.com/: no robots.txt (") {
			b.Error(d)
		}
	})
}

func TestWaitingTellsWhoHoldsTheSlots(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Concurrency: 1}}, func(b *bubble) {
		b.site.Page("/held", "page").Page("/", "page")
		held, err := b.client.Get("https://example.com/held")
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		asked := time.Now()
		ended := make(chan error)
		go func() {
			_, err := b.get("https://example.com/")
			ended <- err
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if d := b.log.Decisions(evidence.Waiting); len(d) != 1 || d[0].Time.Sub(asked) != time.Second || d[0].Hold != "slot" || !d[0].Until.IsZero() ||
			d[0].Reason != "1 of 1 slots are in use, one for 6s by https://example.com/held" {
			b.Errorf("%v", d)
		}
		held.Body.Close()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
}

func TestWaitingForVisitTimeIsOnRecord(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nVisit-time: 0030-0100\n").Page("/", "page") // a bubble begins at midnight
		begin := time.Now()
		b.mustGet("https://example.com/", 200)
		if d := b.log.Decisions(evidence.Waiting); len(d) != 1 || d[0].Hold != "visit-time" || !d[0].Until.Equal(begin.Truncate(time.Hour).Add(30*time.Minute)) ||
			d[0].Time.Sub(begin) > 2*time.Second || !strings.Contains(d[0].Reason, "Visit-time") {
			b.Errorf("%+v", d)
		}
	})
}

// TestSlowSinkOfWaitingDelaysNobodyElse: those behind go by the timer of who is told.
func TestSlowSinkOfWaitingDelaysNobodyElse(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		slow := evidence.Func(func(_ context.Context, d evidence.Decision) {
			if d.Type == evidence.Waiting && strings.HasSuffix(d.URL, "/slow") {
				time.Sleep(time.Hour)
			}
		})
		b.client.Transport = mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: slow, DangerouslyIgnoreRobots: true,
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Second}, MaxWait: 2 * time.Hour},
		})
		b.site.Page("/", "page").Page("/slow", "page")
		b.mustGet("https://example.com/", 200)
		begin := time.Now()
		slowEnded := make(chan error)
		go func() {
			_, err := b.get("https://example.com/slow")
			slowEnded <- err
		}()
		synctest.Wait()
		b.mustGet("https://example.com/", 200)
		if d := time.Since(begin); d > time.Minute {
			b.Errorf("the request behind one whose sink is slow started after %v", d)
		}
		if err := <-slowEnded; err != nil {
			b.Error(err)
		}
	})
}

// TestPriorityGoesFirst: a sitemap before sixty pages that wait already.
func TestPriorityGoesFirst(t *testing.T) {
	cfg := politeness.Config{DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page").Page("/sitemap.xml", "sitemap")
		ended := make(chan error, 65)
		get := func(ctx context.Context, url string) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				ended <- err
				return
			}
			resp, err := b.client.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			ended <- err
		}
		for range 64 {
			go get(b.Context(), "https://example.com/")
		}
		time.Sleep(2500 * time.Millisecond)
		go get(hostlimit.WithPriority(b.Context(), 1), "https://example.com/sitemap.xml")
		for range 65 {
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		}
		for i, d := range b.log.Decisions(evidence.Started) {
			if (i == 3) != strings.HasSuffix(d.URL, "/sitemap.xml") { // three had started when it came
				b.Errorf("start %d is that of %s", i+1, d.URL)
			}
		}
	})
}

// TestPersonSeesWithinTwoSecondsWhyNothingHappens, on a terminal or wherever the Console writes.
func TestPersonSeesWithinTwoSecondsWhyNothingHappens(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		var seen bytes.Buffer
		b.client.Transport = mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: evidence.Console(&seen)})
		b.site.Robots("User-agent: *\nCrawl-delay: 30\n").Page("/", "page")
		ended := make(chan error)
		go func() {
			_, err := b.get("https://example.com/")
			ended <- err
		}()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !strings.Contains(seen.String(), "waiting       https://example.com/: crawl-delay of 30s, until 00:00:30") {
			b.Errorf("after two seconds a person has seen\n%s", &seen)
		}
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
}
