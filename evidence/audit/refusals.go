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
	silent   meaning = iota // nothing
	served                  // it serves us: a block ends, and the count of refusals
	failing                 // it doesn't serve us; several in a row are a refusal
	refusing                // it wants to be left alone
)

// meaning returns what the end d of an exchange says about its host.
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
	case cant(s) || s == 401 || s == 402 || s == 403 || s == 451:
		return failing
	case d.RobotsTxt:
		return silent // hosts serve robots.txt to whom they refuse their pages
	}
	return served
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
		step := p.BackoffStep
		for ; n > 1 && step < p.BackoffCap; n-- {
			step *= 2
		}
		step = min(step, p.BackoffCap)
		return step + time.Duration(p.JitterMin*float64(step)), true
	}
	return 0, false
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
	refusals             int
	by                   *exchange // nil: none of those in the log
}

// maxPast is how many blocks of a host are remembered.
const maxPast = 32

func (h *hostAudit) remember(p *past) {
	if len(h.past) == maxPast {
		h.past = slices.Delete(h.past, 0, 1)
	}
	h.past = append(h.past, p)
}

// answer derives from the end d of x what that had to do to the host, and holds what the log says
// was done against it.
func (h *hostAudit) answer(x *exchange, d *evidence.Decision) {
	t := x.by
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
		if m == served {
			h.servedAt(at)
		}
		if m == refusing || m == failing || wish > 0 {
			h.a.openEnded(blocksKept, "the clock was put forward, or the computer slept, during a request: when its answer came isn't known")
		}
		return
	}
	if x.cleared && m != served {
		h.a.contradiction("a block was lifted by an answer that is none of a host that serves us", x.at)
	}
	if x.set != nil && (m == silent || m == served) && rateLimit(d, at) == 0 {
		h.a.contradiction("a block was set by an answer that asks for none", x.at)
	}
	counts := m == refusing || m == failing && (x.set != nil && x.set.refusals > 0 || h.refusedBefore(x, at))
	switch {
	case counts:
		h.a.report.Proofs.Refusals++
		h.mustBlock(x, d, at, wish, early)
	case m == served:
		h.servedAt(at)
		fallthrough
	default:
		if m == failing {
			h.failed(x, at)
		}
		if rateLimit(d, at) > 0 {
			h.a.report.Proofs.Refusals++
			h.mustLast(x, at, wish, early)
		}
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

// refusedBefore reports whether the host surely counted refusals when x started and was answered.
func (h *hostAudit) refusedBefore(x *exchange, at time.Time) bool {
	if len(h.past) == 0 {
		return false
	}
	b := h.past[len(h.past)-1]
	switch {
	case !b.from.Before(x.start):
		return false // its own is a part of that block
	case !b.cleared.IsZero() && b.cleared.Before(at.Add(slack)):
		return false
	}
	return b.refusals > 0 && at.Before(b.until.Add(x.by.policy.Forgive-slack))
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

// mustBlock proves that x, which is a refusal, set a block, or was a part of one.
func (h *hostAudit) mustBlock(x *exchange, d *evidence.Decision, at time.Time, wish, early time.Duration) {
	other := h.besideOf(x, at)
	least, known := wish, true
	if other == nil && (retryAfter(d, at) <= 0 || x.by.policy.AtLeast) {
		n := 1
		if x.set != nil {
			n = x.set.refusals
		}
		var step time.Duration
		step, known = x.by.step(max(n, 1), d)
		least = max(wish, step)
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
			h.violation(BrokenBlock, fmt.Sprintf("a refusal that blocks for %v set a block of %v", least, x.set.until.Sub(at)), x.at, h.a.at)
			h.impose(x, at, least)
		}
		if want := h.countBefore(x, at) + 1; other == nil && x.set.refusals < min(want, 255) && !h.mayLack(at) {
			line, detail := h.a.at, fmt.Sprintf("refusal %d in a row, after %d", x.set.refusals, want-1)
			h.accuse(x.start, at, func() { h.violation(Contradiction, detail, x.at, line) })
		}
	case other != nil:
		h.mustLast(x, at, wish, early)
	case h.mayLack(at):
	default:
		line, detail := h.a.at, refusal(d)+" set no block"
		h.accuse(x.start, at, func() {
			h.violation(BrokenBlock, detail, x.at, line)
			h.impose(x, at, least)
		})
	}
}

// countBefore returns how many refusals in a row the host surely counted when x was answered.
func (h *hostAudit) countBefore(x *exchange, at time.Time) int {
	for i := len(h.past) - 1; i >= 0; i-- {
		b := h.past[i]
		switch {
		case b.by == x:
		case !b.from.Before(x.start) || !b.cleared.IsZero() || !at.Before(b.until.Add(x.by.policy.Forgive-slack)):
			return 0
		default:
			return b.refusals
		}
	}
	return 0
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
			h.impose(x, at, wish)
		})
	}
}

