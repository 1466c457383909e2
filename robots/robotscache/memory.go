package robotscache

import (
	"crypto/sha256"
	"math"
	"strings"
	"sync"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/robots"
)

// A memory holds what is known of the most recently used origins, within a number of bytes, and the
// fetches that are under way. A lookup holds its lock for some 50 ns; a fetch holds it never.
type memory struct {
	mu      sync.Mutex
	known   *simplelru.LRU[origin, *known]
	texts   map[[sha256.Size]byte]*text // those that known uses, by their hash
	bytes   int64                       // that known and texts take, about
	max     int64                       // bound of bytes
	evicted int64                       // origins removed for want of room
	flights map[origin]*flight
}

func newMemory(maxBytes int64) *memory {
	m := &memory{texts: make(map[[sha256.Size]byte]*text), max: maxBytes, flights: make(map[origin]*flight)}
	m.known, _ = simplelru.NewLRU(math.MaxInt, m.removed) // bounded by bytes, not by entries: add
	return m
}

// use returns what is known of o, nil for nothing, and makes it the most recently used.
func (m *memory) use(o origin) *known {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, _ := m.known.Get(o)
	return k
}

// peek returns what is known of o, nil for nothing.
func (m *memory) peek(o origin) *known {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, _ := m.known.Peek(o)
	return k
}

// text returns the text with that hash, nil if no origin has it.
func (m *memory) text(sum [sha256.Size]byte) *text {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.texts[sum]
}

// add stores k in place of what was known of o, and removes the least recently used origins until the
// rest fits into max. k itself stays, however large it is. The caller holds m.mu.
func (m *memory) add(o origin, k *known) {
	m.known.Remove(o) // calls removed, which Add doesn't for a value that it replaces
	m.known.Add(o, k)
	m.bytes += k.bytes(o)
	if k.good != nil {
		x := k.good.text
		if x.users++; x.users == 1 {
			m.bytes += x.bytes()
		}
		if m.texts[x.sum] == nil { // else two origins may have brought the same text at once
			m.texts[x.sum] = x
		}
	}
	for m.bytes > m.max && m.known.Len() > 1 {
		m.known.RemoveOldest()
		m.evicted++
	}
}

// removed subtracts what k and, if no other origin uses it, its text take.
func (m *memory) removed(o origin, k *known) {
	m.bytes -= k.bytes(o)
	if k.good == nil {
		return
	}
	x := k.good.text
	if x.users--; x.users == 0 {
		m.bytes -= x.bytes()
		if m.texts[x.sum] == x {
			delete(m.texts, x.sum)
		}
	}
}

// A text is what all origins share that serve the same robots.txt, byte for byte: the rules for our
// crawler, and the sitemaps. The text itself isn't kept.
type text struct {
	rules    *robots.Rules
	sitemaps string // as written, each with a line end
	sum      [sha256.Size]byte
	size     int64 // of the body

	validators validators // of the first origin, for others whose are the same
	users      int        // how many origins have it; guarded by memory.mu
}

// sitemapsOf packs the sitemaps of a file.
func sitemapsOf(f *robots.File) string {
	var b strings.Builder
	for _, url := range f.Sitemaps() {
		b.WriteString(url)
		b.WriteByte('\n')
	}
	return strings.Clone(b.String())
}

// Sizes in words, beside those of the structs themselves: the element of an LRU, and a slot of a map
// that is two thirds full.
const (
	word      = int64(unsafe.Sizeof(uintptr(0)))
	knownSize = int64(unsafe.Sizeof(known{})) + 12*word + 6*word
	goodSize  = int64(unsafe.Sizeof(good{}))
	errSize   = int64(unsafe.Sizeof(unreachableError{}))
	askSize   = int64(unsafe.Sizeof(validators{}))
	textSize  = int64(unsafe.Sizeof(text{})) + 8*word
)

// bytes returns about how much memory k, which is known of o, takes of its own.
func (k *known) bytes(o origin) int64 {
	n := knownSize + stringSize(o.host) + stringSize(k.Reason)
	if g := k.good; g != nil {
		n += goodSize
		if g.validators != &g.text.validators {
			n += askSize + g.validators.bytes()
		}
	}
	if k.Err != nil {
		n += errSize
	}
	return n
}

// bytes returns about how much memory x takes.
func (x *text) bytes() int64 {
	return textSize + stringSize(x.sitemaps) + int64(x.rules.Size()) + x.validators.bytes()
}

// bytes returns about how much memory the strings of v take.
func (v *validators) bytes() int64 {
	return stringSize(v.url) + stringSize(v.etag) + stringSize(v.lastModified)
}

// stringSize returns about what the heap takes for s, nothing for an empty one.
func stringSize(s string) int64 { return int64(len(s)+15) &^ 15 }
