package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// together checks the requests of all limiters together, as the site of h saw them. all are the
// sequences of the limiters, by the time at which each began.
//
// Limiters of one state (politeness.Config.WithState) promise the gaps between runs one after
// another. A gap between two such runs that is too short is broken. Other limiters don't know each
// other's starts. If they were in use at one time, the promise for all of them is open, with a
// sentence, because none of them has made it. If they were used one after the other, the sentence
// is a note.
func (h *host) together(all []*sequence) {
	if len(all) < 2 {
		return
	}
	xs := inOrder(all)
	h.gapsTogether(xs)
	h.slotsTogether(xs)
	h.blocksTogether(all)
}

// limiterOf returns the limiter of x.
func (a *auditor) limiterOf(x *exchange) *limiter { return a.indexed[x.by].limiter }

// follows reports whether the limiter of y promises to keep the distance from x, a start by another
// limiter: both have one state, and x was over and done when the process of y began.
func (a *auditor) follows(x, y *exchange) bool {
	before := a.limiterOf(x)
	after := a.limiterOf(y)
	state := a.indexed[x.by].policy.State
	sameState := state != "" && state == a.indexed[y.by].policy.State
	if !sameState || after.policy.Process != "" {
		return false
	}
	began := after.first
	if after.isShared { // another process was at work when it began
		began -= slack
	}
	return x.start <= began && before.last <= began
}

// isBeside reports whether l and o were in use at one time.
func (l *limiter) isBeside(o *limiter) bool { return l.first < o.last && o.first < l.last }

const changedBetween = "the first start of a run, closer to the run before than the delay after its last start: " +
	"limits that have changed since, or a delay that was learned, may explain it"

// A crowd is a number of limiters that asked one host, each as if it were alone.
type crowd struct {
	limiters map[*limiter]bool
	times    int           // number of times that the site saw more than each promises
	beside   int           // number of those at which both limiters were in use
	gap      time.Duration // shortest gap of two of their starts
	most     int           // most requests in flight
}

// add notes that the site saw more of two limiters than each promises.
func (c *crowd) add(l, o *limiter) {
	if c.limiters == nil {
		c.limiters = make(map[*limiter]bool)
	}
	c.limiters[l] = true
	c.limiters[o] = true
	c.times++
	if l.isBeside(o) {
		c.beside++
	}
}

// openEnded leaves a promise open for each time. saw describes the requests that the site saw.
func (c *crowd) openEnded(h *host, promise int, saw string) {
	if c.times == 0 {
		return
	}
	n := len(c.limiters)
	none := "neither"
	if n > 2 {
		none = "none of them"
	}
	why := fmt.Sprintf("%d limiters asked %s, %s together; %s promised that", n, h.report.Host, saw, none)
	for range c.beside {
		h.a.openEnded(promise, why)
	}
	notes := &h.a.report.Notes
	if c.beside == 0 && len(*notes) < maxViolations {
		*notes = append(*notes, why)
	}
}

// gapsTogether checks the gaps between starts of different limiters. xs are all exchanges, in the
// order of their starts.
func (h *host) gapsTogether(xs []*exchange) {
	a := h.a
	var c crowd
	for i, y := range xs[1:] {
		x := xs[i]
		before := a.limiterOf(x)
		after := a.limiterOf(y)
		if before == after || a.isSetBack(x) || a.isSetBack(y) {
			continue
		}
		gap := time.Duration(max(1, y.start-x.start))
		h.report.MinGap = min(gap, cmp.Or(h.report.MinGap, gap))
		isJudged := x.delay > lasting && h.sequences[after].carriedGap
		promised := a.follows(x, y) && !isJudged
		isShort := h.distance(x, y, h.limits(x)) < x.delay
		isUnsure := x.has(unsent) || y.fate == cutOff
		switch {
		case promised && !isUnsure && h.distance(x, y, h.limits(y)) < h.owed(x, y):
			detail := fmt.Sprintf("%v between the starts of two runs of one state, delay in force %v",
				gap, time.Duration(x.delay))
			a.tested(delaysKept)
			a.violation(BrokenGap, h.report.Host, detail, a.place(x), a.place(y))
		case promised:
			a.tested(delaysKept)
			a.openIf(isShort, delaysKept, changedBetween)
		case isShort && !isJudged:
			c.gap = min(gap, cmp.Or(c.gap, gap))
			c.add(before, after)
		}
	}
	if c.times > 0 {
		h.report.Together = len(c.limiters)
	}
	c.openEnded(h, delaysKept, spaced(c.gap)+" apart")
}

