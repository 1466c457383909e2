package redisbudget

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
)

//go:embed take.lua
var source string

var take = redis.NewScript(source)

// A request is one run of take.lua. Its seq makes it count once, however often it is sent.
type request struct {
	seq        int64
	host       string
	wantPages  int64
	wantHost   int64
	wantBytes  int64
	leastBytes int64
	backPages  int64
	backBytes  int64
	backHosts  map[string]int64
	start      bool
}

// lock waits for the right to call.
func (b *Budget) lock(ctx context.Context) error {
	select {
	case b.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle asks again what has no reply yet, because what it granted must not get
// lost, and reports whether there was such a thing. The caller has the right to call.
func (b *Budget) settle(ctx context.Context) (asked bool, err error) {
	b.mu.Lock()
	r := b.pending
	b.mu.Unlock()
	if r == nil {
		return false, nil
	}
	return true, b.do(ctx, r)
}

// ask takes a chunk of what isn't in hand: pages of host, or n bytes.
func (b *Budget) ask(ctx context.Context, host string, n int64, start bool) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer func() { <-b.asking }()
	if asked, err := b.settle(ctx); asked {
		return err // the caller looks again
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	if b.served(host, n) && (!start || !b.started.IsZero() && (b.timeAsked || !b.timeDue(time.Now()))) {
		b.mu.Unlock() // by another call, meanwhile
		return nil
	}
	r := b.request(host, n, start)
	b.mu.Unlock()
	return b.do(ctx, r)
}

// served reports whether what was asked for is in hand.
func (b *Budget) served(host string, n int64) bool {
	if n > 0 {
		return b.bytes.hand > 0
	}
	return b.pages.hand > 0 && (b.hosts == nil || b.host(host).hand > 0) && !b.bytesGone()
}

// request fills in what to ask for. The caller holds mu.
func (b *Budget) request(host string, n int64, start bool) *request {
	b.seq++
	r := &request{seq: b.seq, start: start}
	now := time.Now()
	if n > 0 {
		if b.bytes.hand == 0 {
			r.wantBytes, r.leastBytes = max(n, b.bytes.grow(now, firstBytes, mostBytes)), n
		}
		return r
	}
	if b.hosts != nil {
		r.host = host
	}
	if host == "" && !start {
		return r
	}
	if b.pages.hand == 0 {
		r.wantPages = b.pages.grow(now, firstPages, mostPages)
	}
	if b.hosts != nil {
		if h := b.host(host); h.hand == 0 {
			r.wantHost = h.grow(now, 1, mostPages)
		}
	}
	return r
}

// giveBack takes what is in hand into the request. The caller holds mu.
func (r *request) giveBack(b *Budget) {
	r.backPages, b.pages.hand = b.pages.hand, 0
	r.backBytes, b.bytes.hand = b.bytes.hand, 0
	for name, h := range b.hosts {
		if h.hand > 0 {
			if r.backHosts == nil {
				r.backHosts = make(map[string]int64)
			}
			r.backHosts[name] = h.hand
		}
		delete(b.hosts, name) // the server knows all about it
	}
}

func (r *request) gives() bool { return r.backPages > 0 || r.backBytes > 0 || len(r.backHosts) > 0 }

// replyFields is how many fields of a reply are read.
const replyFields = 9

// do calls the server and takes in its reply. The caller has the right to call.
func (b *Budget) do(ctx context.Context, r *request) error {
	b.mu.Lock()
	b.pending = r
	l, now := b.limits, time.Now()
	var known, elapsed int64
	if h := b.hosts[r.host]; h != nil {
		known = h.total
	}
	if !b.started.IsZero() {
		elapsed = now.Sub(b.started).Microseconds()
	}
	start := 0
	if r.start {
		start = 1
	}
	args := []any{
		b.proc, r.seq, b.id, b.parts, max(keep, l.Duration+24*time.Hour).Milliseconds(),
		l.Pages, l.PagesPerHost, l.Bytes, b.warnAt(l.Pages), b.warnAt(l.PagesPerHost), b.warnAt(l.Bytes),
		r.host, r.wantPages, r.wantHost, r.wantBytes, r.leastBytes, r.backPages, r.backBytes,
		b.pages.total, b.bytes.total, known, elapsed, start, b.warnTime().Microseconds(),
	}
	b.mu.Unlock()
	for name, n := range r.backHosts {
		args = append(args, name, n)
	}

	reply, err := take.Run(ctx, b.client, b.keys, args...).Slice()
	if err == nil && len(reply) < replyFields {
		err = fmt.Errorf("redisbudget: %q is no reply", reply) // by another version of take.lua, perhaps
	}
	if err != nil {
		return &ServerError{b.name, err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = nil
	b.id = text(reply[0])
	b.pages.total, b.bytes.total = number(reply[1]), number(reply[2])
	b.pages.hand += max(number(reply[5]), 0)
	b.bytes.hand += max(number(reply[7]), 0)
	if b.hosts != nil && r.host != "" {
		h := b.host(r.host)
		h.total = number(reply[3])
		h.hand += max(number(reply[6]), 0)
	}
	if us := number(reply[4]); us >= 0 {
		if at := time.Now().Add(-time.Duration(us) * time.Microsecond); b.started.IsZero() || at.Before(b.started) {
			b.started = at
		}
	}
	b.timeAsked = b.timeAsked || b.timeDue(time.Now())
	for _, limit := range text(reply[8]) {
		switch limit {
		case 'p':
			b.warnings = append(b.warnings, budget.Warning{Limit: budget.Pages, Used: b.pages.total, Max: l.Pages})
		case 'b':
			b.warnings = append(b.warnings, budget.Warning{Limit: budget.Bytes, Used: b.bytes.total, Max: l.Bytes})
		case 'h':
			b.warnings = append(b.warnings, budget.Warning{Limit: budget.PagesPerHost, Host: r.host, Used: number(reply[3]), Max: l.PagesPerHost})
		case 't':
			b.warnings = append(b.warnings, budget.Warning{
				Limit: budget.Time, Used: int64(time.Since(b.started) / time.Second), Max: int64(l.Duration / time.Second),
			})
		}
	}
	b.used = time.Now()
	if b.pages.hand > 0 || b.bytes.hand > 0 {
		b.watch()
	}
	return nil
}
