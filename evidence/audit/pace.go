package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A pace derives the delay by response times of one host, where its policy has such a formula, from
// the exchanges: how long each took to be answered, and when that was. An answer counts from the
// moment at which it came, so a gap is judged once the exchanges before it have ended. By then the
// delay is known in two ways. Least is what it was at least, whichever of the latest answers the
// limiter had heard of: a shorter gap is broken. Most is the delay of a limiter that hears of each
// answer at once: a gap as long as that is proved, and what lies between is open.
type pace struct {
	turns       []turn   // gaps that aren't judged yet, in the order of the starts
	answers     []answer // in the order of their times; those that least counts already are dropped
	counted     int      // how many of these most counts
	least, most time.Duration
	blind       time.Time // start of the first exchange whose answer isn't known for good; zero: none
}

// A turn is the start x after another one.
type turn struct{ last, x *exchange }

// An answer is what the end of an exchange does to the delay by response times.
type answer struct {
	at      time.Time
	latency float64 // nanoseconds
	limits  *hostLimits
	raises  bool // it never makes the delay shorter: an error, or no answer
	maybe   bool // it may not count: the caller left, or was out of time
	odd     bool // it may have come earlier, by another clock
}

// together is how close to each other two answers are if nobody knows which the limiter took first.
const together = leeway

// A formula is what Policy.Adaptive says.
type formula struct {
	known, learned, squared bool
	factor, parallel        float64 // of Proportional and Throttle; 0: there is none
}

// byLatency reports whether response times move the delay.
func (f formula) byLatency() bool { return f.squared || f.factor > 0 || f.parallel > 0 }

// A hostLimits is a policy as it holds for the turns of a host, with the formula that it names.
type hostLimits struct {
	*evidence.Policy
	formula formula // unknown where the policy doesn't tell all that it takes
}

func newHostLimits(p *evidence.Policy) *hostLimits {
	f := formulaOf(p.Adaptive)
	if f.byLatency() && p.Ceiling <= 0 {
		f = formula{}
	}
	return &hostLimits{p, f}
}

// formulaOf reads "Longest(Learned, Proportional(1))".
func formulaOf(s string) (f formula) {
	switch s {
	case "Learned":
		return formula{known: true, learned: true}
	case "Fixed":
		return formula{known: true}
	}
	for range strings.Count(s, "Longest(") {
		s, _ = strings.CutSuffix(s, ")")
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(s, "Longest(", ""), ", ") {
		name, argument, _ := strings.Cut(strings.TrimSuffix(part, ")"), "(")
		number, err := strconv.ParseFloat(argument, 64)
		valid := err == nil && number > 0 && !math.IsInf(number, 1)
		switch {
		case part == "Learned":
			f.learned = true
		case part == "Squared":
			f.squared = true
		case name == "Proportional" && valid:
			f.factor = number
		case name == "Throttle" && valid:
			f.parallel = number
		case name == "Slower" && valid: // what is usual isn't derived: the records' delays are believed
		default:
			return formula{}
		}
	}
	f.known = true
	return f
}

// after returns the delay after an answer that took so long, by the limits of its exchange: the
// square of the seconds at least, and half way to f times the time, or to the time over the target,
// which it is at least as well.
func (n *answer) after(delay time.Duration, latency float64) time.Duration {
	f, least, most := n.limits.formula, n.limits.DelayMin, n.limits.Ceiling
	d, half := 0.0, -1.0
	if f.squared {
		d = latency * latency / float64(time.Second)
	}
	if f.factor > 0 {
		half = latency * f.factor
	}
	if f.parallel > 0 {
		d, half = max(d, latency/f.parallel), max(half, latency/f.parallel)
	}
	if half >= 0 {
		d = max(d, (float64(max(delay, least))+half)/2)
	}
	return max(least, time.Duration(min(d, float64(most))))
}

// paced takes the gap before the start x, to be judged when the answers before it are known.
func (h *hostAudit) paced(last, x *exchange) {
	h.pace.turns = append(h.pace.turns, turn{last, x})
	h.judgePace(false)
}

// paceBegins starts the host's pace anew with the start x: the limiter knows of no answers if it
// has numbered no start before, and otherwise nobody knows of how many.
func (h *hostAudit) paceBegins(x *exchange, limits *hostLimits) {
	h.judgePace(true)
	p := &h.pace
	p.answers = slices.DeleteFunc(p.answers, func(n answer) bool { return !n.at.After(x.start) })
	p.counted, p.least, p.most = 0, 0, 0
	if x.seq != 1 {
		p.most = limits.Ceiling
	}
}

// paceAnswered notes what the end d of x does to the delay by response times.
func (h *hostAudit) paceAnswered(x *exchange, d *evidence.Decision) {
	limits := h.limits(x)
	if limits == nil || !limits.formula.byLatency() || x.unpaced {
		return
	}
	at, sure := x.answered(d)
	n := answer{
		at: at, odd: !sure, latency: max(0, float64(d.Latency)), limits: limits,
		raises: d.Status <= 0 || d.Status >= 400, maybe: d.Status <= 0 && d.Left,
	}
	h.pace.add(n)
	if n.odd {
		n.at = x.start.Add(d.Latency)
		h.pace.add(n)
	}
}

