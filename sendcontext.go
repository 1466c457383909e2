package politeness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/botauth"
	"github.com/go-politeness/politeness/internal/conntrace"
	"github.com/go-politeness/politeness/internal/contexts"
	"github.com/go-politeness/politeness/internal/pagehead"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// punctual is how much later than its start a request may have its connection without being
// stamped anew: less than that is the machine's scheduling.
const punctual = time.Millisecond

// A sendContext is the context of the request that is sent: the caller's, with a hook for the
// moment at which the request gets its connection (httptrace's GotConn). The start that the turn
// gave was stamped when Base was called, but the site sees the request's arrival. So if the
// connection comes late, the hook asks for a new start. These are its states, the effect of a
// connection in each, and the next state:
//
//	idle     Base isn't called yet: the context has no hook
//	called   the connection came at once: the start stands; sent
//	called   it came late, after a dial or a wait for MaxConnsPerHost: a new start replaces the
//	         first; sent
//	sent     the request is sent again, as net/http has lost the connection or the site has asked for
//	         another signature: that is a further start; sent
//	refused  the new start was refused, also by a change meanwhile, or its caller left: the
//	         request is cancelled, and every further connection closed; refused
//	any      Base asks for more connections than mostOpened: the request is cancelled, and has failed
//	closed   Base has returned: the hook does nothing. If it waited for a start, its connection is
//	         closed
//
// The hook runs in the goroutine that sends, which nearly always is RoundTrip's. A Base that calls
// no hooks keeps the start of the call.
type sendContext struct {
	contexts.Cancelable
	turn  *turn
	head  *pagehead.Head // head that headOf finds in a response; may be nil
	rules interface {    // of the trip: they refuse a late start, and note the connection
		recheck(start time.Time, waited bool) error
		connected(conn net.Conn)
	}
	called atomic.Bool           // Base is being called; false: idle
	hooks  httptrace.ClientTrace // the caller's, and gotConn

	guard *headerGuard // of a fetch of robots.txt; nil: the request is another one

	leave    atomic.Pointer[context.CancelFunc] // ends the last wait for a new start; nil before the first
	returned atomic.Bool                        // Base has returned; set before leave is called
	opened   atomic.Int32                       // connections that Base has asked for and didn't have yet
	excess   atomic.Bool                        // it has asked for one more than mostOpened

	mu      sync.Mutex // held during the wait for a new start; until closed, guards turn.start and turn.earlier
	closed  bool
	sent    bool // a connection has carried the request, as far as the hook knows
	refused refusedStart
	socket  conntrace.Socket // that carries the request until it is answered
}

// A refusedStart is the reason why a request with a connection may not start; zero: it may.
type refusedStart struct {
	err    error
	unused givenUp // start that was granted, and then refused by a change: err is on record then
}

// open makes the hook count, as Base is about to be called.
func (c *sendContext) open() {
	c.hooks = conntrace.Hooks(c.Context, c.getConn, c.gotConn)
	if c.turn.subject.kind == kindRobots {
		c.guard = new(headerGuard)
		c.guard.watch(c)
	}
	c.called.Store(true)
}

// Value implements context.Context.
func (c *sendContext) Value(key any) any {
	switch key {
	case conntrace.Key:
		if c.called.Load() {
			return &c.hooks
		}
	case botauth.SignedContextKey:
		if c.called.Load() {
			return c.signed
		}
	case (*sendContext)(nil):
		return c
	case (*pagehead.Head)(nil):
		if c.head != nil {
			return c.head
		}
	}
	return c.Cancelable.Value(key)
}

// Deadline implements context.Context.
func (c *sendContext) Deadline() (time.Time, bool) {
	deadline, ok := c.Cancelable.Deadline()
	ends := c.turn.exchange.Ends()
	if !ends.IsZero() && (!ok || ends.Before(deadline)) {
		return ends, true
	}
	return deadline, ok
}

// signed is called by package botauth at each signature that is made for the request.
func (c *sendContext) signed(keyID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.turn.start.keyID = keyID
	}
}

// mostOpened is how many connections a try may open: net/http continues opening them, at no pace,
// if a server closes each before it is used.
const mostOpened = 3

// errOpened: the request was given up at the connection after mostOpened.
var errOpened = fmt.Errorf("politeness: given up after %d connections for one request, "+
	"all without a response", mostOpened)

