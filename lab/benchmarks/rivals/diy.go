package rivals

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/temoto/robotstxt"
	"golang.org/x/time/rate"
)

// diy is what a careful programmer puts together in an afternoon: robots.txt by temoto, fetched
// once for each host; a channel as semaphore, held until the body is closed; a limiter of
// x/time/rate.
type diy struct {
	base  http.RoundTripper
	terms Terms
	hosts sync.Map // host -> *diyHost
}

type diyHost struct {
	slots   chan struct{}
	limiter *rate.Limiter

	once   sync.Once
	robots *robotstxt.Group
	err    error
}

// NewDIY wraps base with a sync.Map of x/time/rate limiters.
func NewDIY(base http.RoundTripper, t Terms) http.RoundTripper { return &diy{base: base, terms: t} }

var errDisallowed = errors.New("disallowed by robots.txt")

func (d *diy) RoundTrip(req *http.Request) (*http.Response, error) {
	v, ok := d.hosts.Load(req.URL.Host)
	if !ok {
		v, _ = d.hosts.LoadOrStore(req.URL.Host, &diyHost{
			slots:   make(chan struct{}, d.terms.Slots),
			limiter: rate.NewLimiter(rate.Every(d.terms.gap()), 1),
		})
	}
	h := v.(*diyHost)
	h.once.Do(func() { h.robots, h.err = d.fetchRobots(req) })
	if h.err != nil {
		return nil, h.err
	}
	if !h.robots.Test(req.URL.Path) {
		return nil, errDisallowed
	}
	ctx := req.Context()
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := h.limiter.Wait(ctx); err != nil {
		<-h.slots
		return nil, err
	}
	resp, err := d.base.RoundTrip(req)
	if err != nil {
		<-h.slots
		return nil, err
	}
	resp.Body = &slotBody{ReadCloser: resp.Body, slots: h.slots}
	return resp, nil
}

func (d *diy) fetchRobots(req *http.Request) (*robotstxt.Group, error) {
	u := *req.URL
	u.Path = "/robots.txt"
	u.RawQuery = ""
	r, err := http.NewRequestWithContext(req.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := d.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := robotstxt.FromResponse(resp)
	if err != nil {
		return nil, err
	}
	return data.FindGroup("BenchmarkBot"), nil
}

// slotBody gives the slot back when it is closed.
type slotBody struct {
	io.ReadCloser
	slots chan struct{}
	once  sync.Once
}

func (b *slotBody) Close() error {
	b.once.Do(func() { <-b.slots })
	return b.ReadCloser.Close()
}