func (p *pace) add(n answer) {
	i, _ := slices.BinarySearchFunc(p.answers, n, func(a, b answer) int { return cmp.Or(a.at.Compare(b.at), -1) })
	p.answers = slices.Insert(p.answers, i, n)
	if i < p.counted { // it is of an exchange that the gaps since haven't waited for
		p.counted++
		p.unknown(n.limits)
	}
}

// unknown forgets the delay: an answer is missing.
func (p *pace) unknown(limits *hostLimits) { p.least, p.most = 0, limits.Ceiling }

// judgePace judges the gaps before which no answer is missing any more, or all of them.
func (h *hostAudit) judgePace(all bool) {
	p := &h.pace
	for len(p.turns) > 0 {
		t := p.turns[0]
		for _, y := range h.open {
			if y == t.x || y.unpaced || y.seq > t.x.seq || y.start.After(t.x.start) {
				continue
			}
			if !all && len(p.turns) <= maxOpen {
				return
			}
			y.unpaced = true
			if limits := h.limits(y); limits != nil {
				p.unknown(limits)
			}
		}
		p.turns = slices.Delete(p.turns, 0, 1)
		h.judgeTurn(t)
	}
}

// judgeTurn judges the gap before a start.
func (h *hostAudit) judgeTurn(t turn) {
	p := &h.pace
	from := t.last.start
	if limits := h.limits(t.last); limits != nil && limits.FromEnd && !t.last.end.IsZero() && !t.last.leaked && !t.last.unsent {
		from = t.last.end
	}
	p.count(from)
	least, most := p.sure(from), p.most
	for p.counted < len(p.answers) && !p.answers[p.counted].at.After(t.x.start) {
		p.count(p.answers[p.counted].at) // a longer delay holds for the gap that is running, too
		most = max(most, p.most)
	}
	least = max(least, p.sure(t.x.start))
	const rounding = time.Microsecond
	if !p.blind.IsZero() && t.x.start.After(p.blind) || h.a.cutBefore(t.x.start) {
		p.unknown(h.limits(t.x))
		least, most = p.least, p.most
	}
	switch gap := t.x.start.Sub(from); {
	case gap < t.last.delay: // found already
	case gap < least-rounding:
		h.violation(BrokenGap, fmt.Sprintf("%v between two starts, delay by response times %v", gap, least), t.last.at, t.x.at)
	case gap < most-rounding:
		h.a.openEnded(delaysKept, "a start so soon after an answer, or after several at about one time, that the limiter may have reckoned otherwise")
	}
}

// count counts the answers up to the given time.
func (p *pace) count(to time.Time) {
	for p.counted < len(p.answers) && !p.answers[p.counted].at.After(to) {
		// Of answers that came together, the order is that which makes the longest delay.
		first := p.counted
		p.counted++
		for p.counted < len(p.answers) && p.answers[p.counted].at.Sub(p.answers[p.counted-1].at) < time.Millisecond {
			p.counted++
		}
		group := slices.Clone(p.answers[first:p.counted])
		slices.SortStableFunc(group, func(a, b answer) int { return cmp.Compare(a.latency, b.latency) })
		for _, raises := range [...]bool{false, true} {
			for _, n := range group {
				switch d := n.after(p.most, n.latency); {
				case n.raises != raises:
				case n.odd:
					p.most = n.limits.Ceiling
				case raises:
					p.most = max(d, p.most)
				default:
					p.most = d
				}
			}
		}
	}
}

// sure returns what the delay was at least at the given time, and forgets the answers that were
// known by then.
func (p *pace) sure(at time.Time) time.Duration {
	known := 0
	for i := 1; i <= p.counted; i++ {
		// The order of answers that came at about one time isn't known.
		whole := i == len(p.answers) || p.answers[i].at.Sub(p.answers[i-1].at) > together
		if whole && p.answers[i-1].at.Before(at.Add(-settling)) {
			p.least = atLeast(p.least, p.answers[known:i], true)
			known = i
		}
	}
	p.answers = slices.Delete(p.answers, 0, known)
	p.counted -= known
	n := 0
	for n < len(p.answers) && !p.answers[n].at.After(at.Add(together)) {
		n++
	}
	return atLeast(p.least, p.answers[:n], false)
}

// atLeast returns a delay that is no longer than what the given answers make of it, in whatever
// order they are counted, and, unless all of them were, whichever of them were. One answer that
// surely was is exact. Of several each may do no less than the quickest of them, and errors make no
// delay shorter.
func atLeast(delay time.Duration, answers []answer, all bool) time.Duration {
	if all && len(answers) == 1 && !answers[0].maybe && !answers[0].odd {
		n := &answers[0]
		d := n.after(delay, n.latency)
		if n.raises {
			d = max(d, delay)
		}
		return d
	}
	if slices.ContainsFunc(answers, func(n answer) bool { return n.odd || n.limits != answers[0].limits }) {
		return 0
	}
	quickest := math.Inf(1)
	for i := range answers {
		if !answers[i].raises {
			quickest = min(quickest, answers[i].latency)
		}
	}
	least, d := delay, delay
	for i := range answers {
		if n := &answers[i]; !n.raises {
			d = n.after(d, quickest)
			least = min(least, d)
		}
	}
	return least
}
