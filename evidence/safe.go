package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// A Guard stands between a crawl and an Evidence, so that no panic of the Evidence
// reaches the crawl; see [Safe].
type Guard struct {
	next Evidence

	mu   sync.Mutex
	lost int   // records that a panic cost
	err  error // first of the panics
}

// Safe returns a Guard that passes records on to next, nil for none. politeness.New
// puts one around Config.Evidence; there is no need to do it oneself.
//
// A panic of next costs that one record: it is recovered, counted, and reported by
// Err. Credentials in URLs are cut out.
func Safe(next Evidence) *Guard { return &Guard{next: next} }

// Record implements Evidence. It allocates nothing.
func (g *Guard) Record(ctx context.Context, d Decision) { g.Pass(ctx, &d) }

// Pass is Record without a copy of d, a large struct, for callers that are done with
// it: credentials are cut out in place.
func (g *Guard) Pass(ctx context.Context, d *Decision) {
	if g.next == nil {
		return
	}
	d.sanitize()
	if p := caught(func() { g.next.Record(ctx, *d) }); p != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.lost++
		g.err = cmp.Or(g.err, fmt.Errorf("panic in Record of %T: %v", g.next, p))
	}
}

// Err returns nil if no record was lost, as far as anybody knows. Otherwise it says how many were
// lost to panics, and the first of these, and what the sinks say themselves: a sink that can lose
// records has a method Err() error, as a [Log] has.
func (g *Guard) Err() error {
	g.mu.Lock()
	n, err := g.lost, g.err
	g.mu.Unlock()
	if n > 0 {
		err = fmt.Errorf("evidence: %d records lost: %w", n, err)
	}
	return errors.Join(err, lost(g.next))
}

// lost returns what e says of records that it has lost.
func lost(e Evidence) error {
	if teller, ok := e.(interface{ Err() error }); ok {
		return teller.Err()
	}
	return nil
}

// caught calls f, and returns what f panicked with, nil if it didn't.
func caught(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}
