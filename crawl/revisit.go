package crawl

import (
	"errors"
	"hash/crc32"
	"hash/fnv"
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/revisit"
)

// disallowedFor is how long a URL isn't asked for that robots.txt disallows: that may change.
const disallowedFor = 7 * 24 * time.Hour

// revisits reports whether pages are asked for again.
func (r *run) revisits() bool { return r.c.cfg.Revisit.Min > 0 }

// A recall has the fields that a page needs only with Config.Revisit.
type recall struct {
	memory      revisit.Page // of the last visit
	conditional bool         // the request has its conditions
	ownTerms    bool         // Config.Prepare has set other conditions
	isLearned   bool         // next and Page.Change are set by the response
	next        revisit.Page // memory from now on
}

// early returns the time from which the URL of fl may be fetched, or zero if it may be now. It is
// early if the Queue's clock differs, or if the Queue was asked to lend the URL again.
func (r *run) early(fl *flight) (earliest time.Time) {
	if !r.revisits() || fl.good {
		return earliest
	}
	memory, _ := pageOf(fl.request.State) // without a readable State it is a new page
	now := time.Now()
	if at := memory.EarliestBy(now); at.After(now) {
		return at
	}
	return earliest
}

// An earlyFlight is the end of a flight whose URL may not be fetched before earliest.
type earlyFlight struct {
	fl       *flight
	earliest time.Time
}

func (e earlyFlight) apply(r *run) {
	h := e.fl.h
	r.frontier.finish(e.fl, 0)
	if r.waitsForEarly(e) {
		at := time.Now().Add(nearlyDue)
		if e.earliest.Before(at) {
			at = e.earliest
		}
		r.sleep(h, sleeper{at: at, request: e.fl.request})
	} else {
		// It isn't counted, because it has no outcome.
		res := Result{Request: e.fl.request, Outcome: Unchanged, Again: e.earliest}
		r.work.back = append(r.work.back, res)
	}
	r.settle(h)
	r.frontier.put(h)
}

// nearlyDue is for how long the crawl keeps a URL that may not be fetched yet.
const nearlyDue = time.Minute

// waitsForEarly reports whether the URL of e waits here. A Queue whose clock is ahead of this one
// would lend it again at once, and so on until its time has come.
func (r *run) waitsForEarly(e earlyFlight) bool {
	url := e.fl.request.URL
	isRepeated := r.lentEarly.Contains(url)
	r.lentEarly.Add(url, true)
	mayWait := !r.stopped && len(r.asleep) < mostAsleep
	return mayWait && (isRepeated || time.Until(e.earliest) < nearlyDue)
}

// condition makes req conditional on a change since the last visit. A request that has conditions
// from Config.Prepare stays unchanged.
func (r *run) condition(page *Page, req *http.Request) *http.Request {
	for name := range req.Header {
		if name == "Range" || strings.HasPrefix(name, "If-") {
			page.recall.ownTerms = true
		}
	}
	page.recall.memory, _ = pageOf(page.request.State)
	if page.recall.ownTerms || page.otherMethod {
		return req
	}
	now := time.Now()
	page.recall.conditional = page.recall.memory.Conditions(req.Header, now)
	due := page.recall.memory.Earliest
	if due.IsZero() || due.After(now) || !r.promises(page) {
		return req
	}
	return req.WithContext(hostlimit.WithDue(req.Context(), due))
}

// promises reports whether the log may have the due time of the page that is fetched now.
func (r *run) promises(page *Page) bool {
	memory := page.recall.memory
	least := r.c.cfg.Revisit.Min
	// If the last response isn't remembered, because its visit failed, for example, Earliest is later
	// by Min and more. Validators of that response aren't sent back.
	usual := max(least, memory.Life)
	isBehind := memory.Earliest.Sub(memory.Visited) > usual+least/2
	switch {
	case page.good: // it is fetched as a proof that the host serves again
		return false
	case isBehind && !page.recall.conditional:
		return false
	}
	return !r.c.cfg.Revisit.IgnoreFresh
}

// errUnasked is the reason if a page is Failed because of a 304 without a condition.
var errUnasked = errors.New("crawl: status 304, though the request had no conditions")

