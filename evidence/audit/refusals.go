package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A meaning is what an answer says about its host, by the rules of docs/429.md. They are written
// here anew: what a limiter and its judge shared, neither could find wrong in the other.
type meaning uint8

const (
	silent    meaning = iota // nothing
	served                   // it serves us: a block ends, and the counts of refusals
	unsure                   // it can't serve us, or the page is in trouble of its own
	forbidden                // the page is forbidden, or we are banned
	refusing                 // it wants to be left alone
)

// meaning returns what the record d of an answer says about its host.
func (t *transport) meaning(d *evidence.Decision) meaning {
	s := d.Status
	switch {
	case d.Refused != "" || t.statuses[s]:
		return refusing
	case s == 503 && retryAfter(d, d.Time) > 0:
		return refusing
	case s == 0 && d.Left:
		return silent
	case s == 0 && t.policy.Network:
		return refusing
	case s < 0 || s == 407 || s >= 600:
		return silent
	case cant(s):
		return unsure
	case forbids(s):
		return forbidden
	case d.RobotsTxt:
		return silent // hosts serve robots.txt to whom they refuse their pages
	}
	return served
}

// forbids reports whether a status is that of a page that is forbidden, or of a ban.
func forbids(status int) bool {
	return status == 401 || status == 402 || status == 403 || status == 451
}

// cant reports whether a status, 0 for no answer, is that of a host that can't, not of one that
// won't.
func cant(status int) bool {
	return status == 0 || status == 408 || status == 425 || status >= 500
}

// retryAfter reads the Retry-After of an answer that came at the given time.
func retryAfter(d *evidence.Decision, at time.Time) time.Duration {
	value := strings.Trim(d.RetryAfter, " \t")
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		return wholeSeconds(value)
	}
	until, ok := httpDate(value, at)
	if !ok {
		return 0
	}
	if sent, ok := httpDate(strings.Trim(d.ServerDate, " \t"), at); ok {
		at = sent
	}
	return max(0, until.Sub(at))
}

// longestWish is longer than any wish that a policy grants.
const longestWish = 100 * 365 * 24 * time.Hour

func wholeSeconds(digits string) time.Duration {
	n, _ := strconv.ParseUint(digits, 10, 64) // the largest number where it is larger
	return time.Duration(min(n, uint64(longestWish/time.Second))) * time.Second
}

// httpDate reads the forms of RFC 9110, section 5.6.7. Two digits of a year are those of the latest
// one that is at most 50 years ahead.
func httpDate(s string, now time.Time) (time.Time, bool) {
	leap := strings.Contains(s, ":60 ")
	s = strings.Replace(s, ":60 ", ":59 ", 1)
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if strings.Contains(layout, "-06 ") {
			t = t.AddDate((now.UTC().Year()+50-t.Year())/100*100, 0, 0)
			if t.After(now.AddDate(50, 0, 0)) {
				t = t.AddDate(-100, 0, 0)
			}
		}
		if leap {
			t = t.Add(time.Second)
		}
		return t, true
	}
	return time.Time{}, false
}

// rateLimit reads a quota with nothing left, as the log keeps it only then: until when it is reset.
// What it can't read for sure it leaves at 0, which asks for nothing.
func rateLimit(d *evidence.Decision, at time.Time) (wish time.Duration) {
	if d.RateLimit == "" { // as nearly always
		return 0
	}
	if rest, ok := strings.CutPrefix(d.RateLimit, "remaining="); ok {
		_, reset, _ := strings.Cut(rest, ", reset=")
		reset = strings.TrimSpace(reset)
		n, err := strconv.ParseFloat(reset, 64)
		switch {
		case err != nil || strings.Trim(reset, "0123456789.") != "":
			return 0
		case n < 1e9:
			return time.Duration(n * float64(time.Second))
		case n >= 1e12:
			n /= 1000
		}
		if sent, ok := httpDate(strings.Trim(d.ServerDate, " \t"), at); ok {
			at = sent
		}
		return max(0, time.Duration(min(n-float64(at.UnixNano())/1e9, 1e9)*float64(time.Second)))
	}
	for item := range strings.SplitSeq(d.RateLimit, ",") {
		left, reset := "", ""
		for i, param := range strings.Split(item, ";") {
			switch name, value, _ := strings.Cut(strings.TrimSpace(param), "="); {
			case i == 0:
			case name == "r":
				left = value
			case name == "t":
				reset = value
			}
		}
		if n, err := strconv.ParseInt(reset, 10, 64); left == "0" && err == nil {
			wish = max(wish, time.Duration(min(n, 1e9))*time.Second)
		}
	}
	return wish
}

