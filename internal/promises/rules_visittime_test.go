package promises_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// The bubble's clock begins at midnight UTC.
func TestVisitTimeOfRobotsIsKept(t *testing.T) {
	cfg := politeness.Config{Hosts: hostlimit.Config{MaxWait: 6 * time.Hour}, Robots: robotscache.Config{TTL: 24 * time.Hour}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nVisit-time: 0600-0845\nVisit-time: 2000-2100\n").Page("/", "hello")
		b.mustGet("https://example.com/", 200)
		if d := b.elapsed(); d != 6*time.Hour {
			b.Errorf("the first page came after %v, want 6h", d)
		}
		started := b.log.Decisions(evidence.Started)
		if d := started[len(started)-1]; d.WaitBlock < 5*time.Hour+59*time.Minute {
			b.Errorf("the log says a wait of %v: %+v", d.WaitBlock, d)
		}
		time.Sleep(3 * time.Hour) // 9:00
		if next, err := b.t.Next(b.Context(), "https://example.com/"); err != nil || next.UTC().Hour() != 20 {
			b.Errorf("next %v, %v; want 20:00", next, err)
		}
		_, err := b.get("https://example.com/")
		var refused *politeness.Error
		if !errors.As(err, &refused) || !errors.Is(err, politeness.ErrBlocked) || refused.RetryAt.UTC().Hour() != 20 {
			b.Errorf("%v; want ErrBlocked until 20:00", err)
		}
		if d := b.log.Decisions(evidence.SlotTimeout); len(d) != 1 || d[0].RetryAt.UTC().Hour() != 20 || d[0].Reason == "" {
			b.Errorf("%+v", d)
		}
		ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
		defer cancel()
		if _, err := fetch(ctx, b.client, "https://example.com/"); !errors.Is(err, politeness.ErrBlocked) || b.elapsed() != 9*time.Hour {
			b.Errorf("%v after %v; want a refusal at once", err, b.elapsed())
		}
	})
}

// A wait that is longer than a second is on record when it begins.
func TestAWaitForTheVisitTimeIsOnRecord(t *testing.T) {
	virtually(t, politeness.Config{Hosts: hostlimit.Config{MaxWait: 24 * time.Hour}, Robots: robotscache.Config{TTL: 24 * time.Hour}}, func(b *bubble) {
		b.site.Robots("User-agent: *\nVisit-time: 0600-0700\n").Page("/", "hello")
		if _, err := b.t.Check(b.Context(), "https://example.com/"); err != nil {
			b.Fatal(err)
		}
		opens := b.began.Add(6 * time.Hour)
		for _, early := range []time.Duration{time.Second + 1, time.Second} {
			time.Sleep(time.Until(opens.Add(-early)))
			b.mustGet("https://example.com/", 200)
			opens = opens.Add(24 * time.Hour)
		}
		if d := b.one(evidence.Waiting); d.Hold != "visit-time" || d.Until.Sub(d.Time) != time.Second+1 || d.Reason == "" {
			b.Errorf("%+v", d)
		}
	})
}

// A queue that reaches past the window's end goes on when the next one opens.
func TestVisitTimeThatEndsDuringTheWait(t *testing.T) {
	cfg := politeness.Config{Hosts: hostlimit.Config{MaxWait: 24 * time.Hour, Concurrency: 1}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nVisit-time: 0000-0010\nCrawl-delay: 240\n").Page("/", "hello")
		for range 4 {
			b.mustGet("https://example.com/", 200)
		}
		for _, r := range b.web.Requests()[1:] {
			if at := r.Start.UTC(); at.Hour() != 0 || at.Minute() >= 10 {
				b.Errorf("a page was fetched at %v", at)
			}
		}
		if d := b.log.Decisions(evidence.LeaseExpired); len(d) != 0 {
			b.Errorf("a turn that came too late was kept: %+v", d)
		}
	})
}

// TestAWaitForTheVisitTimeIsOneStartsWait: a further try hasn't waited for it.
func TestAWaitForTheVisitTimeIsOneStartsWait(t *testing.T) {
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 1}}, func(b *bubble) {
		b.site.Robots("User-agent: *\nVisit-time: 0030-0100\n").Sequence("/", 503, 200)
		b.mustGet("https://example.com/", 200)
		waits := []time.Duration{}
		for _, d := range b.log.Decisions(evidence.Started) {
			if !d.RobotsTxt {
				waits = append(waits, d.WaitBlock)
			}
		}
		if len(waits) != 2 || waits[0] != 30*time.Minute || waits[1] > time.Minute {
			b.Errorf("waits of %v", waits)
		}
	})
}
