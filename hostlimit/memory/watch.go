package memory

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// longWait is the length from which on a wait is reported to its Watcher.
const longWait = time.Second

// countedAhead bounds Wait.Ahead.
const countedAhead = 1000

// A notice is a Wait without HeldBy, which is holder's text. Names are asked for without a lock.
type notice struct {
	hostlimit.Wait
	holder fmt.Stringer
}

// nameOf returns the text of name, empty if that is nil. A panic of String is part of it.
func nameOf(name fmt.Stringer) string {
	if name == nil {
		return ""
	}
	return fmt.Sprint(name)
}

// waits returns the notice for the Watcher of w, once, when its wait is long. Before that it
// returns nil and the time to call waits again, which may be never.
func (a *active) waits(w *waiter, now time.Duration) (n *notice, again time.Duration) {
	if w.watcher == nil || w.notified {
		return nil, rules.Never
	}
	if a.queue.First == w { // more is known of the head by now
		w.planned = a.first(now, w.floor)
	}
	if long := rules.Add(w.arrived, longWait); now < long && w.planned <= long {
		return nil, long // the wait may end before then
	}
	w.notified = true
	n = a.notice(now) // all waiters wait for the reason of the head
	n.Since = a.sh.m.at(w.arrived)
	if w.planned > now {
		n.Until = a.sh.m.at(w.planned)
	}
	for o := w.Prev; o != nil && n.Ahead < countedAhead; o = o.Prev {
		n.Ahead++
	}
	return n, rules.Never
}

// notice returns why the head of the queue waits, with the request that has held it up the longest.
func (a *active) notice(now time.Duration) *notice {
	n := &notice{Wait: a.why(now)}
	n.Key = a.h.key
	// Held counts all requests in flight, whatever the head waits for.
	n.Slots = a.queue.First.lim.Concurrency
	n.Held = a.flights.Len
	switch n.Hold {
	case "probe":
		n.HeldFor = max(a.probe.held(now), 1) // 0 would mean: not known
		n.holder = a.probe.name
	case "slot":
		longest, held := a.longest(now)
		n.HeldFor = max(held, 1)
		n.holder = longest.name
	}
	return n
}

// why returns why the head of the queue waits.
func (a *active) why(now time.Duration) hostlimit.Wait {
	m := a.sh.m
	r := a.h.refusals()
	head := a.queue.First
	switch {
	case r.Blocks(now):
		return hostlimit.Wait{Hold: "block", Cause: r.Cause}
	case m.open(now) > now:
		return hostlimit.Wait{Hold: "block", Cause: "hours"}
	case a.probe != nil && a.probe != head.lease: // the order is that of waitCause
		return hostlimit.Wait{Hold: "probe"}
	case head.lease == nil && a.flights.Len >= head.lim.Concurrency:
		return hostlimit.Wait{Hold: "slot"}
	case a.lacks == perSite:
		return hostlimit.Wait{Hold: "site", Cause: a.h.site}
	case a.lacks == line:
		return hostlimit.Wait{Hold: "place"}
	case r.next > max(now, a.h.earliest(head.floor)):
		return hostlimit.Wait{Hold: "delay", Delay: r.next - now, Cause: "kept"}
	}
	// Nothing else holds the head, so it waits for the gap, or is about to start.
	gap, by := a.h.delay(head.floor)
	return hostlimit.Wait{Hold: "delay", Delay: gap, Cause: by.String()}
}
