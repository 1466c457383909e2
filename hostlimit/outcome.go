package hostlimit

import (
	"cmp"
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
	refused                // the host wants to be left alone
)

// refusals are a backoff.Policy, checked and completed: what counts, and for how long.
type refusals struct {
	policy        backoff.Policy
	statuses      [16]uint64 // a bit for each status below 1024
	network       bool
	atLeast       bool
	maxRetryAfter int64
	forgive       int64
}

func compileRefusals(p backoff.Policy) (refusals, error) {
	var all backoff.Refusals
	switch p := p.(type) {
	case backoff.Refusals:
		all = p
	case *backoff.Refusals:
		if p == nil {
			return refusals{}, fmt.Errorf("Backoff: is a nil %T", p)
		}
		all = *p
	default:
		all.Policy = p
	}
	if lacking(all.Policy) {
		return refusals{}, fmt.Errorf("Backoff: is a nil %T", all.Policy)
	}
	if v, ok := p.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return refusals{}, fmt.Errorf("Backoff: %w", err)
		}
	}
	r := refusals{
		policy:        all,
		network:       all.Network,
		atLeast:       all.AtLeast,
		maxRetryAfter: int64(cmp.Or(all.MaxRetryAfter, 24*time.Hour)),
		forgive:       int64(cmp.Or(all.Forgive, 30*time.Minute)),
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

func (r *refusals) count(status int) { r.statuses[status>>6] |= 1 << (status & 63) }

// meaning of o for its host.
func (r *refusals) meaning(o Outcome) meaning {
	s := o.Status
	switch {
	case s > 0 && s < 1024 && r.statuses[s>>6]&(1<<(s&63)) != 0:
		return refused
	case s > 0 && s < 500 && !o.Aside:
		return success
	case s == 0 && r.network && o.Err != nil && !callerLeft(o.Err):
		return refused
	}
	return silent
}

// stay returns the length of the block after the n-th refusal in a row.
func (r *refusals) stay(n int, retryAfter time.Duration) int64 {
	asked := min(int64(retryAfter), r.maxRetryAfter)
	if asked > 0 && !r.atLeast {
		return asked
	}
	return max(asked, 0, int64(r.policy.Delay(n)))
}

// callerLeft reports whether err is the context's own error. The timeouts of
// package net answer errors.Is(err, context.DeadlineExceeded) with yes as well,
// but a host that doesn't answer a dial in time has failed: so a deadline
// counts only where it is the very error of the context.
func callerLeft(err error) bool {
	if errors.Is(err, context.Canceled) {
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
