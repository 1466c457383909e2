// Package durations checks the durations that a user sets, and writes durations as JSON.
package durations

import (
	"encoding/json"
	"fmt"
	"math"
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

// Seconds is a duration whose JSON is a number of seconds.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	*s = Seconds(math.Round(seconds * float64(time.Second)))
	return nil
}
