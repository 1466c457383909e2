package robotscache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestThousandCallersOneRequest: a new origin costs one request.
func TestThousandCallersOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, after(time.Second, 200, private))
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				e, err := r.Get(t.Context(), parse(t, fmt.Sprintf("%s/%d", site, i)))
				if err != nil || allowed(e, "/private") {
					t.Errorf("caller %d: %+v, %v", i, e, err)
				}
			})
		}
		synctest.Wait()
		if s := counts(r.Cache); s != (Stats{InFlight: 1}) {
			t.Errorf("under way: %+v", s)
		}
		wg.Wait()
		if n := len(r.sent()); n != 1 {
			t.Errorf("%d requests", n)
		}
		if s := counts(r.Cache); s != (Stats{Origins: 1, Fetched: 1}) {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// TestThousandCallersOnRealThreads is the same with real time and scheduling.
func TestThousandCallersOnRealThreads(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
		<-release
		return reply(200, private), nil
	})
	var wg sync.WaitGroup
	var begun atomic.Int32
	for range 1000 {
		wg.Go(func() {
			if begun.Add(1) == 1000 {
				close(release)
			}
			if e, err := r.Get(t.Context(), parse(t, site)); err != nil || allowed(e, "/private") {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
	wg.Wait()
	if n := len(r.sent()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestLeavingEndsOneWait: the others go on, also if the caller leaves that started the fetch.
func TestLeavingEndsOneWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, after(10*time.Second, 200, private))
		var wg sync.WaitGroup
		for i := range 10 { // the n-th leaves after n seconds, the last stays
			wg.Go(func() {
				ctx := t.Context()
				if i < 9 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Duration(i+1)*time.Second)
					defer cancel()
				}
				begin := time.Now()
				_, err := r.Get(ctx, parse(t, site))
				if i < 9 {
					if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Duration(i+1)*time.Second {
						t.Errorf("caller %d: %v after %v", i, err, time.Since(begin))
					}
				} else if err != nil || time.Since(begin) != 10*time.Second {
					t.Errorf("the last: %v after %v", err, time.Since(begin))
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if n := len(r.sent()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestLastToLeaveEndsIt: nothing more is sent, and nothing cached. The bubble checks that no goroutine
// is left.
func TestLastToLeaveEndsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, after(time.Hour, 200, private))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := r.Get(ctx, parse(t, site)); !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			})
		}
		synctest.Wait()
		begin := time.Now()
		cancel()
		wg.Wait()
		synctest.Wait()
		if time.Since(begin) != 0 || r.last().Context().Err() == nil {
			t.Error("the fetch went on")
		}
		if len(r.events) != 0 || r.Snapshot().Origins != 0 || counts(r.Cache).InFlight != 0 {
			t.Errorf("events %v, snapshot %+v", r.events, counts(r.Cache))
		}
		// The next caller isn't harmed.
		r.answer = always(200, private)
		if allowed(r.get(t, site), "/private") {
			t.Error("rules lost")
		}
		if _, err := r.Get(ctx, parse(t, "https://other.example")); !errors.Is(err, context.Canceled) || len(r.sent()) != 2 {
			t.Errorf("a caller who has left already: %v, %d requests", err, len(r.sent()))
		}
		// A hit doesn't look at its context.
		if _, err := r.Get(ctx, parse(t, site)); err != nil {
			t.Errorf("hit: %v", err)
		}
	})
}

// TestDeafTransport: a transport that ignores its context blocks its own goroutine and no caller, and
// its late answer is dropped.
func TestDeafTransport(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Hour)
			return reply(200, private), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Get(ctx, parse(t, site)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		time.Sleep(2 * time.Hour)
		if r.Snapshot().Origins != 0 || len(r.events) != 0 {
			t.Errorf("kept what nobody waited for: %+v", counts(r.Cache))
		}
	})
}

