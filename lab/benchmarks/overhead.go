package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
	"github.com/go-politeness/politeness/lab/benchmarks/rivals"
)

// unpaced are the terms of all contenders if only the bookkeeping is measured.
var unpaced = rivals.Terms{Slots: 2}

func overheadSection() section {
	return section{
		name: "overhead", title: "Overhead: time added to a request", run: runOverhead,
		rivals: []string{
			rivals.Bare, rivals.Politeness, rivals.DIY, rivals.Failsafe, rivals.Retryable, rivals.Colly,
			rivals.Fetchbot,
		},
	}
}

const wantAllocs = 4 // added

func runOverhead(b *bench) (result, error) {
	r := resultOf("overhead")
	trips := plot.Bars{
		Title:    "Time added to a round trip",
		Subtitle: "over a transport that answers at once; one host, one goroutine",
		Format:   duration,
	}
	goals := newGoals("of a round trip")
	for _, kind := range []struct {
		name string
		base instant
	}{
		{"no body", instant{nineRules, false}},
		{"body read", instant{nineRules, true}},
		{"body read, 24 rules", instant{smallFile, true}},
	} {
		all, err := roundTrips(b, kind.base)
		if err != nil {
			return r, err
		}
		b.raw("RoundTrip", kind.name, all)
		t, group := addedBy(kind.name, all)
		r.tables = append(r.tables, t)
		trips.Groups = append(trips.Groups, group)
		goals.atMost(
			kind.name+", allocations", math.Round(all[1].allocs-all[0].allocs), wantAllocs, number,
			"they are what a crawl of many workers pays for in garbage collections")
	}
	r.tables = append(r.tables, goals.table)

	all, err := fetches(b)
	if err != nil {
		return r, err
	}
	b.raw("Fetch", "body", all)
	t := table{
		caption: "A fetch, from the URL to the last byte:",
		header:  []string{"by", "time", "/ net/http", "allocations", "bytes"},
	}
	for _, s := range all {
		t.add(s.by, duration(s.median()), times(s.times(all[0])), fmt.Sprintf("%.0f", s.allocs), size(s.bytes))
	}
	r.tables = append(r.tables, t)
	r.plots = []figure{{"overhead", "Bars: time added to a round trip by each transport", trips}}
	return r, nil
}

// addedBy returns what each of all, as roundTrips measures them, adds to the bare transport.
func addedBy(kind string, all []samples) (table, plot.Group) {
	t := table{
		caption: fmt.Sprintf("`RoundTrip`, %s:", kind),
		header:  []string{"by", "time", "added", "added / politeness's", "allocations added", "bytes added"},
	}
	group := plot.Group{Name: kind}
	bare := all[0]
	ours := all[1]
	t.add(bare.by, duration(bare.median()))
	for i, s := range all[1:] {
		t.add(
			s.by,
			duration(s.median()),
			duration(s.added(bare)),
			times(s.added(bare)/ours.added(bare)),
			number(s.allocs-bare.allocs),
			size(s.bytes-bare.bytes),
		)
		group.Bars = append(group.Bars, plot.Bar{Name: s.by, Value: s.added(bare), Ours: i < 3})
	}
	return t, group
}

// roundTrips measures the bare transport, politeness in three ways, and the transports of others,
// in this order.
func roundTrips(b *bench, base instant) ([]samples, error) {
	ours, err := rivals.NewPoliteness(base, unpaced)
	if err != nil {
		return nil, err
	}
	unsigned, err := rivals.NewPoliteness(base, unpaced)
	if err != nil {
		return nil, err
	}
	terms := unpaced
	terms.Plain = true
	plain, err := rivals.NewPoliteness(base, terms)
	if err != nil {
		return nil, err
	}
	ops := make([]op, 0, 7)
	for _, c := range []struct {
		by     string
		rt     http.RoundTripper
		signed bool
	}{
		{rivals.Bare, base, true},
		{rivals.Politeness, ours, true},
		{rivals.Politeness + ", to be signed", unsigned, false},
		{rivals.Politeness + ", no budget, no evidence", plain, true},
		{rivals.DIY, rivals.NewDIY(base, unpaced), true},
		{rivals.Failsafe, rivals.NewFailsafe(base, unpaced), true},
		{rivals.Retryable, rivals.NewRetryable(base), true},
	} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, page, nil)
		if err != nil {
			return nil, err
		}
		if c.signed {
			req.Header.Set("User-Agent", rivals.UserAgent)
		}
		buf := make([]byte, 512)
		ops = append(ops, op{c.by, func(n int) error {
			for range n {
				if err := roundTrip(c.rt, req, buf); err != nil {
					return fmt.Errorf("%s: %w", c.by, err)
				}
			}
			return nil
		}})
	}
	return b.interleave(ops)
}

func roundTrip(rt http.RoundTripper, req *http.Request, buf []byte) error {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = resp.Body.Read(buf)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return resp.Body.Close()
}

// fetches measures whole programs.
func fetches(b *bench) ([]samples, error) {
	base := instant{nineRules, true}
	ours, err := rivals.NewPoliteness(base, unpaced)
	if err != nil {
		return nil, err
	}
	colly, err := rivals.NewColly(base, unpaced)
	if err != nil {
		return nil, err
	}
	var ops []op
	for _, c := range []struct {
		by string
		f  rivals.Fetcher
	}{
		{rivals.Bare, rivals.Client(base)},
		{rivals.Politeness, rivals.Client(ours)},
		{rivals.DIY, rivals.Client(rivals.NewDIY(base, unpaced))},
		{rivals.Failsafe, rivals.Client(rivals.NewFailsafe(base, unpaced))},
		{rivals.Retryable, rivals.Client(rivals.NewRetryable(base))},
		{rivals.Colly, colly},
		{rivals.Fetchbot, rivals.NewFetchbot(base, unpaced)},
	} {
		defer c.f.Close()
		ops = append(ops, op{c.by, func(n int) error {
			for range n {
				if err := c.f.Get(context.Background(), page); err != nil {
					return fmt.Errorf("%s: %w", c.by, err)
				}
			}
			return nil
		}})
	}
	return b.interleave(ops)
}
