package rivals

import (
	"context"
	"net/http"

	"github.com/gocolly/colly/v2"
)

type collector struct{ *colly.Collector }

// NewColly returns a colly collector that asks robots.txt and has one LimitRule for the host. Colly
// sleeps the delay while it holds the slot, so t.Slots of them go on in parallel, each with its
// delay.
func NewColly(base http.RoundTripper, t Terms) (Fetcher, error) {
	c := newCollector(base)
	return collector{c}, c.Limit(&colly.LimitRule{DomainGlob: "*", Delay: t.Delay, Parallelism: t.Slots})
}

// NewCollyOf returns a colly collector with a LimitRule for each of n hosts, as one needs to pace
// them one by one: a rule for all hosts is one set of slots for all of them.
func NewCollyOf(base http.RoundTripper, t Terms, host func(i int) string, n int) (Fetcher, error) {
	c := newCollector(base)
	for i := range n {
		if err := c.Limit(&colly.LimitRule{DomainGlob: host(i), Delay: t.Delay, Parallelism: t.Slots}); err != nil {
			return nil, err
		}
	}
	return collector{c}, nil
}

func newCollector(base http.RoundTripper) *colly.Collector {
	c := colly.NewCollector(colly.UserAgent(UserAgent), colly.AllowURLRevisit())
	c.IgnoreRobotsTxt = false
	c.WithTransport(base)
	return c
}

// Get can't be cancelled while colly waits for the host.
func (c collector) Get(ctx context.Context, url string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Visit(url)
}

func (c collector) Close() { c.Wait() }
