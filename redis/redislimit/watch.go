package redislimit

import (
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// waits returns what tells the watcher, without mu, why t waits, if that is to be told now, which
// it is once. Otherwise it returns when to look again; 0: it needn't.
func (t *lease) waits(now time.Duration) (tell func(), again time.Duration) {
	if t.watcher == nil || t.noticed || t.phase == asking || t.phase >= granted {
		return nil, 0
	}
	h := t.h
	first, ahead := h.waiters[0], slices.Index(h.waiters, t)
	planned := first.planned
	if planned > 0 {
		planned += time.Duration(ahead) * t.least()
	}
	if long := t.arrived + longWait; now < long && planned <= long {
		return nil, long
	}
	t.noticed = true
	watcher, n := t.watcher, hostlimit.Wait{
		Key: h.key, Since: t.l.base.Add(t.arrived), Ahead: ahead, Slots: t.limits.Concurrency, Held: len(h.leases),
	}
	if planned > now {
		n.Until = t.l.base.Add(planned)
	}
	switch {
	case t.phase == inLine:
		n.Hold = "place"
	case first.why == "p":
		n.Hold = "probe"
	case first.why == "s":
		n.Hold, n.Held = "slot", t.limits.Concurrency
	case h.refusals.Until > now:
		n.Hold, n.Cause = "block", h.refusals.Cause
	case h.opens > now:
		n.Hold, n.Cause = "block", "hours"
	case t.floor > h.gap:
		n.Hold = "delay"
		n.Delay = t.floor
		n.Cause = "crawl-delay"
	default:
		n.Hold = "delay"
		n.Delay = h.gap
		n.Cause = h.source
		// The server plans with a guard on top of each delay, which nobody needs to hear of.
		if own := h.last + h.gap; h.started && first.planned >= own && first.planned-own < time.Second {
			n.Until = t.l.base.Add(own + time.Duration(ahead)*t.least())
		}
	}
	var longest *lease // those of other processes have no names here
	for _, o := range h.leases {
		if o != t && (n.Hold == "slot" || n.Hold == "probe" && o.granted.probe) && (longest == nil || o.began < longest.began) {
			longest = o
		}
	}
	var holder hostlimit.Watcher
	if longest != nil {
		n.HeldFor, holder = max(now-longest.began, 1), longest.watcher
	}
	return func() {
		if holder != nil {
			n.HeldBy = holder.String()
		}
		watcher.Waits(n)
	}, 0
}
