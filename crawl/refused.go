package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/printable"
)

// A refusals has the pages that a host has refused since it served a page. Either the host refuses
// (a rate limit, a ban, an outage), or only this page fails. One more response shows which. Its
// methods are pure steps.
//
//	state    event                              next     why
//	open     refused: 429, 5xx, no response     again    the page may be served the next time
//	open     403, or the like                   open     the page is held; the host may have banned us
//	open     403, number inARow                 check    a ban and forbidden pages look alike
//	open     403, the second, after a ban       check    its limit refuses all until a window ends
//	open     served, and asked for after them   open     the held pages are forbidden: they are done; the
//	                                                     first few, and all of a host that limits, come back
//	                                                     once, the very first after a rest of the host: its trial
//	open     202, or the like                   open     the same, if it stands alone between pages that are served
//	open     served, the trial                  open     the host limits so: 403, or 202, means the same as 503 from
//	                                                     now on, until a page is found to fail alone
//	again    served, that page                  open     the host had refused, and serves again
//	again    refused, a page of before          again    it is fetched after the other one
//	again    refused, that page                 suspect  another page shows whether the host refuses; 429: again
//	suspect  served, another page               again    the first one: a limit's window may have ended between
//	suspect  served, another page               open     only the suspect fails: it is done
//	suspect  served, after a longer rest        again    a shorter one wasn't enough for the suspect: it proves nothing
//	suspect  served, on a host that limits      open     the suspect comes back later, and is done the second time
//	again    refused, after another suspect     again    once: a host that serves each third request looks the same
//	suspect  refused, another page              again    the host refuses: the suspect comes back later
//	check    served                             open     the held pages are forbidden: they are done; after a
//	                                                     longer rest they come back, as a ban would be over
//	check    403                                banned   the held pages come back later
//	banned   served                             open     the ban is over
//	any      403 of a page served before        banned
//	open     a row of answers that are alike    check    in whatever words: see likeRow
//
// In all states except open, requests start one at a time. Suspect, check and banned fetch good, a
// page that was served before, if there is one. So does each second request after the third refusal
// in a row. Responses to requests that started before the first refusal change no state.
type refusals struct {
	good    Request // page that was served; the zero value: none was
	says    saying  // of good
	other   Request // page that was served before good and says something else; zero: none
	said    saying  // of other
	again   Request // was refused, and is asked for next; the zero value: none
	suspect *Page   // was refused twice
	held    []*Page // answered 403 and the like since a page was served

	refusedOnce bool // again was refused once
	doubted     int  // pages that were asked again after a single answer of a kind
	windowAsked bool // a suspect was asked for once more right after good was served
	blamed      int  // suspects that were found to fail alone by good, since another page was served
	row         int  // refusals in a row
	askedGood   bool // the last of them was good's
	checking    bool
	banned      bool
	leastHeld   int // number of held 403s and the like that may be a ban; 0: inARow

	since     time.Time     // first refusal of the row
	heard     time.Time     // last refusal that was a response
	refusedAt time.Time     // last refusal of again or suspect
	rest      time.Duration // between the two refusals of suspect
	status    int           // of the last refusal, which may be over; 0: no response
	word      string        // reason of the last refusal, if its status isn't the reason
	limits    bool          // the host has refused, and not only one page has failed
	sparse    kind          // of answers by which the host has refused single requests, and served them later
	trial     time.Time     // until then pages that were answered so wait for the trial's page; zero: no trial
	told      saying        // saying that Visit has called a refusal; zero: none
	like      likeRow       // answers that may be a wall
	doubt     saying        // row for which good is asked, while checking or banned; zero: another reason

	serves bool      // the host has served something
	first  time.Time // first refusal of a host that has served nothing
	knocks int       // times that it was asked again after such as 403, see knock
}

// freshFor is for how long refusals of a host that has served nothing use up no try: they are the
// host's, which may have banned the crawler before this crawl began.
const freshFor = 15 * time.Minute

// isFresh reports whether a refusal says nothing about its page, as nothing was served yet.
func (s *refusals) isFresh(now time.Time) bool { return !s.serves && now.Sub(s.first) < freshFor }

// knockAfter are the rests of a host that has served nothing, after responses such as 403.
var knockAfter = [...]time.Duration{time.Minute, 10 * time.Minute}

// mostDoubted is how many pages are asked for again after a single answer of a kind, if the host
// has never refused: few limits answer so.
const mostDoubted = 3

