package robots

import "strings"

// match returns the rule that decides for a normalised path, none for none.
func (c *compiled) match(path string) uint32 {
	// Down the trie, as far as the path goes along.
	var best uint32
	hung := uint32(none) // the last more that had wilds
	at, pos := &c.nodes[0], 0
	for {
		best = at.info
		if best&hasMore != 0 {
			i := best &^ hasMore
			m := &c.more[i]
			best = m.best
			if m.hung {
				hung = i
			}
			if pos == len(path) && c.better(m.exact, best) {
				best = m.exact
			}
		}
		if pos == len(path) || at.n == 0 {
			break
		}
		next := at.kids
		if at.n > fewKids {
			var ok bool
			if next, ok = c.fans[next].find(path[pos]); !ok {
				break
			}
		} else {
			end := next + uint32(at.n)
			for next < end && c.nodes[next].first != path[pos] {
				next++
			}
			if next == end {
				break
			}
		}
		at = &c.nodes[next]
		label := c.text[at.label:][:at.len]
		if !strings.HasPrefix(path[pos:], label) {
			break
		}
		pos += len(label)
	}
	for hung != none {
		m := &c.more[hung]
		best = c.matchWilds(hung, path[m.depth:], best)
		hung = m.up
	}
	return best
}

// matchWilds returns the best of best and those wilds of more[i] that match what follows
// their prefix. Only such as would win are worth a look.
func (c *compiled) matchWilds(i uint32, rest string, best uint32) uint32 {
	m := &c.more[i]
	if m.table != none {
		return c.lookUp(&c.tables[m.table], rest, best)
	}
	for j := m.wilds; j < c.more[i+1].wilds; j++ {
		x := &c.wilds[j]
		if !c.better(x.rule, best) {
			return best
		}
		if x.matches(nil, c.text, rest) {
			return x.rule
		}
	}
	return best
}

// lookUp is matchWilds for many wilds.
func (c *compiled) lookUp(t *table, rest string, best uint32) uint32 {
	if !c.better(t.top, best) {
		return best
	}
	best, over := c.lookUpBy(nil, t, rest, best)
	if over {
		best = c.lookUpMany(t, rest, best)
	}
	return best
}

// lookUpMany is lookUp where many wilds have to be tested.
//
//go:noinline
func (c *compiled) lookUpMany(t *table, rest string, best uint32) uint32 {
	var f finder
	f.make(rest)
	best, _ = c.lookUpBy(&f, t, rest, best)
	return best
}

// manyTests is how many wilds are tested, on a path of more than longPath bytes, before it is worth
// while to make a finder of it.
const (
	manyTests = 64
	longPath  = 128
)

// lookUpBy looks up by what f finds, nil for without. Without it gives up, and says so, once
// that would be worth its making.
func (c *compiled) lookUpBy(f *finder, t *table, rest string, best uint32) (uint32, bool) {
	late := f == nil && len(rest) > longPath && len(rest) <= maxFinder
	tests := 0
	for i := t.from; i < t.keyed; i++ {
		x := &c.wilds[i]
		if !c.better(x.rule, best) {
			break
		}
		if tests++; late && tests > manyTests {
			return best, true
		}
		if x.matches(f, c.text, rest) {
			best = x.rule
			break
		}
	}
	if len(rest) < 3 {
		return best, false
	}
	starts := c.starts[t.starts:][:1<<(32-t.shift)+1]
	key := uint32(rest[0])<<8 | uint32(rest[1])<<16
	for i := 2; i < len(rest); i++ {
		key = key>>8 | uint32(rest[i])<<16
		h := hashKey(key, t.shift)
		from, to := starts[h], starts[h+1]
		if from == to {
			continue
		}
		seen := false
		for j := from; j < to; j++ {
			x := &c.wilds[j]
			if x.key != key || !c.better(x.rule, best) {
				continue
			}
			if !seen {
				// The same three bytes further on bring nothing new.
				if strings.Index(rest, rest[i-2:i+1]) < i-2 {
					break
				}
				seen = true
			}
			if tests++; late && tests > manyTests {
				return best, true
			}
			if x.matches(f, c.text, rest) {
				best = x.rule
			}
		}
	}
	return best, false
}

// matches reports whether the tail matches rest: its stretches between stars are found
// one after the other, each as early as can be, which leaves the most to the others. f
// finds in rest, nil for without.
func (w *wild) matches(f *finder, text, rest string) bool {
	tail := text[w.tail:][:w.len]
	pos, end := 0, len(rest)
	if w.skip {
		pos = 1
	}
	if w.end {
		star := strings.LastIndexByte(tail, '*')
		last := tail[star+1:]
		if end -= len(last); end < pos || rest[end:] != last {
			return false
		}
		if star < 0 {
			return true
		}
		tail = tail[:star]
	}
	for {
		stretch := tail
		star := strings.IndexByte(tail, '*')
		if star >= 0 {
			stretch, tail = tail[:star], tail[star+1:]
		}
		if f != nil && len(stretch) > 1 {
			pos = f.index(pos, stretch)
		} else if i := strings.Index(rest[pos:], stretch); i >= 0 {
			pos += i
		} else {
			pos = -1
		}
		if pos < 0 || pos+len(stretch) > end {
			return false
		}
		if pos += len(stretch); star < 0 {
			return true
		}
	}
}

// matches reports whether p matches a normalised path. Test doesn't use it: it is for the
// few patterns that aren't worth compiling.
func (p *pattern) matches(path string) bool {
	rest, ok := strings.CutPrefix(path, p.prefix)
	if !ok || p.tail == "" {
		return ok && (!p.end || rest == "")
	}
	w := wild{len: uint16(len(p.tail)), end: p.end, skip: p.slash}
	return w.matches(nil, p.tail, rest)
}
