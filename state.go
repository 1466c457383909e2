package politeness

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// WithState returns c with a memory in dir that outlives the process, so that a crawler that is
// started every hour is as polite as one that never stops:
//
//	DIR/hosts/    what hosts are owed: blocks, refusals in a row, learned delays, far next starts (hostlimit.Dir)
//	DIR/robots/   robots.txt, and which origins can't be asked for it (robotscache.Dir)
//
// Each host and each origin has a file of its own, under a hashed name; files are 0600 and
// directories 0700. Processes may share dir. One that fails stops no request: evidence says
// state_lost. What survives what is in docs/restarts.md. An empty dir keeps nothing: c is returned
// as it is.
//
// WithState changes Limits and Robots, so it can't reach a limiter that Hosts holds already, and
// New says so. To share a limiter that remembers, make it from the result:
//
//	cfg := politeness.Bulk(ua).WithState("state")
//	cfg.Hosts, err = hostlimit.New(cfg.Limits)
func (c Config) WithState(dir string) Config {
	if dir == "" {
		return c
	}
	c.Limits.Store = hostlimit.Dir(filepath.Join(dir, "hosts"))
	c.Robots.Store = robotscache.Dir(filepath.Join(dir, "robots"))
	return c
}

// checkStore refuses a Store that can have no effect.
func (c Config) checkStore() error {
	store := c.Limits.Store
	if c.Hosts == nil || store == nil || reflect.TypeOf(store).Comparable() && c.Hosts.Config().Store == store {
		return nil
	}
	return errors.New("has no effect, because Hosts is set: make Hosts from the Config that WithState returns, " +
		"by hostlimit.New(cfg.Limits), or set it after WithState to what was made from the same Limits")
}

// recordState reports what is new of the trip's host: a block that its memory gave, why that has
// failed, and what a person has done. None of it is a request's doing, so the records of blocks
// name none.
func (trip *trip) recordState(restored *hostlimit.Restored, lost error, act *hostlimit.ByHand) {
	if trip.silent() {
		return
	}
	if restored != nil {
		d := evidence.Decision{
			Type: evidence.HostBlocked, Time: restored.Met, Host: trip.host, Restored: true,
			Until: restored.BlockedUntil, RetryAt: restored.BlockedUntil, Refusals: restored.Refusals,
			Reason: "restored: " + restored.Cause + ago(restored.Met.Sub(restored.BlockedAt)),
		}
		if restored.BlockedAt.IsZero() {
			d.Reason = "restored: " + restored.Cause
		}
		trip.record(&d)
	}
	if act != nil {
		d := evidence.Decision{
			Type: evidence.HostBlocked, Time: act.At, Host: trip.host, Hand: true,
			Until: act.Until, RetryAt: act.Until, Reason: "by hand: " + act.Why,
		}
		if act.Until.IsZero() {
			d.Type, d.Allowed, d.Reason = evidence.HostCleared, true, "by hand"
		}
		trip.record(&d)
	}
	if lost != nil && trip.t.newLoss(lost) {
		d := trip.decision(evidence.StateLost, time.Now())
		d.Allowed, d.Reason = true, lost.Error()
		trip.record(&d)
	}
}

// maxLosses bounds the number of causes that are recorded.
const maxLosses = 100

// newLoss reports whether err has a new cause. One cause fails many files, so errors are compared
// by their innermost error.
func (t *Transport) newLoss(err error) bool {
	why := ""
	for err != nil {
		why = err.Error()
		if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) != 0 {
			err = joined.Unwrap()[0]
		} else {
			err = errors.Unwrap(err)
		}
	}
	t.lossesMu.Lock()
	defer t.lossesMu.Unlock()
	if t.losses[why] || len(t.losses) == maxLosses {
		return false
	}
	t.losses[why] = true
	return true
}

// ago says how long ago something was, roughly.
func ago(d time.Duration) string {
	switch {
	case d < 0: // the clock has been set back
		return ""
	case d < time.Minute:
		return fmt.Sprintf(", %d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf(", %d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf(", %d h ago", d/time.Hour)
	}
	return fmt.Sprintf(", %d days ago", d/(24*time.Hour))
}
