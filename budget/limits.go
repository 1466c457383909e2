package budget

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// The names of the limits, in errors and in warnings.
const (
	Pages        = "pages"
	PagesPerHost = "pages_per_host"
	Bytes        = "bytes"
	Time         = "time"
)

// Limits are the limits of a budget. A zero field is unlimited; the zero value
// limits nothing and only counts.
type Limits struct {
	Pages        int64         // pages in all
	PagesPerHost int64         // pages of one host
	Bytes        int64         // bytes of bodies, as read
	Duration     time.Duration // wall time from the first page or byte
	WarnAt       float64       // share of a limit at which it warns, 0 < WarnAt < 1; 0: no warnings
}

// Validate reports all problems of l at once, each naming its field: negative
// limits, and a WarnAt outside [0, 1). New can't return them, so politeness.New
// asks for them.
func (l Limits) Validate() error {
	var problems []error
	for _, f := range []struct {
		name  string
		value int64
	}{{"Pages", l.Pages}, {"PagesPerHost", l.PagesPerHost}, {"Bytes", l.Bytes}} {
		if f.value < 0 {
			problems = append(problems, fmt.Errorf("budget: Limits.%s is negative: %d", f.name, f.value))
		}
	}
	if l.Duration < 0 {
		problems = append(problems, fmt.Errorf("budget: Limits.Duration is negative: %v", l.Duration))
	}
	if !(l.WarnAt >= 0 && l.WarnAt < 1) { // NaN is neither
		problems = append(problems, fmt.Errorf("budget: Limits.WarnAt is not a share, 0 <= WarnAt < 1: %v", l.WarnAt))
	}
	return errors.Join(problems...)
}

// warnAt returns the smallest use of limit that is at least the share WarnAt of
// it, or math.MaxInt64 where no warning is wanted.
func (l Limits) warnAt(limit int64) int64 {
	if limit <= 0 || !(l.WarnAt > 0 && l.WarnAt < 1) {
		return math.MaxInt64
	}
	at := l.WarnAt * float64(limit)
	at *= 1 - 1e-12 // 0.07 * 100 is a little above 7, and must warn at 7
	return min(max(int64(math.Ceil(at)), 1), limit)
}
