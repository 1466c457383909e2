package hostlimit

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// Refusals is what the answers of a host have done to its key: the block, the refusals in a row and
// the delay that they have taught. It is a plain value, with neither a lock nor a clock, for
// implementations of [Limiter]; times count from any moment before the first one. The zero value is
// the key of a host that has not refused. A key goes through these states:
//
//	state    event                              next     why
//	open     refusal                            blocked  until Retry-After, or by the policy; may teach
//	open     failure                            open     counted; number InARow is a refusal
//	open     Reset                              paused   nothing is left of the host's rate limit
//	paused   Until has passed                   open     the host has not refused: no probe
//	blocked  Until has passed                   waiting  for a request to probe
//	waiting  a request starts                   probed   the others wait for its answer
//	waiting  Forgive has passed                 open     the refusals are too long ago to count
//	probed   success                            open     every request goes on
//	probed   refusal, failure                   blocked  for longer: one more refusal in a row
//	probed   another answer, or none observed   waiting  the next request probes
//	any      refusal of an earlier request      same     until its Retry-After, if later; not counted
//	any      Reset                              same     until the reset, if later; not counted
//	any      Block                              blocked  by a person: no answer lifts it, only Clear
//	any      Clear                              open
//
// An earlier request is one that started before the block was set. The limiter itself holds which
// request probes. Outside of Config.Windows a key is held as if it were blocked, whatever its
// state.
type Refusals struct {
	Row      int           // refusals in a row, 255 for more; those of one block count once; 0: open or paused
	Failures int           // failures in a row, short of a refusal
	Until    time.Duration // end of the block; 0: none
	SetAt    uint64        // number of the last request that started before the block was set
	Cause    string        // what set the block, as in HostState.BlockedBy
	Learned  time.Duration // delay that refusals have taught; 0: none

	calm uint8 // requests started since the last refusal, or since Learned was shortened
}

// A meaning is what an Outcome says about its host.
type meaning uint8

const (
	silent  meaning = iota // nothing
	success                // the host serves us
	failed                 // the host doesn't serve us
	refused                // the host wants to be left alone
)

// An effect is what an Outcome does to its key.
type effect uint8

const (
	nothing effect = iota
	forget         // Failures is 0
	lift           // the same, and the block and its counter are gone
	tally          // one more of Failures; number InARow refuses
	refuse         // a block, one more of Row
	extend         // the block lasts for as long as the outcome asks for
)

// effects is what each Outcome does. Beside it, a Reset extends.
var effects = [...]struct{ open, probed, earlier effect }{
	silent:  {nothing, nothing, nothing},
	success: {forget, lift, forget},
	failed:  {tally, refuse, nothing}, // while refusals count, only probes start
	refused: {refuse, refuse, extend},
}

// Observe does to s what o does, the outcome of request number n (in the order of starts), of which
// last have started. Effect.Until is left to the caller. Where s.Row has become 1, the refusal is
// the first of a series, which teaches what Rules.Teaches and Delay.Learn say.
func (s *Refusals) Observe(r *Rules, o Outcome, now time.Duration, n, last uint64) Effect {
	e, _ := s.observe(r, &o, now, n, last)
	return e
}

// observe is Observe, and reports whether o counts as a refusal.
func (s *Refusals) observe(r *Rules, o *Outcome, now time.Duration, n, last uint64) (e Effect, counts bool) {
	by := effects[r.meaning(o)]
	stopped := s.Stopped(now)
	does := by.open
	switch {
	case n <= s.SetAt || stopped:
		does = by.earlier
	case s.Row > 0:
		does = by.probed
	}
	if does == tally {
		if s.Failures++; s.Failures >= r.refusals.InARow {
			does = refuse
		}
	}
	switch does {
	case forget:
		s.Failures = 0
	case lift:
		s.Row, s.Until, s.Cause, s.Failures = 0, 0, "", 0
		e.Cleared = true
	case refuse:
		row := min(s.Row+1, math.MaxUint8)
		stay := r.Stay(row, *o) // may panic, so before anything is changed
		*s = Refusals{Row: row, Until: max(s.Until, add(now, stay)), SetAt: last, Cause: causeOf(o), Learned: s.Learned}
		e.Blocked, counts = true, true
	}
	if asked := r.Asked(*o); does == extend || does != refuse && o.Reset > 0 {
		if until := add(now, asked); asked > 0 && until > s.Until {
			s.Until, s.SetAt, e.Blocked = until, last, true
			switch {
			case stopped:
			case does == extend:
				s.Cause = causeOf(o)
			default:
				s.Cause = "rate limit"
			}
		}
	}
	e.Refusals = s.Row
	return e, counts
}

// causeOf returns the Refusals.Cause of a block that o sets.
func causeOf(o *Outcome) string {
	switch {
	case o.Refused != "":
	case o.Status == 0:
		return "network error"
	case o.Status >= 400 && o.Status <= 599:
		return "status " + strconv.Itoa(o.Status)
	}
	return "refused"
}

// Block sets the block of a person after the start of request number last, with the cause that
// Rules.CheckBlock returned. A block that ends later keeps its end.
func (s *Refusals) Block(until time.Duration, cause string, last uint64) {
	s.Until, s.SetAt, s.Cause = max(s.Until, until), last, cause
}

