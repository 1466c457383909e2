package promises_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
)

// TestBlocksByHandAreOnRecord, those who waited are told at once when to come back, and the log of
// it all is one of a polite crawl.
func TestBlocksByHandAreOnRecord(t *testing.T) {
	var log bytes.Buffer
	sink := evidence.JSONLines(&log)
	virtually(t, politeness.Config{Evidence: sink, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Second}}}, func(b *bubble) {
		rec := new(evidence.Recorder)
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: evidence.Multi(sink, rec),
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Second}},
		})
		b.client.Transport = tr
		b.site.Page("/", "page")
		b.mustGet("https://example.com/", 200)
		waits := make(chan error)
		go func() {
			_, err := b.get("https://example.com/")
			waits <- err
		}()
		synctest.Wait()
		blocked := time.Now()
		until := blocked.Add(time.Hour)
		if err := tr.Limiter().Block(b.Context(), "example.com", until, "the owner has called"); err != nil {
			b.Fatal(err)
		}
		err := <-waits
		refused(b.T, err, politeness.StageTurn, politeness.ErrBlocked)
		var e *politeness.Error
		if errors.As(err, &e); !e.RetryAt.Equal(until) || !time.Now().Equal(blocked) {
			b.Errorf("refused %v after Block, until %v", time.Since(blocked), e.RetryAt)
		}
		if err := tr.Limiter().Clear(b.Context(), "example.com"); err != nil {
			b.Fatal(err)
		}
		b.mustGet("https://example.com/", 200)
		acts := rec.Decisions(evidence.HostBlocked, evidence.HostCleared)
		if len(acts) != 2 || acts[0].Reason != "by hand: the owner has called" || !acts[0].Until.Equal(until) || acts[0].Host != "example.com" ||
			acts[1].Type != evidence.HostCleared || acts[1].Reason != "by hand" {
			b.Errorf("on record: %+v", acts)
		}
	})
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(&log)
	if err != nil || !report.OK() {
		t.Errorf("the audit: %v, %+v", err, report)
	}
}
