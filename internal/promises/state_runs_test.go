package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/soak"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A job makes runs of a crawler, one after the other, and has their logs.
type job struct {
	cfg  politeness.Config
	web  *politenesstest.Web
	logs bytes.Buffer
}

func newJob(robotsTxt string, delay hostlimit.Delay) *job {
	r := &job{web: politenesstest.NewWeb()}
	r.web.Site("https://example.com").Robots(robotsTxt).Handle("/", http.HandlerFunc(everywhere))
	r.cfg = politeness.Config{
		UserAgent: agent,
		Base:      r.web,
		Hosts:     hostlimit.Config{Delay: delay, Concurrency: 1},
		Robots:    robotscache.Config{RecordText: true},
	}
	return r
}

// run makes a run of so many pages, with its state in dir.
func (r *job) run(t *testing.T, dir string, pages int) {
	t.Helper()
	sink := evidence.JSONLines(&r.logs)
	cfg := r.cfg
	cfg.Evidence = sink
	tr := mustNew(t, cfg.WithState(dir))
	for i := range pages {
		if _, err := fetch(t.Context(), &http.Client{Transport: tr}, fmt.Sprintf("https://example.com/%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.GiveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(15 * time.Millisecond) // until the next process has begun
}

// TestAuditProvesRunsOfOneState: the log of six runs that kept their state is proved, gaps between
// the runs included. One in which they didn't, and which says that they had one state, is broken.
func TestAuditProvesRunsOfOneState(t *testing.T) {
	second := hostlimit.Delay{Min: 500 * time.Millisecond, Max: 900 * time.Millisecond}
	for name, tt := range map[string]struct {
		robots string
		delay  hostlimit.Delay
		least  time.Duration
	}{
		"crawl-delay":         {"User-agent: *\nCrawl-delay: 2\n", second, 2 * time.Second},
		"short crawl-delay":   {"User-agent: *\nCrawl-delay: 0.2\n", hostlimit.Delay{Min: 100 * time.Millisecond}, 200 * time.Millisecond},
		"at random":           {"", second, 500 * time.Millisecond},
		"from the end":        {"", hostlimit.Delay{Min: 3 * time.Second, FromEnd: true, Adaptive: hostlimit.Fixed}, 3 * time.Second},
		"half a minute":       {"User-agent: *\nCrawl-delay: 30\n", second, 30 * time.Second},
		"more than a minute":  {"User-agent: *\nCrawl-delay: 90\n", second, 90 * time.Second},
		"by response times":   {"", hostlimit.Delay{Min: 100 * time.Millisecond, Adaptive: hostlimit.Proportional(3)}, 100 * time.Millisecond},
		"learned, by default": {"", hostlimit.Delay{Min: 300 * time.Millisecond}, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newJob(tt.robots, tt.delay)
				dir := t.TempDir()
				for range 6 {
					r.run(t, dir, 1)
				}
				report, err := audit.Check(bytes.NewReader(r.logs.Bytes()))
				if err != nil {
					t.Fatal(err)
				}
				delays := report.Promise("delays kept")
				// The first run has two starts and one gap, each of the others one and the gap before it.
				if !report.OK() || delays.Open > 0 || delays.Proved < 6 || report.Hosts[0].MinGap < tt.least || len(report.Notes) > 0 {
					t.Errorf("%v", report)
				}
				forged := newJob(tt.robots, tt.delay)
				for range 6 {
					forged.run(t, "", 1)
				}
				log := bytes.ReplaceAll(forged.logs.Bytes(), []byte(`"slots":1,`), []byte(`"state":"0123456789abcdef","slots":1,`))
				report, err = audit.Check(bytes.NewReader(log))
				if err != nil {
					t.Fatal(err)
				}
				if report.Broken[audit.BrokenGap] == 0 {
					t.Errorf("runs that kept nothing, and say they did: %v", report)
				}
			})
		})
	}
}

// TestAuditProvesABudgetOfRuns: what runs of one state have spent together in a window.
func TestAuditProvesABudgetOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newJob("", hostlimit.Delay{Min: 100 * time.Millisecond})
		r.cfg.Spend = budget.Limits{Pages: 10, Every: 24 * time.Hour}
		dir := t.TempDir()
		for range 5 {
			r.run(t, dir, 2)
		}
		report, err := audit.Check(bytes.NewReader(r.logs.Bytes()))
		if err != nil || !report.OK() || report.Promise("budget kept").Open > 0 || report.Promise("budget kept").Proved < 10 {
			t.Errorf("%v, %v", err, report)
		}
		other := newJob("", hostlimit.Delay{Min: 100 * time.Millisecond})
		other.cfg.Spend = r.cfg.Spend
		for range 6 {
			other.run(t, t.TempDir(), 2)
		}
		state := regexp.MustCompile(`"state":"[0-9a-f]{16}"`)
		log := state.ReplaceAll(other.logs.Bytes(), []byte(`"state":"0123456789abcdef"`))
		report, err = audit.Check(bytes.NewReader(log))
		if err != nil || report.Broken[audit.BrokenBudget] == 0 {
			t.Errorf("%v, %v", err, report)
		}
	})
}