// isSetBack reports whether x started before its log began, which follows another one in its file:
// the clock was set back in between, so times of the two logs can't be compared.
func (a *auditor) isSetBack(x *exchange) bool { return x.start < a.limiterOf(x).first-slack }

// distance returns the time between x and y: from the end of x, if limits count delays so and the
// end is known.
func (h *host) distance(x, y *exchange, limits *limits) int64 {
	if limits.FromEnd && x.fate == ended && !x.has(unsent|resent|takenBack) {
		return y.start - x.end
	}
	return y.start - x.start
}

// owed returns the least delay that the process of y had to keep after x, the last start of the run
// before: by its own limits and crawl-delay and, if the limits were the same, the random part of
// the delay after x. A crawl-delay longer than lasting counts from a stored start alone, and x, the
// fetch of the robots.txt that names it, has stored none.
func (h *host) owed(x, y *exchange) int64 {
	before := h.limits(x)
	own := h.limits(y)
	owed := int64(own.DelayMin)
	if y.floor <= lasting {
		owed = max(owed, y.floor)
	}
	if before.DelayMin == own.DelayMin && before.DelayMax == own.DelayMax {
		owed = max(owed, min(x.delay, int64(own.DelayMax)))
	}
	return owed
}

// spaced returns d with a space before its unit.
func spaced(d time.Duration) string {
	text := d.String()
	if d >= time.Minute {
		return text
	}
	unit := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	return text[:unit] + " " + text[unit:]
}

// slotsTogether checks the number of concurrent requests of different limiters.
func (h *host) slotsTogether(xs []*exchange) {
	a := h.a
	var c crowd
	var active []*exchange
	for _, x := range xs {
		active = slices.DeleteFunc(active, func(y *exchange) bool { return y.end <= x.start })
		active = append(active, x)
		active = active[max(0, len(active)-maxOpen):]
		slots := int(x.slots)
		if slots == 0 || len(active) <= slots {
			continue
		}
		other := slices.IndexFunc(active, func(y *exchange) bool {
			l := a.limiterOf(y)
			return l != a.limiterOf(x) && l.isBeside(a.limiterOf(x))
		})
		if other < 0 {
			continue // of the limiter itself, and checked with its sequence
		}
		c.most = max(c.most, len(active))
		c.add(a.limiterOf(active[other]), a.limiterOf(x))
	}
	c.openEnded(h, slotsKept, fmt.Sprintf("%d at once", c.most))
}

// blocksTogether looks for starts during a block that another limiter knew of.
func (h *host) blocksTogether(all []*sequence) {
	var c crowd
	for _, s := range all {
		for _, b := range s.spans {
			for _, other := range all {
				// The end of a sequence that came before passes its block on: see judge.
				if other == s || !s.limiter.isBeside(other.limiter) {
					continue
				}
				i, _ := slices.BinarySearchFunc(other.xs, b.from+settling, func(x *exchange, at int64) int {
					return cmp.Compare(x.start, at)
				})
				for ; i < len(other.xs) && other.xs[i].start < b.until; i++ {
					c.add(s.limiter, other.limiter)
				}
			}
		}
	}
	c.openEnded(h, blocksKept, "in spite of a block that one of them knew of,")
}

// A span is a time in which a host was blocked.
type span struct{ from, until int64 }

// mark notes the span of the block b, or ends those that it lifts.
func (s *sequence) mark(b *block) {
	if b.lifts {
		for i := range s.spans {
			s.spans[i].until = min(s.spans[i].until, b.from)
		}
		return
	}
	if b.until > b.from && len(s.spans) < maxOpen {
		s.spans = append(s.spans, span{b.from, b.until})
	}
}