// step returns the least that the n-th refusal in a row blocks by the policy; ok is false where the
// policy is the user's own.
func (t *transport) step(n int, d *evidence.Decision) (least time.Duration, ok bool) {
	p := t.policy
	if cant(d.Status) && t.meaning(d) != refusing {
		return fibonacci(n, time.Second, 10*time.Minute), true
	}
	switch p.Backoff {
	case "fibonacci":
		return fibonacci(n, p.BackoffStep, p.BackoffCap), true
	case "doubling":
		step := doubling(n, p.BackoffStep, p.BackoffCap)
		return step + time.Duration(p.JitterMin*float64(step)), true
	}
	return 0, false
}

// doubling returns the n-th of first, twice that, and so on, as far as the longest step.
func doubling(n int, first, longest time.Duration) time.Duration {
	for ; n > 1 && first < longest; n-- {
		first *= 2
	}
	return min(first, longest)
}

// fibonacci returns the n-th of 1, 1, 2, 3, 5... units, as far as the longest step.
func fibonacci(n int, unit, longest time.Duration) time.Duration {
	a, b := unit, unit
	for ; n > 1 && a < longest; n-- {
		a, b = b, a+b
	}
	return min(a, longest)
}

// leeway is how much earlier than we reckon a block may end: a limiter reads its clock for
// itself.
const leeway = 100 * time.Millisecond

// A past is a block that was set.
type past struct {
	from, until, cleared time.Time // cleared is zero where nothing lifted it
	refusals             int       // in a row, as its record says
	by                   *exchange // nil: none of those in the log
	kind                 meaning   // of what set it: of the refusals that are counted; silent: not known
	row                  int       // how many of that kind there were in a row, as far as that is derived
	before               *past     // the one of the same kind before it in the row; nil: none
	extends              bool      // it lengthens the block before, and isn't counted
}

// maxPast is how many blocks of a host are remembered.
const maxPast = 32

// remember takes a block, and derives what it counts as. d is its record, x the exchange whose
// answer set it, nil where that isn't known.
func (h *hostAudit) remember(p *past, x *exchange, d *evidence.Decision) {
	if x != nil && x.by.policy != nil && p.refusals > 0 {
		h.count(p, x, d)
	}
	if len(h.past) == maxPast {
		h.past = slices.Delete(h.past, 0, 1)
	}
	h.past = append(h.past, p)
}

// count derives how many refusals of its kind in a row p is. A limiter counts three: refusals,
// pauses and bans, and the record has their sum.
func (h *hostAudit) count(p *past, x *exchange, d *evidence.Decision) {
	m := x.by.meaning(d)
	before := h.blockBefore(x, p.from)
	h.report.banned = h.report.banned || m == forbidden
	if m == unsure {
		h.suspect(x)
	}
	if m >= unsure && before != nil && before.kind == refusing {
		m = refusing // while refusals count, only probes start
	}
	beside := h.besideOf(x, p.from) != nil
	quota := m < refusing && rateLimit(d, p.from) > 0 && before != nil && p.refusals == before.refusals
	switch {
	case beside || quota || m < unsure:
		p.extends = true
		if len(h.past) > 0 {
			p.kind, p.row = h.past[len(h.past)-1].kind, h.past[len(h.past)-1].row
		}
		return
	case before != nil && before.kind == m:
		p.row, p.before = before.row, before
	}
	p.kind = m
	p.row++
	for _, s := range h.suspects { // two pages in a row were refused
		s.pending = s.pending && m != unsure
	}
}

// besideOf returns the latest block that another answer set while x was in flight; nil if there is
// none. The refusal of x is a part of that block.
func (h *hostAudit) besideOf(x *exchange, at time.Time) (found *past) {
	for _, b := range h.past {
		if b.by != x && !b.from.Before(x.start) && !b.from.After(at.Add(settling)) {
			found = b
		}
	}
	return found
}

// blockBefore returns the last block before x if the host surely counted refusals by it when x
// started and was answered, else nil. From the end of that block on, requests started one at a
// time.
func (h *hostAudit) blockBefore(x *exchange, at time.Time) *past {
	return h.notCleared(x, at, at.Add(slack))
}

