package redislimit

import (
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// A notice is a Wait whose HeldBy is yet to be named, which is done without mu.
type notice struct {
	hostlimit.Wait
	holder hostlimit.Watcher
}

// give tells to of the wait.
func (n *notice) give(to hostlimit.Watcher) {
	if n.holder != nil {
		n.HeldBy = n.holder.String()
	}
	to.Waits(n.Wait)
}

// waits tells why w waits if that is to be told now, which it is once, and otherwise when to look
// again for it; 0: it needn't.
func (w *waiter) waits(now time.Duration) (told *notice, again time.Duration) {
	if w.watcher == nil || w.told || w.phase == done || w.phase == asking || w.phase == granted {
		return nil, 0
	}
	h, first := w.h, w
	if len(h.waiters) > 0 {
		first = h.waiters[0]
	}
	ahead := max(slices.Index(h.waiters, w), 0)
	planned := first.planned
	if planned > 0 {
		planned += time.Duration(ahead) * w.least
	}
	if long := w.arrived + longWait; now < long && planned <= long {
		return nil, long
	}
	w.told = true
	n := &notice{Wait: hostlimit.Wait{
		Key: h.key, Since: w.l.base.Add(w.arrived), Ahead: ahead, Slots: w.limits.Concurrency, Held: len(h.leases),
	}}
	if planned > now {
		n.Until = w.l.base.Add(planned)
	}
	switch {
	case w.phase == pending:
		n.Hold = "place"
	case first.phase == probing:
		n.Hold = "probe"
	case first.phase == queued && h.blame == slot:
		n.Hold, n.Held = "slot", w.limits.Concurrency
	case h.refusals.Until > now:
		n.Hold, n.Cause = "block", h.refusals.Cause
	case h.opens > now:
		n.Hold, n.Cause = "block", "hours"
	case w.floor > h.gap:
		n.Hold, n.Delay, n.Cause = "delay", w.floor, "crawl-delay"
	default:
		n.Hold, n.Delay, n.Cause = "delay", h.gap, h.source
		// The server plans with a guard on top of each delay, which nobody needs to hear of.
		if own := h.last + h.gap; h.started && first.planned >= own && first.planned-own < time.Second {
			n.Until = w.l.base.Add(own + time.Duration(ahead)*w.least)
		}
	}
	if n.Hold != "slot" && n.Hold != "probe" {
		return n, 0
	}
	// Those of other processes have no names here.
	var longest *lease
	for _, t := range h.leases {
		if t != w.lease && (n.Hold == "slot" || t.granted.probe) && (longest == nil || t.began < longest.began) {
			longest = t
		}
	}
	if longest != nil {
		n.HeldFor, n.holder = max(now-longest.began, 1), longest.watcher
	}
	return n, 0
}
