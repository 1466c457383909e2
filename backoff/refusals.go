package backoff

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/go-politeness/politeness/internal/durations"
)

// Refusals is a Policy with the responses that count as a refusal. Status 429 always counts. If
// AtLeast is set, a 503 with a Retry-After counts too. Other responses, such as 403 and 500, or no
// response, count if they are listed here. Otherwise package hostlimit learns their meaning from
// the responses that follow. Set it in hostlimit.Config.Backoff.
type Refusals struct {
	// Policy is how long to stay away. Nil is Fibonacci{}. After two refusals at Fibonacci's
	// longest step of 10 min, the host may have banned the crawler, and each request may renew the
	// ban. So a Limiter then waits 20 min, doubling to 4 h. If you set a Policy, a Limiter doesn't
	// lengthen its steps in this way.
	Policy Policy
	// Statuses count immediately, as 429 does. Examples are 403, 503, 420, 509, and 520 to 530. See
	// Range.
	Statuses      []int
	Network       bool          // whether an attempt without a response counts immediately
	InARow        int           // number of responses such as 403 in a row after which one more is a ban, by default 5
	MaxRetryAfter time.Duration // cap on Retry-After, by default 24 h
	AtLeast       bool          // Policy's time counts if it is longer than Retry-After, by default Retry-After counts
	Forgive       time.Duration // quiet time after a block's end that resets the counter, by default 30 min
}

// Range returns the statuses from first to last, both included, for Refusals.Statuses, as in
// slices.Concat([]int{403, 503}, backoff.Range(520, 530)). Use it to list many statuses.
func Range(first, last int) []int {
	var s []int
	for i := first; i <= last; i++ {
		s = append(s, i)
	}
	return s
}

// WithDefaults returns r with its zero fields set to their defaults, those of a Policy of this
// package included.
func (r Refusals) WithDefaults() Refusals {
	switch p := cmp.Or[Policy](r.Policy, Fibonacci{}).(type) {
	case Fibonacci:
		r.Policy = p.WithDefaults()
	case Doubling:
		r.Policy = p.WithDefaults()
	case *Fibonacci, *Doubling:
		if !isNil(p) { // Validate refuses it
			r.Policy = reflect.ValueOf(p).Elem().Interface().(Policy)
			return r.WithDefaults()
		}
	}
	r.InARow = cmp.Or(r.InARow, 5)
	r.MaxRetryAfter = cmp.Or(r.MaxRetryAfter, 24*time.Hour)
	r.Forgive = cmp.Or(r.Forgive, 30*time.Minute)
	return r
}

// Delay returns the time to stay away by r.Policy.
func (r Refusals) Delay(attempt int) time.Duration {
	return cmp.Or[Policy](r.Policy, Fibonacci{}).Delay(attempt)
}

// Longest returns the Cap of r.Policy. If you write a hostlimit.Limiter, bound its pauses by this
// time, but not its bans. It is math.MaxInt64 for a policy that isn't of this package.
func (r Refusals) Longest() time.Duration {
	switch p := r.WithDefaults().Policy.(type) {
	case Fibonacci:
		return p.Cap
	case Doubling:
		return p.Cap
	}
	return math.MaxInt64
}

// Counts reports whether a response of the given status is a refusal by itself.
func (r Refusals) Counts(status int) bool {
	return status == 429 || slices.Contains(r.Statuses, status)
}

// BackOff returns the steps of r for a retry loop.
func (r Refusals) BackOff() *Steps { return &Steps{policy: r} }

// Validate reports every field whose value is invalid, those of r.Policy included.
func (r Refusals) Validate() error {
	errs := []error{durations.Check("MaxRetryAfter", r.MaxRetryAfter), durations.Check("Forgive", r.Forgive)}
	if r.InARow < 0 || r.InARow > math.MaxUint16 {
		errs = append(errs, fmt.Errorf("InARow: %d is out of range", r.InARow))
	}
	for _, s := range r.Statuses {
		if s < 100 || s > 999 {
			errs = append(errs, fmt.Errorf("Statuses: %d is no status code", s))
		}
	}
	if isNil(r.Policy) {
		errs = append(errs, fmt.Errorf("Policy: is a nil %T", r.Policy))
	} else if v, ok := r.Policy.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("Policy: %w", err))
		}
	}
	return errors.Join(errs...)
}

// isNil reports whether p is a nil pointer whose methods need a value.
func isNil(p Policy) bool {
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil() && v.Type().Elem().Implements(reflect.TypeFor[Policy]())
}