// TestValuesOfTheFirstCaller: a trace goes with the fetch, the deadline doesn't.
func TestValuesOfTheFirstCaller(t *testing.T) {
	type key struct{}
	r := newRig(t, Config{}, always(200, private))
	var observed any
	r.client.Observe = func(ctx context.Context, _ Event) { observed = ctx.Value(key{}) }
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Hour)
	defer cancel()
	if _, err := r.Get(ctx, parse(t, site)); err != nil {
		t.Fatal(err)
	}
	got := r.last().Context()
	if _, ok := got.Deadline(); ok || got.Value(key{}) != "trace" || observed != "trace" {
		t.Errorf("deadline %v, value %v, observed %v", ok, got.Value(key{}), observed)
	}
}

// TestPanicReachesItsCaller: the others fetch anew.
func TestPanicReachesItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, nil)
		r.answer = func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			if len(r.sent()) == 1 {
				panic("boom")
			}
			return reply(200, private), nil
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("recovered %v", got)
				}
			}()
			_, err := r.Get(t.Context(), parse(t, site))
			t.Errorf("returned %v", err)
		})
		synctest.Wait()
		for range 100 {
			wg.Go(func() {
				if e, err := r.Get(t.Context(), parse(t, site)); err != nil || allowed(e, "/private") {
					t.Errorf("another caller: %+v, %v", e, err)
				}
			})
		}
		wg.Wait()
		if n := len(r.sent()); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestPanicInABody: the body is closed and the fetch removed.
func TestPanicInABody(t *testing.T) {
	r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
		resp := reply(200, "")
		resp.Body = io.NopCloser(readerFunc(func([]byte) (int, error) { panic(http.ErrAbortHandler) }))
		return resp, nil
	})
	defer func() {
		if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // panics are compared as they are
			t.Errorf("recovered %v", got)
		}
		if counts(r.Cache) != (Stats{}) {
			t.Errorf("snapshot %+v", counts(r.Cache))
		}
	}()
	_, _ = r.Get(t.Context(), parse(t, site))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestGoexitReachesItsCaller: as a test's FailNow in a fake transport would.
func TestGoexitReachesItsCaller(t *testing.T) {
	r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
		runtime.Goexit()
		return nil, nil
	})
	var wg sync.WaitGroup
	ended := false
	wg.Go(func() {
		defer func() { ended = recover() == nil }()
		_, err := r.Get(t.Context(), parse(t, site))
		t.Errorf("returned %v", err)
	})
	wg.Wait()
	if !ended {
		t.Error("it panicked")
	}
}

// TestRefusalIsNoAnswer: all callers of the fetch get the transport's error, and nothing is cached.
func TestRefusalIsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		errBusy := errors.New("host busy")
		r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return nil, fmt.Errorf("wrapped: %w", &RefusedError{Err: errBusy})
		})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if e, err := r.Get(t.Context(), parse(t, site)); err != errBusy || e != nil { //nolint:errorlint // the inner error itself is promised
					t.Errorf("%+v, %v", e, err)
				}
			})
		}
		wg.Wait()
		if len(r.sent()) != 1 || len(r.events) != 0 || counts(r.Cache) != (Stats{}) {
			t.Errorf("%d requests, events %v, %+v", len(r.sent()), r.events, counts(r.Cache))
		}
		r.answer = always(200, private)
		if allowed(r.get(t, site), "/private") {
			t.Error("rules lost")
		}
		time.Sleep(time.Hour)
		r.answer = func(*http.Request) (*http.Response, error) { return nil, &RefusedError{Err: errBusy} }
		if _, err := r.Get(t.Context(), parse(t, site)); !errors.Is(err, errBusy) {
			t.Errorf("revalidation refused: %v", err)
		}
		if r.Snapshot().Origins != 1 {
			t.Error("a refusal ended the copy")
		}
	})
}

