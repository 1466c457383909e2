package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
)

// Func makes a function an Evidence. Use it for a sink that needs no type.
type Func func(context.Context, Decision)

// Record calls f.
func (f Func) Record(ctx context.Context, d Decision) { f(ctx, d) }

// Multi returns an Evidence that passes each record on to all sinks in order, even when one of them
// panics. It leaves nil sinks out. Use it for a log and a console together.
func Multi(sinks ...Evidence) Evidence {
	return multi(slices.DeleteFunc(slices.Clone(sinks), func(e Evidence) bool { return e == nil }))
}

type multi []Evidence

// Record implements Evidence. It panics with the first panic of a sink, after all have had the
// record.
func (m multi) Record(ctx context.Context, d Decision) {
	var first any
	for _, e := range m {
		// A sink that panics doesn't keep the record from the sinks after it.
		first = cmp.Or(first, caught(func() { e.Record(ctx, d) }))
	}
	if first != nil {
		panic(first)
	}
}

// Err joins the errors of the sinks about the records that they have lost.
func (m multi) Err() error {
	var errs []error
	for _, e := range m {
		errs = append(errs, lost(e))
	}
	return errors.Join(errs...)
}

// Sample returns an Evidence that passes on the routine records of one trip in n. Routine records
// are robots_allowed, started, and fetched with a status below 400. Every other record is passed
// on, so that no refusal is dropped. If n is below 2, nothing is dropped. Use Sample to watch a
// crawl. It isn't for proof, because an auditor reports the missing records.
func Sample(n int, next Evidence) Evidence { return sample{next, uint64(max(n, 1))} }

type sample struct {
	next Evidence
	n    uint64
}

// Record implements Evidence.
func (s sample) Record(ctx context.Context, d Decision) {
	routine := d.Type == RobotsAllowed || d.Type == Started
	if d.Type == Fetched {
		routine = d.Status < 400
	}
	// All records of a trip are kept or dropped together.
	if !routine || d.Trip == 0 || d.Trip%s.n == 1%s.n {
		s.next.Record(ctx, d)
	}
}

// Err returns what the next sink says of records that it has lost.
func (s sample) Err() error { return lost(s.next) }

// A Guard stands between a crawl and an Evidence, so that no panic of the Evidence reaches the
// crawl. See [Safe].
type Guard struct {
	next Evidence

	mu   sync.Mutex
	lost int   // records that a panic cost
	err  error // first of the panics
}

// Safe returns a Guard that passes records on to next. If next is nil, the Guard drops them. You
// rarely need it, because politeness.New puts one around Config.Evidence.
//
// A panic of next costs that one record. The panic is recovered, counted, and reported by Err.
// Credentials in URLs are cut out.
func Safe(next Evidence) *Guard { return &Guard{next: next} }

// Record implements Evidence. It allocates nothing.
func (g *Guard) Record(ctx context.Context, d Decision) { g.Pass(ctx, &d) }

// Pass is Record without a copy of d, which is large. Use it if you don't need d afterwards. Pass
// changes d, because it cuts out credentials in place.
func (g *Guard) Pass(ctx context.Context, d *Decision) {
	if g.next == nil {
		return
	}
	d.sanitize()
	p := caught(func() { g.next.Record(ctx, *d) })
	if p != nil {
		// The lock is for the counters alone: next is never called under it.
		g.mu.Lock()
		defer g.mu.Unlock()
		g.lost++
		g.err = cmp.Or(g.err, fmt.Errorf("panic in Record of %T: %v", g.next, p))
	}
}

// Err returns nil if no record is known to be lost. Otherwise the error has the number of records
// lost to panics, and the first of these panics. If the sink has a method Err() error, as a [Log]
// has, the error also has the result of that method. Check it at the end of a crawl if you made the
// Guard.
func (g *Guard) Err() error {
	g.mu.Lock()
	n := g.lost
	err := g.err
	g.mu.Unlock()
	if n > 0 {
		err = fmt.Errorf("evidence: %d records lost: %w", n, err)
	}
	return errors.Join(err, lost(g.next))
}

// lost returns the error of e about the records that it has lost.
func lost(e Evidence) error {
	if teller, ok := e.(interface{ Err() error }); ok {
		return teller.Err()
	}
	return nil
}

// caught calls f, and returns the value of its panic, nil if it didn't panic.
func caught(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}

// A Recorder keeps all records in memory, for tests. Its zero value is ready to use, concurrently
// from many goroutines. It must not be copied.
type Recorder struct {
	mu        sync.Mutex
	decisions []Decision
}

// Record implements Evidence.
func (r *Recorder) Record(_ context.Context, d Decision) {
	d.sanitize()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions = append(r.decisions, d)
}

// Decisions returns the records so far in the order in which they came. It returns those of the
// given types, or all if no type is given. Use it in tests.
func (r *Recorder) Decisions(types ...Type) []Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A copy, since records still arrive.
	return slices.DeleteFunc(slices.Clone(r.decisions), func(d Decision) bool {
		return len(types) > 0 && !slices.Contains(types, d.Type)
	})
}

// Reset forgets the records so far. Call it between two parts of a test.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions = nil
}

// Slog returns an Evidence that logs each record to l. The type is the message, and the other
// members of its JSON are the attributes. Refusals are warnings. Waiting, fetched, robots_fetched
// and the like are information, which slog shows by default. Types robots_allowed and started are
// for debugging. The time of the log record is the time of logging. "timestamp" is the time of the
// decision. A nil l is slog.Default(). Use it if your program logs with slog.
func Slog(l *slog.Logger) Evidence {
	if l == nil {
		l = slog.Default()
	}
	return slogger{l}
}

type slogger struct{ l *slog.Logger }

// Record implements Evidence.
func (s slogger) Record(ctx context.Context, d Decision) {
	level := levelOf(&d)
	if s.l.Enabled(ctx, level) {
		d.sanitize()
		s.l.LogAttrs(ctx, level, string(d.Type), attrs(&d)...)
	}
}

func levelOf(d *Decision) slog.Level {
	switch {
	case d.Type == RobotsAllowed || d.Type == Started:
		return slog.LevelDebug
	case d.verb().tone < grave:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// attrs returns the members of d's JSON, but for the type.
func attrs(d *Decision) []slog.Attr {
	out := make([]slog.Attr, 0, 24)
	fields := reflect.ValueOf(*d)
	for i, m := range ofDecision[1:] {
		field := fields.Field(i + 1)
		if m.always || !field.IsZero() {
			out = append(out, slog.Any(m.name, field.Interface()))
		}
	}
	return out
}
