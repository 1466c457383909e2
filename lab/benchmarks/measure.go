package main

import (
	"runtime"
	"slices"
	"time"
)

// An op is what one contender does, n times in a row.
type op struct {
	by  string // who
	run func(n int) error
}

// A samples is what was measured of one op.
type samples struct {
	by     string
	ns     []float64 // per operation, one of each round
	bytes  float64   // allocated per operation
	allocs float64
}

// interleave measures ops round by round, A B C, B C A and so on, so that other work of the machine
// slows all of them alike. Compare values at the same index of their ns.
func (b *bench) interleave(ops []op) ([]samples, error) {
	all := make([]samples, len(ops))
	counts := make([]int, len(ops))
	for i, o := range ops {
		all[i].by = o.by
		var err error
		if counts[i], err = b.calibrate(o); err != nil {
			return nil, err
		}
	}
	for round := range b.rounds {
		for i := range ops {
			i = (i + round) % len(ops)
			begin := time.Now()
			if err := ops[i].run(counts[i]); err != nil {
				return nil, err
			}
			all[i].ns = append(all[i].ns, float64(time.Since(begin).Nanoseconds())/float64(counts[i]))
		}
	}
	for i, o := range ops {
		if err := all[i].countAllocs(o, counts[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// calibrate finds how many operations take b.batch, and warms them up.
func (b *bench) calibrate(o op) (int, error) {
	for n := 1; ; n *= 2 {
		begin := time.Now()
		if err := o.run(n); err != nil {
			return 0, err
		}
		if took := time.Since(begin); took >= b.batch/2 {
			return max(1, int(float64(n)*float64(b.batch)/float64(max(took, 1)))), nil
		}
	}
}

func (s *samples) countAllocs(o op, n int) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := o.run(n); err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	s.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	s.allocs = float64(after.Mallocs-before.Mallocs) / float64(n)
	return nil
}

func (s samples) median() float64 { return median(s.ns) }

// over returns, for each round, how f compares s with other.
func (s samples) over(other samples, f func(s, other float64) float64) []float64 {
	r := make([]float64, len(s.ns))
	for i := range r {
		r[i] = f(s.ns[i], other.ns[i])
	}
	return r
}

// added returns what s takes longer than bare: the median over the rounds, of differences within
// one.
func (s samples) added(bare samples) float64 {
	return median(s.over(bare, func(s, bare float64) float64 { return s - bare }))
}

// times returns how many times as long as ours s takes: the median over the rounds, of ratios
// within one.
func (s samples) times(ours samples) float64 {
	return median(s.over(ours, func(s, ours float64) float64 { return s / ours }))
}

func median(x []float64) float64 { return quantile(x, 0.5) }

// quantile returns the q-quantile of x, which needn't be sorted.
func quantile(x []float64, q float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if len(x) == 0 {
		return 0
	}
	pos := q * float64(len(x)-1)
	i := int(pos)
	if i+1 == len(x) {
		return x[i]
	}
	return x[i] + (pos-float64(i))*(x[i+1]-x[i])
}
