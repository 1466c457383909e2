package memory_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/soak"
)

// TestRestartsChangeNothing: a crawler that ends at random steps and begins anew on the same Store is told
// the same as one that never ends: the same blocks, the same counts, and the same next start where that
// is more than a minute away.
func TestRestartsChangeNothing(t *testing.T) {
	steps, restarts := 0, 0
	for seed := range soak.Seeds(t, 300, 300) {
		synctest.Test(t, func(t *testing.T) {
			r := newRestarts(t, seed)
			for range 40 {
				r.step()
			}
			steps, restarts = steps+40, restarts+r.count
			if t.Failed() {
				t.Logf("seed %d: %+v\n%s", seed, r.cfg, r.history)
			}
		})
	}
	t.Logf("%d steps, %d restarts", steps, restarts)
}

// restarts are a Memory that never ends, and one that does.
type restarts struct {
	*testing.T
	*rand.Rand
	cfg     hostlimit.Config
	store   hostlimit.Store
	whole   process // without a Store
	present process
	since   time.Time // beginning of present
	count   int
	history string
}

func newRestarts(t *testing.T, seed uint64) *restarts {
	r := &restarts{T: t, Rand: rand.New(rand.NewPCG(seed, 15)), store: new(mapStore)}
	r.cfg = hostlimit.Config{
		Concurrency: 1, MaxWait: 1000 * time.Hour, LeaseTTL: 1000 * time.Hour,
		Delay: hostlimit.Delay{Min: r.pick(time.Millisecond, time.Second, time.Minute, time.Hour), Adaptive: hostlimit.Fixed, FromEnd: r.IntN(2) == 0},
		Backoff: backoff.Refusals{
			Policy: backoff.Doubling{Start: r.pick(time.Second, time.Hour), Cap: 12 * time.Hour},
			// It isn't over at the very moment of a step, of which a millisecond would make two.
			Forgive: r.pick(time.Minute, time.Hour, 30*time.Hour) + 500*time.Millisecond, AtLeast: r.IntN(2) == 0,
		},
	}
	r.cfg.Delay.Ceiling = time.Hour
	r.whole = run(t, r.cfg)
	r.restart()
	return r
}

func (r *restarts) pick(of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }

func (r *restarts) say(format string, args ...any) {
	r.history += fmt.Sprintf("%v  %s\n", time.Now().Format("02 15:04:05.000"), fmt.Sprintf(format, args...))
}

func (r *restarts) restart() {
	r.say("restart")
	cfg := r.cfg
	cfg.Store = r.store
	r.present = run(r.T, cfg)
	r.since = time.Now()
	_, _ = r.present.Next(r.Context(), storedKey, 0) // it begins to count
	r.count++
}

// perhaps ends the process, once in a while.
func (r *restarts) perhaps() bool {
	if r.IntN(5) > 0 {
		return false
	}
	r.restart()
	return true
}

// tolerance is how much longer than necessary a restored wait is at most: the margin of a start that is
// kept, and that of the clocks.
const tolerance = time.Second + 2*time.Millisecond

// paid is by when a gap that isn't kept has been paid since the beginning of the process.
func (r *restarts) paid() time.Duration { return time.Until(r.since.Add(time.Minute)) }

// agree compares when the next request may start.
func (r *restarts) agree() {
	r.Helper()
	want, got := r.whole.next(), r.present.next()
	if want > time.Minute && got < want || got > max(want+tolerance, r.paid()) {
		r.Errorf("next in %v, want %v", got, want)
	}
}

// step is one exchange, at a time at which either may begin it, or a wait.
func (r *restarts) step() {
	r.perhaps()
	r.agree()
	if r.IntN(3) == 0 {
		time.Sleep(r.pick(time.Second, time.Minute, 50*time.Minute, 3*time.Hour))
		r.agree()
	}
	time.Sleep(max(r.whole.next(), r.present.next()))
	floor := time.Duration(0)
	if r.IntN(4) == 0 {
		floor = r.pick(time.Second, 2*time.Minute, 5*time.Hour)
		want, err := r.whole.Next(r.Context(), storedKey, floor)
		if err != nil {
			r.Fatal(err)
		}
		time.Sleep(time.Until(want))
		want, err = r.present.Next(r.Context(), storedKey, floor)
		if err != nil || time.Until(want) > max(tolerance, r.paid()) {
			r.Errorf("with a floor of %v in %v: %v", floor, time.Until(want), err)
		}
		time.Sleep(time.Until(want))
	}
	want, _ := r.whole.start(floor)
	got, g := r.present.start(floor)
	r.say("start, floor %v, probe %v", floor, g.Probe)
	if !g.Start.Equal(time.Now()) {
		r.Errorf("started at %v", g.Start)
	}
	held := !r.perhaps()
	time.Sleep(r.pick(0, time.Second, 10*time.Minute))
	var o hostlimit.Outcome
	switch r.IntN(5) {
	case 0:
		o.Status = 429
	case 2:
		o.Status = 500
	case 1:
		o.Status, o.RetryAfter = 503, r.pick(time.Second, time.Hour, 100*time.Hour)
	default:
		o.Status = 200
	}
	if held { // else nobody was there when the answer came
		w, e := want.Observe(o), got.Observe(o)
		r.say("%d, Retry-After %v: %+v", o.Status, o.RetryAfter, e)
		if e.Blocked != w.Blocked || e.Cleared != w.Cleared || e.Refusals != w.Refusals || e.Kind != w.Kind || e.Until.Sub(w.Until).Abs() > tolerance {
			r.Errorf("effect %+v, want %+v", e, w)
		}
		if held = !r.perhaps(); held {
			r.agree()
			got.Release()
		}
	}
	want.Release()
	if r.cfg.Delay.FromEnd && !held { // the end is known to one of them only
		time.Sleep(r.whole.next())
	}
	r.perhaps()
	r.agree()
}
