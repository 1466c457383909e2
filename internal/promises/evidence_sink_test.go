package promises_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A slowSink is told of everything and takes its time over one kind of it.
type slowSink struct {
	evidence.Recorder
	typ  evidence.Type
	page string
	time time.Duration
}

func (s *slowSink) Record(ctx context.Context, d evidence.Decision) {
	s.Recorder.Record(ctx, d)
	if d.Type == s.typ && strings.HasSuffix(d.URL, s.page) {
		time.Sleep(s.time)
	}
}

// Nobody is told anything between a start's stamp and its sending.
func TestSlowSinkOfAWarningBringsNoTwoSendsTogether(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.client.Transport = mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: &slowSink{typ: evidence.BudgetWarning, time: 1900 * time.Millisecond},
			Limiter: limiter(b.T, hostlimit.Config{Delay: hostlimit.Delay{Min: 2 * time.Second}}).(*limiterMadeOnFirstUse).memory(),
			Budget:  budget.New(budget.Limits{Pages: 10, WarnAt: 0.2, Duration: time.Hour}),
		})
		b.site.Page("/1", "page").Page("/2", "page").Page("/3", "page")
		b.mustGet("https://example.com/1", 200)
		time.Sleep(10 * time.Second)
		var group sync.WaitGroup
		for _, url := range []string{"https://example.com/2", "https://example.com/3"} {
			group.Go(func() { _, _ = b.get(url) })
			synctest.Wait()
		}
		group.Wait()
		if v := b.web.Violations(politenesstest.Rules{Delay: 2 * time.Second}); len(v) > 0 {
			b.Error(v)
		}
	})
}

// The time that a sink takes is the crawl's.
func TestHopAfterASlowSinkIsWithinTheTime(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.client.Transport = mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: &slowSink{typ: evidence.RobotsAllowed, page: "/b", time: 20 * time.Second},
			Budget: budget.New(budget.Limits{Duration: 10 * time.Second}),
		})
		b.site.Handle("/a", http.RedirectHandler("/b", http.StatusFound)).Page("/b", "page")
		_, err := b.get("https://example.com/a")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
	})
}

// TestEvidenceErrTellsOfLostRecords: of those that a panic has cost, and of those that a Log
// couldn't write, wherever the Log stands among the sinks.
func TestEvidenceErrTellsOfLostRecords(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
		b.site.Page("/", "page")
		disk := &fullDisk{}
		log := evidence.JSONLines(disk)
		panics := evidence.Func(func(_ context.Context, d evidence.Decision) {
			if d.Type == evidence.Started {
				panic("no memory")
			}
		})
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, DangerouslyIgnoreRobots: true, Evidence: evidence.Multi(panics, evidence.Sample(1, log)),
		})
		b.client.Transport = tr
		if err := tr.EvidenceErr(); err != nil {
			b.Errorf("before anything was recorded: %v", err)
		}
		b.mustGet("https://example.com/", 200)
		err := tr.EvidenceErr()
		if err == nil || !strings.Contains(err.Error(), "no memory") || errors.Is(err, errFull) {
			b.Errorf("after a panic: %v", err)
		}
		_ = log.Flush() // the error is Err's too
		if err := tr.EvidenceErr(); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "no memory") {
			b.Errorf("with a disk that is full: %v", err)
		}
		if err := mustNew(b.T, politeness.Config{UserAgent: agent}).EvidenceErr(); err != nil {
			b.Errorf("without Evidence: %v", err)
		}
	})
}

var errFull = errors.New("disk full")

type fullDisk struct{}

func (*fullDisk) Write([]byte) (int, error) { return 0, errFull }
