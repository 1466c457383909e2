package redislimit

import (
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// notice returns the call of the Watcher, which is made without mu, if t has waited for longWait or
// is known to wait for longer. Each wait has one. Otherwise notice returns when to look again; 0:
// it needn't.
func (t *lease) notice(now time.Duration) (call func(), again time.Duration) {
	// The reply, or the start, comes in a moment.
	atEnd := t.phase == asking || t.phase >= granted
	if t.wait.watcher == nil || t.wait.noticed || atEnd {
		return nil, 0
	}
	ahead := slices.Index(t.h.waiters, t)
	// Only the first waiter has a time from the server. The others follow it at their smallest
	// gaps.
	planned := t.h.waiters[0].wait.planned
	if planned > 0 {
		planned += time.Duration(ahead) * t.least()
	}
	long := t.wait.arrived + longWait
	if now < long && planned <= long {
		return nil, long
	}
	t.wait.noticed = true
	// The description is of this moment, under mu; the names of both requests are any code's.
	watcher := t.wait.watcher
	wait := t.describe(ahead, now)
	if planned > now && wait.Until.IsZero() {
		wait.Until = t.l.base.Add(planned)
	}
	var holder hostlimit.Watcher
	longest := t.holder(wait.Hold)
	if longest != nil {
		wait.HeldFor = max(now-longest.start.began, 1)
		holder = longest.wait.watcher
	}
	return func() {
		if holder != nil {
			wait.HeldBy = holder.String()
		}
		watcher.Waits(wait)
	}, 0
}

// describe returns the reason for which t waits, behind ahead others.
func (t *lease) describe(ahead int, now time.Duration) hostlimit.Wait {
	h := t.h
	first := h.waiters[0]
	wait := hostlimit.Wait{
		Key:   h.key,
		Since: t.l.base.Add(t.wait.arrived),
		Ahead: ahead,
		Slots: t.limits.Concurrency,
		Held:  len(h.leases),
	}
	switch {
	case t.phase == inLine:
		wait.Hold = "place"
		if places := &t.l.places; places.perSite > 0 && places.bySite[h.site] >= places.perSite {
			wait.Hold = "site"
			wait.Cause = h.site
		}
	case first.wait.why == whyProbe:
		wait.Hold = "probe"
	case first.wait.why == whySlot:
		wait.Hold = "slot"
		wait.Held = t.limits.Concurrency // of all processes
	case h.known.Refusals.Until > now:
		wait.Hold = "block"
		wait.Cause = h.known.Refusals.Cause
	case h.wait.opens > now:
		wait.Hold = "block"
		wait.Cause = "hours"
	case t.floor > h.known.Gap:
		wait.Hold = "delay"
		wait.Delay = t.floor
		wait.Cause = "crawl-delay"
	default:
		wait.Hold = "delay"
		wait.Delay = h.known.Gap
		wait.Cause = h.known.Source
		// The server plans with a guard on top of each delay, which isn't a part of the delay.
		own := h.known.Last + h.known.Gap
		guard := first.wait.planned - own
		if h.known.Started && guard >= 0 && guard < time.Second {
			wait.Until = t.l.base.Add(own + time.Duration(ahead)*t.least())
		}
	}
	return wait
}

// holder returns the oldest lease of this process that keeps the others waiting; nil: another
// process has it, or no lease does.
func (t *lease) holder(hold string) *lease {
	if hold != "slot" && hold != "probe" {
		return nil
	}
	var oldest *lease
	for _, o := range t.h.leases {
		if o == t || hold == "probe" && !o.granted.probe {
			continue
		}
		if oldest == nil || o.start.began < oldest.start.began {
			oldest = o
		}
	}
	return oldest
}
