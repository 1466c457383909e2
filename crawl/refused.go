package crawl

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// A refusals is what a host has refused since it served a page. A refusal may be the host's (a rate
// limit, a ban, an outage) or a page's own trouble, and one more answer tells them apart. Its
// methods are pure steps.
//
//	state    event                              next     why
//	open     refused: 429, 5xx, no answer       again    the page may be served the next time
//	open     403, or the like                   open     the page is held; the host may have banned us
//	open     403, number inARow                 check    a ban and forbidden pages look alike
//	open     served, and asked for after them   open     the held pages are forbidden: they are done; the
//	                                                     first few, and all of a host that limits, come back once
//	again    served, the same page              open     it was the host's trouble, which is over
//	again    refused, a page asked for before   again    it is asked for after the other one
//	again    refused, the same page             suspect  another page tells whose trouble it is; 429: again
//	suspect  served, another page               open     the trouble is the suspect's own: it is done
//	suspect  the same, after a longer rest      again    a shorter one wasn't enough for the suspect: it proves nothing
//	suspect  the same, on a host that limits    open     the suspect comes back later, and is done the second time
//	again    refused, after another suspect     again    once: a host that serves each third request looks the same
//	suspect  refused, another page              again    the host's trouble: the suspect comes back later
//	check    served                             open     the held pages are forbidden: they are done; after a
//	                                                     longer rest they come back, as a ban would be over
//	check    403                                banned   the held pages come back later
//	banned   served                             open     the ban is over
//	any      403 of a page served before        banned
//
// In all states but open requests start one at a time. Suspect, check and banned ask for good, a
// page that was served before, where there is one; so does each second request after the third
// refusal in a row. Answers to requests that started before the trouble change no state.
type refusals struct {
	good    Request // page that was served; the zero value: none was
	again   Request // was refused, and is asked for next; the zero value: none
	suspect *Page   // was refused twice
	held    []*Page // answered 403 and the like since a page was served

	once     bool // again was refused once
	doubted  int  // pages that were asked again after a single answer such as 403
	blamed   int  // suspects that ended so, by good, since another page was served
	row      int  // refusals in a row
	asked    bool // the last of them was good's
	checking bool
	banned   bool

	since  time.Time     // first refusal of the row
	heard  time.Time     // last refusal that was an answer
	last   time.Time     // last refusal of again or suspect
	rest   time.Duration // between the two refusals of suspect
	status int           // of the last refusal, which may be over; 0: no answer
	ever   bool          // the host has refused for reasons of its own
}

// mostDoubted is how many pages are asked for again after a single answer such as 403, where the
// host has never refused: few limits answer so.
const mostDoubted = 3

// mayBeOver is how long it takes until a page that is served says nothing of a ban, which may be
// over. It is shorter than the block that hostlimit sets.
const mayBeOver = 30 * time.Second

// inARow is the number of answers such as 403 that may be a ban; hostlimit has the same.
const inARow = 5

// A meaning is what an answer says about its host.
type meaning int

const (
	served    meaning = iota
	forbidden         // the page is forbidden, or we are banned
	unsure            // the host refuses us, or the page is in trouble of its own
	limited           // the host refuses us
)

// meaningOf returns the meaning of a response; nil: there was no answer.
func meaningOf(resp *http.Response) meaning {
	if resp == nil {
		return unsure
	}
	switch s := resp.StatusCode; {
	case s == 429, s == 503 && resp.Header.Get("Retry-After") != "":
		return limited
	case s == 401, s == 402, s == 403, s == 451:
		return forbidden
	case s == 408, s == 425, s/100 == 5:
		return unsure
	}
	return served
}

// A verdict is what becomes of pages.
type verdict struct {
	done  []*Page // this is their answer
	over  []*Page // were refused too often
	first []*Page // are asked for again, before others
	last  []*Page // are asked for again, after others
	later []*Page // are asked for again after a while
	drop  []*Page // are asked for again by refusals itself
}

// alone reports whether requests start one at a time.
func (s *refusals) alone() bool {
	return s.row > 0 || s.suspect != nil || s.checking || s.banned
}

// asksGood reports whether the next request is for good.
func (s *refusals) asksGood() bool {
	return s.good.URL != "" && (s.suspect != nil || s.checking || s.banned || s.row >= 3 && !s.asked)
}

// observe learns from the answer of p. Probe is whether p's request started alone; tries is
// Config.Tries.
func (s *refusals) observe(p *Page, probe bool, tries int, now time.Time) (v verdict) {
	what, earlier := meaningOf(p.Response), s.alone() && !probe
	if what == served {
		s.serve(p, earlier, now, &v)
		return v
	}
	if what == forbidden && tries == 1 && !p.good {
		v.done = append(v.done, p)
		return v
	}
	if s.row == 0 {
		s.since = now
	}
	if s.status = 0; p.Response != nil {
		s.status, s.heard = p.Response.StatusCode, now
	}
	if what == forbidden {
		s.forbid(p, earlier, &v)
		return v
	}
	over := false
	if !p.good {
		p.request.Tries++
		over = p.request.Tries >= tries
	}
	switch {
	case over:
		v.over = append(v.over, p)
	case earlier:
		v.first = append(v.first, p)
	}
	if !earlier {
		s.refuse(p, what, over, now, &v)
	}
	return v
}

