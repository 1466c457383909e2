package audit

import (
	"cmp"
	"time"
)

// The numbers of docs/429-reference.md. They are the least: a limiter may block for longer, and
// teach a longer delay.
const (
	// policyMost is the longest step of the default policy: 1, 1, 2, 3, 5, 8 s and so on.
	policyMost = 10 * time.Minute
	// unsureStep and unsureMost are the first and the longest pause after unclear responses in a
	// row. A shorter Cap of the policy replaces unsureMost.
	unsureStep = time.Second
	unsureMost = 5 * time.Minute
	// Bans begin with banStep and double, up to banMost. After bansToMost bans, two of which were
	// of banMost, they double again, up to banLongest.
	banStep    = time.Minute
	banMost    = 10 * time.Minute
	bansToMost = 6
	banLongest = 4 * time.Hour

	// A refusal makes the delay 1.5 times as long, and a ban twice.
	refusalTeaches = 1.5
	banTeaches     = 2
	// A page that is served stepTime after the last lesson or step makes the delay 2 % shorter. The
	// percentage doubles after every five steps, up to 16 %.
	stepTime    = 20 * slack
	shorter     = 2  // percent
	shorterMost = 16 // percent
	stepsAlike  = 5
	// maxSteps bounds the steps that are computed. After them nothing is left of a delay.
	maxSteps = 1000
)

// least returns the least length of the block that n set. known is false if the user has written
// the policy.
func (n *answer) least() (least int64, known bool) {
	p := n.by.policy
	b := n.block
	most := policyMost // except for bans
	if p.BackoffCap > 0 {
		most = min(most, max(time.Second, p.BackoffCap))
	}
	failed := cant(n.status) && n.meaning != refusing
	switch {
	case b.kind == unsure: // maybe only this page fails
		least = fibonacci(b.inARow, unsureStep, min(unsureMost, most))
	case n.after && !p.AtLeast: // Retry-After is in place of the policy
	case b.kind == forbidden:
		least = doubled(b.inARow, banStep, banMost)
		if further := b.inARow - bansToMost; further > 0 {
			least = doubled(further, 2*banMost, banLongest)
		}
	case failed: // it counts as one more refusal, whatever the policy says of refusals
		least = fibonacci(b.inARow, unsureStep, most)
	case p.Backoff == "fibonacci":
		least = fibonacci(b.inARow, p.BackoffStep, p.BackoffCap)
	case p.Backoff == "doubling":
		least = doubled(b.inARow, p.BackoffStep, p.BackoffCap)
		least += int64(p.JitterMin * float64(least))
	default:
		return n.wish, false
	}
	if n.quota || n.rests || b.kind != unsure {
		least = max(least, n.wish)
	}
	return least, true
}

// doubled returns the n-th of steps that double, as far as most.
func doubled(n int, step, most time.Duration) int64 {
	most = min(most, time.Duration(longest))
	for range min(n, maxTally) - 1 {
		if step >= most {
			break
		}
		step += step
	}
	return int64(min(step, most))
}

// fibonacci returns the n-th of steps that are the sum of the two before, as far as most.
func fibonacci(n int, step, most time.Duration) int64 {
	most = min(most, time.Duration(longest))
	before := time.Duration(0) // the step before the first
	for range min(n, maxTally) - 1 {
		if step >= most {
			break
		}
		next := before + step
		before = step
		step = next
	}
	return int64(min(step, most))
}

// teach takes the lesson of the refusal n, if it is one: the delay after it is longer from then on.
func (s *sequence) teach(n *answer) {
	b := n.block
	factor := 0.0
	switch {
	case b.kind == forbidden:
		factor = banTeaches
	case b.kind == refusing && n.teaches:
		factor = refusalTeaches
	}
	limits := s.h.limits(n.x)
	if factor == 0 || b.inARow != 1 || !limits.learned { // further ones in a row teach nothing more
		return
	}
	// Each page that was served since the last lesson may have made the delay shorter: the shortest
	// possible one counts.
	left := s.taughtUntil(b.from)
	lesson := factor * max(float64(limits.DelayMin), left)
	s.taught = max(left, min(lesson, float64(limits.Ceiling)))
	s.taughtAt = b.from
}

// taughtUntil returns the shortest delay that may be left at the given time of the last lesson, if
// a page was served for each step.
func (s *sequence) taughtUntil(at int64) float64 {
	least := s.taught
	steps := min((at-s.taughtAt)/stepTime, maxSteps)
	percent := shorter
	for i := range steps {
		if least < 1 { // nothing of a nanosecond
			break
		}
		if i > 0 && i%stepsAlike == 0 {
			percent = min(2*percent, shorterMost)
		}
		least *= 1 - float64(percent)/100
	}
	return least
}

// forgets reports whether the delay after the start x is shorter than the learned one, if the
// policy has Learned. The learned delay comes from the records, because no log shows which failures
// the host has caused. After a refusal that teaches, it is 1.5 times as long, and after a ban
// twice.
func (s *sequence) forgets(x *exchange) bool {
	const rounding = 1000 // a limiter on a server reckons in microseconds
	if x.seq == 1 {
		s.taught = 0 // a limiter that knows of no refusal
	}
	delay := float64(x.delay)
	short := delay+rounding < s.taughtUntil(x.start)
	longer := x.has(learned) && delay > s.taught
	if short || longer {
		// The record is believed from here on, so that one delay is reported once.
		s.taught = delay
		s.taughtAt = cmp.Or(s.last, x).start
	}
	return short
}
