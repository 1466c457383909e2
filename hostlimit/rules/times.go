package rules

import (
	"math"
	"time"
)

// Never is later than all times. The times of Refusals and Turn are nanoseconds since an instant of
// the limiter's choice, by a clock that is never set.
const Never time.Duration = math.MaxInt64

// Add returns t+d, or Never if that overflows.
func Add(t, d time.Duration) time.Duration {
	return t + min(d, Never-max(t, 0))
}
