package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
	"github.com/go-politeness/politeness/lab/benchmarks/limits"
	"github.com/go-politeness/politeness/lab/benchmarks/rivals"
)

func hostsSection() section {
	s := section{name: "hosts", title: "A million hosts", run: runHosts}
	for _, st := range limits.Stacks {
		s.rivals = append(s.rivals, st.Name)
	}
	s.rivals = append(s.rivals, rivals.Colly, rivals.Fetchbot)
	return s
}

const (
	wantOfSyncMap  = 1.0   // share of the sync.Map stack's time at a million hosts
	wantBytes      = 170.0 // of an idle host, beyond its name
	wantCollection = 300e6 // ns of a garbage collection over them
)

func runHosts(b *bench) (result, error) {
	r := resultOf("hosts", count(b.hosts))
	names := make([]string, b.hosts)
	for i := range names {
		names[i] = limits.Name(i)
	}
	held, err := b.holdHosts()
	if err != nil {
		return r, err
	}
	hot, err := b.takeTurns(names[:1])
	if err != nil {
		return r, err
	}
	cold, err := b.takeTurns(names)
	if err != nil {
		return r, err
	}
	b.raw("Turn", "one host", hot)
	b.raw("Turn", count(b.hosts)+" hosts", cold)

	t := table{
		header: []string{
			"by", "one host", count(b.hosts) + " hosts", "/ politeness", "allocations", "bytes a host",
			"garbage collection",
		},
	}
	for i, s := range cold {
		t.add(
			s.by,
			duration(hot[i].median()),
			duration(s.median()),
			times(s.times(cold[0])),
			number(s.allocs),
			size(held[i].bytes),
			duration(held[i].collection),
		)
	}
	crawlers, err := b.crawlHosts()
	if err != nil {
		return r, err
	}
	bars := plot.Bars{
		Title:    "Time of a turn: acquire and release",
		Subtitle: "politeness in blue",
		Format:   duration,
		Groups: []plot.Group{
			groupOf("one host", hot),
			groupOf(count(b.hosts)+" hosts, at random", cold),
		},
	}
	r.tables = []table{t, hostGoals(held[0], cold).table, crawlers}
	r.plots = []figure{{"hosts", "Bars: time of a turn on one host and on many, by stack", bars}}
	return r, nil
}

// hostGoals compares hostlimit with what is wanted: how it holds hosts, and how quick it is beside
// the other stacks.
func hostGoals(held load, cold []samples) *goals {
	goals := newGoals("of hostlimit")
	goals.atMost(
		"of the sync.Map stack's time at all hosts", 1/cold[1].times(cold[0]), wantOfSyncMap, perCent,
		"who leaves a map of limiters for it pays no more")
	goals.atMost(
		"bytes of an idle host", held.bytes, wantBytes, size,
		"a million hosts fit into 170 MB, beside their names")
	goals.atMost(
		"garbage collection", held.collection, wantCollection, duration,
		"the crawl's own memory is what a collection is to be about")
	return goals
}

// A load is what known hosts cost.
type load struct {
	bytes      float64 // of a host, beyond its name
	collection float64 // ns
}

// holdHosts measures the stacks one after the other, each alone on the heap.
func (b *bench) holdHosts() ([]load, error) {
	loads := make([]load, len(limits.Stacks))
	for i, st := range limits.Stacks {
		before := heap()
		s, err := st.New()
		if err != nil {
			return nil, err
		}
		for j := range b.hosts {
			// A name of its own, as if it came out of a page: whoever keeps the name is charged for
			// it.
			if err := s.Turn(context.Background(), limits.Name(j)); err != nil {
				return nil, err
			}
		}
		nameLen := len(limits.Name(0))
		loads[i].bytes = (float64(heap())-float64(before))/float64(b.hosts) - float64(nameLen)
		var took []float64
		for range 3 {
			begin := time.Now()
			runtime.GC()
			took = append(took, float64(time.Since(begin)))
		}
		loads[i].collection = median(took)
		runtime.KeepAlive(s)
	}
	return loads, nil
}

// heap returns the bytes that live on the heap.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// takeTurns measures the stacks side by side, each knowing all the hosts.
func (b *bench) takeTurns(hosts []string) ([]samples, error) {
	ops := make([]op, 0, len(limits.Stacks))
	for _, st := range limits.Stacks {
		s, err := st.New()
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			if err := s.Turn(context.Background(), h); err != nil {
				return nil, err
			}
		}
		r := rand.New(rand.NewPCG(1, 2))
		ops = append(ops, op{st.Name, func(n int) error {
			for range n {
				if err := s.Turn(context.Background(), hosts[r.IntN(len(hosts))]); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	runtime.GC()
	return b.interleave(ops)
}

// crawlHosts measures whole crawlers that have fetched one page of each of many hosts.
func (b *bench) crawlHosts() (table, error) {
	t := table{
		caption: fmt.Sprintf("Whole crawlers that have fetched a page of each of %s hosts:", count(b.crawled)),
		header:  []string{"by", "bytes a host", "goroutines a host", "a further fetch"},
	}
	base := instant{nineRules, true}
	for _, c := range []struct {
		by    string
		fresh func() (rivals.Fetcher, error)
	}{
		{rivals.Politeness, func() (rivals.Fetcher, error) {
			rt, err := rivals.NewPoliteness(base, unpaced)
			return rivals.Client(rt), err
		}},
		{rivals.DIY, func() (rivals.Fetcher, error) { return rivals.Client(rivals.NewDIY(base, unpaced)), nil }},
		{
			rivals.Colly,
			func() (rivals.Fetcher, error) { return rivals.NewCollyOf(base, unpaced, limits.Name, b.crawled) },
		},
		{rivals.Fetchbot, func() (rivals.Fetcher, error) { return rivals.NewFetchbot(base, unpaced), nil }},
	} {
		if err := b.crawl(&t, c.by, c.fresh); err != nil {
			return t, fmt.Errorf("%s: %w", c.by, err)
		}
	}
	return t, nil
}

func (b *bench) crawl(t *table, by string, fresh func() (rivals.Fetcher, error)) error {
	before := heap()
	stacks := stackBytes()
	goroutines := runtime.NumGoroutine()
	f, err := fresh()
	if err != nil {
		return err
	}
	defer f.Close()
	n := b.crawled
	get := func(i int) error { return f.Get(context.Background(), "https://"+limits.Name(i)+"/page") }
	for i := range n {
		if err := get(i); err != nil {
			return err
		}
	}
	bytes := float64(heap()) + float64(stackBytes()) - float64(before) - float64(stacks)
	more := runtime.NumGoroutine() - goroutines
	r := rand.New(rand.NewPCG(1, 2))
	var took []float64
	for range b.refetch {
		begin := time.Now()
		if err := get(r.IntN(n)); err != nil {
			return err
		}
		took = append(took, float64(time.Since(begin)))
	}
	t.add(by, size(bytes/float64(n)), fmt.Sprintf("%.0f", float64(more)/float64(n)), duration(median(took)))
	return nil
}

// stackBytes returns what goroutines hold of stack.
func stackBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
