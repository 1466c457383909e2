package backoff

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-politeness/politeness/internal/durations"
)

// Doubling stays away Start, 2 Start, 4 Start..., at most Cap, plus jitter. Use it for hosts that
// must rarely be asked once they have refused. The zero value goes from a quarter of an hour to a
// day, without jitter.
type Doubling struct {
	Start  time.Duration // first step, by default 15 min
	Cap    time.Duration // longest step before jitter, by default 24 h
	Jitter [2]float64    // least and most share of a step that is added at random, by default none
}

// WithDefaults returns d with its zero fields set to their defaults.
func (d Doubling) WithDefaults() Doubling {
	d.Start = cmp.Or(d.Start, 15*time.Minute)
	d.Cap = cmp.Or(d.Cap, 24*time.Hour)
	return d
}

// Delay returns the time to stay away after the attempt-th refusal in a row. It returns 0 for an
// attempt below 1.
func (d Doubling) Delay(attempt int) time.Duration {
	if attempt < 1 {
		return 0
	}
	d = d.WithDefaults()
	step := d.Cap
	doubled := attempt - 1
	if d.Start <= d.Cap>>doubled { // before shifting: Start<<doubled might not fit
		step = d.Start << doubled
	}
	if d.Jitter == [2]float64{} {
		return step
	}
	share := d.Jitter[0] + rand.Float64()*(d.Jitter[1]-d.Jitter[0])
	more := share * float64(step)
	if more >= float64(math.MaxInt64-step) { // before converting: the sum might not fit
		return math.MaxInt64
	}
	return step + time.Duration(more)
}

// BackOff returns the steps of d for a retry loop.
func (d Doubling) BackOff() *Steps { return &Steps{policy: d} }

// Validate reports every field whose value is invalid. Limiters call it once, when they are made.
// Delay doesn't check again.
func (d Doubling) Validate() error {
	var jitter error
	least := d.Jitter[0]
	most := d.Jitter[1]
	if !(0 <= least && least <= most && most <= 1) { // NaN is out of every range
		jitter = fmt.Errorf("Jitter: want 0 <= least <= most <= 1, have %v", d.Jitter)
	}
	return errors.Join(durations.Check("Start", d.Start), durations.Check("Cap", d.Cap), jitter)
}
