package evidence

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// A Guard stands between a crawl and an Evidence, so that the crawl can't be
// harmed by it; see [Safe].
type Guard struct {
	next   Evidence
	closed bool // next makes no records itself, so that none are nested

	mu   sync.Mutex
	lost int
	err  error
}

// recording counts the calls of Record under way, of all Guards together: an
// Evidence may fetch through another Transport than the one that reports to it.
var recording atomic.Int32

// Safe returns a Guard that passes records on to next, nil for none. politeness.New
// puts one around Config.Evidence; there is no need to do it oneself.
//
// A panic of next costs that one record: it is recovered, counted, and reported
// by Err. A record that is made inside of a call of Record, because an Evidence
// fetches something through a Transport itself, could go round for ever: such
// records reach Logs and Recorders, which fetch nothing, also those inside of
// Multi, Sample and Redact, and are withheld from any other Evidence; that of a
// robots.txt that was fetched for it too, whoever uses it afterwards.
// A sink that fetches in a goroutine of its own isn't recognised: let it fetch by
// another client. Credentials in URLs are cut out.
func Safe(next Evidence) *Guard { return &Guard{next: next, closed: makesNone(next)} }

// Record implements Evidence. It allocates nothing.
func (g *Guard) Record(ctx context.Context, d Decision) { g.Pass(ctx, &d, g.Nested()) }

// Nested reports whether it is called inside of a call of Record. A Transport asks
// once for each request, since whatever comes of a request that an Evidence makes
// is made inside of it.
func (g *Guard) Nested() bool { return !g.closed && recording.Load() > 0 && insideSink() }

// Pass is Record without a copy of d, a large struct, for callers who are done
// with it and know whether it is nested: credentials are cut out in place.
func (g *Guard) Pass(ctx context.Context, d *Decision, nested bool) {
	if g.next == nil {
		return
	}
	d.redact()
	if !g.closed {
		recording.Add(1)
		defer recording.Add(-1)
	}
	if p := deliver(ctx, g.next, d, nested); p != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.lost++
		if g.err == nil {
			g.err = fmt.Errorf("panic in Record of %T: %v", g.next, p)
		}
	}
}

// Err returns nil if every record was taken, else how many were lost to panics,
// and the first of these.
func (g *Guard) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == 0 {
		return nil
	}
	return fmt.Errorf("evidence: %d records lost: %w", g.lost, g.err)
}

// deliver hands d to e and returns what e panicked with, nil if it didn't. It
// must have a frame of its own, which insideSink looks for.
//
//go:noinline
func deliver(ctx context.Context, e Evidence, d *Decision, nested bool) (panicked any) {
	defer func() { panicked = recover() }()
	if nested {
		recordNested(ctx, e, d)
	} else if f, ok := e.(Func); ok {
		f(ctx, *d) // not by Record, which would copy d once more
	} else {
		e.Record(ctx, *d)
	}
	return nil
}

// A nester is an Evidence that knows what to do with a record that was made
// inside of a call of Record: take it, or pass it on to those who can.
type nester interface {
	recordNested(ctx context.Context, d Decision)
}

// recordNested hands d to e only if e can take it without making more records.
func recordNested(ctx context.Context, e Evidence, d *Decision) {
	if n, ok := e.(nester); ok {
		n.recordNested(ctx, *d)
	}
}

// makesNone reports whether e and all that it passes records on to make none
// themselves. It looks at types, not at methods, which a sink that embeds a
// Recorder would have too.
func makesNone(e Evidence) bool {
	switch e := e.(type) {
	case *Log, *Recorder:
		return true
	case multi:
		return !slices.ContainsFunc(e, func(e Evidence) bool { return !makesNone(e) })
	case *sample:
		return makesNone(e.next)
	case *redactor:
		return makesNone(e.next)
	}
	return false
}

// deliverEntry is where the code of deliver starts.
var deliverEntry = runtime.FuncForPC(reflect.ValueOf(deliver).Pointer()).Entry()

// insideSink reports whether a call of deliver is on this goroutine's stack. The
// stack is the only mark that a sink can't lose on its way back to us: it may
// fetch with a context of its own. Reading it takes a few microseconds, so it is
// asked only while some call of Record is under way.
func insideSink() bool {
	var pcs [64]uintptr
	for skip := 3; ; skip += len(pcs) { // not Callers, insideSink, Nested
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == deliverEntry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
