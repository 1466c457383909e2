package redislimit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A ledger is a Watcher that keeps the numbers that its requests give up.
type ledger chan uint64

func (ledger) Waits(hostlimit.Wait) {}
func (l ledger) GivesUp(seq uint64) { l <- seq }
func (ledger) String() string       { return "" }
func (l ledger) of(ctx context.Context) context.Context {
	return context.WithValue(ctx, (*hostlimit.Watcher)(nil), l)
}

// TestANumberWithoutAStartIsGivenUp: another process has had the next number by then, so that nobody
// gets this one any more.
func TestANumberWithoutAStartIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]func(t *testing.T, ctx context.Context, l *Limiter, post *courier, next func()){
		"released without a start": func(t *testing.T, ctx context.Context, l *Limiter, _ *courier, next func()) {
			lease, err := l.Acquire(ctx, "a.example", 0)
			if err != nil {
				t.Fatal(err)
			}
			next()
			lease.Release()
		},
		"started too late": func(t *testing.T, ctx context.Context, l *Limiter, _ *courier, next func()) {
			lease, err := l.Acquire(ctx, "a.example", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
			next()
			if g, err := lease.Start(ctx); err != nil || g.Seq != 3 {
				t.Errorf("%d, %v", g.Seq, err)
			}
		},
		"never started, for a Start that was cancelled": func(t *testing.T, ctx context.Context, l *Limiter, _ *courier, next func()) {
			lease, err := l.Acquire(ctx, "a.example", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
			next()
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := lease.Start(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		},
		"the answer comes after the caller has left": func(t *testing.T, ctx context.Context, l *Limiter, post *courier, next func()) {
			ctx, cancel := context.WithCancel(ctx)
			through := make(chan struct{})
			post.set(func(payload string, send func() error) error {
				err := send()
				if takes(payload) {
					cancel()
					<-through
				}
				return err
			})
			if _, err := l.Acquire(ctx, "a.example", 0); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			next()
			close(through)
		},
		"the client has repeated the call": func(t *testing.T, ctx context.Context, l *Limiter, post *courier, next func()) {
			once := false
			post.set(func(payload string, send func() error) error {
				if !takes(payload) || once {
					return send()
				}
				once = true
				if err := send(); err != nil {
					return err
				}
				next()
				return send()
			})
			lease, err := l.Acquire(ctx, "a.example", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
			if g, err := lease.Start(ctx); err != nil || g.Seq != 3 {
				t.Errorf("%d, %v", g.Seq, err)
			}
		},
		"the answers to the question and to the release are lost": func(t *testing.T, ctx context.Context, l *Limiter, post *courier, next func()) {
			lost := 0
			post.set(func(payload string, send func() error) error {
				err := send()
				if takes(payload) && lost == 0 {
					lost++
					next()
					return errReset
				}
				if strings.Contains(payload, "\xa7release") && lost == 1 {
					lost++
					return errReset
				}
				return err
			})
			if _, err := l.Acquire(ctx, "a.example", 0); !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
		},
		"the answer is lost": func(t *testing.T, ctx context.Context, l *Limiter, post *courier, next func()) {
			once := false
			post.set(func(payload string, send func() error) error {
				err := send()
				if takes(payload) && !once {
					once = true
					next()
					return errReset
				}
				return err
			})
			if _, err := l.Acquire(ctx, "a.example", 0); !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			post := new(courier)
			fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: time.Millisecond}}}, 2, post)
			settle(t, fleet[0], "a.example")
			told := make(ledger, 10)
			turn(t, told.of(t.Context()), fleet[0], post, func() {
				lease := acquire(t, fleet[1], "a.example", 0)
				if lease.Release(); lease.Grant.Seq != 2 {
					t.Errorf("the next start is number %d", lease.Grant.Seq)
				}
			})
			select {
			case seq := <-told:
				if seq != 1 || len(told) > 0 {
					t.Errorf("given up: %d, and %d more", seq, len(told))
				}
			case <-time.After(10 * time.Second):
				t.Error("nothing is given up")
			}
		})
	}
}

// TestALeaseThatHasStartedKeepsItsNumber, although its next Start never reaches the server.
func TestALeaseThatHasStartedKeepsItsNumber(t *testing.T) {
	t.Parallel()
	post := new(courier)
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: time.Millisecond}}}, 2, post)
	turn := acquire(t, fleet[0], "a.example", 0)
	defer turn.Release()
	post.set(func(payload string, send func() error) error {
		if takes(payload) {
			return errReset
		}
		return send()
	})
	if _, err := turn.lease.Start(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	settle(t, fleet[0], "a.example") // the server knows that the lease is given up
	next := acquire(t, fleet[1], "a.example", 0)
	defer next.Release()
	if turn.Grant.Seq != 1 || next.Grant.Seq != 2 {
		t.Errorf("start %d after start %d", next.Grant.Seq, turn.Grant.Seq)
	}
}

// TestATurnInVainIsGivenUpByTheReleaseOfItsLease: the release overtakes the answer that told of the
// turn, and comes of a lease that has started before.
func TestATurnInVainIsGivenUpByTheReleaseOfItsLease(t *testing.T) {
	t.Parallel()
	post := new(courier)
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: time.Millisecond}}}, 2, post)
	told := make(ledger, 10)
	ctx, cancel := context.WithCancel(told.of(t.Context()))
	defer cancel()
	lease, err := fleet[0].Acquire(ctx, "a.example", 0)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := lease.Start(ctx); err != nil || g.Seq != 1 {
		t.Fatal(g.Seq, err)
	}
	released := make(chan struct{})
	var once sync.Once
	post.set(func(payload string, send func() error) error {
		err := send()
		switch {
		case takes(payload):
			cancel()
			<-released
			return errReset
		case strings.Contains(payload, "\xa7release"):
			once.Do(func() { close(released) })
		}
		return err
	})
	if _, err := lease.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	next := acquire(t, fleet[1], "a.example", 0)
	defer next.Release()
	lease.Release()
	select {
	case seq := <-told:
		if seq != 2 || next.Grant.Seq != 3 {
			t.Errorf("given up: %d, before %d", seq, next.Grant.Seq)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing is given up")
	}
}
