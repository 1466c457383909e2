package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"

	"github.com/go-politeness/politeness/hostlimit/memory"
)

// A host that refuses its pages serves robots.txt all the same: were that a
// success, a slowdown that doubles would begin anew whenever robots.txt is due.
func TestSuccessAsideLiftsNoBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(hostlimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(o hostlimit.Outcome) hostlimit.Effect {
			l, err := m.Acquire(t.Context(), "example.com", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if _, err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			return l.Observe(o)
		}
		ask(hostlimit.Outcome{Status: 429})
		if e := ask(hostlimit.Outcome{Status: 200, Aside: true}); e.Cleared || e.Refusals != 1 {
			t.Errorf("a success aside: %+v, want it to change nothing", e)
		}
		began := time.Now()
		if e := ask(hostlimit.Outcome{Status: 429, Aside: true}); !e.Blocked || e.Refusals != 2 {
			t.Errorf("a refusal aside: %+v, want a second block", e)
		}
		if e := ask(hostlimit.Outcome{Status: 200}); !e.Cleared || e.Refusals != 0 {
			t.Errorf("a success: %+v, want the block lifted", e)
		}
		if time.Since(began) < time.Second {
			t.Error("nobody waited for the second block")
		}
	})
}
