package politeness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/contexts"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/robots"
)

// A turn is a request's share of its host: a lease, which holds a slot, and the starts of its try.
type turn struct {
	subject  *subject
	wait     waitContext        // of every wait before the request is sent
	exchange *contexts.Exchange // of a request with a length of its own, see Config.Timeouts; nil: it has none
	floor    time.Duration      // delay that robots.txt asks for
	blind    bool               // robots.txt isn't known yet, and so no such delay
	visited  time.Duration      // time waited for the Visit-time of robots.txt
	late     bool               // the lease came noticeably later than the verdict, which may have changed
	open     *openBodies        // of the Transport
	lease    hostlimit.Lease    // nil before the turn, and once the body has it
	start    start              // of the try; its Start is zero before
	sent     int                // starts of all tries, those of net/http's resends included
	maxSent  int                // by Config.Retry; 0: none, resends are net/http's own
	vain     givenUp            // at the connection, if no other start replaced it
	earlier  []start            // starts of the try whose connections were lost before that
}

// A start is one start of a try.
type start struct {
	hostlimit.Grant
	instead  givenUp       // start that this one replaced
	connect  time.Duration // from the call of Base, or the start before, to the connection; 0: at once
	keyID    string        // id of the key that signed the request; empty: none did
	recorded bool          // in evidence
}

// A givenUp is a start that was given up before anything was sent; zero: none was.
type givenUp struct {
	seq uint64
	at  time.Time // by the limiter's clock
}

func (st *start) givenUp() givenUp { return givenUp{st.Seq, cmp.Or(st.At, st.Start)} }

// A waitCause is the reason of a wait, for a record.
type waitCause struct {
	hold   string    // evidence.Decision.Hold
	until  time.Time // zero: not known
	delay  time.Duration
	source string // of delay
	why    string
}

// errNoTry: the connection was lost after the last try that Config.Retry allows.
var errNoTry = errors.New("the connection was lost, and no further try is left (Config.Retry)")

// longWait is the length from which on a wait is recorded, as a Limiter reports its own.
const longWait = time.Second

// errClosed: the present time is outside of the Visit-time lines of robots.txt.
var errClosed = fmt.Errorf("outside of the Visit-time of robots.txt: %w", ErrBlocked)

// visit waits until one of hours, the Visit-time of robots.txt, begins. As for a blocked host, a
// wait that is longer than maxWait, or ends after the caller's deadline, is refused.
func (t *turn) visit(hours []robots.Window, maxWait time.Duration) error {
	s := t.subject
	now := time.Now()
	opens := opens(hours, now)
	if !opens.After(now) {
		return nil
	}
	// A frontier comes back at RetryAt, and must not wait here until the next night.
	if opens.Sub(now) > maxWait {
		return &hostlimit.Error{Key: s.host, RetryAt: opens, Err: errClosed}
	}
	// The log must show a reader why nothing happens.
	if opens.Sub(now) > longWait {
		t.recordWait(waitCause{hold: "visit-time", until: opens, why: "outside of the Visit-time of robots.txt"})
	}
	// The limiter doesn't know of this wait, so the status has it from the tally.
	s.tally.Visit(s.host, 1, opens)
	defer s.tally.Visit(s.host, -1, opens)
	if err := sleepUntil(&t.wait, opens, errClosed); err != nil {
		return err
	}
	t.visited += time.Since(now)
	return nil
}

// acquire waits for a slot and for the start time. The second try goes first. After a pause of the
// host, it shows whether the host fails or only this page.
func (t *turn) acquire(hosts hostlimit.Limiter) error {
	t.start = start{}
	t.earlier = nil
	ctx := context.Context(&t.wait)
	if t.subject.attempt == 2 {
		p := hostlimit.Priority(ctx)
		ctx = hostlimit.WithPriority(ctx, max(p, p+1)) // beyond the highest there is none
	}
	floor := t.floor
	if t.blind {
		floor = hostlimit.FloorUnknown
	}
	t.wait.state.Store(acquires)
	defer t.wait.acquired()
	lease, err := hosts.Acquire(ctx, t.subject.host, floor)
	if err == nil { // a wrapper may return a Lease around nothing beside its error
		t.lease = lease
	}
	return err
}

// begin stamps the start. Nothing but the call of Base comes between the stamp and the request.
func (t *turn) begin() error {
	grant, err := t.lease.Start(&t.wait)
	if err != nil {
		t.release() // without a start the slot would be held for nothing
		return err
	}
	t.start = start{Grant: grant}
	t.sent++
	t.subject.tally.Starts.Add(1)
	return nil
}

// recordVain records that the number of a start will not be used.
func (t *turn) recordVain(st givenUp) {
	if st.seq != 0 {
		t.subject.report(evidence.Failed, func(d *evidence.Decision) {
			d.Reason = "given up at its connection"
			d.Instead = st.seq
			d.InsteadAt = st.at
		})
	}
}

// giveLease returns the lease, which the caller is to release.
func (t *turn) giveLease() hostlimit.Lease {
	lease := t.lease
	t.lease = nil
	return lease
}

// release releases the lease.
func (t *turn) release() { t.giveLease().Release() }

// leave releases a lease that led to no exchange, and records why.
func (t *turn) leave(why string) {
	now := time.Now() // before the slot is free
	started := !t.start.Start.IsZero()
	defer t.subject.report(evidence.Failed, func(d *evidence.Decision) {
		d.Time = now
		d.Reason = why
		if started {
			d.Seq = t.start.Seq
			d.Start = t.start.Start
			d.Duration = now.Sub(t.start.Start)
		}
	})
	defer t.release() // even if a sink panics
	if started {
		t.recordStart()
	}
}

