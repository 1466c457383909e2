package redislimit

import "slices"

// isFull reports whether no place is free for a request to a host of site. A free place is never
// one for which a lease in the line waits, because free hands it over.
func (p *places) isFull(site string) bool {
	isSiteFull := p.perSite > 0 && p.bySite[site] >= p.perSite
	return isSiteFull || (p.most > 0 && p.taken >= p.most)
}

// take takes a place for a request to a host of site.
func (p *places) take(site string) {
	p.taken++
	if p.perSite > 0 {
		p.bySite[site]++
	}
}

// free gives back a place of site, and hands it to the lease that has waited the longest of those
// that may have one now. A lease whose site is full holds up no other.
func (p *places) free(site string) {
	p.taken--
	if p.perSite > 0 {
		p.bySite[site]--
		if p.bySite[site] == 0 {
			delete(p.bySite, site)
		}
	}
	i := slices.IndexFunc(p.line, func(t *lease) bool { return !p.isFull(t.h.site) })
	if i < 0 {
		return
	}
	next := p.line[i]
	p.line = slices.Delete(p.line, i, i+1)
	p.take(next.h.site)
	next.hasPlace = true
	next.phase = parked
	next.signal()
}

// takePlace takes a place in MaxInFlight and PerSite, and reports whether there was one. Without
// one t gives its turn back and asks for another when it has a place, so that other processes can
// use the host meanwhile.
func (t *lease) takePlace() bool {
	places := &t.l.places
	if t.hasPlace { // from the line, or it starts again
		return true
	}
	if !places.isFull(t.h.site) {
		places.take(t.h.site)
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
		places.free(t.h.site)
	}
}