// serve learns from a page that was served, which ends the trouble unless it was asked for earlier.
func (s *refusals) serve(p *Page, earlier bool, now time.Time, v *verdict) {
	if !p.good {
		v.done = append(v.done, p)
	}
	if !earlier {
		s.ever = s.ever || p.again || p.request.own
		s.succeed(p, now, v)
	}
	if p.good {
		return
	}
	s.blamed = 0
	status := p.Response.StatusCode
	if (status/100 == 2 || status == http.StatusNotModified) && (s.good.URL == "" || len(p.Body) <= smallBody) {
		s.good = p.request
		s.good.Tries = 0
	}
}

// succeed ends the trouble, as p was served.
func (s *refusals) succeed(p *Page, now time.Time, v *verdict) {
	doubts := s.ever || s.doubted < mostDoubted
	if s.checking { // then pages are held
		doubts = p.began.Sub(s.held[len(s.held)-1].ended) > mayBeOver
	}
	held := slices.DeleteFunc(s.held, func(h *Page) bool {
		switch {
		case h.ended.After(p.began):
			return false // p may have been served before a ban began
		case doubts && (!h.request.own || s.checking && h.request.Tries == 0): // once for each reason
			h.request.own = true
			if s.checking {
				h.request.Tries++
			}
			s.doubted++
			v.last = append(v.last, h)
		default:
			v.done = append(v.done, h)
		}
		return true
	})
	blamed := s.blamed
	if s.suspect != nil {
		blamed++
	}
	switch u := s.suspect; {
	case u == nil:
	case now.Sub(s.last) <= s.rest && s.ever && !u.request.own: // it may have had bad luck
		u.request.own = true
		v.last = append(v.last, u)
	case now.Sub(s.last) <= s.rest:
		v.done = append(v.done, u)
	case s.again.URL != "":
		v.first = append(v.first, u)
	default:
		v.drop = append(v.drop, u)
		s.again = u.request
	}
	*s = refusals{good: s.good, held: held, again: s.again, once: s.once, doubted: s.doubted, blamed: blamed, last: s.last, status: s.status, ever: s.ever}
}

// refuse learns from a refusal of p. Over is whether p isn't asked for again.
func (s *refusals) refuse(p *Page, what meaning, over bool, now time.Time, v *verdict) {
	s.row++
	if s.asked = p.good; p.good {
		s.explain(v)
		return
	}
	if s.suspect != nil {
		v.last = append(v.last, s.suspect)
		s.suspect = nil
	}
	switch {
	case over:
	case s.again.URL != "":
		v.first = append(v.first, p)
	case !p.again:
		s.again = p.request
		s.once = true
		s.last = now
	case what == limited, s.once && s.blamed > 0:
		s.again = p.request
		s.once = false
		s.last = now
	default:
		s.suspect, s.once, s.rest, s.last = p, false, now.Sub(s.last), now
	}
}

// explain notes that a page which was served before is refused: the pages that were refused haven't
// used a try.
func (s *refusals) explain(v *verdict) {
	n := len(v.last)
	s.ever = true
	s.forget(&v.last)
	for _, p := range v.last[n:] {
		p.request.Tries = 0
	}
}

// forget moves again and suspect to pages.
func (s *refusals) forget(pages *[]*Page) {
	if s.suspect != nil {
		*pages = append(*pages, s.suspect)
	}
	if s.again.URL != "" {
		*pages = append(*pages, &Page{request: s.again})
	}
	s.suspect, s.again = nil, Request{}
}

// forbid learns from an answer such as 403.
func (s *refusals) forbid(p *Page, earlier bool, v *verdict) {
	if !p.good {
		s.held = append(s.held, p)
	}
	switch {
	case s.banned, !earlier && (s.checking || p.good):
		s.row++
		s.asked = p.good
		s.banned = true
		s.checking = false
		s.explain(v)
		for _, h := range s.held {
			h.request.own = false
		}
		v.last = append(v.last, s.held...)
		s.held = nil
	case len(s.held) >= inARow:
		s.checking = true
	}
}

// dry ends the wait of pages that nothing tells of, as their host has nothing else to ask for.
func (s *refusals) dry() (v verdict) {
	switch {
	case s.asksGood() || s.again.URL != "":
	case s.suspect != nil:
		v.later = append(v.later, s.suspect)
		s.suspect = nil
	case len(s.held) == 0:
	case s.good.URL != "":
		s.checking = true
	default:
		v.done = s.held
		s.held = nil
		s.checking = false
	}
	return v
}

// size returns the number of pages that wait in s.
func (s *refusals) size() int {
	n := len(s.held)
	if s.again.URL != "" {
		n++
	}
	if s.suspect != nil {
		n++
	}
	return n
}

