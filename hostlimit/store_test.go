package hostlimit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// debtOf returns a debt whose times are of a few minutes, so that they often coincide. Zero is none.
func debtOf(until, at, cleared, next, refusals, cause, delay uint8) hostlimit.Debt {
	minute := func(n uint8) time.Time {
		if n %= 8; n == 0 {
			return time.Time{}
		}
		return time.Date(2026, 11, 23, 0, int(n), 0, 0, time.UTC)
	}
	d := hostlimit.Debt{NextStart: minute(next), Delay: time.Duration(delay % 4), Slow: delay > 127, ClearedAt: minute(cleared)}
	if cleared > 200 {
		d.FreedAt = minute(min(cleared%8, cleared/8)) // a clearing as well
	}
	if until%8 > 0 {
		d.BlockedUntil, d.BlockedAt, d.Refusals = minute(until), minute(at), int(refusals%4)
		d.Unsure, d.Bans = int(refusals/4%4), int(refusals/16%4)
		d.Cause = []string{"status 429", "status 503", "", "by hand: maintenance", "by hand: a call"}[cause%5]
	}
	return d
}

// known returns what is to be known of debts that are merged, as Merge's comment has it.
func known(debts []hostlimit.Debt) (d hostlimit.Debt) {
	later := func(t *time.Time, o time.Time) {
		if o.After(*t) {
			*t = o
		}
	}
	for _, o := range debts {
		later(&d.ClearedAt, o.ClearedAt)
		later(&d.FreedAt, o.FreedAt)
		later(&d.NextStart, o.NextStart)
		d.Slow = o.Slow && o.Delay >= d.Delay || d.Slow && d.Delay >= o.Delay
		d.Delay = max(d.Delay, o.Delay)
	}
	for _, o := range debts {
		if lifts(d, o) {
			continue
		}
		_, byHand := rules.ByHand(o.Cause)
		_, wasByHand := rules.ByHand(d.Cause)
		if byHand && (!wasByHand || o.Cause > d.Cause) ||
			!byHand && !wasByHand && (o.BlockedUntil.After(d.BlockedUntil) || o.BlockedUntil.Equal(d.BlockedUntil) && o.Cause > d.Cause) {
			d.Cause = o.Cause
		}
		later(&d.BlockedUntil, o.BlockedUntil)
		later(&d.BlockedAt, o.BlockedAt)
		d.Refusals, d.Unsure, d.Bans = max(d.Refusals, o.Refusals), max(d.Unsure, o.Unsure), max(d.Bans, o.Bans)
	}
	return d
}

// lifts reports whether a clearing of d lifts the block of o: one by hand only a person's.
func lifts(d, o hostlimit.Debt) bool {
	if _, byHand := rules.ByHand(o.Cause); byHand {
		return o.BlockedAt.Before(d.FreedAt)
	}
	return o.BlockedAt.Before(d.ClearedAt)
}

// parted reports whether a clearing lifts only one of two blocks.
func parted(debts []hostlimit.Debt) bool {
	all := known(debts)
	for _, clearing := range []hostlimit.Debt{{ClearedAt: all.ClearedAt}, {ClearedAt: all.FreedAt, FreedAt: all.FreedAt}} {
		lifted, stands := false, false
		for _, d := range debts {
			if !d.BlockedUntil.IsZero() {
				lifted, stands = lifted || lifts(clearing, d), stands || !lifts(clearing, d)
			}
		}
		if lifted && stands {
			return true
		}
	}
	return false
}

func checkMerge(t *testing.T, a, b, c hostlimit.Debt) {
	t.Helper()
	all := []hostlimit.Debt{a, b, c}
	ab := a.Merge(b)
	if ab != b.Merge(a) || ab != known(all[:2]) {
		t.Errorf("%+v\nand %+v\nmake %+v\nand  %+v\nwant %+v", a, b, ab, b.Merge(a), known(all[:2]))
	}
	if ab.Merge(a) != ab || ab.Merge(b) != ab || ab.Merge(ab) != ab {
		t.Errorf("%+v\nand %+v\nmake %+v\nthen %+v,\n%+v", a, b, ab, ab.Merge(a), ab.Merge(b))
	}
	want := known(all)
	for _, got := range []hostlimit.Debt{ab.Merge(c), a.Merge(b.Merge(c)), a.Merge(c).Merge(b)} {
		if got == want {
			continue
		}
		if !parted(all) {
			t.Errorf("%+v\nand %+v\nand %+v\nmake %+v\nwant %+v", a, b, c, got, want)
		}
		// A block that was lifted may have gone into one that stands, whose set time then counts.
		loose := want
		loose.BlockedUntil, loose.BlockedAt, loose.Cause = got.BlockedUntil, got.BlockedAt, got.Cause
		loose.Refusals, loose.Unsure, loose.Bans = got.Refusals, got.Unsure, got.Bans
		if got != loose || got.BlockedUntil.Before(want.BlockedUntil) || got.BlockedAt.Before(want.BlockedAt) || rules.InARow(&got) < rules.InARow(&want) {
			t.Errorf("%+v\nand %+v\nand %+v\nmake %+v\nless than %+v", a, b, c, got, want)
		}
	}
}