// recordStart records the starts of the try, once. It is called when the request is out: a slow
// sink between the stamp and the sending would bring two requests closer together than their
// stamps.
func (t *turn) recordStart() {
	if t.subject.recorder == nil {
		return
	}
	// Each start after the first was needed for another connection.
	typ := evidence.Started
	for i := range t.earlier {
		t.record(typ, &t.earlier[i])
		typ = evidence.Resent
	}
	t.record(typ, &t.start)
}

func (t *turn) record(typ evidence.Type, st *start) {
	if st.recorded {
		return
	}
	s := t.subject
	st.recorded = true // also if a sink panics, so that no start has two records
	t.recordNews(st)
	// An auditor checks the record by the limits, so these are recorded first.
	s.recorder.Limits(s.ctx, s.host, &st.Grant)
	d := evidence.Decision{
		Allowed:      true,
		From:         s.from,
		Window:       s.window,
		Seq:          st.Seq,
		Start:        st.Start,
		At:           st.At,
		Prev:         st.Prev,
		Instead:      st.instead.seq,
		InsteadAt:    st.instead.at,
		Slot:         st.Slot,
		Slots:        st.Slots,
		Probe:        st.Probe,
		WaitSlot:     st.WaitSlot,
		WaitDelay:    st.WaitDelay,
		WaitBlock:    st.WaitBlock + t.visited,
		WaitConnect:  st.connect,
		Delay:        st.Delay,
		DelaySource:  st.DelaySource,
		CrawlDelay:   t.floor,
		BlockedUntil: st.BlockedUntil,
		Signed:       st.keyID,
		Conditional:  s.revisits,
		Due:          s.due,
		Proof:        s.call != nil && s.call.Proof,
	}
	s.describe(&d, typ, st.Start)
	t.visited = 0 // it was before the first start alone
	s.recorder.Pass(s.ctx, &d)
}

// recordNews records the limiter's reports that come with a start, once: see hostlimit.Grant.
func (t *turn) recordNews(st *start) {
	t.subject.recorder.TakenBack(t.subject.ctx, st.TakenBack, st.Start)
	t.subject.news(st.Restored, st.StateErr, st.ByHand)
	st.TakenBack = nil
	st.Restored = nil
	st.StateErr = nil
	st.ByHand = nil
}

// recordWait records a long wait that has begun.
func (t *turn) recordWait(c waitCause) {
	t.subject.report(evidence.Waiting, func(d *evidence.Decision) {
		d.Allowed = true
		d.CrawlDelay = t.floor
		d.Hold = c.hold
		d.Until = c.until
		d.Delay = c.delay
		d.DelaySource = c.source
		d.Reason = c.why
	})
}

// Waits implements hostlimit.Watcher.
func (t *turn) Waits(w hostlimit.Wait) {
	c := waitCause{hold: w.Hold, until: w.Until, why: w.String()}
	if w.Hold == "delay" { // only then is the cause a rule of a delay
		c.delay = w.Delay
		c.source = w.Cause
	}
	t.recordWait(c)
}

// String implements hostlimit.Watcher: it returns the URL of the request that holds a slot.
func (t *turn) String() string { return t.subject.url }

// A waitContext bounds the waits of a request, and has its turn as the Watcher.
type waitContext struct {
	contexts.Wait
	turn  *turn
	state atomic.Int32 // of the wait for a lease
}

// The states of a waitContext.
const (
	idle     int32 = iota
	acquires       // Acquire was called
	waits          // Acquire waits
)

// Done implements context.Context. Acquire calls it when it begins to wait. Then openBodies looks
// for bodies that nobody uses but that hold slots.
func (w *waitContext) Done() <-chan struct{} {
	if w.state.CompareAndSwap(acquires, waits) {
		w.turn.open.wait(w.turn.subject.host, 1)
	}
	return w.Wait.Done()
}

// acquired ends the wait for a lease.
func (w *waitContext) acquired() {
	if w.state.Swap(idle) == waits {
		w.turn.open.wait(w.turn.subject.host, -1)
	}
}

// Value implements context.Context.
func (w *waitContext) Value(key any) any {
	// Without a recorder, the limiter needs no timer and no calls of a Watcher.
	switch {
	case key != (*hostlimit.Watcher)(nil):
		return w.Wait.Value(key)
	case w.turn.subject.recorder == nil:
		return (*turnName)(w.turn)
	}
	w.turn.subject.text() // other goroutines read it later
	return w.turn
}

// A turnName is a turn that the limiter doesn't report to, and can name.
type turnName turn

// String implements fmt.Stringer: it returns the URL of the request that holds a slot.
func (t *turnName) String() string { return weburl.Text(t.subject.target) }

// sleepUntil waits until t. It returns an error if ctx ends before. If ctx has a deadline before t,
// it returns a refusal with the reason why immediately.
func sleepUntil(ctx context.Context, t time.Time, why error) error {
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	// A wait that must end after the deadline isn't begun.
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(t) {
		late := fmt.Errorf("%w, until after the deadline: %w", why, context.DeadlineExceeded)
		return &hostlimit.Error{RetryAt: t, Err: late}
	}
	return contexts.Sleep(ctx, d)
}