// longestTrial is how long the other pages wait for the answer to a trial, see refusals.trial. It
// is longer than the rest of the host before the trial.
const longestTrial = 2 * time.Minute

// mayBeOver is the time after which a page that is served proves nothing about a ban, because the
// ban may be over. It is shorter than the block that hostlimit sets.
const mayBeOver = 30 * time.Second

// inARow is the number of answers such as 403 that may be a ban: a limiter's default.
var inARow = backoff.Refusals{}.WithDefaults().InARow

// leastOfBanned is the same on a host that has banned the crawler before: a limit that answers so
// refuses everything until its window ends.
const leastOfBanned = 2

// byStatus are the rules of a limiter's defaults, by which a crawl reads responses.
var byStatus = func() *rules.Rules {
	r, err := rules.New(hostlimit.Config{})
	if err != nil {
		panic(err) // the zero Config is valid
	}
	return r
}()

// meaningOf returns the meaning of a page's response, or of the lack of one. If the Transport takes
// it for a refusal, its status doesn't matter. A response that says nothing about its host is a
// page like others.
func meaningOf(page *Page) rules.Meaning {
	resp := page.Response
	switch {
	case resp == nil:
		return rules.Unsure
	case page.refused != "":
		return rules.Refused
	}
	// As the limiter reads it with Call.Judges.
	o := hostlimit.Outcome{
		Status:      resp.StatusCode,
		Page:        true,
		Method:      page.method,
		Conditional: page.partial,
	}
	if resp.Header.Get("Retry-After") != "" {
		o.RetryAfter = time.Second // its length doesn't matter for the meaning
	}
	if meaning := byStatus.Meaning(&o); meaning != rules.Silent {
		return meaning
	}
	return rules.Success
}

// failsAlone reports whether the host's limiter knows that only this page fails. Nothing blocks the
// host then, so only the tries of the page end its requests.
func (p *Page) failsAlone() bool { return p.call != nil && p.call.Effect().Own }

// A verdict decides about pages: each field lists the pages with one fate.
type verdict struct {
	done  []*Page // this is their answer
	over  []*Page // were refused too often
	first []*Page // are asked for again, before others
	last  []*Page // are asked for again, after others
	calm  []*Page // are asked for again, before others, when their host has had a rest
	later []*Page // are asked for again after a while
	drop  []*Page // are asked for again by refusals itself

	rest time.Duration // until later; 0: it depends on the tries of the page
}

// alone reports whether requests start one at a time.
func (s *refusals) alone() bool {
	return s.row > 0 || s.suspect != nil || s.checking || s.banned
}

// asksGood reports whether the next request is for good.
func (s *refusals) asksGood() bool {
	if s.good.URL == "" {
		return false
	}
	inDoubt := s.suspect != nil || s.checking || s.banned
	// A host that refuses everything would use up the tries of one page after the other. Each second
	// request for good costs no try.
	everySecond := s.row >= 3 && !s.askedGood
	return inDoubt || everySecond
}

// observe learns from the response of page. probe says that its request started alone. tries is
// Config.Tries.
func (s *refusals) observe(page *Page, probe bool, tries int, now time.Time) verdict {
	var v verdict
	if page.good && page.cached {
		s.loseGood(page.request) // a cache that ignores no-cache would answer for ever, and proves nothing
		return v
	}
	what := meaningOf(page)
	earlier := s.alone() && !probe // it started before the refusals that are known now
	if what == rules.Success {
		s.serve(page, earlier, now, &v)
		return v
	}
	if page.banned {
		what = rules.Forbidden // see isWall
	}
	if page.limited {
		what = rules.Unsure // the page may be forbidden in spite of the limit
	}
	if what == rules.Forbidden && tries == 1 && !page.good {
		v.done = append(v.done, page) // it wouldn't be asked again in any case
		return v
	}
	if s.row == 0 {
		s.since = now
	}
	if s.first.IsZero() {
		s.first = now
	}
	s.status = 0
	s.word = page.refused
	if page.Response != nil {
		s.status = page.Response.StatusCode
	}
	if page.Response != nil || page.broken {
		s.heard = now
	}
	if what == rules.Forbidden {
		s.forbid(page, earlier, &v)
		return v
	}
	over := false
	isSpared := page.Response != nil && tries > 1 && s.isFresh(now) && !page.failsAlone()
	if !page.good && !isSpared { // good is no URL of the Queue, and has no tries
		page.request.Tries++
		over = page.request.Tries >= tries
	}
	switch {
	case over:
		s.endLimit(page)
		v.over = append(v.over, page)
	case earlier:
		v.first = append(v.first, page)
	}
	if !earlier {
		s.refuse(page, what, over, now, &v)
	}
	return v
}

