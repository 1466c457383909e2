// Package durations checks the durations that a user sets.
package durations

import (
	"fmt"
	"time"
)

// Check returns what is wrong with the duration of the given field: it is negative, or a number
// that was meant in seconds, such as 3600 for 3600*time.Second.
func Check(field string, d time.Duration) error {
	switch {
	case d < 0:
		return fmt.Errorf("%s: %v is negative", field, d)
	case d < 100*time.Microsecond && d%time.Microsecond != 0: // a day in seconds is 86.4 µs
		return fmt.Errorf("%s: %dns are nanoseconds: did you mean %ds?", field, d, d)
	}
	return nil
}
