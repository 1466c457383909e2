package politeness

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/recorder"
)

// A charge is the cost of a request to the budget: a page, and the bytes of its body.
type charge struct {
	subject *subject
	budget  budget.Budget              // nil: the request costs nothing
	end     *atomic.Pointer[time.Time] // end of the budget's time, nil until it is known; all requests share it
	page    payment
	mark    *redirectMark // of the redirect that the request follows; nil: none
}

// A payment says how a request's page is paid for. All hops and tries of a navigation are one page.
type payment uint8

const (
	pageUnpaid   payment = iota
	pageReserved         // by a page that was reserved for this request
	pageFollowed         // by the navigation: the request is the first to follow its redirect
	pageSpent            // for good: a try was sent
)

// A redirectMark is in the context of a redirect response's request, under the key
// (*redirectMark)(nil).
type redirectMark struct {
	recorder *recorder.Recorder // of the Transport
	budget   budget.Budget      // of the Transport; nil: none
	id       uint64             // of the request that was redirected
	length   time.Duration      // of an exchange, by http.Client.Timeout; 0: not known
	followed atomic.Bool        // the request that follows the redirect was made
}

// markRedirect puts a redirectMark on a redirect, so that the page of the request that follows it
// is paid for, its records name the redirect, and its exchange may take as long. original is the
// caller's request.
func (c *charge) markRedirect(resp *http.Response, original *http.Request, length time.Duration) {
	s := c.subject
	// Without a budget, evidence and a timeout, the origin of a redirect isn't needed.
	isOfUse := c.budget != nil || s.recorder != nil || length > 0
	if resp.StatusCode/100 != 3 || !isOfUse {
		return
	}
	mark := &redirectMark{recorder: s.recorder, budget: c.budget, id: s.id, length: length}
	resp.Request = original.WithContext(context.WithValue(original.Context(), (*redirectMark)(nil), mark))
}

// follow finds the mark of the redirect that req follows.
func (c *charge) follow(req *http.Request) {
	c.mark = markOf(req)
	// The ids of another Transport's requests mean nothing in the log of this one.
	if s := c.subject; c.mark != nil && c.mark.recorder == s.recorder {
		s.from = c.mark.id
	}
}

// markOf returns the mark of the redirect that req follows, nil if there is none.
func markOf(req *http.Request) *redirectMark {
	if req.Response == nil || req.Response.Request == nil {
		return nil
	}
	mark, _ := req.Response.Request.Context().Value((*redirectMark)(nil)).(*redirectMark)
	return mark
}

// afford refuses the request at once when the budget is spent. A redirect without a mark of this
// budget, such as one of a cache around the Transport, has paid for no page.
func (c *charge) afford() error {
	// The first request that follows a redirect continues with its page; a second one is a page.
	if c.isMarked() && !c.mark.followed.Swap(true) {
		c.page = pageFollowed
	}
	return c.check(time.Time{})
}

// isMarked reports whether the request follows a redirect whose page this budget has counted.
func (c *charge) isMarked() bool {
	if c.mark == nil || c.budget == nil {
		return false
	}
	return reflect.ValueOf(c.budget).Comparable() && c.mark.budget == c.budget
}

// check refuses a request if its start isn't within the budget. A zero start is now.
func (c *charge) check(start time.Time) error {
	if err := c.refusal(start); err != nil {
		return c.exceeded(StageBudget, err)
	}
	return nil
}

// refusal returns the budget's error for a request that starts at the given time. Limits of pages
// don't bind a navigation that is paid.
func (c *charge) refusal(start time.Time) error {
	if c.budget == nil {
		return nil
	}
	err := c.budget.Check(c.subject.ctx, c.subject.host, start)
	c.tellLoss()
	if err == nil || c.page == pageUnpaid {
		return err
	}
	// Time and bytes are checked before pages, so after an error about pages both are left.
	be, ok := errors.AsType[*budget.Error](err)
	if ok && (be.Limit == budget.Pages || be.Limit == budget.PagesPerHost) {
		return nil
	}
	return err
}

