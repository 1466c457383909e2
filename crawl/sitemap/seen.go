package sitemap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-politeness/politeness/revisit"
)

// A Seen remembers the sitemaps and feeds that earlier loops have read. Use it to read the sitemaps
// of a site again and again, for example each day by cron. Make a Seen for each loop, set it in
// Finder.Seen, and call Save after the loop. Its Store outlives the process.
//
// A sitemap that hasn't changed costs the site a 304 without a body, and yields nothing. All its
// pages were in an earlier loop. Without Save, nothing is remembered. So if the process dies before
// Save, or if you don't call Save because of an error, the pages come again in the next loop.
//
// In crawl.Config.Discover don't call Save, because the Queue gets the last URLs after Discover has
// ended. Call Save of the last Seen when Discover is called again with the same URL, or when Run
// has ended without an error and without Summary.Stopped. If no page came and Unchanged isn't 0,
// yield the zero crawl.Request. Otherwise the crawl calls Discover more rarely.
//
//   - An index is read whole each time, and never remembered. Its 304 would hide changes of the
//     sitemaps that it lists.
//   - A sitemap that an index lists isn't requested if its lastmod is earlier than its last
//     response. This ends a day after that response.
//   - A sitemap that redirects, or that has an error, is read whole each time. A ForeignError is
//     one.
//   - A usual place of sitemaps that is 404 or 410 is requested again after 1, 3, 9 and 27 days,
//     then each 30 days.
//   - After 90 days a sitemap is read whole once, because a server may return 304 for ever.
type Seen struct {
	// Store keeps what is remembered, under the URLs of the sitemaps. It must be set, for example to
	// revisit.Dir("sitemaps.state"). Don't share it with a revisit.Transport, which uses the same
	// names for other data. Loops with different sites may share it.
	Store revisit.Store

	mu     sync.Mutex
	same   int
	taken  map[string]revisit.Page // by URL, of the sitemaps whose pages were all taken; zero: forget it
	failed error                   // of the Store, the first one
}

var errNoStore = errors.New("sitemap: Seen.Store isn't set, so nothing is remembered")

// places is how usual places without a sitemap are asked for again.
var places = revisit.Schedule{Min: day}

// longestGone is how long a usual place without a sitemap isn't asked for.
const longestGone = 30 * day

// Unchanged returns the number of sitemaps that the loop has left out so far, because they haven't
// changed. If the loop had no pages, it tells a site without changes from one without sitemaps.
func (s *Seen) Unchanged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.same
}

// countSame counts a sitemap that hasn't changed. s may be nil.
func (s *Seen) countSame() {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.same++
	}
}

// Save remembers the sitemaps of which the loop has had all pages. A sitemap counts if the loop has
// continued after its last page. Call Save after the loop, when you have stored the pages. The
// error is the first one of the Store, also one while the loop read from it. The sitemaps that
// couldn't be saved are read whole in the next loop.
func (s *Seen) Save(ctx context.Context) error {
	if s.Store == nil {
		return errNoStore
	}
	s.mu.Lock()
	taken := s.taken
	err := s.failed
	s.taken = nil
	s.failed = nil
	s.mu.Unlock()
	for url, page := range taken {
		if failed := s.Store.Save(ctx, url, page); failed != nil {
			err = cmp.Or(err, fmt.Errorf("sitemap: remembering %s: %w", url, failed))
		}
	}
	return err
}

// load returns what is remembered of a sitemap. s may be nil.
func (s *Seen) load(ctx context.Context, url string) revisit.Page {
	if s == nil || s.Store == nil {
		return revisit.Page{}
	}
	page, ok, err := s.Store.Load(ctx, url)
	if err != nil {
		s.mu.Lock()
		s.failed = cmp.Or(s.failed, fmt.Errorf("sitemap: loading %s: %w", url, err))
		s.mu.Unlock()
	}
	if !ok {
		return revisit.Page{}
	}
	return page
}

// take notes that the loop has had all pages of the file of l.
func (s *Seen) take(l *listing) {
	if l.isIndex || l.isRedirected {
		s.note(l.file.url, revisit.Page{})
		return
	}
	next, _, _ := places.Next(l.memory, l.answer)
	s.note(l.file.url, next)
}

// note keeps for Save what is to be remembered of a sitemap. The zero Page is forgotten.
func (s *Seen) note(url string, page revisit.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken = make(map[string]revisit.Page)
	}
	s.taken[url] = page
}

// isMissing reports whether a file with the status doesn't exist.
func isMissing(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }

// spares reports whether a file isn't asked for now, by what is remembered of it.
func spares(f file, memory revisit.Page, now time.Time) bool {
	past := now.Sub(memory.Visited)
	switch {
	case memory.IsZero() || past < 0: // the clock was set back
		return false
	case memory.Gone == 0: // an index has the file's date
		isDated := !f.entry.LastMod.IsZero()
		return isDated && past < day && !f.entry.Stale(memory.Visited, now)
	case memory.Due.IsZero():
		return f.guessed && past < longestGone
	}
	return f.guessed && now.Before(memory.Due)
}
