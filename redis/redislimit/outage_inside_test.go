package redislimit

import (
	"context"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
)

// alone returns a host of an idle Limiter of two processes that goes on without the server.
func alone(t *testing.T) (*host, *outage) {
	t.Helper()
	l := idle(t, Config{Failure: FailLocal, Processes: 2, Limits: hostlimit.Config{MaxInFlight: 4}})
	l.parts[0].clock = clock.Server{Known: true, Hi: time.Second}
	l.down.outage = l.newOutage()
	return l.host("a.example"), l.down.outage
}

func same(d hostlimit.Debt) hostlimit.Debt { return d }

func near(a, b time.Duration) bool { return (a - b).Abs() < time.Minute }

// TestWhatAnOutageIsToldOfAHost is what its process knew, for a process's share of the rate.
func TestWhatAnOutageIsToldOfAHost(t *testing.T) {
	for name, c := range map[string]struct {
		refusals rules.Refusals
		blocked  bool
	}{
		"nothing":              {rules.Refusals{}, false},
		"a delay":              {rules.Refusals{Learned: 2 * time.Second}, false},
		"a block":              {rules.Refusals{Until: 2 * time.Hour, Cause: "by hand"}, true},
		"a block that is over": {rules.Refusals{Until: time.Second, Cause: "by hand"}, false},
		"refusals":             {rules.Refusals{Until: time.Second, Cause: "status 429", Row: 3, Unsure: 2, Bans: 1}, true},
	} {
		h, out := alone(t) // an hour after its beginning
		h.known.Refusals = c.refusals
		now, wall := h.l.now(), time.Now()
		for range 2 { // later calls return the same
			d, err := out.Update(t.Context(), h.key, same)
			if err != nil || d.Refusals != c.refusals.Row || d.Unsure != c.refusals.Unsure || d.Bans != c.refusals.Bans ||
				d.Cause != c.refusals.Cause || d.Delay != 2*c.refusals.Learned || d.BlockedUntil.IsZero() == c.blocked || d.BlockedAt.IsZero() == c.blocked {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
			if c.blocked && (!near(d.BlockedUntil.Sub(wall), c.refusals.Until-now) || !near(d.BlockedAt.Sub(wall), 0)) {
				t.Errorf("%s: blocked from %v to %v", name, d.BlockedAt, d.BlockedUntil)
			}
			h.known.Refusals = rules.Refusals{}
		}
	}
}

// TestWhatAnOutageHasLearnedHolds for this process, and is the newest that the server is told.
func TestWhatAnOutageHasLearnedHolds(t *testing.T) {
	for name, c := range map[string]struct {
		version int64 // before
		debt    hostlimit.Debt
		last    time.Duration // the last start was so long ago; 0: there was none
		want    rules.Refusals
		next    time.Duration // from the last start
	}{
		"a block": {
			debt: hostlimit.Debt{BlockedUntil: time.Now().Add(time.Hour), Refusals: 2, Unsure: 1, Bans: 1, Cause: "status 429"},
			want: rules.Refusals{Until: time.Hour, Row: 2, Unsure: 1, Bans: 1, Cause: "status 429", Alone: true},
		},
		"a block by hand":               {debt: hostlimit.Debt{BlockedUntil: time.Now().Add(time.Hour), Cause: "by hand"}, want: rules.Refusals{Until: time.Hour, Cause: "by hand"}},
		"a delay":                       {debt: hostlimit.Debt{Delay: 6 * time.Second}, want: rules.Refusals{Learned: 3 * time.Second}},
		"a delay after a start":         {debt: hostlimit.Debt{Delay: 6 * time.Second}, last: time.Second, want: rules.Refusals{Learned: 3 * time.Second}, next: 3 * time.Second},
		"a shorter delay":               {debt: hostlimit.Debt{Delay: time.Second}, last: time.Second, want: rules.Refusals{Learned: time.Second / 2}, next: time.Second / 2},
		"a version of the time to come": {version: 1 << 50, debt: hostlimit.Debt{Delay: 6 * time.Second}, want: rules.Refusals{Learned: 3 * time.Second}},
	} {
		h, out := alone(t)
		h.known.Refusals.Learned, h.known.Version = 2*time.Second, c.version
		now := h.l.now()
		if c.last > 0 {
			h.known.Started, h.known.Last = true, now-c.last
		}
		if _, err := out.Update(t.Context(), h.key, func(hostlimit.Debt) hostlimit.Debt { return c.debt }); err != nil {
			t.Fatal(err)
		}
		got, want := h.known.Refusals, c.want
		if want.Until > 0 && near(got.Until-now, want.Until) {
			want.Until = got.Until
		}
		if got != want || h.known.ServerUntil != 0 || h.known.Earliest != got.Until {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if least := max(c.version+1, int64(micros(now+time.Second))); h.known.Version < least || h.known.Version > least+int64(micros(time.Minute)) {
			t.Errorf("%s: version %d, after %d at %d", name, h.known.Version, c.version, micros(now))
		}
		if blocks := want.Until > 0; (h.known.BlockSeen >= now) != blocks {
			t.Errorf("%s: turns of before are void: %t", name, h.known.BlockSeen >= now)
		}
		if c.next > 0 && h.known.Next != h.known.Last+c.next || c.next == 0 && h.known.Next != 0 {
			t.Errorf("%s: the next start is %v after the last one", name, h.known.Next-h.known.Last)
		}
		told := len(h.p.ops)
		h.p.down, h.l.closed = nil, true // as when the server comes back meanwhile
		if _, err := out.Update(t.Context(), h.key, func(hostlimit.Debt) hostlimit.Debt {
			return hostlimit.Debt{BlockedUntil: time.Now().Add(2 * time.Hour)}
		}); err != nil || told != 0 || len(h.p.ops) != 1 {
			t.Errorf("%s: the server is told %d times without it, and then %d times, %v", name, told, len(h.p.ops), err)
		}
	}
}

// TestAStartWithoutTheServerWaits for what the server may have given others, for a turn that it gave
// here, and for a place in MaxInFlight.
func TestAStartWithoutTheServerWaits(t *testing.T) {
	for name, c := range map[string]struct {
		set     func(h *host)
		want    time.Duration
		blocked bool
	}{
		"not":                           {func(*host) {}, noticed - later, false},
		"until the others have noticed": {func(h *host) { h.p.sent.heard = later - time.Second }, 1500 * time.Millisecond, false},
		"for the delay":                 {func(h *host) { h.known.Next = later + time.Minute }, time.Minute, false},
		"for a block":                   {func(h *host) { h.known.Refusals.Until = later + time.Minute }, time.Minute, true},
		"for a turn of the server's":    {func(h *host) { h.leases["1"] = new(lease) }, looking, false},
		"not for one of its own":        {func(h *host) { h.leases["1"] = &lease{use: use{unshared: true}} }, noticed - later, false},
		"for a place":                   {func(h *host) { h.l.places.taken = 2 }, looking, false},
	} {
		h, _ := alone(t)
		c.set(h)
		if wait, blocked := h.gate(later); wait != c.want || blocked != c.blocked {
			t.Errorf("%s: %v, for a block: %t", name, wait, blocked)
		}
	}
}

// TestNoTurnIsLentWithoutAPlace, nor once the outage is over.
func TestNoTurnIsLentWithoutAPlace(t *testing.T) {
	h, _ := alone(t)
	over, end := context.WithCancel(t.Context())
	lend := func() *lease { return h.l.lendLocal(over, h.key, mustLimits(t, h.l, h.key), nil, 0) }
	if first, second, third := lend(), lend(), lend(); first == nil || second == nil || third != nil || h.l.places.taken != 2 {
		t.Errorf("%v, %v, %v; %d in flight", first, second, third, h.l.places.taken)
	}
	h.l.places.taken = 0
	if end(); lend() != nil {
		t.Error("the server is back")
	}
}

// TestAStartWithoutTheServerIsNumbered after those before, and owes its part of the delay.
func TestAStartWithoutTheServerIsNumbered(t *testing.T) {
	h, out := alone(t)
	h.seq, h.known.Next = 7, h.l.now()+time.Nanosecond
	for seq := range uint64(2) {
		inner, err := out.hosts.Acquire(t.Context(), h.key, 0)
		if err != nil {
			t.Fatal(err)
		}
		turn := h.l.lendLocal(t.Context(), h.key, mustLimits(t, h.l, h.key), inner, time.Second)
		g, err := turn.Start(t.Context())
		if err != nil || g.Seq != 8+seq || h.known.Gap != g.Delay/2 || h.known.Next != h.known.Last+h.known.Gap || g.WaitDelay < time.Second {
			t.Errorf("%+v, %v; the next start here in %v, gap %v", g, err, h.known.Next-h.known.Last, h.known.Gap)
		}
		turn.Release()
	}
}
