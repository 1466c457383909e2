package politenesstest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// longestRest is how long a host rests at most after a response that may come from a rate
	// limit.
	longestRest = 5 * time.Minute
	// inARow is how many answers such as 403 in a row are followed by a single request.
	inARow = 5
	// forgiven is how long after a rest nothing before it counts any more.
	forgiven = 30 * time.Minute
)

// rests is the state of a host whose answers ask for a rest without naming a time: a time without a
// request, and one request alone after it. It follows from the starts and answers of the host, in
// their order:
//
//	5xx, 408, 425, no response       rest: 1, 1, 2, 3, 5... s by the number in a row
//	one of these to the request      none for the page that was refused: the response to the next
//	after a rest                     page decides
//	one of these of a page right     none: only that page fails
//	before one that was served
//	one of these after 429 or a      rest: 1 s, for any page
//	challenge by its header
//	the fifth of 401, 402, 403, 451  no rest; one request alone
//	and of unknown statuses
//	the next of them                 rest: 60 s, doubling to 10 min, then to 4 h
//	any success except robots.txt    all is over
type rests struct {
	rules Rules
	until time.Time // end of the rest
	// setBy set the rest, made requests start alone, or refused: a response to an earlier start
	// doesn't count.
	setBy     *exchange
	why       string // the same in words
	alone     bool
	probe     *exchange   // the request that is alone; nil: none
	beside    []*exchange // those that started beside it
	row       int
	forbidden int
	bans      int
	checking  bool   // the next answer such as 403 is a ban
	asked     bool   // the last refusal named its time
	pending   string // page that was refused again; the next answer decides whether only it fails
	suspects  map[string]*suspect
	probes    map[*exchange]bool
	// early are requests that started in the instant of a response that asked for a rest, before
	// anybody could know of it.
	early map[*exchange]bool
	found map[*exchange]Violation
}

// A suspect is a page that was refused.
type suspect struct {
	again bool // alone, too, since the last success
	own   bool
}