// TestMergeInAnyOrder: debts that are merged in any order, and more than once, are the same debt.
func TestMergeInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func() uint8 { return uint8(r.Uint32()) }
	debt := func() hostlimit.Debt { return debtOf(some(), some(), some()*some(), some(), some(), some(), some()) }
	partings := 0
	for range 100_000 {
		a, b, c := debt(), debt(), debt()
		if checkMerge(t, a, b, c); t.Failed() {
			return
		}
		if parted([]hostlimit.Debt{a, b, c}) {
			partings++
		}
	}
	if partings < 1000 || partings > 70_000 {
		t.Errorf("a clearing lifts only one of two blocks in %d of 100,000 cases", partings)
	}
}

func TestMerge(t *testing.T) {
	at := func(m int) time.Time { return time.Date(2026, 11, 23, 0, m, 0, 0, time.UTC) }
	block := hostlimit.Debt{BlockedUntil: at(10), BlockedAt: at(1), Refusals: 2, Cause: "status 429", Delay: time.Second}
	for name, c := range map[string]struct{ o, want hostlimit.Debt }{
		"nothing":         {hostlimit.Debt{}, block},
		"cleared after":   {hostlimit.Debt{ClearedAt: at(2)}, hostlimit.Debt{Delay: time.Second, ClearedAt: at(2)}},
		"cleared then":    {hostlimit.Debt{ClearedAt: at(1)}, hostlimit.Debt{BlockedUntil: at(10), BlockedAt: at(1), Refusals: 2, Cause: "status 429", Delay: time.Second, ClearedAt: at(1)}},
		"a later end":     {hostlimit.Debt{BlockedUntil: at(20), BlockedAt: at(0), Refusals: 1, Cause: "status 503"}, hostlimit.Debt{BlockedUntil: at(20), BlockedAt: at(1), Refusals: 2, Cause: "status 503", Delay: time.Second}},
		"a larger number": {hostlimit.Debt{BlockedUntil: at(5), BlockedAt: at(3), Refusals: 3, Cause: "status 503"}, hostlimit.Debt{BlockedUntil: at(10), BlockedAt: at(3), Refusals: 3, Cause: "status 429", Delay: time.Second}},
		"by hand":         {hostlimit.Debt{BlockedUntil: at(5), BlockedAt: at(3), Cause: "by hand: a call"}, hostlimit.Debt{BlockedUntil: at(10), BlockedAt: at(3), Refusals: 2, Cause: "by hand: a call", Delay: time.Second}},
		"by hand, cleared": {
			hostlimit.Debt{BlockedUntil: at(5), BlockedAt: at(3), Cause: "by hand: a call", ClearedAt: at(4)},
			hostlimit.Debt{BlockedUntil: at(5), BlockedAt: at(3), Cause: "by hand: a call", ClearedAt: at(4), Delay: time.Second},
		},
		"by hand, freed": {
			hostlimit.Debt{BlockedUntil: at(5), BlockedAt: at(3), Cause: "by hand: a call", ClearedAt: at(4), FreedAt: at(4)},
			hostlimit.Debt{ClearedAt: at(4), FreedAt: at(4), Delay: time.Second},
		},
		"a longer delay": {hostlimit.Debt{Delay: 2 * time.Second, NextStart: at(4)}, hostlimit.Debt{BlockedUntil: at(10), BlockedAt: at(1), Refusals: 2, Cause: "status 429", Delay: 2 * time.Second, NextStart: at(4)}},
		"a later block": {
			hostlimit.Debt{BlockedUntil: at(5), BlockedAt: at(3), Refusals: 1, Cause: "status 503", ClearedAt: at(2)},
			hostlimit.Debt{BlockedUntil: at(5), BlockedAt: at(3), Refusals: 1, Cause: "status 503", ClearedAt: at(2), Delay: time.Second},
		},
	} {
		if got := block.Merge(c.o); got != c.want || c.o.Merge(block) != got {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("a block, one that ends later and a clear"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 21 {
			return
		}
		var d [3]hostlimit.Debt
		for i := range d {
			b := data[7*i:]
			d[i] = debtOf(b[0], b[1], b[2], b[3], b[4], b[5], b[6])
		}
		checkMerge(t, d[0], d[1], d[2])
	})
}
