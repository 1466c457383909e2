package politeness

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// errClosed: robots.txt has Visit-time lines, and it is none of those times.
var errClosed = fmt.Errorf("outside of the Visit-time of robots.txt: %w", ErrBlocked)

// opens returns the first moment, at or after t, at which the Visit-time of robots.txt lets the
// crawler come. Without such lines that is t.
func (trip *trip) opens(t time.Time) time.Time {
	if trip.entry == nil || trip.entry.Denied {
		return t
	}
	first := t
	for i, window := range trip.entry.Rules.VisitTime() {
		if next := window.Next(t); i == 0 || next.Before(first) {
			first = next
		}
	}
	return first
}

// visit waits until the site wants to be visited. Outside of that time a host is like a blocked
// one: a wait that is longer than MaxWait, or ends after the caller's deadline, is refused.
func (trip *trip) visit() error {
	now := time.Now()
	opens := trip.opens(now)
	if !opens.After(now) {
		return nil
	}
	if opens.Sub(now) > trip.t.maxWait {
		return trip.noTurn(&hostlimit.Error{Key: trip.host, RetryAt: opens, Err: errClosed})
	}
	if opens.Sub(now) > longWait {
		trip.recordWait(hold{what: "visit-time", until: opens, why: "outside of the Visit-time of robots.txt"})
	}
	trip.t.tally.visit(trip.host, 1, opens)
	defer trip.t.tally.visit(trip.host, -1, opens)
	if err := sleepUntil(&trip.wait, opens, errClosed); err != nil {
		return trip.noTurn(err)
	}
	trip.closed += time.Since(now)
	return nil
}
