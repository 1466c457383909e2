package politeness

import (
	"errors"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
)

// afford refuses at once when the budget is spent.
func (trip *trip) afford() error {
	if trip.t.budget == nil {
		return nil
	}
	return trip.checkBudget(trip.asked)
}

// paid reports whether the trip's page is taken: by an earlier hop of the
// navigation, by an earlier try, or by a reservation. A redirect that came from
// elsewhere, such as from a cache around the Transport, has taken none.
func (trip *trip) paid() bool { return trip.hop != nil || trip.spent || trip.page }

// paidKey marks the context of a redirect response's request: with an *atomic.Bool
// that tells whether the request of the hop was made.
type paidKey struct{}

// checkBudget asks whether a request that starts at the given time is within the
// budget.
func (trip *trip) checkBudget(start time.Time) error {
	err := trip.bound(trip.t.budget.Check(trip.req.Context(), trip.host, start))
	if err == nil {
		return nil
	}
	return trip.overBudget(StageBudget, err)
}

// bound returns the budget's refusal if it binds the trip. Pages don't bind a hop
// or a further try: their navigation is paid.
func (trip *trip) bound(refusal error) error {
	if refusal == nil || !trip.paid() {
		return refusal
	}
	var be *budget.Error
	if errors.As(refusal, &be) && (be.Limit == budget.Pages || be.Limit == budget.PagesPerHost) {
		return nil
	}
	return refusal
}

// metered reports whether a wait may use up what the trip needs.
func (trip *trip) metered() bool { return trip.t.metered && !trip.exempt && trip.attempt > 0 }

// reserve takes a page for the navigation: one for all its hops and tries. For
// these it is asked only whether there is time and are bytes left.
func (trip *trip) reserve() error {
	switch {
	case trip.t.budget == nil || trip.exempt:
		return nil
	case trip.paid() && trip.t.metered:
		return trip.checkBudget(trip.asked)
	case trip.paid():
		return nil
	}
	warnings, err := trip.t.budget.Reserve(trip.req.Context(), trip.host)
	trip.warn(warnings)
	if err != nil {
		return trip.overBudget(StageBudget, err)
	}
	trip.page = true
	return nil
}

// refund gives the reserved page back: nothing was sent for it.
func (trip *trip) refund() {
	if trip.page {
		trip.page = false
		trip.t.budget.Refund(trip.req.Context(), trip.host)
	}
}

func (trip *trip) overBudget(stage Stage, err error) error {
	var be *budget.Error
	switch {
	case trip.silent:
	case errors.As(err, &be):
		d := trip.decision(evidence.BudgetExceeded, time.Now())
		d.Reason, d.Limit, d.Used, d.Max = err.Error(), be.Limit, be.Used, be.Max
		trip.record(&d)
	case stage == StageBudget: // a shared budget that couldn't be asked
		trip.recordFailure(err)
	}
	return trip.fail(stage, time.Time{}, err)
}

func (trip *trip) warn(warnings []budget.Warning) {
	if trip.silent {
		return
	}
	for _, w := range warnings {
		d := trip.decision(evidence.BudgetWarning, time.Now())
		d.Allowed = true
		d.Limit, d.Used, d.Max = w.Limit, w.Used, w.Max
		if w.Host != "" {
			d.Host = w.Host
		}
		trip.record(&d)
	}
}
