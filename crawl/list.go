package crawl

import "github.com/go-politeness/politeness/crawl/internal/traps"

// A list is the waiting URLs of a host. The cost of bringing all URLs with a mark forward doesn't
// depend on their number.
type list struct {
	urls  heap[stored] // those that nothing has postponed, most of them
	later *later       // the others; nil: there was none
}

// A later is the postponed URLs of a host, by level.
type later struct {
	at     map[level]*bucket
	levels [traps.Levels]heap[*bucket] // by Later; the bucket with the first URL is first
}

// A level is a place of a request among those of its host: Later and Mark.
type level struct {
	later int
	mark  uint32
}

// A bucket is the URLs of one level. It is never empty.
type bucket struct {
	level
	urls  heap[stored]
	index int // in later.levels
}

func (b *bucket) Before(o *bucket) bool { return b.urls[0].Before(o.urls[0]) }
func (b *bucket) placed(index int)      { b.index = index }

// isEmpty reports whether no URL is left.
func (l *list) isEmpty() bool { return len(l.urls) == 0 && (l.later == nil || len(l.later.at) == 0) }

// put adds a URL.
func (l *list) put(s stored, at level) {
	if at == (level{}) {
		l.urls.push(s)
		return
	}
	if l.later == nil {
		l.later = &later{at: make(map[level]*bucket)}
	}
	l.later.put(s, at)
}

func (l *later) put(s stored, at level) {
	b := l.at[at]
	if b == nil {
		b = &bucket{level: at, urls: heap[stored]{s}}
		l.add(b)
		return
	}
	b.urls.push(s)
	l.levels[at.later].fix(b.index)
}

func (l *later) add(b *bucket) {
	l.at[b.level] = b
	l.levels[b.later].push(b)
}

// drop takes a bucket out.
func (l *later) drop(b *bucket) {
	delete(l.at, b.level)
	l.levels[b.later].remove(b.index)
}

// take removes the first URL that is postponed as far as least, or further: by priority, then by
// its level, then the longest waiting.
func (l *list) take(least int) (s stored, at level, ok bool) {
	if least == 0 && len(l.urls) > 0 {
		s = l.urls[0]
		ok = true
	}
	var from *bucket
	if l.later != nil {
		for n := least; n < len(l.later.levels); n++ {
			heads := l.later.levels[n]
			if len(heads) == 0 {
				continue
			}
			first := heads[0].urls[0]
			isFirst := !ok || first.priority > s.priority || n == 0 && first.Before(s)
			if isFirst {
				s = first
				from = heads[0]
				ok = true
			}
		}
	}
	switch {
	case !ok:
		return s, at, false
	case from == nil:
		l.urls.pop()
		return s, at, true
	}
	from.urls.pop()
	if len(from.urls) == 0 {
		l.later.drop(from)
	} else {
		l.later.levels[from.later].fix(from.index)
	}
	return s, from.level, true
}

// lift brings the URLs with a mark forward that are further back than the given level.
func (l *list) lift(mark uint32, to int) {
	if l.later == nil {
		return
	}
	for n := to + 1; n < traps.Levels; n++ {
		b := l.later.at[level{later: n, mark: mark}]
		if b == nil {
			continue
		}
		l.later.drop(b)
		b.later = to
		other := l.later.at[b.level]
		if other == nil {
			l.later.add(b)
			continue
		}
		if len(other.urls) < len(b.urls) { // the smaller one moves: a URL moves seldom then
			b.urls, other.urls = other.urls, b.urls
		}
		for _, s := range b.urls {
			other.urls.push(s)
		}
		l.later.levels[to].fix(other.index)
	}
}

// buckets yields the buckets, one for each level.
func (l *list) buckets(yield func(*bucket) bool) {
	if l.later == nil {
		return
	}
	for _, b := range l.later.at {
		if !yield(b) {
			return
		}
	}
}

// all yields the URLs, each with its level.
func (l *list) all(yield func(stored, level) bool) {
	for _, s := range l.urls {
		if !yield(s, level{}) {
			return
		}
	}
	for b := range l.buckets {
		for _, s := range b.urls {
			if !yield(s, b.level) {
				return
			}
		}
	}
}
