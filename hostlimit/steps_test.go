package hostlimit

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// FuzzHost drives the pure steps of a host and holds each against what it promises.
func FuzzHost(f *testing.F) {
	f.Add(int64(0), int64(1e9), int64(2e8), int64(3e9), 200, int64(0), uint64(0))
	f.Add(int64(5e9), int64(0), int64(0), int64(1), 429, int64(math.MaxInt64), uint64(1))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), 429, int64(1), uint64(9))
	r, err := (Config{}).Rules()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, at, least, drawn, latency int64, status int, retryAfter int64, ord uint64) {
		now, floor, random := time.Duration(max(0, at)), time.Duration(max(0, least)), time.Duration(max(0, drawn))
		o := Outcome{Status: status, Latency: time.Duration(latency), RetryAfter: time.Duration(retryAfter)}
		lim := &Limits{Delay: Delay{Min: min(random, 1e9), Max: 1e9, Ceiling: 60e9, Adaptive: Longest(Learned, Squared)}}
		h, tr := host{began: void}, trouble{}
		if h.earliest(floor) != 0 || h.owes(&tr, now, 0) {
			t.Fatalf("a new host owes: %+v", h)
		}
		idle := h.idle(&tr, now, floor)
		h.book(&tr, now, floor, random)
		h.count(&tr, lim, now, idle)
		if e := h.earliest(0); e < now || e < add(now, max(floor, random)) {
			t.Errorf("next start %d, after %d with floor %d and delay %d", e, now, floor, random)
		}
		before := h
		h.adaptive = lim.Delay.Adapt(h.adaptive, o)
		h.raise(h.adaptive, byAdaptive)
		if h.earliest(0) < before.earliest(0) {
			t.Error("an answer shortened a gap that was promised")
		}
		if status >= 400 && h.adaptive < before.adaptive || h.adaptive > lim.Delay.Ceiling {
			t.Errorf("status %d moved the delay from %d to %d", status, before.adaptive, h.adaptive)
		}
		if r.meaning(&o) != refused {
			return
		}
		inForce := h.gap
		h.refuse(&tr, r, lim, now, o, ord+1)
		if tr.until < now || tr.refusals != 1 {
			t.Errorf("blocked at %d until %d, %d refusals", now, tr.until, tr.refusals)
		}
		if tr.until > now && !h.owes(&tr, now, 0) {
			t.Error("a block is no debt")
		}
		if h.gap < inForce || tr.learned > lim.Delay.Ceiling || tr.learned < min(inForce, lim.Delay.Ceiling) {
			t.Errorf("a refusal taught a delay of %d, in force were %d and are %d", tr.learned, inForce, h.gap)
		}
		if until := tr.until; tr.extend(until, ord+2) || until < never && !tr.extend(until+1, ord+2) || tr.refusals != 1 {
			t.Errorf("a block until %d was lengthened to %d, %d refusals", until, tr.until, tr.refusals)
		}
		if !tr.clear() || tr.refusals != 0 || tr.clear() {
			t.Error("a success didn't lift the block")
		}
		for learned := tr.learned; tr.learned > 0; learned = tr.learned {
			for range calmStarts {
				h.count(&tr, lim, now, 0)
			}
			if tr.learned >= learned || tr.learned != 0 && tr.learned < lim.Delay.Min {
				t.Fatalf("%d starts made the learned delay %d of %d", calmStarts, tr.learned, learned)
			}
		}
	})
}

// FuzzShard puts and forgets keys at random, beside a map.
func FuzzShard(f *testing.F) {
	f.Add([]byte("abcabcxyz"), byte(2))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 255, 254}, byte(0))
	f.Fuzz(func(t *testing.T, ops []byte, few byte) {
		m := mustNew(t, Config{Delay: none, MaxHosts: 1})
		sh := &m.shards[0]
		sh.m.hostsPerShard = 1 << 30
		want := make(map[byte]uint32)
		for _, op := range ops {
			k := op &^ 1
			key := fmt.Sprint("host", k>>(few%3))
			id := k >> (few % 3)
			hash := m.hash(key)
			if op&1 == 0 {
				i := sh.get(hash, key, 0)
				if j, ok := want[id]; ok && i != j {
					t.Fatalf("%s moved from %d to %d", key, j, i)
				}
				want[id] = i
			} else if i, ok := want[id]; ok {
				sh.remove(i, sh.host(i))
				delete(want, id)
			}
			if sh.hosts != len(want) {
				t.Fatalf("%d hosts, want %d", sh.hosts, len(want))
			}
		}
		for id, i := range want {
			key := fmt.Sprint("host", id)
			if j, ok := sh.find(m.hash(key)); !ok || i != j || string(sh.name(sh.host(i))) != key {
				t.Fatalf("%s: found %d %v, named %s", key, j, ok, sh.name(sh.host(i)))
			}
		}
	})
}
