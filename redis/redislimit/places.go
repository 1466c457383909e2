package redislimit

import "slices"

// isFull reports whether no place is free.
func (p *places) isFull() bool {
	return p.most > 0 && (p.taken >= p.most || len(p.line) > 0)
}

// free hands a place to the lease that has waited for one the longest.
func (p *places) free() {
	if len(p.line) == 0 {
		p.taken--
		return
	}
	next := p.line[0]
	p.line = p.line[1:]
	next.hasPlace = true
	next.phase = parked
	next.signal()
}

// takePlace takes a place in MaxInFlight and reports whether there was one. Without one t gives its
// turn back and asks for another when it has a place, so that other processes can use the host
// meanwhile.
func (t *lease) takePlace() bool {
	places := &t.l.places
	if t.hasPlace { // from the line, or it starts again
		return true
	}
	if !places.isFull() {
		places.taken++
		t.hasPlace = true
		return true
	}
	t.giveBack()
	t.draw() // another id, because nothing says that the release arrives before the next question
	t.phase = inLine
	t.wait.next = t.wait.limit
	t.h.wait.account(t.l.now(), slot)
	places.line = append(places.line, t)
	return false
}

// freePlace gives the place of t back, or its place in the line for one. A lease that asks again
// keeps its place: its earlier start may still be in flight.
func (t *lease) freePlace() {
	places := &t.l.places
	places.line = slices.DeleteFunc(places.line, func(o *lease) bool { return o == t })
	if t.hasPlace && !t.use.had {
		t.hasPlace = false
		places.free()
	}
}
