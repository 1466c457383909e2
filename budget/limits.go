package budget

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-politeness/politeness/internal/durations"
)

// The names of the limits, in errors and in warnings.
const (
	Pages        = "pages"
	PagesPerHost = "pages_per_host"
	Bytes        = "bytes"
	Time         = "time"
)

// Limits are the limits of a budget. A zero field is unlimited. The zero value limits nothing and
// only counts. Set them in politeness.Config.Spend, or pass them to New or Keep.
type Limits struct {
	Pages        int64         // pages in all
	PagesPerHost int64         // pages of one host
	Bytes        int64         // bytes of bodies, as read
	Duration     time.Duration // time from the first page or byte, see the package
	WarnAt       float64       // share of a limit at which it warns, 0 < WarnAt < 1, by default no warnings

	// Every renews the budget. The other limits are those of each window of this length, counted from
	// 1970 in UTC, so that 24 * time.Hour is the day from midnight to midnight in UTC. Every must be
	// at least a second. It can't be used together with Duration. The default is 0, so that the budget
	// is spent once.
	//
	// A page counts in the window in which it was reserved, a byte in the one in which it was
	// taken.
	Every time.Duration
}

// Window returns the beginning of the window of Every that contains t. It is zero if the budget is
// spent once.
func (l Limits) Window(t time.Time) time.Time {
	if l.Every <= 0 {
		return time.Time{}
	}
	now := t.UnixNano() // since 1970 in UTC, which a day of 24 hours divides at midnight
	return time.Unix(0, now-now%int64(l.Every)).UTC()
}

// Validate reports all problems of l together, each naming its field. Problems are negative limits,
// and a WarnAt outside [0, 1). Function New returns no error, so call Validate before.
// politeness.New calls it.
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
	problems = append(problems, durations.Check("budget: Limits.Duration", l.Duration))
	switch {
	case l.Every != 0 && l.Every < time.Second:
		problems = append(problems, fmt.Errorf("budget: Limits.Every is shorter than a second: %v", l.Every))
	case l.Every != 0 && l.Duration != 0:
		problems = append(problems, fmt.Errorf("budget: Limits.Every is %v, and Limits.Duration %v: "+
			"time that is limited isn't renewed; give the crawl's context a deadline instead", l.Every, l.Duration))
	}
	if !(l.WarnAt >= 0 && l.WarnAt < 1) { // NaN is neither
		problems = append(problems, fmt.Errorf("budget: Limits.WarnAt is not a share, 0 <= WarnAt < 1: %v", l.WarnAt))
	}
	return errors.Join(problems...)
}

// warnAt returns the smallest use of limit that is at least the share WarnAt of it, or
// math.MaxInt64 if no warning is wanted.
func (l Limits) warnAt(limit int64) int64 {
	if limit <= 0 || !(l.WarnAt > 0 && l.WarnAt < 1) {
		return math.MaxInt64
	}
	at := l.WarnAt * float64(limit)
	at *= 1 - 1e-12 // 0.07 * 100 is a little above 7, and must warn at 7
	return min(max(int64(math.Ceil(at)), 1), limit)
}
