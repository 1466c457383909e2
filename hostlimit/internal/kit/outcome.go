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
	Refused                // the host wants to be left alone
)

// Refusals are a backoff.Policy, checked and completed: what counts, and for how long.
type Refusals struct {
	Forgive time.Duration // quiet time after a block's end that resets the counter

	policy        backoff.Policy
	statuses      [16]uint64 // a bit for each status below 1024
	network       bool
	atLeast       bool
	maxRetryAfter time.Duration
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
		maxRetryAfter: cmp.Or(all.MaxRetryAfter, 24*time.Hour),
		Forgive:       cmp.Or(all.Forgive, 30*time.Minute),
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

// Meaning returns what o says about its host.
func (r *Refusals) Meaning(o Outcome) Meaning {
	s := o.Status
	switch {
	case s > 0 && s < 1024 && r.statuses[s>>6]&(1<<(s&63)) != 0:
		return Refused
	case s > 0 && s < 500 && !o.Aside:
		return Success
	case s == 0 && r.network && o.Err != nil && !callerLeft(o.Err):
		return Refused
	}
	return Silent
}

// Stay returns the length of the block after the n-th refusal in a row.
func (r *Refusals) Stay(n int, retryAfter time.Duration) time.Duration {
	asked := min(retryAfter, r.maxRetryAfter)
	if asked > 0 && !r.atLeast {
		return asked
	}
	return max(asked, 0, r.policy.Delay(n))
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
