package politeness

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/internal/tally"
)

// newSubject returns a page of which nothing is recorded.
func newSubject(t *testing.T) *subject {
	return &subject{
		tally: new(tally.Tally), ctx: t.Context(), waits: t.Context(), kind: kindPage, method: http.MethodGet, attempt: 1,
		host: "example.com", target: &url.URL{Scheme: "https", Host: "example.com", Path: "/a"},
	}
}

// redirected returns a request that follows a redirect with the given mark.
func redirected(ctx context.Context, mark *redirectMark) *http.Request {
	hop := new(http.Request).WithContext(context.WithValue(ctx, (*redirectMark)(nil), mark))
	return &http.Request{Response: &http.Response{Request: hop}}
}

// TestChargePaysOnePage: each way of a request through the calls of its charge costs what it should.
func TestChargePaysOnePage(t *testing.T) {
	mark := new(redirectMark)
	for _, c := range []struct {
		name  string
		req   *http.Request
		sent  bool
		page  payment // at the end
		pages int64   // spent then
	}{
		{"refused after its turn", &http.Request{}, false, pageReserved, 0},
		{"sent", &http.Request{}, true, pageSpent, 1},
		{"first to follow a redirect, refused", redirected(t.Context(), mark), false, pageFollowed, 0},
		{"first to follow it in its place", redirected(t.Context(), mark), true, pageSpent, 0},
		{"second to follow it", redirected(t.Context(), mark), true, pageSpent, 1},
		{"first to follow one of another budget", redirected(t.Context(), new(redirectMark)), true, pageSpent, 1},
	} {
		b := budget.New(budget.Limits{Pages: 5})
		mark.budget = b
		charge := charge{subject: newSubject(t), budget: b, end: new(atomic.Pointer[time.Time])}
		charge.follow(c.req)
		if err := errors.Join(charge.afford(), charge.reserve(), charge.reserve()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.sent {
			charge.spend()
		}
		charge.refund()
		if u, _ := b.Usage(t.Context()); charge.page != c.page || u.Pages != c.pages {
			t.Errorf("%s: paid by %v, %d pages spent, want %v and %d", c.name, charge.page, u.Pages, c.page, c.pages)
		}
	}
}

// TestChargeWithoutABudgetCostsNothing holds for what isn't a page, too.
func TestChargeWithoutABudgetCostsNothing(t *testing.T) {
	charge := charge{subject: newSubject(t)}
	end, running, err := charge.deadline()
	if err := errors.Join(err, charge.afford(), charge.reserve(), charge.check(time.Now())); err != nil {
		t.Error(err)
	}
	before := charge.spend()
	charge.refund()
	if n, err := charge.take(7); n != 7 || err != nil || before != pageUnpaid || !end.IsZero() || !running {
		t.Errorf("%d bytes, %v; paid by %v, until %v, running %t", n, err, before, end, running)
	}
}

// TestChargeKnowsTheEndOnceItRuns: the first page starts the budget's clock, and the end is forgotten
// where it has moved.
func TestChargeKnowsTheEndOnceItRuns(t *testing.T) {
	b := budget.New(budget.Limits{Duration: time.Hour})
	charge := charge{subject: newSubject(t), budget: b, end: new(atomic.Pointer[time.Time])}
	if _, running, err := charge.deadline(); running || err != nil {
		t.Errorf("before the first page: running %t, %v", running, err)
	}
	begin := time.Now()
	if err := charge.reserve(); err != nil {
		t.Fatal(err)
	}
	end, running, err := charge.deadline()
	if !running || err != nil || end.Sub(begin) < time.Hour || end.Sub(begin) > time.Hour+time.Minute {
		t.Errorf("%v after the first page, running %t, %v", end.Sub(begin), running, err)
	}
	if err := charge.outlasts(end.Add(time.Second)); !errors.Is(err, ErrBudget) || charge.end.Load() == nil {
		t.Errorf("%v for a turn after the end", err)
	}
	if err := charge.outlasts(time.Now()); err != nil || charge.end.Load() != nil {
		t.Errorf("%v for a turn before the end, which is still %v", err, charge.end.Load())
	}
}
