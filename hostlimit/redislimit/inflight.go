package redislimit

// takePlace takes a place in MaxInFlight and reports whether there was one.
// Without one the waiter gives its turn back and asks for another when it has a place,
// so that other processes can use the host meanwhile.
func (w *waiter) takePlace() bool {
	l := w.l
	limit := l.complete.MaxInFlight
	if limit == 0 || w.holds || w.again != nil {
		return true
	}
	if l.inFlight < limit && len(l.pending) == 0 {
		l.inFlight++
		w.holds = true
		return true
	}
	w.giveBack()
	delete(l.asked, w.id)
	// Another id, because nothing says that the release arrives before the next question.
	w.draw()
	w.phase, w.next = pending, 0
	w.h.account(l.now(), slot)
	l.pending = append(l.pending, w)
	return false
}

// freePlace gives the waiter's place back, or its place in the line for one. That of a
// lease which asks again stays the lease's.
func (w *waiter) freePlace() {
	for i, p := range w.l.pending {
		if p == w {
			w.l.pending = append(w.l.pending[:i:i], w.l.pending[i+1:]...)
			break
		}
	}
	if w.holds {
		w.holds = false
		w.l.placeFreed()
	}
}

// full returns a channel that is closed when a place is free, if none is; nil: there is one.
func (l *Limiter) full() <-chan struct{} {
	if limit := l.complete.MaxInFlight; limit == 0 || l.inFlight < limit && len(l.pending) == 0 {
		return nil
	}
	if l.vacant == nil {
		l.vacant = make(chan struct{})
	}
	return l.vacant
}

// placeFreed hands a place that was given back to the waiter that has waited longest.
func (l *Limiter) placeFreed() {
	if len(l.pending) == 0 {
		l.inFlight--
		if l.vacant != nil {
			close(l.vacant)
			l.vacant = nil
		}
		return
	}
	w := l.pending[0]
	l.pending = l.pending[1:]
	w.holds = true
	w.phase, w.next = reserved, 1
	w.poke()
}
