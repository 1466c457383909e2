package crawl

import (
	"time"
)

// A watch is the wait for the next due URL (Config.Watch), while nothing is left to do.
type watch struct {
	asked bool      // Recurring.Next was called since the last URL was taken
	next  time.Time // its result; zero: nothing comes due
}

// waits reports whether the crawl, which has nothing left to do, continues until something is due.
func (r *run) waits(now time.Time) bool {
	limit := r.c.cfg.Watch
	if limit == 0 || r.stopped {
		return false
	}
	w := &r.watch
	if !w.asked {
		w.asked = true
		r.work.next = true
		r.store()
		return true
	}
	deadline, hasDeadline := r.ctx.Deadline()
	switch {
	case w.next.IsZero():
		return limit < 0 && !hasDeadline // another program may add something
	case hasDeadline && !w.next.Before(deadline):
		return false
	}
	return limit < 0 || w.next.Sub(now) <= limit
}

// endWatch asks for hosts whose URLs are due by now.
func (r *run) endWatch(now time.Time) {
	w := &r.watch
	if !w.asked || w.next.IsZero() || w.next.After(now) {
		return
	}
	*w = watch{}
	r.relisted = false
	r.work.list = true
}
