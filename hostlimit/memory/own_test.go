package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"

	"github.com/go-politeness/politeness/hostlimit/memory"
)

// TestGrantTellsTheKeysOwnLimits: what Override leaves to the Config is filled in, and a key that it
// says nothing of has none.
func TestGrantTellsTheKeysOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(hostlimit.Config{
			Concurrency: 3, Delay: hostlimit.Delay{Min: time.Second},
			Override: func(key string) (hostlimit.Limits, bool) {
				return hostlimit.Limits{Concurrency: 5}, key == "own"
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"own", "usual"} {
			lease, err := m.Acquire(t.Context(), key, 0)
			if err != nil {
				t.Fatal(err)
			}
			g, err := lease.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lease.Release()
			switch {
			case key == "usual" && g.Own != nil:
				t.Errorf("%+v", *g.Own)
			case key == "own" && (g.Own == nil || g.Own.Concurrency != 5 || g.Own.Delay.Min != time.Second || g.Own.Delay.Max != time.Second):
				t.Errorf("%+v", g.Own)
			}
		}
	})
}

// TestGrantTellsWhichStartWasTakenBack names it by its number.
func TestGrantTellsWhichStartWasTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(hostlimit.Config{LeaseTTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		start := func() hostlimit.Grant {
			lease, err := m.Acquire(t.Context(), "host", 0)
			if err != nil {
				t.Fatal(err)
			}
			g, err := lease.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		start()
		start()
		g := start() // once the first of them was taken back
		if len(g.TakenBack) != 1 || g.TakenBack[0] != (hostlimit.TakenBack{Key: "host", Seq: 1}) {
			t.Errorf("%+v", g.TakenBack)
		}
	})
}
