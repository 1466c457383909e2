package politeness

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
)

// A fare says how a trip's page is paid for. All hops and tries of a navigation are one page.
type fare uint8

const (
	fareUnpaid   fare = iota
	fareReserved      // by a page that was reserved for this request
	fareFollowed      // by the navigation: the request is the first to follow its redirect
	fareSpent         // for good: a try was sent
)

// paidKey marks the context of a redirect response's request, with an *atomic.Bool:
// whether the request that follows was made.
type paidKey struct{}

// ticket returns the mark of the redirect that led to the request, nil if there is none: a redirect
// that came from elsewhere, such as from a cache around the Transport, has paid for no page.
func (trip *trip) ticket() *atomic.Bool {
	if r := trip.req.Response; r != nil && r.Request != nil {
		used, _ := r.Request.Context().Value(paidKey{}).(*atomic.Bool)
		return used
	}
	return nil
}

// issue puts a ticket on a redirect, by which the request that follows it tells that
// its page is paid for.
func (trip *trip) issue(resp *http.Response) {
	if trip.t.budget != nil && trip.kind == kindPage && resp.StatusCode/100 == 3 {
		resp.Request = trip.original.WithContext(context.WithValue(trip.original.Context(), paidKey{}, new(atomic.Bool)))
	}
}

// afford refuses at once when the budget is spent.
func (trip *trip) afford() error {
	if trip.t.budget == nil {
		return nil
	}
	if ticket := trip.ticket(); ticket != nil && !ticket.Swap(true) { // the next request for the hop is a page
		trip.fare = fareFollowed
	}
	return trip.checkBudget(time.Time{})
}

// checkBudget asks whether a request that starts at the given time, now if it is
// zero, is within the budget.
func (trip *trip) checkBudget(start time.Time) error {
	err := trip.bound(trip.t.budget.Check(trip.req.Context(), trip.host, start))
	if err == nil {
		return nil
	}
	return trip.overBudget(StageBudget, err)
}

// bound returns the budget's refusal if it binds the trip. Pages don't bind a
// navigation that is paid.
func (trip *trip) bound(refusal error) error {
	if refusal == nil {
		return nil
	}
	var be *budget.Error
	if trip.fare != fareUnpaid && errors.As(refusal, &be) && (be.Limit == budget.Pages || be.Limit == budget.PagesPerHost) {
		return nil
	}
	return refusal
}

// foresee finds the end of the budget's time, which bounds the wait for the turn: a
// turn that comes later is refused at once, see outlasts. While the budget's clock
// stands, reserving a page would start it, so the limiter is asked beforehand.
func (trip *trip) foresee() error {
	t := trip.t
	if trip.kind != kindPage || t.budget == nil || t.budget.Limits().Duration == 0 {
		return nil
	}
	if end := t.budgetEnd.Load(); end != nil {
		trip.wait.deadline = *end
		return nil
	}
	u, err := t.budget.Usage(trip.req.Context())
	if err != nil {
		return trip.overBudget(StageBudget, err)
	}
	if !u.Started.IsZero() {
		end := u.Started.Add(u.Limits.Duration)
		t.budgetEnd.Store(&end)
		trip.wait.deadline = end
		return nil
	}
	next, err := t.hosts.Next(trip.req.Context(), trip.host, trip.floor)
	if err != nil {
		return trip.noTurn(err)
	}
	return trip.checkBudget(next)
}

// outlasts returns the budget's refusal where a turn was refused because it could
// start no earlier than at the given time, which is after the budget's end.
func (trip *trip) outlasts(start time.Time, refusal error) error {
	if trip.wait.deadline.IsZero() || !errors.Is(refusal, context.DeadlineExceeded) {
		return nil
	}
	err := trip.checkBudget(start)
	if err == nil {
		trip.t.budgetEnd.Store(nil) // the end did move: a shared budget was made anew
	}
	return err
}

// reserve takes a page for the navigation: one for all its hops and tries. For these
// it is asked only whether there is time and are bytes left.
func (trip *trip) reserve() error {
	switch {
	case trip.t.budget == nil || trip.kind != kindPage:
		return nil
	case trip.fare != fareUnpaid:
		return trip.checkBudget(time.Time{})
	}
	warnings, err := trip.t.budget.Reserve(trip.req.Context(), trip.host)
	trip.warn(warnings)
	if err != nil {
		return trip.overBudget(StageBudget, err)
	}
	trip.fare = fareReserved
	return nil
}

// refund gives back what the trip was to pay with, unless a try was sent for it.
func (trip *trip) refund() {
	switch trip.fare {
	case fareReserved:
		trip.t.budget.Refund(trip.req.Context(), trip.host)
	case fareFollowed:
		trip.ticket().Store(false)
	}
}

// take implements bodyReader: it takes the piece from the budget, after the read and not before it:
// bytes that a slow server is yet to send are no other reader's loss. Page directives may refuse the
// body where the head of the page ends; a page whose head has no end is known only at the body's.
func (trip *trip) take(piece []byte, end bool) (n int, err error) {
	t, ctx := trip.t, trip.req.Context()
	if t.budget == nil || trip.kind != kindPage {
		n = len(piece)
	}
	for n < len(piece) && err == nil {
		var some int64
		some, err = t.budget.TakeBytes(ctx, int64(len(piece)-n))
		trip.warn(t.budget.SettleBytes(ctx, some, some))
		n += int(some)
	}
	if trip.index != nil && trip.index.write(piece[:n]) {
		if refused := trip.heedPage(); refused != nil {
			return 0, refused
		}
	}
	switch {
	case err != nil:
		err = trip.overBudget(StageBody, err)
	case end && trip.index != nil:
		err = trip.heedPage()
	}
	return n, err
}

func (trip *trip) overBudget(stage Stage, err error) error {
	var be *budget.Error
	switch {
	case trip.silent():
	case errors.As(err, &be):
		d := trip.decision(evidence.BudgetExceeded, time.Now())
		d.Reason, d.Limit, d.Used, d.Max = err.Error(), be.Limit, be.Used, be.Max
		d.Every = trip.t.budget.Limits().Every
		trip.record(&d)
	case stage == StageBudget: // a shared budget that couldn't be asked
		trip.recordFailure(err)
	}
	return trip.fail(stage, time.Time{}, err)
}

func (trip *trip) warn(warnings []budget.Warning) {
	if trip.silent() {
		return
	}
	for _, w := range warnings {
		d := trip.decision(evidence.BudgetWarning, time.Now())
		d.Allowed = true
		d.Limit, d.Used, d.Max, d.Every = w.Limit, w.Used, w.Max, trip.t.budget.Limits().Every
		trip.record(&d)
	}
}