// serve learns from a page that was served. This ends the refusals unless the request is earlier.
func (s *refusals) serve(page *Page, earlier bool, now time.Time, v *verdict) {
	s.serves = s.serves || !page.cached
	isHeld := s.joinsRow(page)
	if !page.good && !isHeld {
		v.done = append(v.done, page)
	}
	if !earlier {
		if page.again || page.request.own {
			s.serveAgain(page)
		}
		s.succeed(page, now, v)
	}
	if isHeld {
		s.held = append(s.held, page)
	}
	if !page.good && !s.checking && s.like.isLong() && s.putForward(s.like.says) {
		s.checking = true
		s.doubt = s.like.says
	}
	if page.good {
		return
	}
	s.blamed = 0
	if isHeld {
		return
	}
	// good is asked for again and again: a redirect, or an error of another kind, may come from
	// another part of the server than pages do, and a large page would be a burden to the site.
	status := page.Response.StatusCode
	isPage := status/100 == 2 || status == http.StatusNotModified
	isSmall := len(page.Body) <= smallBody
	// Config.Prepare may have made it a form, which isn't sent again as a proof.
	isProof := !page.cached && !page.otherMethod
	// If nothing else was ever served, a page that doesn't exist will do, because the host has
	// answered.
	isGone := (status == http.StatusNotFound || status == http.StatusGone) && s.good.URL == ""
	// The response to an earlier request mustn't replace good while good is being fetched.
	isUnderWay := s.checking || s.banned
	if isProof && !isUnderWay && (isGone || isPage && (isSmall || s.good.URL == "")) {
		s.keepGood(page)
	}
}

// serveAgain learns from page, which was refused, or answered as by a limit, and was asked for
// again.
func (s *refusals) serveAgain(page *Page) {
	asked := page.request.single
	if asked == ordinary {
		s.limits = true // the refused page is served now, so the refusal wasn't the page's
		return
	}
	s.trial = time.Time{}
	if kindOf(page) != asked { // the page is served now, so the host limits by such answers
		s.limits = true
		s.sparse = asked
	}
}

// endLimit notes that page fails alone. If its answer counted as that of a limit, such answers
// don't until another page is refused so, and served later.
func (s *refusals) endLimit(page *Page) {
	if page.limited {
		s.sparse = ordinary
	}
}

// joinsRow adds page to the row of answers that are alike, and reports whether it is held because
// it may be a wall.
func (s *refusals) joinsRow(page *Page) bool {
	if page.good {
		return false
	}
	page.row = rowOf(page)
	s.like.add(page.row)
	isNew := s.like.says != s.like.wall
	switch {
	case page.row == saying{}, !page.mayWait:
		return false
	case isNew && page.row != noPage && s.like.number < inARow:
		return false // a few pages with one text count as pages, and their links are followed
	case isNew && page.saying.target != "" && s.like.number == 1:
		return false // a single redirect is followed immediately
	}
	return s.differs(s.good, s.says, page.row) || s.differs(s.other, s.said, page.row)
}

// differs reports whether req, which was served as says, would show that a row isn't a wall.
func (s *refusals) differs(req Request, says, row saying) bool {
	isKnown := says != saying{}
	return req.URL != "" && isKnown && says.row() != row
}

// putForward makes good a page that was served before and differs from the row. It reports whether
// there is one.
func (s *refusals) putForward(row saying) bool {
	if s.differs(s.good, s.says, row) {
		return true
	}
	if !s.differs(s.other, s.said, row) {
		return false
	}
	old := s.good
	said := s.says
	s.good = s.other
	s.says = s.said
	s.other = old
	s.said = said
	return true
}

// keepGood makes page the new good. If the former good says something else, it is kept in other:
// one of the two may turn out to be a refusal.
func (s *refusals) keepGood(page *Page) {
	if s.good.URL != "" && s.says != page.saying {
		s.other = s.good
		s.said = s.says
	}
	s.good = page.request
	s.good.Tries = 0
	s.says = page.saying
}

// forgetServed forgets the page req as one that was served before.
func (s *refusals) forgetServed(req Request) {
	if s.other.URL == req.URL {
		s.other = Request{}
		s.said = saying{}
	}
	if s.good.URL == req.URL {
		s.good = s.other
		s.says = s.said
		s.other = Request{}
		s.said = saying{}
	}
}