// notCleared returns the same if that block wasn't cleared before the given time.
func (h *hostAudit) notCleared(x *exchange, at, before time.Time) *past {
	for i := len(h.past) - 1; i >= 0; i-- {
		b := h.past[i]
		switch {
		case b.by == x && b.by != nil:
		case b.refusals == 0 || !b.from.Before(x.start) || !b.cleared.IsZero() && b.cleared.Before(before) ||
			!at.Before(b.until.Add(x.by.policy.Forgive-slack)):
			return nil
		default:
			return b
		}
	}
	return nil
}

// answer derives from the end d of x what that had to do to the host, and holds what the log says
// was done against it.
func (h *hostAudit) answer(x *exchange, d *evidence.Decision) {
	t := x.by
	h.countAnswer(d)
	if t.policy == nil {
		if d.Status == 429 || d.RetryAfter != "" {
			h.a.openEnded(blocksKept, noPolicy)
		}
		return
	}
	at, sure := x.answered(d)
	m := t.meaning(d)
	wish := retryAfter(d, at)
	if wish == 0 {
		wish = rateLimit(d, at)
	}
	wish = min(wish, cmp.Or(t.policy.MaxRetryAfter, 24*time.Hour))
	early := leeway
	if strings.Trim(d.RetryAfter, "0123456789") != "" || strings.HasPrefix(d.RateLimit, "remaining=") {
		early = slack // a date is as exact as its second
	}
	if !sure {
		switch m {
		case served:
			h.servedAt(x, at)
		case unsure:
			h.suspect(x)
		case forbidden:
			h.forbade = maxTime(h.forbade, at)
		}
		if m >= unsure || wish > 0 {
			h.a.openEnded(blocksKept, "the clock was put forward, or the computer slept, during a request: when its answer came isn't known")
		}
		return
	}
	if x.cleared && m != served {
		h.a.contradiction("a block was lifted by an answer that is none of a host that serves us", x.at)
	}
	if x.set != nil && m <= served && rateLimit(d, at) == 0 {
		h.a.contradiction("a block was set by an answer that asks for none", x.at)
	}
	if m == refusing && x.set != nil && !x.set.extends {
		x.set.kind = refusing // also where the block's record doesn't say why
	}
	before := h.blockBefore(x, at)
	h.alone(x, at)
	switch {
	case m == refusing, m >= unsure && (x.set != nil && x.set.kind >= unsure && !x.set.extends || before != nil && before.kind == refusing):
		h.a.report.Proofs.Refusals++
		h.mustBlock(x, d, at, wish, early)
		return
	case m == served:
		h.servedAt(x, at)
	case m == unsure && x.set == nil:
		h.mustPause(x, d, at, before)
	case m == forbidden:
		h.excuse(at, at, true, "whether a request was in flight when answers such as 403 were to be told from a ban")
		h.forbade = maxTime(h.forbade, at)
		h.forbid(x, at)
	}
	if rateLimit(d, at) > 0 {
		h.a.report.Proofs.Refusals++
		h.mustLast(x, at, wish, early)
	}
}

// countAnswer counts d for the report, the end of a request that was sent.
func (h *hostAudit) countAnswer(d *evidence.Decision) {
	if d.Status == 0 && d.Left {
		return
	}
	h.report.Answers++
	r := &h.report.Refused
	switch s := d.Status; {
	case s <= 0:
		r.None++
	case cant(s):
		r.Failed++
	case forbids(s):
		r.Forbidden++
	case s == 429 || d.Refused != "" || h.a.by.statuses[s]:
		r.TooMany++
	}
}

// answered returns when the answer to x came, whose end is d. Where the clock has jumped ahead
// during the exchange it came either so long after the start or so long before the end: only a
// record of what it did to the host tells, and sure is false without that.
func (x *exchange) answered(d *evidence.Decision) (at time.Time, sure bool) {
	at = x.start.Add(d.Latency)
	switch late := d.Time.Sub(x.start.Add(d.Duration)); {
	case d.Time.IsZero() || late <= slack:
		return at, true
	case !x.moved.IsZero():
		return x.moved, true
	default:
		return at.Add(late), false
	}
}

