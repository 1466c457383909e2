package memory

import (
	"math"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// FuzzHost drives the pure steps of a host and holds each against what it promises.
func FuzzHost(f *testing.F) {
	f.Add(int64(0), int64(1e9), int64(2e8), int64(3e9), 200, int64(0), uint64(0))
	f.Add(int64(5e9), int64(0), int64(0), int64(1), 429, int64(math.MaxInt64), uint64(1))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), 429, int64(1), uint64(9))
	f.Add(int64(0), int64(1e9), int64(2e8), int64(3e9), 503, int64(44), uint64(9))
	r, err := rules.New(hostlimit.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, at, least, drawn, latency int64, status int, retryAfter int64, ord uint64) {
		now, floor, random := time.Duration(max(0, at)), time.Duration(max(0, least)), time.Duration(max(0, drawn))
		o := hostlimit.Outcome{Status: status, Latency: time.Duration(latency), RetryAfter: time.Duration(retryAfter)}
		lim := &hostlimit.Limits{Delay: hostlimit.Delay{Min: min(random, 1e9), Max: 1e9, Ceiling: 60e9, Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Squared)}}
		h := host{began: unset}
		if h.earliest(floor) != 0 || h.owes(r, now) {
			t.Fatalf("a new host owes: %+v", h)
		}
		idle := h.idle(now, floor)
		h.book(now, floor, random)
		h.count(&lim.Delay, now, idle)
		if e := h.earliest(0); e < now || e < rules.Add(now, max(floor, random)) {
			t.Errorf("next start %d, after %d with floor %d and delay %d", e, now, floor, random)
		}
		before := h
		h.adaptive = rules.Adapt(&lim.Delay, h.adaptive, rules.Usual(&o, 0), &o)
		h.raise(h.adaptive, byAdaptive)
		if h.earliest(0) < before.earliest(0) {
			t.Error("an answer shortened a gap that was promised")
		}
		if status >= 400 && h.adaptive < before.adaptive || h.adaptive > lim.Delay.Ceiling {
			t.Errorf("status %d moved the delay from %d to %d", status, before.adaptive, h.adaptive)
		}
		if r.Meaning(&o) != rules.Refused {
			return
		}
		inForce := h.gap
		h.observe(r, &lease{lim: lim, ord: 1}, &o, now, max(1, ord))
		tr := h.kept
		if tr.Until < now || tr.Row != 1 {
			t.Errorf("blocked at %d until %d, %d refusals", now, tr.Until, tr.Row)
		}
		if tr.Until > now && !h.owes(r, now) {
			t.Error("a block is no debt")
		}
		lowest := min(inForce, lim.Delay.Ceiling)
		if status == 503 { // maintenance teaches no rate
			lowest = 0
		}
		if h.gap < inForce || tr.Learned > lim.Delay.Ceiling || tr.Learned < lowest {
			t.Errorf("a refusal taught a delay of %d, in force were %d and are %d", tr.Learned, inForce, h.gap)
		}
		if h.observe(r, &lease{lim: lim, ord: tr.SetAt + 1}, &hostlimit.Outcome{Status: 200}, now, tr.SetAt+1); tr.Row != 0 || tr.Blocks(now) {
			t.Error("a success didn't lift the block")
		}
		for learned := tr.Learned; tr.Learned > 0; learned = tr.Learned {
			if now = rules.Add(now, 20*time.Second); now == rules.Never {
				return
			}
			h.observe(r, &lease{lim: lim, ord: tr.SetAt + 1}, &hostlimit.Outcome{Status: 200}, now, tr.SetAt+1)
			if tr.Learned >= learned || tr.Learned != 0 && tr.Learned < lim.Delay.Min {
				t.Fatalf("20 s made the learned delay %d of %d", tr.Learned, learned)
			}
		}
	})
}