// dropGood forgets the served pages that have the saying of page, because that is a refusal.
func (s *refusals) dropGood(page *Page) {
	s.forgetServed(page.request)
	s.dropGoodOf(page.saying)
}

// loseGood forgets the page req, which was served before and can't be fetched as a proof. If no
// other page can check the doubted row, the check of the row ends without a verdict.
func (s *refusals) loseGood(req Request) {
	s.forgetServed(req)
	isDoubted := s.doubt != saying{}
	switch {
	case !isDoubted || s.putForward(s.doubt):
	case s.banned:
		s.good = Request{} // it has the saying of the wall: the next page shows whether the ban is over
	default:
		s.doubt = saying{}
		s.checking = false
	}
}

// dropGoodOf forgets those of the pages that were served which say the given, unless that is zero.
func (s *refusals) dropGoodOf(says saying) {
	isKnown := says != saying{}
	if s.other.URL == "" || isKnown && s.said.row() == says.row() {
		s.other = Request{}
		s.said = saying{}
	}
	if s.good.URL == "" || isKnown && s.says.row() == says.row() {
		s.good = s.other
		s.says = s.said
		s.other = Request{}
		s.said = saying{}
	}
}

// succeed ends the refusals, because page was served.
func (s *refusals) succeed(page *Page, now time.Time, v *verdict) {
	held := s.endHeld(page, now, v)
	if s.checking && page.good && s.doubt != (saying{}) && s.doubt == s.like.says {
		s.like.believe()
	}
	leastHeld := s.leastHeld
	if s.checking && page.good && s.doubt == (saying{}) {
		leastHeld = min(2*leastHeld, inARow) // forbidden pages, on a host that bans as well
	}
	blamed := s.blamed
	if s.suspect != nil {
		blamed++
		s.endSuspect(now, v)
	}
	// All that isn't named here begins anew.
	*s = refusals{
		good:        s.good,
		says:        s.says,
		other:       s.other,
		said:        s.said,
		again:       s.again,
		held:        held,
		refusedOnce: s.refusedOnce,
		doubted:     s.doubted,
		windowAsked: s.windowAsked,
		blamed:      blamed,
		refusedAt:   s.refusedAt,
		status:      s.status,
		limits:      s.limits,
		sparse:      s.sparse,
		trial:       s.trial,
		told:        s.told,
		leastHeld:   leastHeld,
		like:        s.like,
		serves:      s.serves,
		knocks:      s.knocks,
	}
}

// endHeld decides over the held pages, as page was served. It returns those that are still held.
func (s *refusals) endHeld(page *Page, now time.Time, v *verdict) (held []*Page) {
	// If a page is forbidden, a second request for it is useless. So only the first few pages get
	// one, and those of a host that limits.
	mayBeLimit := s.limits || s.knocks > 0 || s.doubted < mostDoubted
	mayBanBeOver := false
	if s.checking && len(s.held) > 0 {
		latest := s.held[len(s.held)-1]
		mayBanBeOver = page.began.Sub(latest.ended) > mayBeOver
	}
	for _, h := range s.held {
		if h.ended.After(page.began) {
			held = append(held, h) // page may have been served before a ban began
			continue
		}
		isInRow := h.row != saying{}
		mayLimit := kindOf(h) != ordinary
		if now.Before(s.trial) && mayLimit {
			held = append(held, h) // the answer to the trial decides
			continue
		}
		if isInRow && h.row == page.row {
			held = append(held, h) // the row continues
			continue
		}
		// Each page comes back once for a limit, and once for a ban.
		// A check of a row decides over the pages of the row alone, and one of 403s over these alone.
		isChecked := s.checking && isInRow == (s.doubt != saying{})
		doubts := mayBeLimit
		if isChecked {
			doubts = mayBanBeOver
		}
		forLimit := !h.request.own
		if mayLimit && forLimit && !mayBanBeOver && s.doubted == 0 {
			s.try(h, now, v)
			continue
		}
		forBan := isChecked && h.request.Tries == 0
		hasChance := forLimit || forBan
		isPage := h.row != noPage // whatever its text
		if isInRow && !isChecked && (isPage || !s.limits) && !mayLimit {
			hasChance = false // a short row is no limit
		}
		if !doubts || !hasChance {
			v.done = append(v.done, h)
			continue
		}
		h.request.own = true
		if isChecked {
			h.request.Tries++
		}
		h.request.single = ordinary
		if !isChecked {
			h.request.single = kindOf(h)
		}
		s.doubted++
		v.last = append(v.last, h)
	}
	return held
}

