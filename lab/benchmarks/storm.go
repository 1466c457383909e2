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
		rivals: []string{
			rivals.Bare, rivals.Politeness, rivals.DIY, rivals.Failsafe, rivals.Retryable, rivals.Colly2,
			rivals.Fetchbot,
		},
	}
}

const (
	stormCallers = 32
	stormDelay   = 50 * time.Millisecond
	stormLatency = 80 * time.Millisecond
	retryAfter   = time.Second
)

func runStorm(b *bench) (result, error) {
	r := resultOf("storm", stormLatency, stormCallers, b.storm, stormDelay)
	goals := newGoals("of politeness")
	t := table{header: []string{"by", "requests", "into the block", "share"}}
	dots := plot.Dots{
		Title:    "Requests that reach a site that answers 429, Retry-After: 1",
		Subtitle: "each dot is a request; red: sent although the site had asked for a second of rest",
		Max:      b.storm.Seconds(),
		Step:     0.5,
		Axis:     "seconds",
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
		t.add(
			by, fmt.Sprint(len(s.starts)), fmt.Sprint(into),
			fmt.Sprintf("%.0f %%", 100*float64(into)/float64(len(s.starts))))
	}
	goals.none("promises broken, by the audit of its own stamps", r.broken, "the log is what is shown to others")
	r.tables = []table{t, goals.table}
	r.plots = []figure{{"storm", "Dots: requests over time by rival; those sent into the block in red", dots}}
	return r, nil
}
