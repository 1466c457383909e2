package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/revisit"
)

// A polls remembers the sitemaps that a crawl with -every has read. nil remembers none.
type polls struct {
	store revisit.Store
	errs  io.Writer
	most  int // bytes of last

	mu    sync.Mutex
	last  map[string]*poll // by the URL for which Config.Discover is called
	bytes int              // of last
}

// A poll is a call of Config.Discover. It is the Store of its Seen, so it is told of each sitemap.
type poll struct {
	revisit.Store
	polls *polls
	url   string // for which Discover is called
	seen  sitemap.Seen
	bytes int
}

const (
	mostPolled = 32 << 20 // bytes of what is remembered until it is saved: some 100,000 sitemaps
	perPolled  = 300      // bytes of a sitemap, or of a call, beside the URL
)

// pollsIn is the directory of the polls in that of -state.
func pollsIn(state string) string { return filepath.Join(state, "sitemaps") }

func newPolls(state string, errs io.Writer) *polls {
	return &polls{
		store: revisit.Dir(pollsIn(state)),
		errs:  errs,
		most:  mostPolled,
		last:  make(map[string]*poll),
	}
}

// forgetPolls removes what is remembered. The queue in state is new, so it has no page of a
// sitemap.
func forgetPolls(state string) error { return os.RemoveAll(pollsIn(state)) }

// begin returns the Seen for a call of Config.Discover, and nil if nothing is remembered. The crawl
// calls Discover again only when its queue has all that the last call has listed. So only now what
// that call has read is saved: after a kill it is read once more.
func (p *polls) begin(ctx context.Context, url string) *sitemap.Seen {
	if p == nil {
		return nil
	}
	if last := p.remove(url); last != nil {
		p.save(ctx, last)
	}
	next := &poll{Store: p.store, polls: p, url: url}
	next.seen.Store = next
	p.mu.Lock()
	p.last[url] = next
	p.mu.Unlock()
	p.count(next, url)
	return &next.seen
}

// Load is called for each sitemap before it is read.
func (p *poll) Load(ctx context.Context, url string) (revisit.Page, bool, error) {
	p.polls.count(p, url)
	return p.Store.Load(ctx, url)
}

// count adds a sitemap to a call. A call for which there is no room isn't saved. So what has
// changed since the last saved one comes once more.
func (p *polls) count(call *poll, url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[call.url] != call {
		return // it was dropped
	}
	size := len(url) + perPolled
	call.bytes += size
	p.bytes += size
	if p.bytes > p.most {
		p.removeLocked(call.url)
	}
}

// remove returns the last call for url, or nil, and forgets it.
func (p *polls) remove(url string) *poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.removeLocked(url)
}

func (p *polls) removeLocked(url string) *poll {
	last := p.last[url]
	if last == nil {
		return nil
	}
	p.bytes -= last.bytes
	delete(p.last, url)
	return last
}

// drop remembers nothing of the call for url: it has left out pages, which a later run may want.
func (p *polls) drop(url string) {
	if p != nil {
		p.remove(url)
	}
}

// end saves what the last calls have read, if the crawl has come to its end. Otherwise the queue
// may not have all of it.
func (p *polls) end(ctx context.Context, s crawl.Summary) {
	if p == nil || s.Stopped != nil || s.Outcomes[crawl.NoRoom] > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for url, last := range p.last {
		p.save(ctx, last)
		p.removeLocked(url)
	}
}

func (p *polls) save(ctx context.Context, call *poll) {
	if err := call.seen.Save(ctx); err != nil {
		fmt.Fprintf(p.errs, "politeness crawl: -state: %s; its sitemaps are read again\n", plain(err))
	}
}