// try has the held page asked for again after a rest of the host. A limit that refuses each request
// too many would otherwise refuse the page again. If the page is served, the host limits so.
func (s *refusals) try(held *Page, now time.Time, v *verdict) {
	held.request.own = true
	held.request.single = kindOf(held)
	s.doubted++
	s.trial = now.Add(longestTrial)
	v.calm = append(v.calm, held)
}

// endSuspect decides over the suspect, as another page was served.
func (s *refusals) endSuspect(now time.Time, v *verdict) {
	suspect := s.suspect
	rested := now.Sub(s.refusedAt) > s.rest && !suspect.broken // no pause is set for a broken body
	switch {
	case rested && s.again.URL == "":
		// The host had more time to recover than for the suspect, which proves nothing.
		v.drop = append(v.drop, suspect)
		s.again = suspect.request
	case rested:
		v.first = append(v.first, suspect)
	case !s.limits && s.again.URL == "" && !s.windowAsked && !suspect.request.own:
		// The window of a limit may have ended between the suspect and good. If the suspect is served
		// now, the host is known to limit.
		s.windowAsked = true
		suspect.request.own = true
		suspect.request.Tries-- // so this rule costs no additional try
		v.drop = append(v.drop, suspect)
		s.again = suspect.request
	case s.limits && !suspect.request.own:
		// A host that serves a part of all requests may have refused the suspect twice by chance.
		suspect.request.own = true
		v.last = append(v.last, suspect)
	default:
		v.done = append(v.done, suspect)
		s.endLimit(suspect)
	}
}

// refuse learns from a refusal of page. over is whether page isn't asked for again.
func (s *refusals) refuse(page *Page, what rules.Meaning, over bool, now time.Time, v *verdict) {
	s.row++
	s.askedGood = page.good
	if page.good {
		s.explain(v)
		return
	}
	if s.suspect != nil { // two pages are refused, so neither is to blame
		v.last = append(v.last, s.suspect)
		s.suspect = nil
	}
	switch {
	case over:
		return
	case s.again.URL != "":
		v.first = append(v.first, page) // one page is tried at a time
		return
	case !page.again:
		s.again = page.request
		s.refusedOnce = true
	case what == rules.Refused:
		s.again = page.request // a page that fails alone isn't answered like this
		s.refusedOnce = false
	case s.refusedOnce && s.blamed > 0:
		// After another suspect: a host that serves each third request looks the same.
		s.again = page.request
		s.refusedOnce = false
	default:
		s.suspect = page
		s.refusedOnce = false
		s.rest = now.Sub(s.refusedAt)
	}
	s.refusedAt = now
}

// explain is called if a page that was served before is refused. So the host refuses, and the
// refused pages get their tries back.
func (s *refusals) explain(v *verdict) {
	others := len(v.last)
	s.limits = true
	s.forget(&v.last)
	for _, p := range v.last[others:] {
		p.request.Tries = 0
	}
}

// forget moves again and suspect to pages.
func (s *refusals) forget(pages *[]*Page) {
	if s.suspect != nil {
		*pages = append(*pages, s.suspect)
		s.suspect = nil
	}
	if s.again.URL != "" {
		*pages = append(*pages, &Page{request: s.again})
		s.again = Request{}
	}
}

// refuseLate learns that page, which was observed as one that is served, is a refusal.
func (s *refusals) refuseLate(page *Page, tries int, now time.Time) verdict {
	s.told = page.saying
	s.dropGood(page)
	s.serves = s.good.URL != ""
	page.again = false // it was, and its answer has ended that
	isFirst := !s.alone()
	return s.observe(page, isFirst, tries, now)
}

// forbid learns from a response such as 403.
func (s *refusals) forbid(page *Page, earlier bool, v *verdict) {
	if !page.good {
		s.held = append(s.held, page)
	}
	if page.request.single != ordinary {
		s.trial = time.Time{}
	}
	// If there is a page that was served before, no other page is a proof.
	decides := page.good || s.checking && s.good.URL == ""
	confirmed := decides && !earlier
	switch {
	case s.banned || confirmed:
		s.row++
		s.askedGood = page.good
		s.banned = true
		s.checking = false
		s.leastHeld = leastOfBanned
		s.explain(v)
		for _, h := range s.held {
			h.request.own = false // the ban explains it
			h.request.single = ordinary
		}
		v.last = append(v.last, s.held...)
		s.held = nil
		if page.banned {
			s.like = likeRow{least: s.like.least, wall: s.doubt}
			s.dropGoodOf(s.doubt)
		}
	case s.forbidden() >= cmp.Or(s.leastHeld, inARow):
		s.checking = true
	}
}

