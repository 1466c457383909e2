package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
	"github.com/go-politeness/politeness/lab/benchmarks/rivals"
)

func pacingSection() section {
	return section{
		name: "pacing", title: "Pacing: one host, many callers", run: runPacing,
		rivals: []string{rivals.Politeness, rivals.DIY, rivals.Failsafe, rivals.Colly, rivals.Colly2, rivals.Fetchbot},
	}
}

// paced makes the rival anew, to keep delay with 2 slots. go-retryablehttp keeps none and stands on
// the stack of another.
func paced(by string, base http.RoundTripper, delay time.Duration, ev evidence.Evidence) (rivals.Fetcher, error) {
	terms := rivals.Terms{Delay: delay, Slots: 2, Evidence: ev}
	switch by {
	case rivals.Bare:
		return rivals.Client(base), nil
	case rivals.Politeness:
		rt, err := rivals.NewPoliteness(base, terms)
		return rivals.Client(rt), err
	case rivals.DIY:
		return rivals.Client(rivals.NewDIY(base, terms)), nil
	case rivals.Failsafe:
		return rivals.Client(rivals.NewFailsafe(base, terms)), nil
	case rivals.Retryable:
		return rivals.Client(rivals.NewRetryable(rivals.NewDIY(base, terms))), nil
	case rivals.Colly:
		terms.Slots = 1
		return rivals.NewColly(base, terms)
	case rivals.Colly2:
		return rivals.NewColly(base, terms)
	case rivals.Fetchbot:
		return rivals.NewFetchbot(base, terms), nil
	}
	return nil, fmt.Errorf("no rival %q", by)
}

// crowd lets callers fetch one page of the site again and again, until the time is over.
func crowd(s *site, f rivals.Fetcher, callers int, d time.Duration) {
	// Cancelled, not timed out: politeness refuses a turn that comes after a deadline at once.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = f.Get(ctx, page) // only the requests that the site gets are measured
			}
		})
	}
	<-time.After(d)
	s.close()
	cancel()
	wg.Wait()
	f.Close()
}

// audited lets a crowd at the site through the rival, and returns how many promises the audit of
// the evidence found broken: of politeness, since the others leave none.
func audited(by string, s *site, delay time.Duration, callers int, d time.Duration) (broken int, err error) {
	var kept bytes.Buffer
	log := evidence.JSONLines(&kept)
	f, err := paced(by, s, delay, log)
	if err != nil {
		return 0, err
	}
	crowd(s, f, callers, d)
	if len(s.starts) < 2 {
		return 0, fmt.Errorf("%s: started %d requests in %v", by, len(s.starts), d)
	}
	if err := log.Close(); err != nil {
		return 0, err
	}
	report, err := audit.Check(&kept)
	for _, n := range report.Broken {
		broken += n
	}
	return broken, err
}

// wantShare is the share of the theoretical rate that politeness is meant to reach on an idle
// machine, whose timers are up to a millisecond late.
var wantShare = map[time.Duration]float64{20 * time.Millisecond: 0.95, 100 * time.Millisecond: 0.99}

func runPacing(b *bench) (result, error) {
	r := resultOf("pacing", b.callers)
	goals := newGoals("of politeness")
	for _, d := range b.delays {
		t := table{
			caption: fmt.Sprintf("d = %v, %v each:", d, b.pacing[d]),
			header:  []string{"by", "starts", "share of the rate", "too close", "smallest gap", "median gap"},
		}
		dots := plot.Dots{
			Title: fmt.Sprintf(
				"Gaps between starts on one host, d = %v", d), Subtitle: "each dot is a gap; red: closer than d",
			Max: 2, Step: 0.5, Axis: "gap / d (larger ones at the right end)", Mark: 1,
		}
		for _, by := range pacingSection().rivals {
			s := &site{}
			broken, err := audited(by, s, d, b.callers, b.pacing[d])
			if err != nil {
				return r, err
			}
			r.broken += broken
			gaps := s.gaps()
			row := plot.Row{Name: by, Ours: by == rivals.Politeness}
			short := 0
			sum := 0.0
			for _, g := range gaps {
				bad := g < float64(d)
				if bad {
					short++
				}
				sum += g
				row.Points = append(row.Points, plot.Point{At: g / float64(d), Bad: bad})
			}
			share := float64(len(gaps)) * float64(d) / sum
			if by == rivals.Politeness {
				goals.atLeast(
					fmt.Sprintf("share of the rate, d = %v", d), share, wantShare[d], perCent,
					"a crawl takes as long as its delays, and no longer")
				goals.none(fmt.Sprintf("too close at the transport, d = %v", d), short, "the site asked for d")
			}
			row.Note = fmt.Sprintf("%.1f %%", 100*share)
			dots.Rows = append(dots.Rows, row)
			t.add(by, fmt.Sprint(len(s.starts)), fmt.Sprintf("%.1f %%", 100*share), fmt.Sprintf(
				"%d (%.0f %%)", short, 100*float64(short)/float64(len(gaps))),
				duration(quantile(gaps, 0)), duration(median(gaps)))
		}
		r.tables = append(r.tables, t)
		r.plots = append(
			r.plots,
			figure{
				"pacing-" + d.String(),
				fmt.Sprintf("Dots: gaps between starts in units of d = %v, by rival", d), dots,
			})
	}
	goals.none("promises broken, by the audit of its own stamps", r.broken, "the log is what is shown to others")
	r.tables = append(r.tables, goals.table)
	return r, nil
}

// close makes the site note nothing more.
func (s *site) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// gaps returns the gaps between starts, in nanoseconds.
func (s *site) gaps() []float64 {
	var gaps []float64
	for i := 1; i < len(s.starts); i++ {
		gaps = append(gaps, float64(s.starts[i].at.Sub(s.starts[i-1].at)))
	}
	return gaps
}
