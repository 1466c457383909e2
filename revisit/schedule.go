// Package revisit fetches a page again only when it may have changed, and loads it only if it has.
// Put a [Transport] around the client of a feed reader, or of any program that comes back to its
// pages:
//
//	client := &http.Client{Transport: &revisit.Transport{
//		Base:     polite, // a *politeness.Transport
//		Schedule: revisit.Schedule{Min: time.Hour},
//		Store:    revisit.Dir("feeds.state"),
//	}}
//
// If the page has changed, the response is the new page. Otherwise it is a 304 without a body. A
// request that comes too early is refused with [ErrFresh] and the time to come back.
//
// [Schedule.Next] is the whole rule, for programs that keep their pages in a queue or a database of
// their own. It needs one [Page] for each URL, and neither clock nor network.
package revisit

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"time"

	"github.com/go-politeness/politeness/internal/caching"
)

// A Schedule decides when a page is fetched again. It is plain data. The zero Schedule never asks
// again. Set it in crawl.Config.Revisit or Transport.Schedule.
type Schedule struct {
	// Min is the least time between two requests for a page. Next usually sets a longer time. If the
	// last change was a time T ago, the page is due after the square root of (Min × T). A Transport
	// uses only Min, not this formula. If Min is zero, no page is fetched again.
	Min time.Duration
	// Max is the longest time between two requests for a page. If a page calls itself fresh for longer
	// than Max, the longer time applies. If Max is equal to Min, the time is fixed. The default is 30
	// days, or Min if that is longer.
	Max time.Duration
	// IgnoreFresh fetches a page although the site calls its last response fresh (max-age,
	// Expires). The default is false, so that the page isn't fetched until that time is over, for
	// 30 days at most.
	IgnoreFresh bool
}

const (
	day = 24 * time.Hour
	// longestFresh is the longest time for which a fresh response prevents the next fetch.
	longestFresh = 30 * day
	// untilWhole is the age from which on a page is fetched without conditions, because a server may
	// return 304 for ever.
	untilWhole = 90 * day
	// presumed is how long a page is taken to be unchanged when it is first seen without a date.
	presumed = 7 * day
	// clock is how close a Last-Modified may be to the response's Date: a closer one is the time of
	// the response, and no date of the page.
	clock = 2 * time.Second
	// mostGone is the number of answers in a row that a page is gone from which on it isn't asked for.
	mostGone = 5
)

// Validate returns an error if the values of the Schedule are invalid. Call it if the values come
// from a user. Transport calls it.
func (s Schedule) Validate() error {
	switch {
	case s.Min < 0 || s.Max < 0:
		return errors.New("revisit: Min and Max can't be negative")
	case s.Min > 0 && s.Min < time.Millisecond: // a number of seconds without its unit
		return fmt.Errorf("revisit: Min is %v: was %ds meant?", s.Min, s.Min.Nanoseconds())
	case s.Min > 0 && s.Min < time.Second:
		return fmt.Errorf("revisit: Min is %v, and must be a second at least", s.Min)
	case s.Min == 0 && s != Schedule{}:
		return errors.New("revisit: without Min no page is asked for again")
	case s.Max > 0 && s.Max < s.Min:
		return fmt.Errorf("revisit: Max (%v) is shorter than Min (%v)", s.Max, s.Min)
	}
	return nil
}

// max returns the longest time between two requests.
func (s Schedule) max() time.Duration {
	if s.Max > 0 {
		return s.Max
	}
	return max(longestFresh, s.Min)
}

// A Change says what a response shows about its page, for example that the page has changed. It is
// empty if the response shows nothing about the page, such as a 403 or a 500. Use it to store only
// pages that have changed.
type Change string

// The changes.
const (
	New     Change = "new"     // the first version, or the first one after the page was gone
	Changed Change = "changed" // its text is another one
	Same    Change = "same"    // nothing has changed
	Gone    Change = "gone"    // a known page is a 404 or a 410, for the first time
	Moved   Change = "moved"   // a known page redirects permanently (301, 308)
)

// An Answer is the response to a request for a page.
type Answer struct {
	// Time is when the response came.
	Time time.Time
	// Status is the response's status, 0 without a response.
	Status int
	// Header is the response's header, of which Next reads the validators, the dates and the
	// freshness. It is nil if there is none.
	Header http.Header
	// Text is a hash of the body to compare with the last version, such as a CRC-32. Next uses it
	// only if the status is 200 or 203.
	Text uint32
	// Words is a hash of the main text, without numbers and without the parts around it, such as
	// navigation and footer. If Text has changed and Words hasn't, the change is Changed, but the
	// page isn't fetched more often. If your program can't find these parts, set Words to Text.
	Words uint32
	// Conditional means that the request had the page's conditions. See Page.Conditions. If it is
	// false, a 304 doesn't count as Same, and the next request has no conditions.
	Conditional bool
}

