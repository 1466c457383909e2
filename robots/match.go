package robots

import "strings"

// match returns the rule that decides for a normalised path, `none` if no rule does.
func (c *compiled) match(path string) uint32 {
	if len(c.nodes) == 0 {
		return none
	}
	// Down the trie, as far as the path goes along.
	best := uint32(none)
	hung := uint32(none) // the last more on the way
	at, pos := &c.nodes[0], 0
	for {
		// What does this node know?
		kind := at.n &^ hasInfo
		info := uint32(none)
		switch {
		case kind == leaf:
			info = at.next
		case at.n&hasInfo == 0:
		case kind == manyKid:
			info = c.fans[at.next].info
		default:
			info = c.nodes[at.next-1].next
		}
		if info&hasMore != 0 {
			hung = info &^ hasMore
		} else if info != none {
			best = info
		}
		// Which child goes on?
		if pos == len(path) || kind == leaf {
			break
		}
		next := at.next
		if kind == manyKid {
			var ok bool
			if next, ok = c.fans[next].find(path[pos]); !ok {
				break
			}
		} else {
			end := next + uint32(kind)
			for next < end && c.nodes[next].first != path[pos] {
				next++
			}
			if next == end {
				break
			}
		}
		at = &c.nodes[next]
		if at.len == 1 {
			if at.first != path[pos] {
				break
			}
		} else if !strings.HasPrefix(path[pos:], c.text[at.label:][:at.len]) {
			break
		}
		pos += int(at.len)
	}
	if hung == none {
		return best
	}
	return c.matchWilds(hung, path, best)
}

// matchWilds returns the best of best and the wilds of more[hung] and those further up. Only those
// that would win are tested.
func (c *compiled) matchWilds(hung uint32, path string, best uint32) uint32 {
	query := strings.IndexByte(path, '?') >= 0
	for hung != none {
		m := &c.more[hung]
		hung = m.up
		if m.n == hasTable {
			best = c.lookUp(&c.tables[m.wilds], path[m.depth:], best)
			continue
		}
		wilds := c.wilds[m.wilds:][:m.n]
		for i := range wilds {
			w, r := &wilds[i], m.wilds+uint32(i)
			if !c.better(r, best) {
				break
			}
			if (query || w.flags&needsQuery == 0) && w.matches(nil, c.text, path[m.depth:]) {
				best = r
				break
			}
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

// manyTests is how many wilds are tested, on a path of more than longPath bytes, before it is
// worth while to make a finder of it; fewTests, how many before it is to leave out what was
// tested.
const (
	manyTests = 64
	fewTests  = 16
	longPath  = 128
)

// lookUpBy is lookUp with the finder f, or without one where f is nil. Without one it gives up,
// and reports that, once making a finder would pay.
func (c *compiled) lookUpBy(f *finder, t *table, rest string, best uint32) (uint32, bool) {
	late := f == nil && len(rest) > longPath && len(rest) <= maxFinder
	tests := 0
	for i := t.from; i < t.keyed; i++ {
		if !c.better(i, best) {
			break
		}
		if tests++; late && tests > manyTests {
			return best, true
		}
		if c.wilds[i].matches(f, c.text, rest) {
			best = i
			break
		}
	}
	if len(rest) < 3 {
		return best, false
	}
	slots := c.slots[t.slots:][:1<<(32-t.shift)+1]
	shift, bit := t.shift&31, (t.shift-maskBits)&31
	key := uint32(rest[0])<<8 | uint32(rest[1])<<16
	for i := 2; i < len(rest); i++ {
		key = key>>8 | uint32(rest[i])<<16
		hash := hashKey(key)
		n := hash >> shift
		if slots[n].mask>>(hash>>bit&31)&1 == 0 {
			continue
		}
		checked := false
		for j := slots[n].start; j < slots[n+1].start; j++ {
			x := &c.wilds[j]
			if x.key != key || !c.better(j, best) {
				continue
			}
			// The same three bytes further on bring nothing new; with few tests that isn't worth
			// knowing.
			if tests++; tests > fewTests && !checked {
				if strings.Index(rest, rest[i-2:i+1]) < i-2 {
					break
				}
				checked = true
			}
			if late && tests > manyTests {
				return best, true
			}
			if x.matches(f, c.text, rest) {
				best = j
			}
		}
	}
	return best, false
}

// matches reports whether the tail matches rest: its stretches between stars are found one after
// the other, each as early as can be, which leaves the most to the others. f is the finder of rest,
// or nil.
func (w *wild) matches(f *finder, text, rest string) bool {
	if w.flags&(anything|atOnce) != 0 {
		return w.flags&anything != 0 || rest == ""
	}
	tail := text[w.tail:][:w.len]
	pos, end := 0, len(rest)
	if w.flags&afterSlash != 0 {
		pos = 1
	}
	if w.flags&endsPath != 0 {
		if rest == "" || rest[end-1] != tail[len(tail)-1] {
			return false // as most end otherwise
		}
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
			pos = f.index(rest, pos, stretch)
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

// matches reports whether p matches a normalised path. Test doesn't use it: it is for the few
// patterns that aren't worth compiling.
func (p *pattern) matches(path string) bool {
	rest, ok := strings.CutPrefix(path, p.prefix)
	if !ok {
		return false
	}
	w := wild{len: uint16(len(p.tail)), flags: p.flags()}
	return w.matches(nil, p.tail, rest)
}
