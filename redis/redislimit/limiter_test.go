package redislimit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A turn is a lease that has started.
type turn struct {
	hostlimit.Grant
	lease hostlimit.Lease
}

func (t turn) Observe(o hostlimit.Outcome) hostlimit.Effect { return t.lease.Observe(o) }
func (t turn) Renew()                                       { t.lease.Renew() }
func (t turn) Release() bool                                { return t.lease.Release() }

// acquire fails the test if there is no turn, or if it doesn't start.
func acquire(t testing.TB, l *Limiter, key string, floor time.Duration) turn {
	t.Helper()
	lease, err := l.Acquire(context.Background(), key, floor)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	g, err := lease.Start(context.Background())
	if err != nil {
		t.Fatalf("Start(%q): %v", key, err)
	}
	return turn{g, lease}
}

func TestStartsAreADelayApart(t *testing.T) {
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: 50 * time.Millisecond}}}, 3)
	var last time.Time
	for i := range 12 {
		lease := acquire(t, fleet[i%len(fleet)], "a.example", 0)
		g := lease.Grant
		if gap := g.Start.Sub(last); !last.IsZero() && gap < 50*time.Millisecond {
			t.Errorf("start %d: gap %v", i, gap)
		}
		if g.Seq != uint64(i/len(fleet)+1) {
			t.Errorf("start %d: Seq = %d", i, g.Seq)
		}
		last = g.Start
		lease.Observe(hostlimit.Outcome{Status: 200, Latency: time.Millisecond})
		lease.Release()
	}
}

func TestSlotTimeout(t *testing.T) {
	l := newTest(t, shared, hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: time.Millisecond}, SlotTimeout: 300 * time.Millisecond})
	acquire(t, l, "a.example", 0)
	acquire(t, l, "a.example", 0)
	began := time.Now()
	_, err := l.Acquire(context.Background(), "a.example", 0)
	if !errors.Is(err, hostlimit.ErrBusy) {
		t.Fatalf("err = %v", err)
	}
	if d := time.Since(began); d < 300*time.Millisecond {
		t.Errorf("refused after %v", d)
	}
}

func TestARefusalHoldsAll(t *testing.T) {
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: 20 * time.Millisecond}}}, 2)
	a := acquire(t, fleet[0], "a.example", 0)
	set := time.Now()
	if e := a.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 400 * time.Millisecond}); !e.Blocked || e.Refusals != 1 {
		t.Errorf("Effect = %+v", e)
	}
	a.Release()
	b := acquire(t, fleet[1], "a.example", 0)
	if d := b.Grant.Start.Sub(set); d < 400*time.Millisecond || !b.Grant.Probe {
		t.Errorf("start %v after the refusal: %+v", d, b.Grant)
	}
	if e := b.Observe(hostlimit.Outcome{Status: 200}); !e.Cleared || e.Refusals != 0 {
		t.Errorf("Effect = %+v", e)
	}
	b.Release()
	c := acquire(t, fleet[0], "a.example", 0)
	if c.Grant.Probe {
		t.Errorf("Grant = %+v", c.Grant)
	}
}