// forbidden returns how many of the held pages were answered 403 or the like. The others are in a
// row of answers that are alike.
func (s *refusals) forbidden() int {
	n := 0
	for _, h := range s.held {
		if h.row == (saying{}) {
			n++
		}
	}
	return n
}

// dry ends the wait of pages about which no further answer decides, as their host has nothing else
// to ask for.
func (s *refusals) dry() verdict {
	var v verdict
	s.trial = time.Time{} // its page has ended in another way
	switch {
	case s.asksGood() || s.again.URL != "": // their answers decide
		return v
	}
	s.endShortRow(&v)
	switch {
	case s.suspect != nil:
		v.later = append(v.later, s.suspect)
		s.suspect = nil
	case len(s.held) == 0:
	case s.good.URL != "":
		s.checking = true
	case s.serves: // but nothing that may be asked for again as a proof
		v.done = s.held
		s.held = nil
		s.checking = false
	default:
		s.knock(&v)
	}
	return v
}

// endShortRow ends the wait of pages in a row that isn't long enough to be doubted.
func (s *refusals) endShortRow(v *verdict) {
	s.held = slices.DeleteFunc(s.held, func(h *Page) bool {
		isShort := h.row != saying{}
		if isShort {
			v.done = append(v.done, h)
		}
		return isShort
	})
}

