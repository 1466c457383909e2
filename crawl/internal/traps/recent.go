package traps

import "slices"

// A recent keeps values by hash: at least the half of its bound that was used last, and never more
// than the bound. Beside the map's own it has no cost for each value, as a list would.
type recent[V any] struct {
	most  int
	young map[uint32]V
	old   map[uint32]V // what of it is used moves to young; the rest is dropped when young is full
}

func newRecent[V any](most int) recent[V] {
	return recent[V]{most: most}
}

func (r *recent[V]) get(hash uint32) (value V, ok bool) {
	value, ok = r.young[hash]
	if ok {
		return value, true
	}
	value, ok = r.old[hash]
	if ok {
		r.put(hash, value)
	}
	return value, ok
}

func (r *recent[V]) put(hash uint32, value V) {
	if r.young == nil {
		r.young = make(map[uint32]V)
	}
	_, known := r.young[hash]
	if !known && len(r.young) >= r.most/2 {
		r.old = r.young
		r.young = make(map[uint32]V)
	}
	r.young[hash] = value
}

// size returns the number of values that are kept. One in both halves counts twice.
func (r *recent[V]) size() int { return len(r.young) + len(r.old) }

// lines remembers the hashes of the lines that a host has shown.
type lines struct {
	most  int
	first []uint32            // of the first page, in order: a map of them would take twice as much
	known map[uint32]struct{} // of those after it; nil: there was none with another line
	zeros uint                // only hashes that end in so many zero bits are looked at
}

// size returns the number of hashes that are kept.
func (l *lines) size() int { return len(l.first) + len(l.known) }

// has reports whether a hash is kept.
func (l *lines) has(hash uint32) bool {
	if _, ok := l.known[hash]; ok {
		return true
	}
	_, ok := slices.BinarySearch(l.first, hash)
	return ok
}

// add notes the lines of a page. It reports whether one of them is new.
//
// If there are too many, only each second hash is kept and looked at from then on. So pages that
// come later are measured as those before them, which no bound by age would do.
func (l *lines) add(hashes []uint32) (hasNew bool) {
	isFirst := l.first == nil && l.known == nil
	if isFirst && len(hashes) <= l.most {
		sorted := slices.Clone(hashes)
		slices.Sort(sorted)
		l.first = slices.Clip(slices.Compact(sorted))
		return len(l.first) > 0
	}
	for _, hash := range hashes {
		if !l.isKept(hash) || l.has(hash) {
			continue
		}
		hasNew = true
		if l.known == nil {
			l.known = make(map[uint32]struct{})
		}
		l.known[hash] = struct{}{}
		for l.size() > l.most {
			l.thin()
		}
	}
	return hasNew
}

func (l *lines) isKept(hash uint32) bool { return hash&(1<<l.zeros-1) == 0 }

// thin drops each second hash.
func (l *lines) thin() {
	l.zeros++
	isDropped := func(hash uint32) bool { return !l.isKept(hash) }
	l.first = slices.DeleteFunc(l.first, isDropped)
	for hash := range l.known {
		if isDropped(hash) {
			delete(l.known, hash)
		}
	}
}
