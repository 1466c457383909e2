package crawl

import (
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-politeness/politeness/revisit"
)

// sourcesEnd is the end of the URL that stands for the sources of a host: its sitemaps and feeds,
// or whatever Config.Discover reads. No page has such a URL. Where pages are asked for again the
// Queue lends it each Revisit.Min, and its turn is a call of Discover. So one process of several
// does it, and it outlives a kill.
const sourcesEnd = "/#sources"

// isSources reports whether a URL stands for the sources of its host.
func isSources(rawURL string) bool { return strings.HasSuffix(rawURL, sourcesEnd) }

// sourcesOf returns the request that stands for the sources of the host of a URL.
func sourcesOf(req Request) (sources Request, ok bool) {
	u, err := url.Parse(req.URL)
	if err != nil {
		return Request{}, false
	}
	return Request{
		URL:      u.Scheme + "://" + u.Host + sourcesEnd,
		Host:     req.Host,
		Priority: math.MaxInt32, // before pages, which it may make due
	}, true
}

// addSources adds the sources of the host of fl to the Queue, which may know them.
func (r *run) addSources(fl *flight) {
	key := fl.h.key
	_, added := r.discovered[key]
	// Without Discover the row would come due for nothing. A later crawl may have one, and adds it.
	if added || r.c.cfg.Discover == nil || isSources(fl.request.URL) {
		return
	}
	r.discovered[key] = ""
	if sources, ok := sourcesOf(fl.request); ok {
		r.work.sources = append(r.work.sources, sources)
	}
}

// askSources calls Discover for the host of fl, if that is the turn of its sources.
func (r *run) askSources(fl *flight) bool {
	if !r.revisits() || fl.first || fl.good || !isSources(fl.request.URL) {
		return false
	}
	r.frontier.finish(fl, 0)
	if r.c.cfg.Discover == nil {
		r.doneSources(Result{Request: fl.request, Outcome: Unchanged}, true)
		return true
	}
	r.seeking++
	s := &seeker{run: r, host: fl.h.key, sources: fl.request}
	go s.seek(strings.TrimSuffix(fl.request.URL, "#sources"))
	return true
}

// doneSources has the Queue lend the sources of a host again. They are no page: nothing is counted.
// A host without sources, of which Discover has never yielded anything, is asked as rarely as for a
// page that is gone: the usual places of sitemaps would be asked for in vain each time. One that
// had some is asked as for a page that fails.
func (r *run) doneSources(res Result, hasAny bool) {
	if res.Outcome == Left {
		r.work.back = append(r.work.back, res)
		return
	}
	s := r.c.cfg.Revisit
	now := time.Now()
	memory, _ := pageOf(res.State)
	status := http.StatusNotFound
	switch {
	case hasAny:
		status = http.StatusOK
	case !memory.Whole.IsZero():
		status = http.StatusServiceUnavailable
	}
	next, _, due := s.Next(memory, revisit.Answer{Time: now, Status: status})
	switch {
	case hasAny:
		due = now.Add(s.Min)
	case due.IsZero():
		due = now.Add(s.Max)
	}
	res.Outcome = Unchanged
	res.State = stateOf(next)
	res.Again = due
	r.work.back = append(r.work.back, res)
}