// learn finds the change of the page in its response, and the time when it is due again.
func (r *run) learn(p *Page) {
	if !r.revisits() || p.cut {
		return // a part of a page shows no change; the next response brings the rest
	}
	a := revisit.Answer{
		Time:        p.ended,
		Status:      p.Response.StatusCode,
		Header:      p.Response.Header,
		Conditional: p.recall.conditional,
	}
	if p.refused != "" && a.Status < 400 {
		a.Status = http.StatusServiceUnavailable // the refusal had the status of a page
	}
	if a.Status/100 == 2 {
		a.Text, a.Words = r.hashesOf(p)
	}
	p.recall.next, p.Change, _ = r.c.cfg.Revisit.Next(p.recall.memory, a)
	p.recall.isLearned = true
	if a.Conditional && a.Status/100 == 5 && p.failsAlone() {
		p.recall.next.ETag = "" // the server may fail because of the conditions
		p.recall.next.LastModified = ""
	}
	if p.Change != "" {
		p.Since = p.recall.memory.Visited
	}
}

// hashesOf returns the hashes of the parts of a page that are compared with its last version.
func (r *run) hashesOf(p *Page) (text, words uint32) {
	if r.c.cfg.Compare != nil {
		sum := crc32.ChecksumIEEE(r.c.cfg.Compare(p))
		return sum, sum
	}
	if p.refs == nil { // it isn't HTML
		sum := crc32.ChecksumIEEE(p.Body)
		return sum, sum
	}
	return folded(p.wholeText), folded(p.mainText)
}

// folded returns a hash in 32 bits.
func folded(h uint64) uint32 { return uint32(h ^ h>>32) } //nolint:gosec // half of a hash is one

// Compared returns the visible text of an HTML page, with white space folded, in UTF-8. For any
// other page it returns Body. Call it in a Config.Compare of your own, to take something out of it.
// If Compare is nil, the targets of links and images of an HTML page are compared too. Compared
// leaves them out.
func (p *Page) Compared() []byte {
	kind := mediatype.OfPage(p.Response.Header["Content-Type"])
	markup, isPage := weblink.MarkupOf(kind.Type)
	if !isPage {
		return p.Body
	}
	return visibleText(p.Text(), markup)
}

// plan sets the time when the URL of a result is due again, and its memory. p is nil if there is no
// page.
func (r *run) plan(res *Result, p *Page) {
	s := r.c.cfg.Revisit
	if !r.revisits() || res.Outcome == Left {
		return
	}
	now := time.Now()
	memory, _ := pageOf(res.State)
	if p != nil {
		res.To = p.to
	}
	var due time.Time
	switch {
	case res.Outcome == VisitFailed:
		// The visit has lost the changes. The memory stays, so the next response brings them again.
		due = now.Add(s.Min)
		if p != nil && p.recall.next.Earliest.After(due) {
			due = p.recall.next.Earliest
		}
	case p != nil && p.recall.isLearned:
		res.Change = p.Change
		res.Since = p.Since
		r.remember(res, p.recall.next, p.recall.next.Due)
		return
	case res.Outcome == Disallowed:
		due = now.Add(max(disallowedFor, s.Min))
	case res.Outcome == Rejected:
		due = now.Add(s.Max)
	case res.Outcome == OverBudget, res.Outcome == EnoughOfHost, p != nil:
		due = now.Add(s.Min)
	default: // no response, or a refusal
		a := revisit.Answer{Time: now}
		if res.Status >= 400 {
			a.Status = res.Status
		}
		next, _, _ := s.Next(memory, a)
		r.remember(res, next, next.Due)
		return
	}
	if !memory.IsZero() {
		memory.Earliest = now.Add(s.Min)
		if p != nil && p.recall.next.Earliest.After(memory.Earliest) {
			memory.Earliest = p.recall.next.Earliest
		}
		memory.Due = due
	}
	r.remember(res, memory, due)
}

// remember lets the Queue keep the memory of a page until it is due.
func (r *run) remember(res *Result, memory revisit.Page, due time.Time) {
	res.State = ""
	if !memory.IsZero() {
		res.State = stateOf(memory)
	}
	res.Again = due
	// A crawl that watches fetches the pages of a host together, so that its robots.txt and its
	// connections serve several. Each host has a separate grid, so that hosts are spread over time.
	if step := r.c.cfg.Revisit.Min / 4; r.c.cfg.Watch < 0 && !due.IsZero() {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(res.Host))
		offset := time.Duration(hash.Sum64() % uint64(step)) //nolint:gosec // step is positive, and larger
		res.Again = due.Add(-offset).Truncate(step).Add(offset)
		if res.Again.Before(due) {
			res.Again = res.Again.Add(step)
		}
	}
}