// isWhole reports whether a response with the status has all of its page: 203 is a 200 that a proxy
// has changed.
func isWhole(status int) bool {
	return status == http.StatusOK || status == http.StatusNonAuthoritativeInfo
}

// isVersion reports whether the response has a version of the page, or confirms the known one.
func (a *Answer) isVersion() bool {
	return isWhole(a.Status) || a.Status == http.StatusNotModified && a.Conditional
}

// mayBlameConditions reports whether the conditions of a request may have led to the status, such
// as a 400 for a date that the server can't read. With them the page would be lost.
func mayBlameConditions(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict,
		http.StatusUnprocessableEntity, http.StatusPreconditionRequired, http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return status >= http.StatusLengthRequired && status <= http.StatusExpectationFailed // 411 to 417
}

// Next is the whole rule, a pure step. The parameter p is the memory of the page, and the zero Page
// if there is none. a is a response. The result next is the new memory, c is the change, and due is
// the time of the next fetch. The zero time means never, unless a sitemap or feed reports that the
// page was modified. See Page.Hinted. The field next.Due is the same time. If you have your own
// crawler, call Next after each response.
//
// A fetch before p.Due counts as one that a hint has caused. If your program has another reason to
// fetch a page early, set p.Due to p.Earliest first. Otherwise two such fetches without a change
// make Hinted ignore the page's hints.
func (s Schedule) Next(p Page, a Answer) (next Page, c Change, due time.Time) {
	now := a.Time.Round(0)
	p = p.before(now)
	next = p
	next.Visited = now
	switch a.Status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo:
		c = next.whole(p, a, now)
	case http.StatusNotModified:
		c = next.unchanged(a)
	case http.StatusNotFound, http.StatusGone:
		c = next.gone()
	case http.StatusMovedPermanently, http.StatusPermanentRedirect:
		c = next.moved()
	case http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect:
		next.elsewhere(p, a, now)
	default:
		if a.Conditional && mayBlameConditions(a.Status) {
			next.ETag = "" // the next request is for the whole page
			next.LastModified = ""
		}
	}
	if next.Changed.IsZero() {
		next.Changed = now.Add(-presumed)
	}
	next.count(p, c, now)
	next.Earliest = now.Add(s.distance(next, a))
	next.Due = s.due(next, a.Status, now)
	return next, c, next.Due
}

// distance returns the time after a response in which its page is never fetched.
func (s Schedule) distance(p Page, a Answer) time.Duration {
	if s.IgnoreFresh || !a.isVersion() {
		return s.Min
	}
	return max(s.Min, p.Life)
}

// due returns when p is asked for again after a response at now; zero: never.
func (s Schedule) due(p Page, status int, now time.Time) time.Time {
	if s.Min == 0 {
		return time.Time{}
	}
	var interval time.Duration
	switch status {
	case http.StatusNotFound, http.StatusGone:
		if p.Gone >= mostGone {
			return time.Time{}
		}
		interval = max(s.Min, day)
		for range p.Gone - 1 {
			interval *= 3
		}
	case http.StatusMovedPermanently, http.StatusPermanentRedirect:
		interval = s.max()
	default:
		interval = s.interval(p, status, now)
	}
	due := now.Add(interval)
	if due.Before(p.Earliest) {
		return p.Earliest
	}
	return due
}

// interval returns the square root of Min × the time for which p has been unchanged, within Min and
// Max.
func (s Schedule) interval(p Page, status int, now time.Time) time.Duration {
	since := p.Changed
	// A page that has no response, or that is refused, is asked for the more rarely the longer that
	// lasts.
	isFailed := status == 0 || status >= 400
	if isFailed && !p.Whole.IsZero() {
		since = p.Whole
	}
	unchanged := max(now.Sub(since), 0)
	// As floats, since the product of two durations is no duration.
	root := math.Sqrt(float64(s.Min) * float64(unchanged))
	interval := min(max(time.Duration(root), s.Min), s.max())
	if status == 0 {
		interval = max(interval, time.Hour) // the host may be down: it is asked for its other pages
	}
	return interval
}

