package hostlimit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// A meaning is what an Outcome says about its host.
type meaning uint8

const (
	silent  meaning = iota // nothing: it neither blocks nor clears
	success                // the host serves us
	failed                 // the host doesn't serve us; several in a row are a refusal, and so is one to a probe
	refused                // the host wants to be left alone
)

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

// Serves reports whether o is a success: the host serves us.
func (r *Rules) Serves(o Outcome) bool { return r.meaning(&o) == success }

// Fails reports whether o is a failure: the host doesn't serve us. InARow of them in a row are a
// refusal, and so is one to a probe.
func (r *Rules) Fails(o Outcome) bool { return r.meaning(&o) == failed }

// Refuses reports whether o is a refusal by itself: the host wants to be left alone.
func (r *Rules) Refuses(o Outcome) bool { return r.meaning(&o) == refused }

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
func (r *Rules) Teaches(o Outcome) bool { return !unable(o.Status) || r.Refuses(o) }

// validateBackoff reports what is wrong with a Config.Backoff.
func validateBackoff(p backoff.Policy) error {
	policy := p
	switch p := p.(type) {
	case backoff.Refusals:
		policy = p.Policy
	case *backoff.Refusals:
		if p != nil {
			policy = p.Policy
		}
	}
	if lacking(policy) {
		return fmt.Errorf("Backoff: is a nil %T", policy)
	}
	if v, ok := p.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("Backoff: %w", err)
		}
	}
	return nil
}

// lacking reports whether p is a nil pointer whose methods need a value.
func lacking(p backoff.Policy) bool {
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil() && v.Type().Elem().Implements(reflect.TypeFor[backoff.Policy]())
}

// callerLeft reports whether err is the context's own error. The timeouts of package net answer
// errors.Is(err, context.DeadlineExceeded) with yes as well, but a host that doesn't answer a dial
// in time has failed: so a deadline counts only where it is the very error of the context.
func callerLeft(err error) bool {
	if cancelled(err) {
		return true
	}
	for err != nil {
		if err == context.DeadlineExceeded { //nolint:errorlint // identity is the point
			return true
		}
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				if callerLeft(err) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// cancelled reports whether the caller gave up for reasons of its own, and not for want of time.
func cancelled(err error) bool { return errors.Is(err, context.Canceled) }