// alone proves that nothing started beside x until it was answered, if it was a probe.
func (h *hostAudit) alone(x *exchange, at time.Time) {
	answered := at.Add(-leeway)
	if b := h.notCleared(x, at, answered); b == nil || b.kind < unsure {
		return
	}
	if safe := x.safe(); x.leaked || safe > 0 && at.After(x.start.Add(safe-slack)) {
		return // its slot may have been taken back
	}
	if h.a.cutBefore(at) {
		return // the block may have been lifted
	}
	h.impose(x, x.start, answered, "the answer to a probe")
}

// longestPause is how long a host rests at most after an answer that may be a page's own trouble.
const longestPause = 5 * time.Minute

// least returns how long the block lasts at least that x set, whose answer d is, or had to set;
// known is false where the policy is the user's own.
func (h *hostAudit) least(x *exchange, d *evidence.Decision, wish time.Duration) (least time.Duration, known bool) {
	p := x.by.policy
	kind, n := refusing, 1
	if x.set != nil {
		kind = x.set.kind
	}
	if x.set != nil && x.set.refusals > 1 && !h.mayLack(x.set.from) {
		n = x.set.row
		if !h.report.banned { // or it is a sum of two
			n = x.set.refusals
		}
	}
	switch {
	case kind == unsure:
		return fibonacci(n, time.Second, longestPause), true
	case retryAfter(d, d.Time) > 0 && !p.AtLeast:
		return wish, true
	case kind == forbidden:
		return max(wish, doubling(n, time.Minute, 10*time.Minute)), true
	}
	step, known := x.by.step(n, d)
	return max(wish, step), known
}

// mustBlock proves that x, which is a refusal, set a block, or was a part of one.
func (h *hostAudit) mustBlock(x *exchange, d *evidence.Decision, at time.Time, wish, early time.Duration) {
	other := h.besideOf(x, at)
	least, known := wish, true
	if other == nil {
		least, known = h.least(x, d, wish)
	}
	if !known {
		h.a.openEnded(blocksKept, "how long a refusal blocks is a policy of the user's")
	}
	switch {
	case x.set != nil:
		short := func() bool { return x.set.until.Before(at.Add(least - min(early, least))) }
		if short() && wish > 0 && least > wish && h.mayLack(at) {
			least = wish // it may have asked for more than a block that is missing, as a part of that
		}
		if short() {
			if step, _ := x.by.step(1, d); x.set.kind == forbidden && x.set.row == 1 && h.run.full.IsZero() && !x.set.until.Before(at.Add(step-early)) {
				h.a.openEnded(blocksKept, "whether a block is a ban, or one more refusal after some that aren't in the log")
				return
			}
			h.violation(BrokenBlock, fmt.Sprintf("a refusal that blocks for %v set a block of %v", least, x.set.until.Sub(at)), x.at, h.a.at)
			h.impose(x, at.Add(slack), at.Add(least), "")
		}
		if b := x.set.before; b != nil && x.set.refusals < min(b.refusals+1, 255) && !h.mayLack(at) {
			line, detail := h.a.at, fmt.Sprintf("refusal %d in a row, after %d", x.set.refusals, b.refusals)
			h.accuse(x.start, at, func() {
				if b.cleared.IsZero() || b.cleared.After(at) { // that may be in another log
					h.violation(Contradiction, detail, x.at, line)
				}
			})
		}
		x.set.before = nil // which has one in turn
	case other != nil:
		h.mustLast(x, at, wish, early)
	case h.mayLack(at):
	default:
		h.unblocked(x, at, refusal(d)+" set no block", least)
	}
}

// unblocked accuses x of having set no block, unless it turns out to be a part of another.
func (h *hostAudit) unblocked(x *exchange, at time.Time, detail string, least time.Duration) {
	line := h.a.at
	h.accuse(x.start, at, func() {
		if h.besideOf(x, at) == nil {
			h.violation(BrokenBlock, detail, x.at, line)
			h.impose(x, at.Add(slack), at.Add(least), "")
		}
	})
}

func refusal(d *evidence.Decision) string {
	switch {
	case d.Refused != "":
		return "an answer that refuses (" + d.Refused + ")"
	case d.Status == 0:
		return "an exchange without an answer, which is a refusal here,"
	}
	return fmt.Sprintf("status %d, which is a refusal here,", d.Status)
}

// A suspect is a page that was refused, by an answer that may be the page's own trouble.
type suspect struct {
	page    uint64 // hash of what the URL has behind its host
	asked   bool   // it was asked again alone, and refused, since the last success
	pending bool   // that was so just now: the next answer tells whose trouble it is
	own     bool   // its trouble is its own
}

