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

	mu   sync.Mutex
	last map[string]*sitemap.Seen // by the URL for which Config.Discover is called
}

// pollsIn is the directory of the polls in that of -state.
func pollsIn(state string) string { return filepath.Join(state, "sitemaps") }

func newPolls(state string, errs io.Writer) *polls {
	return &polls{
		store: revisit.Dir(pollsIn(state)),
		errs:  errs,
		last:  make(map[string]*sitemap.Seen),
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.last[url]; last != nil {
		p.save(ctx, last)
	}
	s := &sitemap.Seen{Store: p.store}
	p.last[url] = s
	return s
}

// drop remembers nothing of the call for url: it has left out pages, which a later run may want.
func (p *polls) drop(url string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, url)
}

// end saves what the last calls have read, if the crawl has come to its end. Otherwise the queue
// may not have all of it.
func (p *polls) end(ctx context.Context, s crawl.Summary) {
	if p == nil || s.Stopped != nil || s.Outcomes[crawl.NoRoom] > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, last := range p.last {
		p.save(ctx, last)
	}
	clear(p.last)
}

func (p *polls) save(ctx context.Context, s *sitemap.Seen) {
	if err := s.Save(ctx); err != nil {
		fmt.Fprintf(p.errs, "politeness crawl: -state: %s; its sitemaps are read again\n", plain(err))
	}
}
