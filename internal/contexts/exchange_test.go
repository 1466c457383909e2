package contexts_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/internal/contexts"
)

// A byClient is a RoundTripper that sees requests as http.Client makes them.
type byClient func(*http.Request) (*http.Response, error)

func (f byClient) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

const ifNetHTTPHasChanged = "net/http of %s isn't as before: %s. politeness.FromStart relies on it. " +
	"See internal/contexts/exchange.go; without an Exchange each Transport does as with FromCall: " +
	"no request is lost that wasn't before, but those that wait for longer than Client.Timeout fail"

// TestClientTimeoutCanBeALength: http.Client gives a request a deadline whose parent is the caller's
// context, and Request.Cancel; it closes both when its Timeout is over; and it accepts a response
// that comes later, with its body.
func TestClientTimeoutCanBeALength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := func(what string) { t.Helper(); t.Errorf(ifNetHTTPHasChanged, runtime.Version(), what) }
		ctx, leave := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
		began, left := time.Now(), errors.New("the caller has left")
		client := &http.Client{Timeout: time.Second, Transport: byClient(func(req *http.Request) (*http.Response, error) {
			//lint:ignore SA1019 http.Client sets it
			cancel := req.Cancel //nolint:staticcheck // the same
			e := contexts.NewExchange(req.Context(), cancel, 0, canceled)
			if e == nil {
				changed("the deadline of Client.Timeout isn't told from others, or the context beneath it isn't found")
				return nil, errors.ErrUnsupported
			}
			defer e.End()
			if e.Length() != time.Second || e.Value(key{}) != 1 {
				t.Errorf("length %v, value %v", e.Length(), e.Value(key{}))
			}
			if err := contexts.Sleep(e, 10*time.Second); err != nil {
				changed("the wait ends with Client.Timeout: " + err.Error())
			}
			select {
			case <-cancel:
			default:
				changed("Request.Cancel is open after Client.Timeout")
			}
			leave(left)
			if err := contexts.Sleep(e, 10*time.Second); !errors.Is(err, context.Canceled) || context.Cause(e) != left { //nolint:errorlint // the very error
				changed("the caller's context isn't seen after Client.Timeout")
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("late"))}, nil
		})}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			changed("a response after Client.Timeout isn't accepted: " + err.Error())
			return
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); string(text) != "late" || err != nil || time.Since(began) != 10*time.Second {
			changed("the body of a response after Client.Timeout isn't read to its end")
		}
	})
}

// timed makes a context and a Request.Cancel as http.Client does, with a Timeout of two seconds.
func timed(parent context.Context, t *testing.T, timeout time.Duration) (context.Context, chan struct{}) {
	ctx, stop := context.WithTimeout(parent, timeout)
	t.Cleanup(stop)
	cancel := make(chan struct{})
	timer := time.AfterFunc(timeout, func() { close(cancel) })
	t.Cleanup(func() { timer.Stop() })
	return ctx, cancel
}

var errCanceled = errors.New("canceled by Request.Cancel")

func canceled() error { return errCanceled }

type traced struct{ context.Context }

