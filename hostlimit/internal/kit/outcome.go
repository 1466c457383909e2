package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// An Outcome is a hostlimit.Outcome.
type Outcome struct {
	Status     int
	Latency    time.Duration
	RetryAfter time.Duration
	Err        error
	Aside      bool
	Refused    string
	Reset      time.Duration
}

// A Meaning is what an Outcome says about its host.
type Meaning uint8

// What an Outcome can mean.
const (
	Silent  Meaning = iota // nothing: it neither blocks nor clears
	Success                // the host serves us
	Failed                 // the host doesn't serve us; several in a row are a refusal, and so is one to a probe
	Refused                // the host wants to be left alone
)

// Refusals are a backoff.Policy, checked and completed: what counts, and for how long.
type Refusals struct {
	Forgive time.Duration // quiet time after a block's end that resets the counter
	InARow  int           // number of failed answers in a row that are a refusal
	// MaxRetryAfter caps what an answer asks for.
	MaxRetryAfter time.Duration

	policy   backoff.Policy
	statuses [16]uint64 // a bit for each status below 1024
	network  bool
	atLeast  bool
}

func compileRefusals(p backoff.Policy) (Refusals, error) {
	var all backoff.Refusals
	switch p := p.(type) {
	case backoff.Refusals:
		all = p
	case *backoff.Refusals:
		if p == nil {
			return Refusals{}, fmt.Errorf("Backoff: is a nil %T", p)
		}
		all = *p
	default:
		all.Policy = p
	}
	if lacking(all.Policy) {
		return Refusals{}, fmt.Errorf("Backoff: is a nil %T", all.Policy)
	}
	if v, ok := p.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return Refusals{}, fmt.Errorf("Backoff: %w", err)
		}
	}
	r := Refusals{
		policy:        all,
		network:       all.Network,
		atLeast:       all.AtLeast,
		MaxRetryAfter: cmp.Or(all.MaxRetryAfter, 24*time.Hour),
		Forgive:       cmp.Or(all.Forgive, 30*time.Minute),
		InARow:        cmp.Or(all.InARow, 5),
	}
	r.count(429)
	for _, s := range all.Statuses {
		r.count(s)
	}
	return r, nil
}

// lacking reports whether p is a nil pointer whose methods need a value.
func lacking(p backoff.Policy) bool {
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil() && v.Type().Elem().Implements(reflect.TypeFor[backoff.Policy]())
}

func (r *Refusals) count(status int) { r.statuses[status>>6] |= 1 << (status & 63) }

// listed reports whether status is a refusal by the policy.
func (r *Refusals) listed(status int) bool {
	return uint(status) < 1024 && r.statuses[status>>6]&(1<<(status&63)) != 0
}

// Meaning returns what o says about its host. It is the one place that decides over a status.
func (r *Refusals) Meaning(o Outcome) Meaning {
	s := o.Status
	switch {
	case o.Refused != "", r.listed(s), s == 503 && o.RetryAfter > 0:
		return Refused
	case s == 0 && (o.Err == nil || CallerLeft(o.Err)):
		return Silent
	case s == 0 && r.network:
		return Refused
	case s < 0, s == 407, s >= 600:
		return Silent
	case unable(s), s == 401, s == 402, s == 403, s == 451:
		return Failed
	case o.Aside:
		return Silent
	}
	return Success
}

// unable reports whether an answer of that status, 0 for none, tells of a host that can't
// rather than of one that won't.
func unable(status int) bool {
	return status == 0 || status == 408 || status == 425 || status/100 == 5
}

// Asked returns how long o itself asks to be left alone, by Retry-After or else by what
// is left of a rate limit; capped, and 0 if it doesn't ask.
func (r *Refusals) Asked(o Outcome) time.Duration {
	asked := o.RetryAfter
	if asked <= 0 {
		asked = max(0, o.Reset)
	}
	return min(asked, r.MaxRetryAfter)
}

// Stay returns the length of the block that o sets as the n-th refusal in a row. The
// policy is for hosts that refuse: one that can't answer, and that the policy doesn't
// list, is asked again after Fibonacci steps.
func (r *Refusals) Stay(n int, o Outcome) time.Duration {
	asked := r.Asked(o)
	if o.RetryAfter > 0 && !r.atLeast {
		return asked
	}
	if r.Teaches(o) {
		return max(asked, 0, r.policy.Delay(n))
	}
	return max(asked, backoff.Fibonacci{}.Delay(n))
}

// Teaches reports whether o, which sets a block, may be the word of a rate limit. A host
// that can't answer has no other rate at which it could.
func (r *Refusals) Teaches(o Outcome) bool {
	return !unable(o.Status) || r.Meaning(o) == Refused
}

// CallerLeft reports whether err is the context's own error. The timeouts of package net answer
// errors.Is(err, context.DeadlineExceeded) with yes as well, but a host that doesn't answer a dial
// in time has failed: so a deadline counts only where it is the very error of the context.
func CallerLeft(err error) bool {
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
				if CallerLeft(err) {
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
