// Package rules has the rules that limiters share. They decide the meaning of a response for its
// host, the length of a block, the learned delay, and the state that is left. Use it if you write a
// [hostlimit.Limiter], so that a [hostlimit.Config] means the same to all limiters.
//
// Everything is pure. The package has no clock, no lock and no goroutine. The limiter passes the
// time, and guards its own state. Tests of a limiter are in hostlimit/hostlimittest.
//
//   - [New] checks a Config and returns its [Rules].
//   - [Rules.Meaning] returns how a response counts.
//   - [Refusals] is the state of one key. [Refusals.Observe] changes the state by a response.
//   - [Rules.Owed] returns the part of a stored debt that still applies.
package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/go-politeness/politeness/backoff"

	"github.com/go-politeness/politeness/hostlimit"
)

// Rules are a Config, checked and completed, for implementers of Limiter, so that the same Config
// means the same to all limiters. Rules return the limits of a key, the meaning of an Outcome, the
// length of blocks, the hours of Config.Windows, and the errors of requests that can't start. They
// have no state of a key, and are safe for concurrent use.
type Rules struct {
	config   hostlimit.Config
	limits   hostlimit.Limits
	hours    Hours
	refusals backoff.Refusals
	longest  time.Duration // bound of all pauses except for bans: Longest of refusals, at least a second
	grows    bool          // the user has chosen no policy, so that a ban may outlast its longest step

	compiled *lru.Cache[hostlimit.Limits, *hostlimit.Limits] // by the value that Override returned, which is checked once
}

// New checks c and returns its Rules. The error names every field that is wrong.
func New(c hostlimit.Config) (*Rules, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("hostlimit: %w", err)
	}
	c = c.WithDefaults()
	refusals := c.Backoff.(backoff.Refusals) // Validate has looked

	// The caller may change its slices afterwards.
	refusals.Statuses = slices.Clone(refusals.Statuses)
	c.Windows = slices.Clone(c.Windows)
	compiled, _ := lru.New[hostlimit.Limits, *hostlimit.Limits](mostCompiled) // it refuses only a size below 1
	return &Rules{
		config:   c,
		limits:   hostlimit.Limits{Concurrency: c.Concurrency, Delay: c.Delay},
		hours:    slices.Clone(c.Windows),
		refusals: refusals,
		longest:  max(time.Second, refusals.Longest()),
		grows:    refusals.Policy == backoff.Policy(backoff.Fibonacci{}.WithDefaults()),
		compiled: compiled,
	}, nil
}

// mostCompiled bounds Rules.compiled: Override may return any number of limits.
const mostCompiled = 1024

// Config returns the Config, with every default filled in.
func (r *Rules) Config() hostlimit.Config { return r.config }

// Backoff returns Config.Backoff, with every default filled in.
func (r *Rules) Backoff() backoff.Refusals { return r.refusals }

// Hours returns Config.Windows, to reckon with.
func (r *Rules) Hours() Hours { return r.hours }

// Limits returns the limits of key, as Override returns them at this moment, with every default
// filled in. Beside an error, which is about the limits of Override, it returns those of the
// Config. The limits are shared, so don't change them.
func (r *Rules) Limits(key string) (*hostlimit.Limits, error) {
	if r.config.Override == nil {
		return &r.limits, nil
	}
	own, ok := r.config.Override(key)
	if !ok || own == (hostlimit.Limits{}) { // zero fields keep the Config's, so these are the Config's
		return &r.limits, nil
	}
	if l, ok := r.compiled.Get(own); ok {
		return l, nil
	}
	l := hostlimit.Limits{
		Concurrency: cmp.Or(own.Concurrency, r.limits.Concurrency),
		Delay:       cmp.Or(own.Delay, r.limits.Delay),
	}
	if err := (hostlimit.Config{Concurrency: l.Concurrency, Delay: l.Delay}).Validate(); err != nil {
		return &r.limits, fmt.Errorf("hostlimit: Override(%q): %w", key, err)
	}
	l = l.WithDefaults()
	r.compiled.Add(own, &l)
	return &l, nil
}

// Own returns a copy of l for Grant.Own. It returns nil if l are the limits of the Config.
func (r *Rules) Own(l *hostlimit.Limits) *hostlimit.Limits {
	if l == &r.limits { // Limits returns this very pointer unless Override has others
		return nil
	}
	return new(*l)
}