// knock has one of the held pages asked for again after a while, as the host has served nothing: it
// may have banned the crawler. After the last of knockAfter, the held pages are given up.
func (s *refusals) knock(v *verdict) {
	s.checking = false
	if s.knocks == len(knockAfter) {
		for _, h := range s.held {
			h.request.Tries = max(1, h.request.Tries) // it was asked for, and counts as a page
		}
		v.over = s.held
		s.held = nil
		return
	}
	v.later = s.held[:1]
	v.rest = knockAfter[s.knocks]
	s.held = slices.Clone(s.held[1:])
	s.knocks++
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
func (s *refusals) giveBack() []*Page {
	pages := s.held
	s.forget(&pages)
	*s = refusals{
		good:   s.good,
		says:   s.says,
		other:  s.other,
		said:   s.said,
		limits: s.limits,
		sparse: s.sparse,
		told:   s.told,
		serves: s.serves,
		first:  s.first,

		leastHeld: s.leastHeld,
	}
	return pages
}

// pause notes that an operator has blocked the host until at: the host hasn't refused meanwhile.
func (s *refusals) pause(at time.Time) {
	if at.After(s.since) {
		s.since = at
	}
	if at.After(s.heard) {
		s.heard = at
	}
}

// dead reports whether the host hasn't answered for so long that a crawl doesn't wait for it.
func (s *refusals) dead(now time.Time) bool {
	silent := s.row > 0 && s.status == 0
	return silent && now.Sub(s.since) > deadAfter && now.Sub(s.heard) > deadAfter
}

// deadAfter is longer than a server takes to be restarted or replaced.
const deadAfter = 15 * time.Minute

// closed reports whether the host has refused everything for too long: for patience, or where
// nothing was ever served, in that many tries since a ban.
func (s *refusals) closed(now time.Time, patience time.Duration, tries int) bool {
	if s.row > 0 && now.Sub(s.since) > patience {
		return true
	}
	return s.banned && s.good.URL == "" && s.row >= tries && !s.isFresh(now)
}

// String returns the last refusal, for people.
func (s *refusals) String() string {
	if s.status == 0 {
		return "it hasn't answered"
	}
	if s.banned && s.doubt != (saying{}) {
		return fmt.Sprintf("it has answered %d to all pages alike, which is taken for a ban", s.status)
	}
	if s.word != "" && !s.banned {
		const most = 100 // of a text that a site may have written
		return fmt.Sprintf("it has refused (%s), which is waited for and never solved", printable.Clipped(s.word, most))
	}
	return fmt.Sprintf("it has answered %d", s.status)
}

// Refused pages are kept until it is known whether the host refuses. Longer bodies are cut.
const (
	keptBody   = 64 << 10
	keptBodies = 64 << 20 // all together
)

// A gotPage is the end of a flight whose request was sent, with or without a response.
type gotPage struct {
	fl   *flight
	page *Page
	took time.Duration
}

func (e gotPage) apply(r *run) {
	took := e.took
	if e.page.cached { // which says nothing of the host
		took = 0
		r.frontier.unstart(e.fl)
	}
	r.frontier.finish(e.fl, took)
	r.answered(e.fl, e.page)
}

// answered learns from the response of fl, or from the lack of one, and has page visited if it
// isn't to be asked for again.
func (r *run) answered(fl *flight, page *Page) {
	h := fl.h
	s := &h.refusals
	if r.stopped {
		r.end(page)
		return
	}
	if page.broken && !page.good && !s.serves {
		// No page shows whether the host ends all bodies so, and nothing would slow further tries.
		r.noPage(fl, Failed, page.err)
		return
	}
	if page.Response != nil && !page.cached && !page.good {
		h.answers.add(page.Response.StatusCode)
		if warning := h.answers.warning(h.key); warning != "" {
			r.warnings = append(r.warnings, warning)
		}
	}
	// A page that waits mustn't be cut, and one that isn't asked again needn't wait.
	hasRoom := len(page.Body) <= keptBody && r.kept+len(page.Body) <= keptBodies/2
	page.mayWait = r.c.cfg.Tries > 1 && hasRoom
	v := s.observe(page, fl.probe && !page.cached, r.c.cfg.Tries, time.Now())
	waits := s.suspect == page || slices.Contains(s.held, page)
	isVisited := slices.Contains(v.done, page) || slices.Contains(v.over, page)
	switch {
	case waits:
		r.keep(page) // it is visited if this turns out to be its answer
	case !isVisited: // finishVisit would release it
		page.release()
	}
	r.apply(h, v)
	r.settle(h)
	r.frontier.put(h)
}

// end ends a page that was answered after the end of the crawl. No further request can show whether
// the host refuses, so a refused URL is left for the next Run.
func (r *run) end(page *Page) {
	what := meaningOf(page)
	switch {
	case page.good:
		page.release()
	case what == rules.Success || what == rules.Forbidden:
		r.startVisit(page, Visited)
	default:
		page.release()
		r.done(Result{Request: page.request, Outcome: Left, Err: page.err}, nil)
	}
}

// keep cuts the body, if it is too long, of a page that may have to wait.
func (r *run) keep(page *Page) {
	most := min(keptBody, keptBodies-r.kept)
	if len(page.Body) > most {
		page.Body = slices.Clone(page.Body[:most]) // the rest is freed
		page.Truncated = true
	}
	page.reading = nil // it is longer than the body, and few pages that wait are visited
	page.release()
	page.release = func() {}
	page.kept = len(page.Body)
	r.kept += page.kept
}

// apply carries out v on pages of h.
func (r *run) apply(h *host, v verdict) {
	r.dropKept(v)
	for _, page := range v.done {
		if r.full() {
			// As many pages are under way as may be visited. If one of them fails, there is a visit
			// for this one, else it is Left.
			v.last = append(v.last, page)
			continue
		}
		r.startVisit(page, Visited)
	}
	for _, page := range v.over {
		if r.full() {
			v.last = append(v.last, page)
			continue
		}
		r.startVisit(page, Refused)
	}
	for _, page := range v.last {
		h.append(page.request)
	}
	for _, page := range v.first {
		r.frontier.back(h, page.request)
	}
	for _, page := range v.calm {
		h.calm = time.Now().Add(retryAfter)
		h.at = h.afterRest(h.at)
		r.rest(h, page.request, retryAfter)
	}
	for _, page := range v.later {
		r.rest(h, page.request, v.rest)
	}
}

// dropKept takes the pages of v out of those that wait in refusals: their bodies are visited, or
// not needed any more.
func (r *run) dropKept(v verdict) {
	for _, pages := range [][]*Page{v.done, v.over, v.first, v.last, v.calm, v.later, v.drop} {
		for _, page := range pages {
			r.kept -= page.kept
			page.kept = 0
		}
	}
}

// rest has a request of h come back after the given rest. If that is 0, it doubles with the tries
// of the request.
func (r *run) rest(h *host, req Request, rest time.Duration) {
	doubled := min(max(0, req.Tries-2), doublings) // two refusals come before the first wait
	at := time.Now().Add(cmp.Or(rest, retryAfter<<doubled))
	r.sleep(h, sleeper{at: at, request: req})
}

// sleep has the request of s come back to h at its time.
func (r *run) sleep(h *host, s sleeper) {
	r.asleep.push(s)
	if s.isBarred {
		h.barredURLs++
		h.site.asleep++
	}
	if !h.wakes.After(time.Now()) || s.at.Before(h.wakes) {
		h.wakes = s.at
	}
}

// awake gives the request of s back to its host.
func (r *run) awake(s sleeper) {
	h := r.host(s.request.Host)
	if !s.isBarred {
		r.frontier.back(h, s.request)
		return
	}
	h.barredURLs--
	h.site.asleep--
	h.append(s.request) // behind those of origins that can be reached
	r.frontier.put(h)
}

// settle decides over the pages that wait in h.refusals, where h has nothing else to ask for.
func (r *run) settle(h *host) {
	waiting := h.refusals.size()
	if waiting == 0 || waiting != h.open-len(h.aside)-h.barredURLs || r.stopped {
		return
	}
	if h.flights > 0 || h.more || h.wanted {
		return // a response is to come, which decides
	}
	r.apply(h, h.refusals.dry())
	r.frontier.put(h)
}

// startVisit visits a page. outcome is that of the page if the visit succeeds.
func (r *run) startVisit(page *Page, outcome Outcome) {
	if page.Response == nil {
		r.done(Result{Request: page.request, Outcome: Failed, Err: page.err}, nil)
		return
	}
	r.visiting++
	go r.finishVisit(page, outcome)
}

// finishVisit waits for a worker and visits a page, in a separate goroutine.
func (r *run) finishVisit(page *Page, outcome Outcome) {
	growStack()
	defer page.release()
	r.workers <- struct{}{}
	end := visitedPage{page: page, result: Result{
		Request: page.request,
		Outcome: VisitFailed,
		Status:  page.Response.StatusCode,
		Err:     errGone, // unless visit returns
	}}
	defer func() {
		<-r.workers
		r.events <- end
	}()
	end.result.Outcome, end.result.Err = r.visit(page)
	switch {
	case errors.Is(end.result.Err, ErrRefused) && end.result.Outcome == VisitFailed:
		// An error of the Transport's own reason counts once.
		page.refuse(printable.Clipped(end.result.Err.Error(), 200))
		end.result.Outcome = Refused
		end.isLast = outcome == Refused
	case end.result.Outcome == Visited && page.toldAlike:
		end.isTold = true // the text alone has called it a refusal, and Visit hasn't
	case end.result.Outcome == Visited:
		end.result.Outcome = outcome
	}
}

// A visitedPage is the end of a visit.
type visitedPage struct {
	page   *Page
	result Result // Refused, if Visit has returned ErrRefused
	isLast bool   // the page isn't asked for again, even if Visit has returned ErrRefused
	isTold bool   // refusals.told is a page's text after all
}

func (e visitedPage) apply(r *run) {
	r.visiting--
	r.summary.Bytes += int64(len(e.page.Body))
	if e.isTold {
		r.host(e.page.request.Host).refusals.told = saying{}
	}
	if e.result.Outcome == Refused && errors.Is(e.result.Err, ErrRefused) && !e.isLast {
		r.refusedByVisit(e.page, e.result)
		return
	}
	r.summary.Outcomes[TooMany] += e.page.beyond
	for _, res := range e.page.lost {
		r.reject(res)
	}
	r.plan(&e.result, e.page)
	r.judgePage(e.page, e.result.Outcome)
	r.refreshGood(e.result)
	r.finish(e.result, e.page.found)
}

// refreshGood has the page that was served before asked for with the conditions that fit.
func (r *run) refreshGood(res Result) {
	h := r.frontier.hosts[res.Host]
	if h == nil {
		return
	}
	for _, good := range []*Request{&h.refusals.good, &h.refusals.other} {
		if good.URL == res.URL {
			good.State = res.State
		}
	}
}

// refusedByVisit learns that a page which counted as served is a refusal of its host, by the error
// in res.
func (r *run) refusedByVisit(page *Page, res Result) {
	if r.stopped {
		res.Outcome = Left
		r.done(res, nil)
		return
	}
	h := r.host(page.request.Host)
	v := h.refusals.refuseLate(page, r.c.cfg.Tries, time.Now())
	for _, over := range v.over {
		res.Request = over.request
		r.done(res, nil)
	}
	v.over = nil
	r.apply(h, v)
	r.settle(h)
	r.frontier.put(h)
}
