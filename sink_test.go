package politeness_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A sink that fetches through the Transport that it is told by doesn't go round for
// ever: it isn't told of its own requests, and a log beside it is.
func TestSinkThatFetchesIsNotToldOfIt(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		var calls atomic.Int64
		var own *http.Client
		fetching := evidence.Func(func(_ context.Context, d evidence.Decision) {
			calls.Add(1)
			if d.Type != evidence.Fetched || d.RobotsTxt {
				return
			}
			resp, err := own.Get("https://example.com/report")
			if err != nil {
				b.Error(err)
				return
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
		})
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: evidence.Multi(b.log, fetching)})
		own = &http.Client{Transport: tr}
		b.client.Transport = tr
		b.site.Page("/", "page").Page("/report", "thanks")
		for range 3 {
			b.mustGet("https://example.com/", 200)
		}
		// robots.txt: started, fetched, robots_fetched; a page: a verdict, started, fetched.
		if n := calls.Load(); n != 3+3*3 {
			b.Errorf("the sink was told of %d decisions, want 12", n)
		}
		if n := len(b.log.Decisions(evidence.Fetched)); n != 1+2*3 {
			b.Errorf("the log has %d fetches, want 7", n)
		}
	})
}

// A recordingAlarm keeps what it is told, and fetches.
type recordingAlarm struct {
	evidence.Recorder
	told func()
}

func (a *recordingAlarm) Record(ctx context.Context, d evidence.Decision) {
	a.Recorder.Record(ctx, d)
	a.told()
}

// A sink may fetch on any record, in goroutines of the library, from hosts whose
// robots.txt isn't known, from the very host that it is told about, and by asking
// only: it ends, and so does the crawl.
func TestSinkThatFetchesOnEveryRecordEnds(t *testing.T) {
	get := func(client *http.Client, url string) {
		if resp, err := client.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	for name, act := range map[string]func(tr *politeness.Transport){
		"another host":  func(tr *politeness.Transport) { get(&http.Client{Transport: tr}, "https://reports.example/") },
		"the same host": func(tr *politeness.Transport) { get(&http.Client{Transport: tr}, "https://example.com/report") },
		"filter": func(tr *politeness.Transport) {
			_, _ = tr.Filter(context.Background(), []string{"https://reports.example/", "https://example.com/"})
		},
	} {
		for _, embeds := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, embeds %t", name, embeds), func(t *testing.T) {
				virtually(t, politeness.Config{}, func(b *bubble) {
					var calls atomic.Int64
					var tr *politeness.Transport
					told := func() {
						if calls.Add(1) > 100 {
							b.Error("it goes round")
							runtime.Goexit()
						}
						act(tr)
					}
					var sink evidence.Evidence = evidence.Func(func(context.Context, evidence.Decision) { told() })
					if embeds {
						sink = &recordingAlarm{told: told}
					}
					tr = mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: sink})
					b.client.Transport = tr
					b.web.Site("https://reports.example").Page("/", "thanks")
					b.site.Page("/", "page").Page("/report", "thanks")
					b.mustGet("https://example.com/", 200)
				})
			})
		}
	}
}

// Who closes a body needn't be who asked for it: the sink is never told within
// itself, and is told of what ends outside of it.
func TestBodyThatEndsElsewhere(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		var tr *politeness.Transport
		var outer, kept *http.Response
		depth, fetched := 0, 0
		sink := evidence.Func(func(_ context.Context, d evidence.Decision) {
			depth++
			defer func() { depth-- }()
			if depth > 1 {
				b.Errorf("told of %s within itself", d.Type)
			}
			if d.Type == evidence.Fetched {
				fetched++
			}
			if outer == nil || kept != nil || d.Type != evidence.Started {
				return
			}
			outer.Body.Close()
			var err error
			if kept, err = (&http.Client{Transport: tr}).Get("https://example.com/kept"); err != nil {
				b.Error(err)
			}
		})
		tr = mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: sink, DangerouslyIgnoreRobots: true, Hosts: limiter(b.T, hostlimit.Config{Concurrency: 3})})
		b.client.Transport = tr
		b.site.Page("/outer", "page").Page("/", "page").Page("/kept", "page")
		var err error
		if outer, err = b.client.Get("https://example.com/outer"); err != nil {
			b.Fatal(err)
		}
		b.mustGet("https://example.com/", 200)
		kept.Body.Close()
		if fetched != 2 { // of "/" and of "/kept"; that of "/outer" came within the sink
			b.Errorf("told of %d ends, want 2", fetched)
		}
	})
}

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
			Hosts:  limiter(b.T, hostlimit.Config{Delay: hostlimit.Delay{Min: 2 * time.Second}}).(*lazyLimiter).memory(),
			Budget: budget.New(budget.Limits{Pages: 10, WarnAt: 0.2, Duration: time.Hour}),
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