// An accusation is what is wrong with an answer, unless a person has blocked or cleared the host
// while it was under way: of that tells the next request for the host.
type accusation struct {
	run      *run
	from, to time.Time // when the request started, and was answered
	say      func()
}

// accuse says that something is wrong, unless what is logged until the next start excuses it.
func (h *hostAudit) accuse(from, to time.Time, say func()) {
	h.accused = append(h.accused, accusation{h.a.run, from, to, say})
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

// byHand takes what a person did to the host at the given time.
func (h *hostAudit) byHand(at time.Time) {
	h.accused = slices.DeleteFunc(h.accused, func(a accusation) bool {
		if at.Before(a.from) || at.After(a.to.Add(settling)) {
			return false
		}
		h.a.openEnded(blocksKept, "what an answer did to a host beside a person")
		return true
	})
}

// impose holds the starts against a block that wasn't set.
func (h *hostAudit) impose(x *exchange, at time.Time, stay time.Duration) {
	b := blockAudit{x.at, h.a.run, at.Add(slack), at.Add(stay)}
	for _, y := range h.recent {
		h.proveBlock(b, y)
	}
	if len(h.blocks) < maxBlocks {
		h.blocks = append(h.blocks, b)
	}
}

// A series is failures in a row, as far as it is sure that there was nothing between them.
type series struct {
	failures int
	first    time.Time
	last     time.Time
	at       place // the last of them
	most     int   // how many are a refusal
	over     bool  // whether a success came after them
}

// failed counts a failure that came at the given time. Where several answers came at about the same
// time, in an order that the log doesn't tell, it counts as few as possible.
func (h *hostAudit) failed(x *exchange, at time.Time) {
	if !at.After(h.served.Add(slack)) || x.set != nil {
		return
	}
	for _, b := range h.past {
		if !b.from.Before(x.start) {
			return // it started before a block, and says nothing new
		}
	}
	r := &h.run
	if r.over {
		return // it begins another row, which is counted once this one is judged
	}
	if r.failures == 0 {
		*r = series{first: at, most: cmp.Or(x.by.policy.InARow, 5)}
	}
	if at.Before(r.first) {
		r.first = at
	}
	if at.After(r.last) {
		r.last = at
	}
	r.failures, r.at = r.failures+1, x.at
	h.settleRun(false)
}

// servedAt takes the time of a success: failures before it, or at about that time, are forgotten,
// unless they were so many before it that they had to set a block.
func (h *hostAudit) servedAt(at time.Time) {
	h.served = maxTime(h.served, at)
	switch r := &h.run; {
	case !at.After(r.first.Add(-slack)):
	case r.failures > 0 && r.failures >= r.most && at.After(r.last.Add(settling)):
		r.over = true
	default:
		h.run = series{}
	}
}

// settleRun reports a run that had to set a block, once no answer can turn up any more that was
// between the failures.
func (h *hostAudit) settleRun(all bool) {
	r := &h.run
	if r.failures == 0 || r.failures < r.most {
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
		h.a.openEnded(blocksKept, "failures in a row that set no block, and that a success followed: it may have come between them")
	default:
		line, detail := r.at, fmt.Sprintf("%d failures in a row set no block", r.failures)
		h.accuse(r.first, r.last, func() { h.violation(BrokenBlock, detail, line) })
	}
	h.run = series{}
}
