package budget

import (
	"errors"
	"fmt"
	"time"
)

// ErrExceeded matches every refusal by a budget, through errors.Is.
var ErrExceeded = errors.New("budget exceeded")

// An Error names the limit that is spent, and by how much it would be passed. Time is in whole
// seconds, rounded down. Get it with errors.As, to show the limit.
type Error struct {
	Limit string // Pages, PagesPerHost, Bytes or Time
	Host  string // for PagesPerHost
	Used  int64  // spent so far
	Want  int64  // amount that was asked for on top
	Max   int64  // the limit
}

// Over reports by how much the limit would have been passed. The unit is pages for Pages and
// PagesPerHost, bytes for Bytes, and seconds for Time. It is zero for a start in the very second in
// which the time ran out.
func (e *Error) Over() int64 { return e.Want - (e.Max - e.Used) }

// Error names the limit, the spent part of it, and by how much it would have been passed.
func (e *Error) Error() string {
	s := ErrExceeded.Error() + ": " + use(e.Limit, e.Host, e.Used, e.Max)
	switch {
	case e.Limit == Time && e.Want > 0:
		return s + fmt.Sprintf(", a start in %v would be %v over", amount(Time, e.Want), amount(Time, e.Over()))
	case e.Limit == Time:
		return s + fmt.Sprintf(", %v over", amount(Time, e.Over()))
	default:
		return s + fmt.Sprintf(", %v more would be %v over", amount(e.Limit, e.Want), amount(e.Limit, e.Over()))
	}
}

// Is reports whether target is [ErrExceeded].
func (e *Error) Is(target error) bool { return target == ErrExceeded }

// A Warning means that a limit is nearly reached. Each limit (and each host, for PagesPerHost)
// warns once, and once in each window of Limits.Every. Time is in whole seconds, rounded down.
type Warning struct {
	Limit string // Pages, PagesPerHost, Bytes or Time
	Host  string // for PagesPerHost
	Used  int64  // spent so far, this use included
	Max   int64  // the limit
}

// String names the limit and the spent part of it.
func (w Warning) String() string {
	return "budget nearly spent: " + use(w.Limit, w.Host, w.Used, w.Max)
}

// use returns how much of a limit is used: "pages of example.com: 20 of 20 used".
func use(limit, host string, used, limitMax int64) string {
	name := limit
	if limit == PagesPerHost {
		name = fmt.Sprintf("pages of %s", host)
	}
	return fmt.Sprintf("%s: %v of %v used", name, amount(limit, used), amount(limit, limitMax))
}

// amount is n in the unit that a reader expects of limit.
func amount(limit string, n int64) any {
	if limit == Time {
		return time.Duration(n) * time.Second
	}
	return n
}