// TestTimeout: a server that is silent, or drips, in any hop, is unreachable after Timeout.
func TestTimeout(t *testing.T) {
	drip := func(req *http.Request) (*http.Response, error) {
		resp := reply(200, "")
		resp.ContentLength = -1
		resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
			time.Sleep(700 * time.Millisecond) // without a look at its context
			return copy(p, "#"), nil
		}))
		return resp, nil
	}
	tests := map[string]func(*http.Request) (*http.Response, error){
		"silent": after(time.Hour, 200, private),
		"drip":   drip,
		"redirect": func(req *http.Request) (*http.Response, error) {
			if err := pass(req.Context(), 12*time.Second); err != nil {
				return nil, err
			}
			return reply(302, "", "Location", "/again"), nil
		},
		"drip of an error page": func(req *http.Request) (*http.Response, error) {
			resp, err := drip(req)
			resp.StatusCode = 503
			return resp, err
		},
		"drip of a redirect": func(req *http.Request) (*http.Response, error) {
			if req.Context().Err() != nil { // like a limiter that refuses the turn
				return nil, &RefusedError{Err: req.Context().Err()}
			}
			resp, err := drip(req)
			resp.StatusCode = 302
			resp.Header.Set("Location", "/again")
			return resp, err
		},
	}
	for name, answer := range tests {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Config{}, answer)
			begin := time.Now()
			e := r.get(t, site)
			// One read of the drip may be under way at the end.
			if took := time.Since(begin); !e.Denied || took < 30*time.Second || took >= 30*time.Second+700*time.Millisecond {
				t.Errorf("%s: %+v after %v", name, e, took)
			}
			if name != "drip of an error page" && e.Reason != "no complete response within 30s" {
				t.Errorf("%s: reason %q", name, e.Reason)
			}
			if ev := r.event(t); ev.Duration != time.Since(begin) || !ev.Start.Equal(begin) {
				t.Errorf("%s: event %+v", name, ev)
			}
		})
	}
}

// TestQueueingIsNoTimeout: a wait for a turn may be longer than Timeout.
func TestQueueingIsNoTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begin := time.Now()
		r := newRig(t, Config{}, nil)
		r.answer = func(req *http.Request) (*http.Response, error) {
			wait, sent := Queue(req.Context())
			if _, ok := wait.Deadline(); ok {
				t.Error("a deadline, and nobody has one")
			}
			if err := pass(wait, 10*time.Minute); err != nil {
				return nil, &RefusedError{Err: err}
			}
			sent()
			sent() // counts once
			if err := pass(req.Context(), 9*time.Second); err != nil {
				return nil, err
			}
			if len(r.sent()) < 3 {
				return reply(302, "", "Location", "/next"), nil
			}
			return reply(200, private), nil
		}
		if e := r.get(t, site); e.Denied || time.Since(begin) != 30*time.Minute+27*time.Second {
			t.Errorf("%+v after %v", e, time.Since(begin))
		}
		if ev := r.event(t); ev.Duration != 27*time.Second || ev.Start.Sub(begin) != 10*time.Minute {
			t.Errorf("start after %v, duration %v", ev.Start.Sub(begin), ev.Duration)
		}
		// A hop that takes too long once it is sent is a timeout all the same.
		r.answer = func(req *http.Request) (*http.Response, error) {
			_, sent := Queue(req.Context())
			sent()
			return after(11*time.Second, 302, "", "Location", "/next")(req)
		}
		begin = time.Now()
		if e := r.get(t, "https://other.example"); !e.Denied || time.Since(begin) != 30*time.Second {
			t.Errorf("%+v after %v", e, time.Since(begin))
		}
	})
}

// TestLateSent: a call of sent after the end of the fetch does no harm.
func TestLateSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var late func()
		r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
			_, late = Queue(req.Context())
			return reply(200, private), nil
		})
		r.client.Observe = func(ctx context.Context, _ Event) {
			late()
			if err := pass(ctx, time.Hour); err != nil {
				t.Errorf("time ran on after the fetch: %v", err)
			}
		}
		r.get(t, site)
	})
}

