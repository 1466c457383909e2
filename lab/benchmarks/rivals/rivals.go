// Package rivals puts this project's transport and its alternatives behind two interfaces, each
// with its real code. One interface is for those that wrap an http.RoundTripper, and the other one
// for those that fetch a URL.
package rivals

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// UserAgent is what all of them call themselves.
const UserAgent = "BenchmarkBot/1.0 (+https://example.com/bot; bot@example.com)"

// Names of the rivals, in all tables and figures.
const (
	Bare       = "net/http"
	Politeness = "politeness"
	DIY        = "x/time/rate" // a sync.Map of limiters with channel semaphores, and temoto/robotstxt
	Failsafe   = "failsafe-go"
	Retryable  = "go-retryablehttp"
	Colly      = "colly"
	Colly2     = "colly, 2 at once"
	Fetchbot   = "fetchbot"
)

// Terms are what everybody is asked to keep to, on each host.
type Terms struct {
	Delay time.Duration // gap between two starts; 0: a microsecond, so that all the accounting is done and nobody waits
	Slots int           // requests at once

	// Evidence is told of politeness's decisions; nil: a function that does nothing with them.
	Evidence evidence.Evidence
	// Plain leaves budget and evidence of politeness away, since the others have nothing like them.
	Plain bool
}

func (t Terms) gap() time.Duration { return max(t.Delay, time.Microsecond) }

// A Fetcher fetches a URL and reads its body to the end.
type Fetcher interface {
	Get(ctx context.Context, url string) error
	Close()
}

// client is a Fetcher by http.Client, as most programs have it.
type client struct{ http.Client }

// Client returns a Fetcher that uses rt through an http.Client.
func Client(rt http.RoundTripper) Fetcher { return &client{http.Client{Transport: rt}} }

func (c *client) Get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", UserAgent)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (c *client) Close() {}
