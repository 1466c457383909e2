package politeness

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/botauth"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/conntrace"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// punctual is how much later than its start a request may have its connection without being
// stamped anew: less than that is the machine's scheduling.
const punctual = time.Millisecond

// A wire is the way of one try to the site. The start that the turn gave was stamped when Base was
// called, and what the site sees is when the request arrives. So the wire is the context of the
// request that is sent, has a hook there for the moment at which the request gets its connection
// (httptrace's GotConn), and asks for the start anew where that moment comes late.
//
// Its states, and what a connection does in each:
//
//	called   the connection came at once: the start stands; sent
//	called   it came late, after a dial or a wait for MaxConnsPerHost: the start is given up and
//	         asked for anew, in place of the first; sent
//	sent     the request is sent again, as net/http has lost the connection or the site has asked for
//	         another signature: that is a further start; sent
//	refused  the new start was refused or its caller left: the request is cancelled, and every
//	         further connection closed; refused
//	closed   Base has returned: the hook does nothing, and where it waited for a start its connection
//	         is closed
//
// The hook runs in the goroutine that sends, in nearly all transports RoundTrip's own. A Base that
// calls no hooks keeps the start of the call.
type wire struct {
	context.Context // of the request that is sent
	cancel          context.CancelCauseFunc
	hooks           httptrace.ClientTrace // the caller's, and gotConn
	trip            *trip

	leave    atomic.Pointer[context.CancelFunc] // ends the last wait for a new start; nil before the first
	returned atomic.Bool                        // Base has returned; set before leave is called

	mu      sync.Mutex // held during the wait for a new start
	closed  bool
	sent    bool // a connection has carried the request, as far as the hook knows
	refused error
	last    departure
	earlier []departure // of connections that were lost
	socket  socket      // that carries the request until it is answered; nil: none whose close can be hurried
}

// newWire returns the way to the site for a try of the trip, whose start has just been stamped.
func (trip *trip) newWire() *wire {
	w := &wire{trip: trip, last: trip.grant}
	ctx := trip.req.Context()
	w.hooks = conntrace.Hooks(ctx, w.gotConn)
	w.Context, w.cancel = context.WithCancelCause(ctx)
	return w
}

// Value implements context.Context.
func (w *wire) Value(key any) any {
	switch key {
	case conntrace.Key:
		return &w.hooks
	case botauth.SignedContextKey:
		return w.signed
	}
	return w.Context.Value(key)
}

// signed is told by package botauth of each signature that is made for the request.
func (w *wire) signed(keyID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.last.signed = keyID
	}
}

// gotConn is told that the request has a connection, over which it will be sent once gotConn
// returns.
func (w *wire) gotConn(info httptrace.GotConnInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if w.refused == nil {
		err := w.depart()
		if err == nil {
			w.socket = socketOf(info.Conn)
			w.linger(0)
			return
		}
		if !w.returned.Load() { // else the request is over, and its answer may be being read
			w.refused = err
		}
	}
	if w.refused != nil {
		w.cancel(w.refused)
	}
	// net/http's HTTP/1 writes a request without looking at its context once more. HTTP/2 does
	// look, and its connection carries the requests of others.
	if info.Conn != nil && !speaksHTTP2(info.Conn) {
		info.Conn.Close()
	}
}

// A socket is what *net.TCPConn has, to say what becomes of data that isn't sent yet when it is
// closed.
type socket interface{ SetLinger(seconds int) error }

// socketOf returns the socket below a connection of HTTP/1, or nil.
func socketOf(c net.Conn) socket {
	if secure, ok := c.(*tls.Conn); ok {
		if speaksHTTP2(c) {
			return nil // it carries the requests of others
		}
		c = secure.NetConn()
	}
	s, _ := c.(socket)
	return s
}

// linger says how long the system goes on sending after the connection is closed: with 0 it stops
// at once, and with -1 it doesn't give up. A request that is given up while the network is cut, or
// whose process is killed then, would otherwise reach the site once the network is whole, beside
// what is sent in its place.
func (w *wire) linger(seconds int) {
	if w.socket != nil {
		_ = w.socket.SetLinger(seconds) // a connection that is lost already sends nothing
	}
}

func speaksHTTP2(c net.Conn) bool {
	secure, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// depart finds the start that holds for the connection that is at hand.
func (w *wire) depart() error {
	connect := time.Since(w.last.Start)
	again := w.sent
	if !again && connect <= punctual {
		w.sent = true
		return nil
	}
	ctx, leave := context.WithCancel(&w.trip.wait)
	defer leave()
	if w.trip.kind == kindRobots {
		_, sent := robotscache.Queue(w.Context) // our own wait isn't the origin's slowness
		defer sent()
	}
	w.leave.Store(&leave)
	if w.returned.Load() {
		leave()
	}
	if again {
		// The site may have seen the start before, so the gap to that holds as well.
		next := w.last.Start.Add(w.last.Delay)
		if time.Until(next) > longWait {
			w.trip.recordWait(hold{
				what: "delay", until: next, delay: w.last.Delay, source: w.last.DelaySource,
				why: "the connection was lost, and the request is sent once more",
			})
		}
		if err := sleepUntil(ctx, next, ErrBusy); err != nil {
			return err
		}
	}
	grant, err := w.trip.lease.Start(ctx)
	if err != nil {
		return err
	}
	next := departure{Grant: grant, connect: connect, signed: w.last.signed}
	if again {
		w.earlier = append(w.earlier, w.last)
	} else {
		next.instead = w.last.Seq
		next.TakenBack = append(w.last.TakenBack, next.TakenBack...)
		if next.Restored == nil {
			next.Restored = w.last.Restored
		}
		next.StateErr = cmp.Or(next.StateErr, w.last.StateErr)
		next.ByHand = cmp.Or(next.ByHand, w.last.ByHand)
	}
	w.last, w.sent = next, true
	return nil
}

// close ends the wire's part: Base has returned, and answered says whether with a response. Without
// one it may still be about to close the connection.
func (w *wire) close(answered bool) {
	w.returned.Store(true)
	if leave := w.leave.Load(); leave != nil {
		(*leave)() // a Base that asks several connections at once has chosen another
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if answered {
		w.linger(-1)
	}
	w.socket = nil
}

// sleepUntil waits until t. It returns an error if ctx ends before, and at once where ctx has a
// deadline that is before t: then it is a refused turn for the given reason.
func sleepUntil(ctx context.Context, t time.Time, why error) error {
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(t) {
		return &hostlimit.Error{RetryAt: t, Err: fmt.Errorf("%w, until after the deadline: %w", why, context.DeadlineExceeded)}
	}
	return sleep(ctx, d)
}

// sleep waits for d, or returns the error of ctx where that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
