package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Result is a Cell with the server and the crawler that it is of.
type Result struct {
	Cell

	Server  *Server
	Crawler *Crawler
	Site    Site
	Length  time.Duration // time that the crawler had
	Ended   bool          // the crawler ended by itself before
	GivenUp int           // pages that package crawl lost before its time was over: see isLost
}

// Run starts s in dir, lets all crawlers crawl it at once for length, stops it, and judges them by
// its log.
func Run(dir string, s *Server, crawlers []*Crawler, length time.Duration) ([]Result, error) {
	r, err := s.launch(dir, s.Site(length))
	if err != nil {
		return nil, err
	}
	defer r.Stop()
	results := make([]Result, len(crawlers))
	errs := make([]error, len(crawlers))
	// The crawlers don't know of the end: with a deadline, turns that come later fail at once.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(length, cancel).Stop()
	end := time.Now().Add(length)
	late := WatchTimers()
	var wg sync.WaitGroup
	for i, c := range crawlers {
		wg.Go(func() {
			var lost atomic.Int64
			err := c.run(ctx, task{
				root: r.URL(),
				site: r.site,
				from: source(i),
				dir:  r.path("tmp"),
				lost: func() { lost.Add(1) },
			})
			results[i].GivenUp = int(lost.Load())
			if err != nil && ctx.Err() == nil { // later errors come of the end
				errs[i] = fmt.Errorf("%s on %s: %w", c.Name, s.Name, err)
			}
			results[i].Ended = ctx.Err() == nil
		})
	}
	wg.Wait()
	_, worst := late()
	for i, c := range crawlers {
		lines, err := r.Lines(source(i).String())
		if err != nil {
			return nil, err
		}
		results[i].Cell = Judge(before(lines, end), r.site, c.Delay, transit(worst))
		results[i].Server = s
		results[i].Crawler = c
		results[i].Site = r.site
		results[i].Length = length
	}
	return results, errors.Join(errs...)
}

// transit is a Cell's Transit on a machine whose timers were late by worst.
func transit(worst time.Duration) time.Duration {
	return min(250*time.Millisecond+worst, 2*time.Second)
}

// source is the address of the crawler i.
func source(i int) net.IP { return net.IPv4(127, 0, 1, byte(i+1)) }

// before leaves out the requests that the end of a cell cut off: that they weren't answered isn't
// the server's refusal.
func before(lines []Line, end time.Time) []Line {
	var kept []Line
	for _, l := range lines {
		if l.Start.Before(end) && (l.Status != 0 || l.End.Before(end)) {
			kept = append(kept, l)
		}
	}
	return kept
}

// Lost is how many pages the crawler, which has ended by itself, never had, those that are never
// served not among them.
func (r *Result) Lost() int {
	if !r.Ended {
		return 0
	}
	return r.Site.Pages() - r.Server.brokenPages(r.Site) - r.Pages
}

// Allowed is the rate at which this crawler may be served by this server: its own or the server's,
// whichever is lower, without the pages that are never served.
func (r *Result) Allowed() float64 {
	own := r.Crawler.Rate
	if r.Crawler.After {
		own = 1 / (1/own + r.Server.Takes.Seconds())
	}
	if r.Server.Rate > 0 {
		return min(r.Server.Rate, own)
	}
	return own * (1 - r.Server.Broken)
}

// Span is how long the crawler was at work: its whole time, or until its last request where it had
// nothing left to do, without the maintenance that it couldn't do anything about.
func (r *Result) Span() time.Duration {
	span := r.Length
	if r.Ended {
		span = r.Last.Sub(r.First)
	}
	return max(span-r.Server.Closed, time.Second)
}

// Share is the pages had, of those that Allowed lets it have in Span.
func (r *Result) Share() float64 {
	return float64(r.Pages) / (r.Allowed() * r.Span().Seconds())
}

// brokenPages is how many pages of the site are never served.
func (s *Server) brokenPages(site Site) int {
	n := 0
	for leaf := range site.Sections * leaves {
		switch s.Broken {
		case 0.01:
			n += is(leaf%100 == 50)
		case 0.05:
			n += is(leaf%20 == 15)
		case 0.1:
			n += is(leaf%10 == 5)
		}
	}
	return n
}

func is(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// WatchTimers watches how late timers are until the returned function is called, which returns the
// lateness that 99 % of them stayed below, and the worst: a loaded machine makes every crawler
// slower.
func WatchTimers() func() (p99, worst time.Duration) {
	const tick = 20 * time.Millisecond
	stop := make(chan struct{})
	late := make(chan []time.Duration)
	go func() {
		seen := []time.Duration{0}
		for {
			begun := time.Now()
			select {
			case <-stop:
				late <- seen
				return
			case <-time.After(tick):
				seen = append(seen, time.Since(begun)-tick)
			}
		}
	}()
	return func() (p99, worst time.Duration) {
		close(stop)
		seen := <-late
		slices.Sort(seen)
		return seen[len(seen)*99/100], seen[len(seen)-1]
	}
}
