package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A byteRate is a flag: bytes a second, as wget has it, such as 500, 20k or 2.5m.
type byteRate float64

// String implements flag.Value.
func (r *byteRate) String() string { return "" }

// Set implements flag.Value.
func (r *byteRate) Set(text string) error {
	number := text
	unit := 1.0
	for suffix, size := range map[string]float64{"k": 1e3, "m": 1e6, "g": 1e9} {
		if rest, ok := strings.CutSuffix(strings.ToLower(text), suffix); ok {
			number = rest
			unit = size
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	rate := n * unit
	inRange := rate >= 1 && rate <= 1e15 // which NaN isn't
	if err != nil || !inRange {
		return errors.New("write bytes a second, as in 5000, 200k or 1.5m")
	}
	*r = byteRate(rate)
	return nil
}

const (
	rateInFlight = 8        // requests that share a limited rate at most
	pageBytes    = 10 << 20 // what crawl reads of a page at most
)

// limit makes cfg read bodies at no more than the rate, all of them together, and returns how long
// one may take then: each of those in flight has a share.
func (r byteRate) limit(cfg *politeness.Config) (timeout time.Duration) {
	if r == 0 {
		return 0
	}
	cfg.Base = &slowly{base: cfg.Base, rate: float64(r)}
	most := cfg.Hosts.MaxInFlight
	if most == 0 || most > rateInFlight {
		cfg.Hosts.MaxInFlight = rateInFlight
	}
	share := func(bytes float64) time.Duration {
		return time.Duration(min(rateInFlight*bytes/float64(r), 1e6) * float64(time.Second))
	}
	timeout = 2*time.Minute + share(pageBytes)
	cfg.Robots.Timeout = max(cfg.Robots.Timeout, 30*time.Second) + share(robotscache.MaxBody)
	cfg.Hosts.LeaseTTL = max(cfg.Hosts.LeaseTTL, 5*time.Minute, timeout+time.Minute)
	return timeout
}

// slowly is a Base whose bodies are read at no more than a rate, all together and after their
// decompression, robots.txt and sitemaps included.
type slowly struct {
	base http.RoundTripper
	rate float64 // bytes a second

	mu   sync.Mutex
	next time.Time // when all that was read is paid for
}

// RoundTrip implements http.RoundTripper.
func (s *slowly) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.base.RoundTrip(req)
	if err == nil {
		resp.Body = &slowBody{ReadCloser: resp.Body, ctx: req.Context(), of: s}
	}
	return resp, err
}

// pay books n bytes and returns when they are paid for.
func (s *slowly) pay(n int) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.next.Before(now) { // what wasn't read meanwhile isn't saved up
		s.next = now
	}
	s.next = s.next.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
	return s.next
}

type slowBody struct {
	io.ReadCloser
	ctx context.Context
	of  *slowly
}

// Read implements io.Reader. It returns when the bytes are paid for.
func (b *slowBody) Read(p []byte) (int, error) {
	// A tenth of a second's worth at once, so that the bytes come evenly.
	most := max(1, int(min(b.of.rate/10, 32<<10)))
	if len(p) > most {
		p = p[:most]
	}
	n, err := b.ReadCloser.Read(p)
	if n == 0 {
		return n, err
	}
	wait := time.NewTimer(time.Until(b.of.pay(n)))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-b.ctx.Done():
		if err == nil {
			err = context.Cause(b.ctx)
		}
	}
	return n, err
}