// maxSuspects is how many suspects of a host are remembered: more than a limiter remembers, which
// has 8, since it may have heard of them in another order.
const maxSuspects = 32

// suspected returns the suspect that x asked for, nil if there is none.
func (h *hostAudit) suspected(x *exchange) *suspect {
	if i := slices.IndexFunc(h.suspects, func(s *suspect) bool { return s.page == x.resource }); i >= 0 {
		return h.suspects[i]
	}
	return nil
}

// suspect remembers the page that x asked for.
func (h *hostAudit) suspect(x *exchange) {
	if h.suspected(x) != nil {
		return
	}
	if len(h.suspects) == maxSuspects {
		h.suspects = slices.Delete(h.suspects, 0, 1)
	}
	h.suspects = append(h.suspects, &suspect{page: x.resource})
}

// mustPause proves that x, whose answer d may be the word of a rate limit and set no block, needed
// none: it is a part of one, or the page's own trouble. before is the block that x was the probe
// of.
func (h *hostAudit) mustPause(x *exchange, d *evidence.Decision, at time.Time, before *past) {
	s := h.suspected(x)
	h.suspect(x)
	if h.besideOf(x, at) != nil {
		return
	}
	h.a.report.Proofs.Refusals++
	switch {
	case s != nil && s.own: // asked again it is no news
	case s != nil && !s.asked && before != nil: // the answer to the page after it tells
		s.asked, s.pending = true, true
	case s != nil, h.underWayFor(x):
		h.a.openEnded(blocksKept, "whether a failure of a page that had failed before is its own trouble")
	case h.mayLack(at):
	default:
		inFlight := !h.forbade.Before(x.start)
		line, what := h.a.at, fmt.Sprintf("status %d", d.Status)
		if d.Status == 0 {
			what = "an exchange without an answer"
		}
		h.accused = append(h.accused, accusation{h.a.run, x.start, at, true, func() {
			switch {
			case h.besideOf(x, at) != nil:
			case inFlight, !h.forbade.IsZero() && h.underWayAt(at):
				h.a.openEnded(blocksKept, "whether a request was in flight when answers such as 403 were to be told from a ban")
			default:
				h.violation(BrokenBlock, what+", after which a host rests for a second, set no block", x.at, line)
				h.impose(x, at.Add(leeway), at.Add(time.Second), "")
			}
		}})
	}
}

// underWayAt reports whether a request that started before the given time has no end yet.
func (h *hostAudit) underWayAt(at time.Time) bool {
	for _, y := range h.open {
		if y.start.Before(at) {
			return true
		}
	}
	return false
}

// underWayFor reports whether another request for the page of x has no end yet.
func (h *hostAudit) underWayFor(x *exchange) bool {
	for _, y := range h.open {
		if y != x && y.resource == x.resource {
			return true
		}
	}
	return false
}

// mustLast proves that a block lasts for as long as x asked.
func (h *hostAudit) mustLast(x *exchange, at time.Time, wish, early time.Duration) {
	until := at.Add(wish - min(early, wish))
	if x.set != nil && !x.set.until.Before(until) {
		return
	}
	for _, b := range h.past {
		if !b.until.Before(until) && !b.from.After(at.Add(settling)) {
			return
		}
	}
	if wish > 0 && !h.mayLack(at) {
		line, detail := h.a.at, fmt.Sprintf("the host asked to be left alone for %v and wasn't blocked for so long", wish)
		h.accuse(x.start, at, func() {
			h.violation(BrokenBlock, detail, x.at, line)
			h.impose(x, at.Add(slack), at.Add(wish), "")
		})
	}
}

// An accusation is what is wrong with an answer, unless a person has blocked or cleared the host
// while it was under way: of that tells the next request for the host.
type accusation struct {
	run      *run
	from, to time.Time // when the request started, and was answered
	rests    bool      // whether it is that the host didn't rest
	say      func()
}

// accuse says that something is wrong, unless what is logged until the next start excuses it.
func (h *hostAudit) accuse(from, to time.Time, say func()) {
	h.accused = append(h.accused, accusation{h.a.run, from, to, false, say})
}

// sayBefore says what is wrong with answers before the given start, of which all is known then.
func (h *hostAudit) sayBefore(start time.Time) {
	h.accused = slices.DeleteFunc(h.accused, func(a accusation) bool {
		if !a.to.Before(start) {
			return false
		}
		a.say()
		return true
	})
}