// opened returns the failure of a request that was given up with errOpened, for which Base has
// returned err. It wraps err if that is the reason why Base has asked for one connection after the
// other.
func opened(err error) error {
	// This error comes from our own cancel. It says nothing about the connections, and looks as if
	// the caller had left.
	if errors.Is(err, errOpened) || errors.Is(err, context.Canceled) {
		return errOpened
	}
	return fmt.Errorf("%w: %w", errOpened, err)
}

// getConn is called when Base asks for a connection, one that it has or a new one.
func (c *sendContext) getConn(string) {
	// A connection that was kept is counted here as well, and taken off in gotConn.
	if c.opened.Load() < mostOpened {
		c.opened.Add(1)
	} else if !c.excess.Swap(true) {
		c.Cancel(errOpened)
	}
}

// gotConn is called when the request has a connection, over which it is sent once gotConn returns.
func (c *sendContext) gotConn(info httptrace.GotConnInfo) {
	if info.Reused {
		c.opened.Add(-1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if c.refused.err == nil {
		refused := c.restart()
		if refused.err == nil {
			// A request that is given up while the network is down, or whose process is killed
			// then, would otherwise reach the site later, beside the request that replaces it.
			c.socket = conntrace.SocketOf(info.Conn)
			c.socket.Discard()
			c.rules.connected(info.Conn)
			return
		}
		if !c.returned.Load() { // else the request is over, and its answer may be being read
			c.refused = refused
		}
	}
	if c.refused.err != nil {
		c.Cancel(c.refused.err)
	}
	// net/http's HTTP/1 writes a request without looking at its context once more. HTTP/2 does
	// look, and its connection carries the requests of others.
	if info.Conn != nil && !conntrace.SpeaksHTTP2(info.Conn) {
		info.Conn.Close()
	}
}

// restart makes turn.start the start that holds for the connection at hand.
func (c *sendContext) restart() refusedStart {
	turn := c.turn
	last := &turn.start
	connect := time.Since(last.Start)
	resent := c.sent
	// The connection was there at once, so the site sees the request at the stamped start.
	if !resent && connect <= punctual {
		c.sent = true
		return refusedStart{}
	}
	ctx, leave := context.WithCancel(&turn.wait)
	defer leave()
	rest := turn.exchange.Pause() // the wait is none of the exchange's time
	defer func() { turn.exchange.Resume(rest) }()
	if turn.subject.kind == kindRobots {
		_, sent := robotscache.Queue(c.Context) // our own wait isn't the origin's slowness
		defer sent()
	}
	// close ends the wait. It may have come before leave was there for it.
	c.leave.Store(&leave)
	if c.returned.Load() {
		leave()
	}
	if resent {
		if err := c.awaitResend(ctx, last); err != nil {
			return refusedStart{err: err}
		}
	} else {
		turn.recordNews(last) // the rest of this start isn't recorded
	}
	asked := time.Now()
	grant, err := turn.lease.Start(ctx)
	if err != nil {
		return refusedStart{err: err}
	}
	next := start{Grant: grant, connect: connect, keyID: last.keyID}
	if !resent {
		next.instead = last.givenUp()
	}
	if err := c.rules.recheck(grant.Start, time.Since(asked) > punctual); err != nil {
		return refusedStart{err: err, unused: next.givenUp()}
	}
	// A resend by net/http is a further start. A start that moved takes the place of the first.
	if resent {
		turn.earlier = append(turn.earlier, *last)
		turn.sent++
		turn.subject.tally.Starts.Add(1)
	}
	turn.start = next
	c.sent = true
	return refusedStart{}
}

// awaitResend waits until the request may be sent again. Its connection was lost after the start
// last.
func (c *sendContext) awaitResend(ctx context.Context, last *start) error {
	turn := c.turn
	if turn.maxSent > 0 && turn.sent >= turn.maxSent {
		return errNoTry
	}
	turn.recordStart() // before anything can forbid a further start
	// The site may have seen the previous start, so the gap after that one applies as well.
	until := last.Start.Add(last.Delay)
	if time.Until(until) > longWait {
		turn.recordWait(waitCause{
			hold:   "delay",
			until:  until,
			delay:  last.Delay,
			source: last.DelaySource,
			why:    "the connection was lost, and the request is sent once more",
		})
	}
	return sleepUntil(ctx, until, ErrBusy)
}

// close ends the hook's part, because Base has returned. answered says that Base returned a
// response. Without a response it may still be about to close the connection.
func (c *sendContext) close(answered bool) {
	c.returned.Store(true)
	if leave := c.leave.Load(); leave != nil {
		(*leave)() // a Base that asks several connections at once has chosen another
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if answered {
		c.socket.Deliver()
	}
	c.socket = conntrace.Socket{}
}
