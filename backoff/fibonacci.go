package backoff

import (
	"cmp"
	"errors"
	"time"

	"github.com/go-politeness/politeness/internal/durations"
)

// Fibonacci stays away 1, 1, 2, 3, 5, 8, 13... units, at most Cap. It recovers
// fast from a single refusal and still grows by a factor of 1.6 when refusals
// go on. The zero value goes from one second to ten minutes. Use it for retries and short refusals.
type Fibonacci struct {
	Unit time.Duration // length of the first step, by default 1 s
	Cap  time.Duration // longest step, by default 10 min
}

// WithDefaults returns f with its zero fields set to their defaults.
func (f Fibonacci) WithDefaults() Fibonacci {
	f.Unit = cmp.Or(f.Unit, time.Second)
	f.Cap = cmp.Or(f.Cap, 10*time.Minute)
	return f
}

// Delay returns the time to stay away after the attempt-th refusal in a row. It returns 0 for an
// attempt below 1.
func (f Fibonacci) Delay(attempt int) time.Duration {
	if attempt < 1 {
		return 0
	}
	f = f.WithDefaults()
	// Steps up to the cap fit into 63 bits; the one after them fits into 64, and
	// ends the loop after 92 rounds at most.
	most := uint64(f.Cap / f.Unit)
	step := uint64(1)
	next := uint64(1)
	for range attempt - 1 {
		if step > most {
			break
		}
		step, next = next, step+next
	}
	if step > most {
		return f.Cap // before multiplying: step*Unit might not fit
	}
	return time.Duration(step) * f.Unit
}

// BackOff returns the steps of f for a retry loop.
func (f Fibonacci) BackOff() *Steps { return &Steps{policy: f} }

// Validate reports every field whose value is invalid. Limiters call it once, when they are made.
// Delay doesn't check again.
func (f Fibonacci) Validate() error {
	return errors.Join(durations.Check("Unit", f.Unit), durations.Check("Cap", f.Cap))
}