// excuse drops the accusations of requests that were under way at the given time, or had been just
// now. only says that it is about those that the host didn't rest.
func (h *hostAudit) excuse(at, since time.Time, only bool, why string) {
	h.accused = slices.DeleteFunc(h.accused, func(a accusation) bool {
		if at.Before(a.from) || since.After(a.to) || only && !a.rests {
			return false
		}
		h.a.openEnded(blocksKept, why)
		return true
	})
}

// byHand takes what a person did to the host at the given time.
func (h *hostAudit) byHand(at time.Time) {
	h.excuse(at, at.Add(-settling), false, "what an answer did to a host beside a person")
}

// impose holds the starts against a block that wasn't set, or that what names ends.
func (h *hostAudit) impose(x *exchange, from, until time.Time, what string) {
	b := blockAudit{x.at, h.a.run, from, until, what}
	for _, y := range h.recent {
		h.proveBlock(b, y)
	}
	if len(h.blocks) < maxBlocks {
		h.blocks = append(h.blocks, b)
	}
}

// A series is answers such as 403 in a row, as far as it is sure that there was nothing between
// them. Pages may be forbidden, or we are banned: so the one after them has to tell.
type series struct {
	failures int
	first    time.Time
	last     time.Time
	full     time.Time // when they were so many that the next request had to go alone; zero: they aren't
	at       place     // the last of them
	most     int       // how many are that
	banned   bool      // whether one that started afterwards was answered so, too
	over     bool      // whether a success came after them
}

// forbid counts an answer such as 403 that came at the given time. Where several answers came at
// about the same time, in an order that the log doesn't tell, it counts as few as possible.
func (h *hostAudit) forbid(x *exchange, at time.Time) {
	if !at.After(h.served.Add(slack)) || x.set != nil {
		return
	}
	for _, b := range h.past {
		if !b.from.Before(x.start) {
			return // it started before a block, and says nothing new
		}
	}
	r := &h.run
	if r.over || !r.full.IsZero() && !x.start.After(r.full) {
		return // it begins another row, which is counted once this one is judged, or says nothing new
	}
	if r.failures == 0 {
		*r = series{first: at, most: cmp.Or(x.by.policy.InARow, 5)}
	}
	if at.Before(r.first) {
		r.first = at
	}
	r.last = maxTime(r.last, at)
	r.banned = !r.full.IsZero()
	if r.failures, r.at = r.failures+1, x.at; r.failures == r.most {
		r.full = r.last
	}
	h.settleRun(false)
}

// tells takes the success that x was answered: it tells whose trouble a page had that was asked
// again.
func (h *hostAudit) tells(x *exchange) {
	for _, s := range h.suspects {
		s.own = s.page != x.resource && (s.own || s.pending)
		s.asked, s.pending = false, false
	}
}

// servedAt takes the time of a success, the answer to x: answers such as 403 before it, or at about
// that time, are forgotten, unless they were so many before it that they had to set a block.
func (h *hostAudit) servedAt(x *exchange, at time.Time) {
	if !x.cleared { // or it has told already
		h.tells(x)
	}
	h.served = maxTime(h.served, at)
	switch r := &h.run; {
	case !at.After(r.first.Add(-slack)):
	case r.banned && at.After(r.last.Add(settling)):
		r.over = true
	default:
		h.run = series{}
	}
}

// settleRun reports a run that had to set a block, once no answer can turn up any more that was
// between the failures.
func (h *hostAudit) settleRun(all bool) {
	r := &h.run
	if !r.banned {
		return
	}
	for _, b := range h.past {
		if b.from.After(r.first.Add(-slack)) {
			h.run = series{}
			return
		}
	}
	if !all {
		if len(h.pending) > 0 {
			return
		}
		for _, y := range h.open {
			if y.start.Before(r.last) { // also one that lost its slot: its answer may have been a success
				return
			}
		}
	}
	switch {
	case h.mayLack(r.last):
	case r.over:
		h.a.openEnded(blocksKept, "answers such as 403 in a row that set no block, and that a success followed: it may have come between them")
	default:
		line, detail := r.at, fmt.Sprintf("%d answers such as 403 in a row set no block", r.failures)
		h.accuse(r.first, r.last, func() { h.violation(BrokenBlock, detail, line) })
	}
	h.run = series{}
}