func TestExchangeEnds(t *testing.T) {
	const timeout = 2 * time.Second
	errLeft := errors.New("left")
	for _, c := range []struct {
		name  string
		setup func(t *testing.T) *contexts.Exchange
		after time.Duration // 0: it goes on
		cause error
	}{
		{"with nothing", func(t *testing.T) *contexts.Exchange {
			ctx, cancel := timed(t.Context(), t, timeout)
			return contexts.NewExchange(ctx, cancel, 0, canceled)
		}, 0, nil},
		{"with the caller's context, before the timer", func(t *testing.T) *contexts.Exchange {
			parent, leave := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { leave(errLeft) })
			ctx, cancel := timed(parent, t, timeout)
			return contexts.NewExchange(ctx, cancel, 0, canceled)
		}, time.Second, errLeft},
		{"with the caller's context, after the timer", func(t *testing.T) *contexts.Exchange {
			parent, leave := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { leave(errLeft) })
			ctx, cancel := timed(context.WithValue(parent, key{}, 1), t, timeout)
			return contexts.NewExchange(&traced{context.WithValue(ctx, key{}, 2)}, cancel, 0, canceled)
		}, time.Minute, errLeft},
		{"with the caller's later deadline", func(t *testing.T) *contexts.Exchange {
			parent, stop := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(stop)
			ctx, cancel := timed(parent, t, timeout)
			return contexts.NewExchange(ctx, cancel, 0, canceled)
		}, time.Minute, context.DeadlineExceeded},
		{"with the caller's earlier deadline, a little late", func(t *testing.T) *contexts.Exchange {
			parent, stop := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(stop)
			_, cancel := timed(t.Context(), t, timeout)
			return contexts.NewExchange(parent, cancel, 0, canceled)
		}, 1100 * time.Millisecond, context.DeadlineExceeded},
		{"with the caller's Request.Cancel", func(t *testing.T) *contexts.Exchange {
			ctx, _ := timed(t.Context(), t, timeout)
			cancel := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(cancel) })
			return contexts.NewExchange(ctx, cancel, 0, canceled)
		}, time.Second, context.Canceled},
		{"with the caller's Request.Cancel, as an exchange that runs", func(t *testing.T) *contexts.Exchange {
			ctx, _ := timed(t.Context(), t, timeout)
			cancel := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(cancel) })
			e := contexts.NewExchange(ctx, cancel, 0, canceled)
			e.Start()
			return e
		}, time.Second, errCanceled},
		{"with the request's context, when http.Client is done with it", func(t *testing.T) *contexts.Exchange {
			ctx, stop := context.WithTimeout(t.Context(), timeout)
			time.AfterFunc(time.Second, stop)
			return contexts.NewExchange(ctx, make(chan struct{}), 0, canceled)
		}, time.Second, context.Canceled},
		{"after its length", func(t *testing.T) *contexts.Exchange {
			ctx, cancel := timed(t.Context(), t, timeout)
			e := contexts.NewExchange(ctx, cancel, 0, canceled)
			time.AfterFunc(time.Minute, e.Start)
			return e
		}, time.Minute + timeout, context.DeadlineExceeded},
		{"after its length, without its pauses", func(t *testing.T) *contexts.Exchange {
			ctx, cancel := timed(t.Context(), t, timeout)
			e := contexts.NewExchange(ctx, cancel, 0, canceled)
			e.Start()
			time.AfterFunc(time.Second, func() {
				rest := e.Pause()
				time.AfterFunc(time.Hour, func() { e.Resume(rest) })
			})
			return e
		}, time.Hour + timeout, context.DeadlineExceeded},
		{"after the length of a redirect", func(t *testing.T) *contexts.Exchange {
			ctx, cancel := timed(t.Context(), t, timeout)
			time.Sleep(time.Second + timeout)
			e := contexts.NewExchange(ctx, cancel, timeout, canceled)
			e.Start()
			return e
		}, timeout, context.DeadlineExceeded},
		{"when it is ended", func(t *testing.T) *contexts.Exchange {
			ctx, cancel := timed(t.Context(), t, timeout)
			e := contexts.NewExchange(ctx, cancel, 0, canceled)
			time.AfterFunc(time.Minute, e.End)
			return e
		}, time.Minute, context.Canceled},
	} {
		for _, child := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				e := c.setup(t)
				if e == nil {
					t.Fatalf("%s: no Exchange", c.name)
				}
				defer e.End()
				var ctx context.Context = e
				if child {
					made, stop := context.WithCancel(e)
					defer stop()
					ctx = made
				}
				began := time.Now()
				err := contexts.Sleep(ctx, 2*time.Hour)
				if c.after == 0 {
					if err != nil || e.Err() != nil {
						t.Errorf("%s: %v, %v", c.name, err, e.Err())
					}
					return
				}
				if took := time.Since(began); took != c.after || err == nil || context.Cause(ctx) != c.cause { //nolint:errorlint // the very error
					t.Errorf("%s: %v after %v, cause %v; want %v after %v", c.name, err, took, context.Cause(ctx), c.cause, c.after)
				}
				if errors.Is(c.cause, context.DeadlineExceeded) != (e.Err() == context.DeadlineExceeded) { //nolint:errorlint // as those of package context
					t.Errorf("%s: Err %v", c.name, e.Err())
				}
			})
		}
	}
}

// TestNoExchange where the deadline isn't http.Client's, or can't be told from one.
func TestNoExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := timed(t.Context(), t, time.Second)
		between, stop := context.WithCancel(ctx)
		defer stop()
		gone, leave := context.WithCancel(t.Context())
		leave()
		left, leftCancel := timed(gone, t, time.Second)
		closed := make(chan struct{})
		close(closed)
		for name, e := range map[string]*contexts.Exchange{
			"no Request.Cancel": contexts.NewExchange(ctx, nil, 0, canceled),
			"no deadline":       contexts.NewExchange(t.Context(), cancel, 0, canceled),
			"a context between that may end by itself": contexts.NewExchange(between, cancel, 0, canceled),
			"a caller that has left":                   contexts.NewExchange(left, leftCancel, 0, canceled),
			"a Request.Cancel that is closed":          contexts.NewExchange(ctx, closed, 0, canceled),
		} {
			if e != nil {
				t.Error(name)
			}
		}
		time.Sleep(time.Minute)
		own, stopOwn := context.WithTimeout(t.Context(), 0)
		defer stopOwn()
		if contexts.NewExchange(ctx, cancel, 0, canceled) != nil {
			t.Error("a length of zero")
		}
		if contexts.NewExchange(own, make(chan struct{}), time.Second, canceled) != nil {
			t.Error("a deadline of the caller's own that has passed")
		}
		// Nothing happens to none.
		var none *contexts.Exchange
		none.Start()
		none.Resume(none.Pause())
		none.End()
		if !none.Ends().IsZero() || none.Length() != 0 {
			t.Error("none has a length")
		}
	})
}
