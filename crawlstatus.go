package politeness

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A CrawlStatus is the state of a crawl that sends its requests by a Transport. Package crawl
// reports it once a second. See Transport.ReportCrawl.
type CrawlStatus struct {
	Began time.Time `json:"began"`

	// Ended is the time at which the crawl ended. It is zero while the crawl runs.
	Ended time.Time `json:"ended,omitzero"`

	// Visited is the number of pages so far. PerMinute is the number of pages a minute, over the
	// last minute.
	Visited   int     `json:"visited"`
	PerMinute float64 `json:"perMinute"`

	// Left is the number of URLs that wait or are in flight. It is -1 if the number isn't known.
	Left int `json:"left"`

	// InFlight is the number of requests in flight. Hosts is the number of hosts that have URLs in
	// memory.
	InFlight int `json:"inFlight"`
	Hosts    int `json:"hosts"`

	// Outcomes counts the URLs that have ended, by outcome, such as "visited" or "disallowed".
	Outcomes map[string]int `json:"outcomes"`

	// Stopped is the reason why the crawl starts no further URL, empty if there is none.
	Stopped string `json:"stopped,omitempty"`
}

// ReportCrawl sets the state of a crawl in Status.Crawls. Package statuspage shows it. Package
// crawl calls ReportCrawl for you. If you have a crawler with its own list of URLs, call it about
// once a second, and once with Ended. The key tells two crawls of one Transport apart. Use a
// pointer to your crawl, or its name. The key must be comparable.
func (t *Transport) ReportCrawl(key any, s CrawlStatus) { t.crawls.set(key, s) }

// crawls are the crawls of a Transport. The zero value is ready to use.
type crawls struct {
	mu      sync.Mutex
	running map[any]CrawlStatus
	last    *CrawlStatus // that ended last; nil: none has ended
}

func (c *crawls) set(key any, s CrawlStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.Ended.IsZero() {
		delete(c.running, key) // a program may run a crawl each minute, for years
		c.last = &s
		return
	}
	if c.running == nil {
		c.running = make(map[any]CrawlStatus)
	}
	c.running[key] = s
}

// list returns the crawls that run, the oldest first. If none runs, it returns the one that ended
// last.
func (c *crawls) list() []CrawlStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []CrawlStatus
	for _, s := range c.running {
		all = append(all, s)
	}
	if len(all) == 0 && c.last != nil {
		return []CrawlStatus{*c.last}
	}
	slices.SortFunc(all, func(a, b CrawlStatus) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(b.Visited, a.Visited))
	})
	return all
}