// Clear lifts the block and forgets the refusals, and reports whether there were any. Learned
// stays.
func (s *Refusals) Clear(now time.Duration) bool {
	cleared := s.Row > 0 || s.Blocks(now)
	*s = Refusals{SetAt: s.SetAt, Learned: s.Learned, calm: s.calm}
	return cleared
}

// Forgive forgets the refusals if the host has been quiet for long enough, and reports whether it
// did.
func (s *Refusals) Forgive(r *Rules, now time.Duration) bool {
	if s.Row == 0 || !s.forgiven(r, now) {
		return false
	}
	s.Row, s.Until, s.Cause = 0, 0, ""
	return true
}

func (s *Refusals) forgiven(r *Rules, now time.Duration) bool {
	return now >= add(s.Until, r.refusals.Forgive)
}

// Blocks reports whether a block holds the key at now. At its very end a block is over.
func (s *Refusals) Blocks(now time.Duration) bool { return s.Until > now }

// Stopped reports whether that block is a person's.
func (s *Refusals) Stopped(now time.Duration) bool {
	_, byHand := Debt{Cause: s.Cause}.ByHand()
	return byHand && s.Blocks(now)
}

// ease counts a start of the key after an idle time, which counts as one start more for each
// Ceiling in it: else the refusals of a crawler that asks only now and then would add up.
func (s *Refusals) ease(d *Delay, idle time.Duration) {
	if s.Learned == 0 {
		return
	}
	calm := time.Duration(s.calm) + 1 + max(0, idle/d.Ceiling)
	for ; calm >= calmStarts && s.Learned != 0; calm -= calmStarts {
		s.Learned = d.Ease(s.Learned)
	}
	s.calm = uint8(calm % calmStarts)
}

// meaning returns what o says about its host. No other code decides over a status.
func (r *Rules) meaning(o *Outcome) meaning {
	s := o.Status
	switch {
	case o.Refused != "", r.listed(s), s == 503 && o.RetryAfter > 0:
		return refused
	case s == 0 && (o.Err == nil || callerLeft(o.Err)):
		return silent
	case s == 0 && r.refusals.Network:
		return refused
	case s < 0, s == 407, s >= 600:
		return silent
	case unable(s), s == 401, s == 402, s == 403, s == 451:
		return failed
	case o.Aside:
		return silent
	}
	return success
}

// Meaning returns what o says about its host: "neutral" for nothing, "ok" where it serves us,
// "failed" where it doesn't, "refused" where it wants to be left alone.
func (r *Rules) Meaning(o Outcome) string {
	return [...]string{silent: "neutral", success: "ok", failed: "failed", refused: "refused"}[r.meaning(&o)]
}

// listed reports whether status is a refusal by Config.Backoff.
func (r *Rules) listed(status int) bool {
	return uint(status) < 1024 && r.statuses[status>>6]&(1<<(status&63)) != 0
}

// unable reports whether an answer of that status, 0 for none, is that of a host that can't serve
// rather than of one that won't.
func unable(status int) bool {
	return status == 0 || status == 408 || status == 425 || status/100 == 5
}

// Asked returns how long o itself asks to be left alone, by Retry-After or else by what
// is left of a rate limit; capped, and 0 if it doesn't ask.
func (r *Rules) Asked(o Outcome) time.Duration {
	asked := o.RetryAfter
	if asked <= 0 {
		asked = max(0, o.Reset)
	}
	return min(asked, r.refusals.MaxRetryAfter)
}

// Stay returns the length of the block that o sets as the n-th refusal in a row. The policy is for
// hosts that refuse: one that can't answer, and whose status the policy doesn't list, is asked
// again after Fibonacci steps.
func (r *Rules) Stay(n int, o Outcome) time.Duration {
	asked := r.Asked(o)
	if o.RetryAfter > 0 && !r.refusals.AtLeast {
		return asked
	}
	if r.Teaches(o) {
		return max(asked, 0, r.refusals.Policy.Delay(n))
	}
	return max(asked, backoff.Fibonacci{}.Delay(n))
}

// Teaches reports whether o, which sets a block, may be the word of a rate limit. A host
// that can't answer has no other rate at which it could.
func (r *Rules) Teaches(o Outcome) bool { return !unable(o.Status) || r.meaning(&o) == refused }

// callerLeft reports whether err is the context's own error. The timeouts of package net answer
// errors.Is(err, context.DeadlineExceeded) with yes as well, but a host that doesn't answer a dial
// in time has failed: so a deadline counts only where it is the very error of the context.
func callerLeft(err error) bool {
	if cancelled(err) || err == context.DeadlineExceeded { //nolint:errorlint // identity is the point
		return true
	}
	switch e := err.(type) { //nolint:errorlint // this is the walk
	case interface{ Unwrap() error }:
		return callerLeft(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), callerLeft)
	}
	return false
}

// cancelled reports whether the caller gave up for reasons of its own, and not for want of time.
func cancelled(err error) bool { return errors.Is(err, context.Canceled) }
