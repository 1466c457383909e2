package main

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
	"github.com/go-politeness/politeness/lab/benchmarks/rivals"
)

func stormSection() section {
	return section{
		name: "storm", title: "A storm of 429: who stays away", run: runStorm,
		rivals: []string{rivals.Bare, rivals.Politeness, rivals.DIY, rivals.Failsafe, rivals.Retryable, rivals.Colly2, rivals.Fetchbot},
	}
}

const (
	stormCallers = 32
	stormDelay   = 50 * time.Millisecond
	stormLatency = 80 * time.Millisecond
	retryAfter   = time.Second
)

func runStorm(b *bench) (result, error) {
	r := result{
		what: fmt.Sprintf("A site answers everything with 429 and `Retry-After: 1`, after %v. %d callers want its pages for %v; everybody has 2 slots and a delay of %v, but for bare `net/http`. "+
			"Counted is what reaches the site after it has said for the first time that it wants to be left alone for a second, until that second is over; then one request may ask again.",
			stormLatency, stormCallers, b.storm, stormDelay),
		read: "“Into the block” is to be 0: requests that were in flight when the site first refused don't count. All that politeness sends is those in flight and one probe for each expiry. " +
			"Retries of `failsafe-go` and `go-retryablehttp` wait as the site asks, each for itself: all the other callers go on. In the figure each dot is a request; red was sent into the block.",
		limits: "The site never recovers. Callers here don't look at the status, as crawlers that leave it to their library: one who stops the crawl at a 429 by hand is as polite. " +
			"`go-retryablehttp` has no limits of its own and stands on the `x/time/rate` stack.",
	}
	goals := newGoals("of politeness")
	t := table{header: []string{"by", "requests", "into the block", "share"}}
	dots := plot.Dots{
		Title: "Requests that reach a site that answers 429, Retry-After: 1", Subtitle: "each dot is a request; red: sent although the site had asked for a second of rest",
		Max: b.storm.Seconds(), Step: 0.5, Axis: "seconds",
	}
	for _, by := range stormSection().rivals {
		s := &site{latency: stormLatency, blocks: retryAfter}
		broken, err := audited(by, s, stormDelay, stormCallers, b.storm)
		if err != nil {
			return r, err
		}
		r.broken += broken
		row := plot.Row{Name: by, Ours: by == rivals.Politeness}
		into := 0
		for _, st := range s.starts {
			if st.into {
				into++
			}
			row.Points = append(row.Points, plot.Point{At: st.at.Sub(s.begin).Seconds(), Bad: st.into})
		}
		row.Note = fmt.Sprintf("%d of %d", into, len(s.starts))
		dots.Rows = append(dots.Rows, row)
		if by == rivals.Politeness {
			goals.none("requests into the block", into, "each of them may lengthen a ban")
		}
		t.add(by, fmt.Sprint(len(s.starts)), fmt.Sprint(into), fmt.Sprintf("%.0f %%", 100*float64(into)/float64(len(s.starts))))
	}
	goals.none("promises broken, by the audit of its own stamps", r.broken, "the log is what is shown to others")
	r.tables = []table{t, goals.table}
	r.plots = []figure{{"storm", "Dots: requests over time by rival; those sent into the block in red", dots}}
	return r, nil
}