// findRests returns the requests that started into a rest of their host, or beside a request that
// was to be alone.
func (c *checker) findRests() map[*exchange]Violation {
	found := map[*exchange]Violation{}
	if c.rules.Rest < 0 {
		return found
	}
	type event struct {
		at      instant
		x       *exchange
		started bool
	}
	var events []event
	for _, x := range c.web.log {
		events = append(events, event{x.started, x, true})
		settled := x.settledAt()
		if settled != 0 {
			events = append(events, event{settled, x, false})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	hosts := map[string]*rests{}
	for _, e := range events {
		key := c.rules.hostKey(e.x)
		r := hosts[key]
		if r == nil {
			r = &rests{
				rules:    c.rules,
				suspects: map[string]*suspect{},
				probes:   map[*exchange]bool{},
				early:    map[*exchange]bool{},
				found:    found,
			}
			hosts[key] = r
		}
		if e.started {
			r.start(e.x)
		} else {
			r.answer(e.x)
		}
	}
	return found
}

// start reports x if it starts into a rest, and notes it if it is the one that is to be alone.
func (r *rests) start(x *exchange) {
	start := x.record.Start
	switch {
	case !r.alone && !r.asked: // nothing was refused
	case r.alone && start.After(r.until.Add(forgiven)) && !r.until.IsZero():
		r.clear()
	case !start.After(r.setBy.settled()) && (r.asked || start.Before(r.until)):
		r.early[x] = true
	case !r.alone: // the refusal has named its time, which checkBlock looks at
	case start.Before(r.until.Add(-r.rules.Slack)):
		r.report(x, r.setBy, r.until.Sub(r.setBy.settled()), r.why+", after which a host rests")
	case r.probe != nil:
		r.beside = append(r.beside, x)
	default:
		r.probe = x
		r.probes[x] = true
	}
}

// answer changes the state by the response to x, or by its failure.
func (r *rests) answer(x *exchange) {
	if r.probe == x {
		r.endProbe()
	}
	status := x.record.Status
	page := x.page()
	earlier := r.startedEarlier(x)
	switch {
	case x.saysNothing() && !x.isChallenge():
	case r.rules.refusal(status) || status == 429 || x.isChallenge():
		inBlock := !r.alone || r.asked || r.bans > 0
		if earlier && inBlock { // the block that was set while x was in flight counts it already
			return
		}
		if !earlier {
			r.clear()
		}
		r.asked = true
		r.setBy = x
		r.why = fmt.Sprint(status)
		r.forbidden = 0
		r.pending = ""
	case status == 0 || status == 408 || status == 425 || status/100 == 5:
		r.unsure(x, page, earlier)
	case status >= 400 && status != 404 && status != 410:
		if !earlier && !x.isRobots && !r.asked {
			r.forbid(x)
		}
	case x.isRobots: // hosts serve it to crawlers that they refuse their pages
	default:
		delete(r.suspects, page)
		// Another page was served right after the one that was refused again: so only the refused
		// page fails.
		if s := r.suspects[r.pending]; s != nil {
			s.own = true
		}
		r.pending = ""
		if !earlier {
			r.clear()
		}
	}
}

// endProbe reports the requests that started beside the one that was to be alone.
func (r *rests) endProbe() {
	end := r.probe.settled().Add(-r.rules.Slack)
	for _, x := range r.beside {
		if x.record.Start.Before(end) {
			reason := fmt.Sprintf("%s, after which one request starts alone, which was %v", r.why, r.probe.snapshot())
			r.report(x, r.setBy, 0, reason)
		}
	}
	r.probe = nil
	r.beside = nil
}

// startedEarlier reports whether x started before the response that set the rest was there.
func (r *rests) startedEarlier(x *exchange) bool {
	if r.early[x] {
		return true
	}
	return r.setBy != nil && x.started < r.setBy.settledAt()
}

// isChallenge reports whether a field of the response to x says that it is a challenge, whatever
// its status. docs/429.md lists the fields.
func (x *exchange) isChallenge() bool {
	says := func(name string, words ...string) bool {
		value := strings.ToLower(strings.TrimSpace(x.record.Response.Get(name)))
		return slices.Contains(words, value)
	}
	has := func(name string) bool { return len(x.record.Response.Values(name)) > 0 }
	isDenied := x.record.Status == 401 || x.record.Status == 403
	switch {
	case says("cf-mitigated", "challenge"), says("x-vercel-mitigated", "challenge"):
		return true
	case says("x-amzn-waf-action", "challenge", "captcha"), says("x-px-blocked", "1", "true"):
		return true
	}
	return isDenied && (has("x-datadome") || has("x-dd-b"))
}

// saysNothing reports whether the end of x says nothing about its host: it never reached one, its
// connection was lost, its client gave it up, or the response is a proxy's or no status at all.
func (x *exchange) saysNothing() bool {
	status := x.record.Status
	if status == 0 {
		return x.site == nil || x.left || errors.Is(x.record.Err, errHungUp)
	}
	switch status {
	case 400, 405, 406, 409: // a crawler that compares pages may take them for a ban, and needn't
		return true
	case 407, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 431: // about the request
		return true
	case 501:
		return x.record.Method != "GET"
	}
	return false
}

// unsure takes a response that may come from a rate limit, or from a page that always fails.
func (r *rests) unsure(x *exchange, page string, earlier bool) {
	s := r.suspects[page]
	switch {
	case r.asked && !earlier:
		r.row = 0 // how long a row of refusals blocks is the crawler's policy
	case s != nil && s.own:
		return
	case s != nil && !s.again && r.probes[x] && !earlier:
		s.again = true
		r.pending = page
		return
	case s == nil:
		r.suspects[page] = new(suspect)
	}
	if earlier {
		return
	}
	r.pending = ""
	r.row++
	long := time.Second
	next := time.Second
	for n := 1; n < r.row && long < longestRest; n++ {
		long, next = next, long+next
	}
	why := "no response"
	if x.record.Status > 0 {
		why = fmt.Sprint(x.record.Status)
	}
	r.rest(x, max(min(long, longestRest), r.rules.Rest), why)
}

// forbid takes a response such as 403: of a page that is forbidden, or of a ban.
func (r *rests) forbid(x *exchange) {
	if r.checking || r.bans > 0 {
		r.checking = false
		r.bans++
		long := time.Minute << min(r.bans-1, 8) // doubling
		long = min(long, 10*time.Minute)
		if further := r.bans - 6; further > 0 { // that was refused twice
			long = min(20*time.Minute<<min(further-1, 8), 4*time.Hour)
		}
		r.rest(x, long, fmt.Sprintf("%d once more, which is a ban", x.record.Status))
		return
	}
	r.forbidden++
	if r.forbidden == inARow {
		r.forbidden = 0
		r.checking = true
		r.rest(x, 0, fmt.Sprintf("%d answers in a row such as %d", inARow, x.record.Status))
	}
}

// rest begins a rest after the response to x, and lets one request start alone at its end.
func (r *rests) rest(x *exchange, long time.Duration, why string) {
	r.alone = true
	r.setBy = x
	r.why = why
	r.until = x.settled().Add(long)
}

// clear ends the rest and resets the counts of refusals in a row.
func (r *rests) clear() {
	r.alone = false
	r.asked = false
	r.checking = false
	r.row = 0
	r.forbidden = 0
	r.bans = 0
	for _, s := range r.suspects {
		s.again = false
	}
}

func (r *rests) report(x, by *exchange, want time.Duration, reason string) {
	r.found[x] = Violation{
		Kind:    Block,
		Request: x.snapshot(),
		Earlier: by.snapshot(),
		Want:    want,
		Got:     x.record.Start.Sub(by.settled()),
		Reason:  reason,
	}
}

// settledAt is the instant at which x was answered, or failed; 0: it is under way.
func (x *exchange) settledAt() instant { return cmp.Or(x.answered, x.ended) }

// settled is when x was answered, or failed.
func (x *exchange) settled() time.Time {
	if x.answered != 0 {
		return x.record.Answered
	}
	return x.record.End
}

// page is what x asked for, without the fragment.
func (x *exchange) page() string {
	u := *x.url
	u.Fragment = ""
	u.RawFragment = ""
	return u.String()
}
