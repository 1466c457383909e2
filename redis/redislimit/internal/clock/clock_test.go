package clock

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestClockBoundsHold lets a server's clock run off at any speed that drift allows,
// and asks it over a slow and uneven network: the bounds must always hold the truth.
func TestClockBoundsHold(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		offset := time.Duration(r.Int64N(int64(1000 * time.Hour)))
		speed := 1 + drift*(2*r.Float64()-1)
		server := func(mono time.Duration) time.Duration { return offset + time.Duration(speed*float64(mono)) }
		var c Server
		now := time.Duration(0)
		for range 50 {
			sent := now + time.Duration(r.Int64N(int64(20*time.Second)))
			there := sent + time.Duration(r.ExpFloat64()*float64(time.Millisecond))
			now = there + time.Duration(r.ExpFloat64()*float64(time.Millisecond))
			if slip := c.Learn(sent, now, wire.Micros(server(there).Microseconds())); slip != 0 {
				t.Fatalf("seed %d: slip %v", seed, slip)
			}
			later := now + time.Duration(r.Int64N(int64(time.Second)))
			lo, hi := c.Bounds(later)
			if truth := server(later) - later; truth < lo-time.Microsecond || truth > hi+time.Microsecond {
				t.Fatalf("seed %d: %v is not within %v and %v", seed, truth, lo, hi)
			}
			us := server(later).Microseconds() + r.Int64N(1000)
			if at := c.Surely(wire.Micros(us), later); server(at) < time.Duration(us)*time.Microsecond-time.Microsecond {
				t.Fatalf("seed %d: at %v the server shows %v, not %d", seed, at, server(at), us)
			}
		}
	}
}

func TestClockNoticesSteps(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -time.Second, 30 * time.Millisecond, time.Second, time.Hour} {
		var c Server
		base := 100 * time.Hour
		c.Learn(0, time.Millisecond, wire.MicrosOf(base))
		slip := c.Learn(time.Second, time.Second+time.Millisecond, wire.MicrosOf(base+time.Second+step))
		if d := slip - step; d < -5*time.Millisecond || d > 5*time.Millisecond {
			t.Errorf("step of %v: slip %v", step, slip)
		}
		if lo, hi := c.Bounds(time.Second + time.Millisecond); hi-lo > 2*time.Millisecond {
			t.Errorf("step of %v: bounds %v and %v", step, lo, hi)
		}
	}
}

func TestGuardFollowsLateness(t *testing.T) {
	g := Guard{Late: FirstLate}
	for range 2000 {
		g.Saw(200 * time.Microsecond)
	}
	if d := g.Allow(0); d > 400*time.Microsecond || d < minGuard {
		t.Errorf("guard %v for steady 200us", d)
	}
	g.Saw(time.Second) // one stall
	if d := g.Allow(0); d > time.Millisecond {
		t.Errorf("guard %v after one stall", d)
	}
	for range 2000 {
		g.Saw(5 * time.Millisecond)
	}
	if d := g.Allow(0); d < 5*time.Millisecond || d > 10*time.Millisecond {
		t.Errorf("guard %v for steady 5ms", d)
	}
	if (&Guard{Late: g.Late, Misses: 3}).Allow(0) < 8*g.Allow(0)-time.Microsecond {
		t.Error("misses don't widen the guard")
	}
	if d := (&Guard{Late: g.Late, Misses: 60}).Allow(time.Hour); d > 10*MaxGuard {
		t.Errorf("guard %v", d)
	}
}

// TestTheGuardMovesInSmallSteps: up by an eighth of what a start is later, down by a 64th; it leaves a
// quarter of that, and the uncertainty of the server's clock, on top.
func TestTheGuardMovesInSmallSteps(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct{ late, saw, want time.Duration }{{800 * us, 1600 * us, 900 * us}, {6400 * us, 0, 6300 * us}, {800 * us, 800 * us, 800 * us}} {
		g := Guard{Late: c.late}
		if g.Saw(c.saw); g.Late != c.want {
			t.Errorf("%v, then one of %v: %v, want %v", c.late, c.saw, g.Late, c.want)
		}
	}
	for _, c := range []struct{ late, uncertainty, want time.Duration }{{0, 0, 300 * us}, {4000 * us, 0, 5000 * us}, {4000 * us, 1000 * us, 6000 * us}, {4000 * us, time.Hour, 5000*us + MaxGuard}} {
		if got := (&Guard{Late: c.late}).Allow(c.uncertainty); got != c.want {
			t.Errorf("a guard for %v, unsure up to %v: %v, want %v", c.late, c.uncertainty, got, c.want)
		}
	}
	var c Server
	unknown := c.Uncertainty(0)
	c.Learn(time.Second, time.Second+time.Millisecond, 5)
	if known := c.Uncertainty(time.Second + time.Millisecond); unknown != MaxGuard || known != time.Millisecond+us {
		t.Errorf("unsure up to %v before a call, and %v after one of a millisecond", unknown, known)
	}
}

// TestOnlyTheMonotonicClockDecides keeps the wall clock out: time.Now may give
// the origin of this process's times, deadlines and stamps for people, which keep
// their monotonic reading; nothing may take a time apart, but for what a Store keeps (keep.go): a
// disk knows no other clock.
func TestOnlyTheMonotonicClockDecides(t *testing.T) {
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "keep.go" {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(sel.X) != "time" {
				switch sel.Sel.Name {
				case "Unix", "UnixNano", "UnixMilli", "UnixMicro", "Round", "Truncate", "UTC":
					t.Errorf("%v: %s reads the wall clock", fset.Position(n.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	}
}