// TestAuditSaysWhatASiteSawOfRunsSideBySide: runs that use one state at the same time share no pace. The
// report says what the site saw, and doesn't call its delays proved.
func TestAuditSaysWhatASiteSawOfRunsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		jobs := []*job{newJob("", hostlimit.Delay{Min: time.Second}), newJob("", hostlimit.Delay{Min: time.Second})}
		var both sync.WaitGroup
		for i, j := range jobs {
			both.Go(func() {
				time.Sleep(time.Duration(i) * 1300 * time.Millisecond)
				j.run(t, dir, 5)
			})
		}
		both.Wait()
		report, err := audit.Check(&jobs[0].logs, &jobs[1].logs)
		if err != nil || !report.OK() {
			t.Fatalf("%v, %v", err, report)
		}
		delays := report.Promise("delays kept")
		saw := fmt.Sprint(delays.Why)
		if delays.Open == 0 || !strings.Contains(saw, "2 limiters asked example.com, ") || !strings.Contains(saw, " apart together; neither promised that") {
			t.Errorf("%v", report)
		}
		if report.Hosts[0].MinGap >= time.Second || report.Hosts[0].Together != 2 {
			t.Errorf("%+v", report.Hosts[0])
		}
	})
}

// TestAuditBreaksNoHonestRuns: whatever the delays of runs that follow each other, their pages and their
// ends, no log that they wrote is called broken.
func TestAuditBreaksNoHonestRuns(t *testing.T) {
	adaptive := []hostlimit.Adaptive{hostlimit.Learned, hostlimit.Fixed, hostlimit.Squared, hostlimit.Proportional(2), hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(1))}
	for seed := range soak.Seeds(t, 10, 400) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			ms := func(n int) time.Duration { return time.Duration(rnd.IntN(n)) * time.Millisecond }
			robots := ""
			if rnd.IntN(2) == 0 {
				robots = fmt.Sprintf("User-agent: *\nCrawl-delay: %.1f\n", rnd.Float64()*[]float64{1, 5, 100}[rnd.IntN(3)])
			}
			j := newJob(robots, hostlimit.Delay{})
			var mu sync.Mutex // of rnd
			j.web.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				mu.Lock()
				latency := ms(3000) / time.Duration(1+rnd.IntN(20))
				n := rnd.IntN(30)
				after := 1 + rnd.IntN(100)
				mu.Unlock()
				time.Sleep(latency)
				switch {
				case n == 0:
					w.Header().Set("Retry-After", fmt.Sprint(after))
					w.WriteHeader(http.StatusTooManyRequests)
				case n < 3:
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			j.cfg.Spend = budget.Limits{Pages: int64(1 + rnd.IntN(60)), PagesPerHost: int64(rnd.IntN(80)), Every: time.Duration(1+rnd.IntN(600)) * time.Second}
			dir := t.TempDir()
			var kept []byte
			for range 2 + rnd.IntN(8) {
				if rnd.IntN(3) == 0 || j.cfg.Hosts.Delay.Min == 0 { // a run with other limits
					least := 50*time.Millisecond + ms(2000)
					j.cfg.Hosts = hostlimit.Config{Concurrency: 1 + rnd.IntN(3), Delay: hostlimit.Delay{
						Min: least, Max: least + ms(1000), FromEnd: rnd.IntN(3) == 0, Adaptive: adaptive[rnd.IntN(len(adaptive))],
					}}
					if j.cfg.Hosts.Delay.FromEnd {
						j.cfg.Hosts.Concurrency = 1
					}
				}
				j.logs.Reset()
				j.some(t, dir, 1+rnd.IntN(12), rnd)
				log := j.logs.Bytes()
				if rnd.IntN(3) == 0 { // a kill takes the last records with it
					log = log[:len(log)-rnd.IntN(min(len(log), 2000))]
					log = log[:bytes.LastIndexByte(log, '\n')+1]
				}
				kept = append(kept, log...)
				time.Sleep(ms(40))
			}
			report, err := audit.Check(bytes.NewReader(kept))
			if err != nil || !report.OK() {
				t.Errorf("seed %d: %v, %v", seed, err, report)
			}
		})
	}
}

// some makes a run of so many requests, by two goroutines, of which some may be refused.
func (r *job) some(t *testing.T, dir string, pages int, rnd *rand.Rand) {
	t.Helper()
	sink := evidence.JSONLines(&r.logs)
	cfg := r.cfg
	cfg.Evidence = sink
	tr := mustNew(t, cfg.WithState(dir))
	var both sync.WaitGroup
	number := rnd.IntN(1000)
	for g := range 2 {
		both.Go(func() {
			for i := range pages {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				_, _ = fetch(ctx, &http.Client{Transport: tr}, fmt.Sprintf("https://example.com/%d", number+2*i+g))
				cancel()
			}
		})
	}
	both.Wait()
	if rnd.IntN(2) == 0 {
		_ = tr.GiveBack(t.Context())
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
}