// TestTurnTooLate: a transport that waits for a turn without calling Queue runs out of time, which
// doesn't make the origin unreachable.
func TestTurnTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
			return nil, &RefusedError{Err: pass(req.Context(), time.Hour)}
		})
		begin := time.Now()
		e, err := r.Get(t.Context(), parse(t, site))
		var timeout interface{ Timeout() bool }
		if e != nil || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%+v, %v", e, err)
		}
		if time.Since(begin) != 30*time.Second || r.Snapshot().Origins != 0 || len(r.events) != 0 {
			t.Errorf("after %v: %+v", time.Since(begin), counts(r.Cache))
		}
	})
}

// TestQueueReturnsADeadline: the latest of the waiters, if all have one.
func TestQueueReturnsADeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begin := time.Now()
		errLate := errors.New("too late")
		r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Second) // all are waiting
			wait, sent := Queue(req.Context())
			defer sent()
			if d, ok := wait.Deadline(); !ok || d.Sub(begin) != 20*time.Second {
				t.Errorf("deadline %v, %v", d.Sub(begin), ok)
			}
			if _, ok := req.Context().Deadline(); ok {
				t.Error("the hop itself has a deadline")
			}
			time.Sleep(time.Second) // a later one joins that has time
			return nil, &RefusedError{Err: errLate}
		})
		var wg sync.WaitGroup
		for _, d := range []time.Duration{10 * time.Second, 20 * time.Second, 5 * time.Second} {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				if _, err := r.Get(ctx, parse(t, site)); !errors.Is(err, errLate) {
					t.Errorf("%v", err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(1500 * time.Millisecond)
		r.mu.Lock()
		r.answer = always(200, private)
		r.mu.Unlock()
		if e := r.get(t, site); allowed(e, "/private") {
			t.Error("who came later was refused by a deadline that isn't its own")
		}
		wg.Wait()
	})
}

func TestQueueOfAnotherContext(t *testing.T) {
	wait, sent := Queue(t.Context())
	sent()
	if wait != t.Context() {
		t.Error("another context was changed")
	}
}

// TestOneFetchPerOriginDespiteEviction: a cache of one origin, many origins at once.
func TestOneFetchPerOriginDespiteEviction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{MaxBytes: 1}, after(time.Second, 200, private))
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { r.get(t, fmt.Sprintf("https://%d.example/", i%20)) })
		}
		wg.Wait()
		if n := len(r.sent()); n != 20 {
			t.Errorf("%d requests for 20 origins", n)
		}
		if r.Snapshot().Origins != 1 {
			t.Errorf("%d origins kept", r.Snapshot().Origins)
		}
	})
}

// TestObserveComesFirst: no caller gets rules that weren't reported.
func TestObserveComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, always(200, private))
		r.client.Observe = func(context.Context, Event) {
			if _, ok := r.Peek(parse(t, site)); ok {
				t.Error("known before it is reported")
			}
			time.Sleep(time.Second)
		}
		begin := time.Now()
		r.get(t, site)
		if time.Since(begin) != time.Second {
			t.Errorf("returned after %v", time.Since(begin))
		}
	})
}

// TestNoLockIsHeld: the transport, Observe and the Store may call the cache.
func TestNoLockIsHeld(t *testing.T) {
	r := newRig(t, Config{MaxBytes: 1}, nil)
	r.answer = func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "example.com" {
			r.get(t, "https://other.example") // in a fetch of its own
		}
		r.Peek(req.URL)
		r.Snapshot()
		return reply(200, strings.Repeat("#", 10)), nil
	}
	r.client.Observe = func(_ context.Context, e Event) {
		r.Peek(parse(t, e.URL))
		r.Snapshot()
	}
	r.get(t, site)
}