// deadline returns the end of the budget's time, zero if it has none. running is false before the
// first page, which starts the budget's clock.
func (c *charge) deadline() (end time.Time, running bool, err error) {
	if c.budget == nil || c.budget.Limits().Duration == 0 {
		return end, true, nil
	}
	// All requests share the end, so that a budget on another machine is asked for it once.
	if end := c.end.Load(); end != nil {
		return *end, true, nil
	}
	u, err := c.budget.Usage(c.subject.ctx)
	if err != nil {
		return end, false, c.exceeded(StageBudget, err)
	}
	if u.Started.IsZero() {
		return end, false, nil
	}
	known := u.Started.Add(u.Limits.Duration)
	c.end.Store(&known)
	return known, true, nil
}

// outlasts refuses a request whose earliest start is start, if the budget's time is over then. It
// returns nil if the end has moved, because a shared budget was renewed.
func (c *charge) outlasts(start time.Time) error {
	err := c.check(start)
	if err == nil {
		c.end.Store(nil) // the next request asks the budget for its new end
	}
	return err
}

// reserve takes a page for the navigation: one for all its hops and tries. For a further one it
// only checks that there are time and bytes left.
func (c *charge) reserve() error {
	if c.budget == nil || c.page != pageUnpaid {
		return c.check(time.Time{})
	}
	warnings, err := c.budget.Reserve(c.subject.ctx, c.subject.host)
	c.warn(warnings)
	c.tellLoss()
	if err != nil {
		return c.exceeded(StageBudget, err)
	}
	// By the window, refund knows after a wait across midnight that the page is of yesterday's
	// budget.
	c.page = pageReserved
	c.subject.window = c.budget.Window()
	return nil
}

// spend makes the page spent, as a try is sent. It returns the payment before, for a try that
// hasn't reached the site.
func (c *charge) spend() payment {
	before := c.page
	if before != pageUnpaid {
		c.page = pageSpent
	}
	return before
}

// refund gives back the page that the request has reserved, or its place behind a redirect, unless
// it is spent.
func (c *charge) refund() {
	switch {
	case c.page == pageReserved && c.subject.window.Equal(c.budget.Window()):
		c.budget.Refund(c.subject.ctx, c.subject.host)
	case c.page == pageFollowed:
		c.mark.followed.Store(false) // a second try of the caller's may follow the redirect
	}
}

// take takes n bytes of a body from the budget, and returns how many it gave, and why no more.
func (c *charge) take(n int) (taken int, err error) {
	if c.budget == nil {
		return n, nil
	}
	// A budget on another machine may give fewer bytes than are left.
	for taken < n && err == nil {
		var some int64
		var warnings []budget.Warning
		some, warnings, err = c.budget.TakeBytes(c.subject.ctx, int64(n-taken))
		c.warn(warnings)
		c.tellLoss()
		taken += int(some)
	}
	return taken, err
}

// renewal returns when Limits.Every renews the budget; zero if it is spent once.
func (c *charge) renewal() time.Time {
	window := c.budget.Window()
	if window.IsZero() {
		return window
	}
	return window.Add(c.budget.Limits().Every)
}

// exceeded records the budget's refusal, or that a shared budget failed, and returns its error.
func (c *charge) exceeded(stage Stage, err error) error {
	var renewed time.Time
	if be, ok := errors.AsType[*budget.Error](err); ok {
		c.subject.report(evidence.BudgetExceeded, func(d *evidence.Decision) {
			d.Reason = err.Error()
			d.Limit = be.Limit
			d.Used = be.Used
			d.Max = be.Max
			d.Every = c.budget.Limits().Every
			d.Window = c.budget.Limits().Window(d.Time)
		})
		renewed = c.renewal()
	} else if stage == StageBudget {
		// The budget couldn't be reached. For a body, the record of the exchange's end has the reason.
		return c.subject.giveUp(stage, err, givenUp{})
	}
	return c.subject.fail(stage, renewed, err)
}

// tellLoss reports why a budget that is kept over processes couldn't be read or kept, once for each
// cause. Meanwhile the budget counts in the memory of this process.
func (c *charge) tellLoss() {
	if kept, ok := c.budget.(interface{ Lost() error }); ok {
		c.subject.lose(kept.Lost())
	}
}

func (c *charge) warn(warnings []budget.Warning) {
	for _, w := range warnings {
		c.subject.report(evidence.BudgetWarning, func(d *evidence.Decision) {
			d.Allowed = true
			d.Limit = w.Limit
			d.Used = w.Used
			d.Max = w.Max
			d.Every = c.budget.Limits().Every
		})
	}
}
