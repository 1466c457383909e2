package robots

import "strings"

// match returns the rule that decides for a normalised path, none for none.
func (c *compiled) match(path string) uint32 {
	// Down the trie, as far as the path goes along.
	var stops [16]stop
	met := stops[:0]
	var best uint32
	at, pos := &c.nodes[0], 0
	for {
		best = at.info
		if best&hasMore != 0 {
			m := &c.more[best&^hasMore]
			best = m.best
			if m.from < m.to {
				met = append(met, stop{wilds: &m.wilds, pos: pos})
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
	// Only wilds that would win are worth a look.
	for i := len(met) - 1; i >= 0; i-- {
		if s := met[i]; c.better(s.wilds.top, best) {
			best = c.matchWilds(s.wilds, path[s.pos:], best)
		}
	}
	return best
}

// A stop is a node on the way down that has wilds.
type stop struct {
	wilds *wilds
	pos   int
}

// matchWilds returns the best of best and those wilds that match what follows their prefix.
func (c *compiled) matchWilds(w *wilds, rest string, best uint32) uint32 {
	for i := w.from; i < w.keyed; i++ {
		x := &c.wilds[i]
		if !c.better(x.rule, best) {
			break
		}
		if x.matches(c.text, rest) {
			best = x.rule
			break
		}
	}
	if w.keyed == w.to || len(rest) < 3 {
		return best
	}
	starts := c.starts[w.table:]
	key := uint32(rest[0])<<8 | uint32(rest[1])<<16
	for i := 2; i < len(rest); i++ {
		key = key>>8 | uint32(rest[i])<<16
		h := hashKey(key, w.shift)
		from, to := starts[h], starts[h+1]
		if from == to {
			continue
		}
		checked := false
		for j := from; j < to; j++ {
			x := &c.wilds[j]
			if x.key != key || !c.better(x.rule, best) {
				continue
			}
			if !checked {
				// The same three bytes further on bring nothing new.
				if strings.Index(rest, rest[i-2:i+1]) < i-2 {
					break
				}
				checked = true
			}
			if x.matches(c.text, rest) {
				best = x.rule
			}
		}
	}
	return best
}

// matches reports whether the tail matches rest: its stretches between stars are found
// one after the other, each as early as can be, which leaves the most to the others.
func (w *wild) matches(text, rest string) bool {
	tail := text[w.tail:][:w.len]
	if w.end {
		star := strings.LastIndexByte(tail, '*')
		last := tail[star+1:]
		if !strings.HasSuffix(rest, last) {
			return false
		}
		if star < 0 {
			return true
		}
		tail, rest = tail[:star], rest[:len(rest)-len(last)]
	}
	for {
		star := strings.IndexByte(tail, '*')
		if star < 0 {
			return strings.Contains(rest, tail)
		}
		i := strings.Index(rest, tail[:star])
		if i < 0 {
			return false
		}
		rest, tail = rest[i+star:], tail[star+1:]
	}
}

// matches reports whether p matches a normalised path. Test doesn't use it: it is for the
// few patterns that aren't worth compiling.
func (p *pattern) matches(path string) bool {
	rest, ok := strings.CutPrefix(path, p.prefix)
	if !ok || p.tail == "" {
		return ok && (!p.end || rest == "")
	}
	w := wild{len: uint16(len(p.tail)), end: p.end}
	return w.matches(p.tail, rest)
}