// giveBack returns the pages that s keeps, and forgets them.
func (s *refusals) giveBack() (pages []*Page) {
	pages = s.held
	s.forget(&pages)
	*s = refusals{good: s.good, ever: s.ever}
	return pages
}

// dead reports whether the host hasn't answered for so long that a crawl doesn't wait for it.
func (s *refusals) dead(now time.Time) bool {
	return s.row > 0 && s.status == 0 && now.Sub(s.since) > deadAfter && now.Sub(s.heard) > deadAfter
}

// deadAfter is longer than a server takes to be restarted or replaced.
const deadAfter = 15 * time.Minute

// closed reports whether the host has refused everything for too long: for patience, or where
// nothing was ever served, in that many tries since a ban.
func (s *refusals) closed(now time.Time, patience time.Duration, tries int) bool {
	return s.row > 0 && now.Sub(s.since) > patience || s.banned && s.good.URL == "" && s.row >= tries
}

// String returns the last refusal, for people.
func (s *refusals) String() string {
	if s.status == 0 {
		return "it hasn't answered"
	}
	return fmt.Sprintf("it has answered %d", s.status)
}

// Pages that were refused are kept until it is known whose trouble it is. What is longer is cut
// off.
const (
	keptBody   = 64 << 10
	keptBodies = 64 << 20 // all together
)

// answered learns from the answer of fl, or from the lack of one, and has page visited if it isn't
// to be asked for again.
func (r *run) answered(fl *flight, page *Page) {
	h, s := fl.h, &fl.h.refusals
	if r.stopped {
		r.end(page)
		return
	}
	v := s.observe(page, fl.probe, r.c.cfg.Tries, time.Now())
	switch {
	case s.suspect == page, slices.Contains(s.held, page):
		r.keep(page)
	case !slices.Contains(v.done, page) && !slices.Contains(v.over, page):
		page.release()
	}
	r.apply(h, v)
	r.settle(h)
	r.frontier.put(h)
}

// end ends a page that was answered after the end of the crawl.
func (r *run) end(page *Page) {
	switch what := meaningOf(page.Response); {
	case page.good:
		page.release()
	case what == served, what == forbidden:
		r.startVisit(page, Visited)
	default:
		page.release()
		r.done(Result{Request: page.request, Outcome: Left, Err: page.err}, nil)
	}
}

// keep cuts off what is too long of the body of a page that may have to wait.
func (r *run) keep(page *Page) {
	most := min(keptBody, keptBodies-r.kept)
	if len(page.Body) > most {
		page.Body, page.Truncated = slices.Clone(page.Body[:most]), true
	}
	page.release()
	page.release = func() {}
	page.kept = len(page.Body)
	r.kept += page.kept
}

// apply does what v says to pages of h.
func (r *run) apply(h *host, v verdict) {
	for _, pages := range [][]*Page{v.done, v.over, v.first, v.last, v.later, v.drop} {
		for _, p := range pages {
			r.kept -= p.kept
			p.kept = 0
		}
	}
	for _, p := range v.done {
		if r.full() { // as many pages are under way as may be visited
			v.last = append(v.last, p)
			continue
		}
		r.startVisit(p, Visited)
	}
	for _, p := range v.over {
		r.startVisit(p, Refused)
	}
	for _, p := range v.last {
		h.urls = append(h.urls, p.request)
	}
	for _, p := range v.first {
		r.frontier.back(h, p.request)
	}
	now := time.Now()
	for _, p := range v.later {
		at := now.Add(retryAfter << min(max(0, p.request.Tries-2), doublings))
		r.asleep.push(sleeper{at, p.request})
		if !h.wakes.After(now) || at.Before(h.wakes) {
			h.wakes = at
		}
	}
}

// settle decides over the pages that wait in h.refusals, where h has nothing else to ask for.
func (r *run) settle(h *host) {
	s := &h.refusals
	if n := s.size(); n > 0 && !r.stopped && n == h.open && h.flights == 0 && !h.more && !h.asked {
		r.apply(h, s.dry())
		r.frontier.put(h)
	}
}

// startVisit visits a page, whose outcome is that one if the visit succeeds.
func (r *run) startVisit(page *Page, outcome Outcome) {
	if page.Response == nil {
		r.done(Result{Request: page.request, Outcome: Failed, Err: page.err}, nil)
		return
	}
	r.visiting++
	go r.finishVisit(page, outcome)
}

func (r *run) finishVisit(page *Page, outcome Outcome) {
	defer page.release()
	r.workers <- struct{}{}
	res := Result{Request: page.request, Status: page.Response.StatusCode, Outcome: VisitFailed, Err: errGone}
	defer func() {
		<-r.workers
		r.events <- func() {
			r.visiting--
			r.summary.Bytes += int64(len(page.Body))
			r.summary.Outcomes[TooMany] += page.beyond
			for _, res := range page.lost {
				r.reject(res)
			}
			r.done(res, page.found)
		}
	}()
	res.Outcome, res.Err = r.visit(page)
	if res.Outcome == Visited {
		res.Outcome = outcome
	}
}