// whole makes p, so far the page before, the one of which a response has a version. It returns the
// change.
func (p *Page) whole(before Page, a Answer, now time.Time) Change {
	c := Same
	switch {
	case before.Whole.IsZero() || before.Gone > 0:
		c = New
	case a.Text != before.Text:
		c = Changed
	}
	date := dateOf(a)
	modified, isDated := modifiedBy(a, date)
	ago := date.Sub(modified) // by the server's clock, which may be wrong
	switch {
	case c == New && isDated:
		p.Changed = now.Add(-ago)
	case c == New:
		p.Changed = now.Add(-presumed)
	case a.Words == before.Words: // a clock, a counter: the page itself is as old as it was
	case isDated && now.Add(-ago).After(before.Visited):
		p.Changed = now.Add(-ago)
	default:
		// The page has changed between the two visits, so the middle counts. A date before the last
		// visit is that of an old file that was put back.
		p.Changed = now.Add(-now.Sub(before.Visited) / 2)
	}
	p.Text = a.Text
	p.Words = a.Words
	p.Whole = now
	p.Gone = 0
	p.ETag = validator(a.Header, "Etag", mostETag)
	p.LastModified = validator(a.Header, "Last-Modified", mostLastModified)
	p.dropClock(a, date)
	p.Life = lifetime(a.Header)
	return c
}

// unchanged makes p the page that a 304 confirms.
func (p *Page) unchanged(a Answer) Change {
	if !a.Conditional || p.Whole.IsZero() {
		// The request had no condition. The next request has none either, and gets the whole page.
		p.ETag = ""
		p.LastModified = ""
		return ""
	}
	if tag := validator(a.Header, "Etag", mostETag); tag != "" {
		p.ETag = tag
	}
	// The time of the response is no date of the page. The date that the server has just confirmed
	// still is.
	_, isDate := modifiedBy(a, dateOf(a))
	modified := validator(a.Header, "Last-Modified", mostLastModified)
	if modified != "" && (isDate || p.ETag != "") {
		p.LastModified = modified
	}
	if _, ok := caching.Lifetime(a.Header); ok {
		p.Life = lifetime(a.Header)
	}
	return Same
}

// gone makes p one that is gone. Its validators stay, and aren't sent.
func (p *Page) gone() Change {
	p.Gone++
	switch {
	case p.Whole.IsZero():
		return ""
	case p.Gone == 1:
		return Gone
	}
	return Same
}

// moved makes p a page that has moved permanently. If it comes back, it is a new page.
func (p *Page) moved() Change {
	had := !p.Whole.IsZero()
	*p = Page{Visited: p.Visited, Changed: p.Changed, Hints: p.Hints}
	if had {
		return Moved
	}
	return ""
}

// elsewhere compares the target of a temporary redirect. A page that was fetched before stays
// unchanged.
func (p *Page) elsewhere(before Page, a Answer, now time.Time) {
	if !p.Whole.IsZero() {
		return
	}
	target := crc32.ChecksumIEEE([]byte(first(a.Header, "Location")))
	isOther := !before.Visited.IsZero() && target != before.Words
	if isOther {
		p.Changed = now.Add(-now.Sub(before.Visited) / 2)
	}
	p.Text = target
	p.Words = target
}

// count counts the hints that have lied. A visit before its time was hinted.
func (p *Page) count(before Page, c Change, now time.Time) {
	hinted := !before.Visited.IsZero() && (before.Due.IsZero() || now.Before(before.Due))
	switch {
	case c == Same && hinted:
		p.Hints++
	case c != Same && c != "":
		p.Hints = 0
	}
}

// before returns p with no time of the past after now: the clock may have been set back.
func (p Page) before(now time.Time) Page {
	for _, at := range []*time.Time{&p.Visited, &p.Whole, &p.Changed} {
		if at.After(now) {
			*at = now
		}
	}
	return p
}

// dateOf returns when the server made the response, by the server's clock. A response without a
// Date has the time of its receipt.
func dateOf(a Answer) time.Time {
	if date, err := http.ParseTime(first(a.Header, "Date")); err == nil {
		return date
	}
	return a.Time
}

// modifiedBy returns the Last-Modified of a response that was made at date. ok is false if there is
// none, or if it is just the time of the response.
func modifiedBy(a Answer, date time.Time) (modified time.Time, ok bool) {
	modified, err := http.ParseTime(first(a.Header, "Last-Modified"))
	return modified, err == nil && date.Sub(modified) >= clock
}

// dropClock forgets a Last-Modified as young as the response, unless there is an ETag beside it:
// the page may have changed once more in that second (RFC 9110, section 8.8.2.2).
func (p *Page) dropClock(a Answer, date time.Time) {
	if p.ETag != "" {
		return
	}
	modified, err := http.ParseTime(first(a.Header, "Last-Modified"))
	if err == nil && date.Sub(modified) < clock {
		p.LastModified = ""
	}
}

// lifetime returns for how long a response calls itself fresh.
func lifetime(h http.Header) time.Duration {
	life, _ := caching.Lifetime(h)
	return min(life, longestFresh)
}
