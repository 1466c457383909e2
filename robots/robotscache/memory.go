package robotscache

import (
	"crypto/sha256"
	"errors"
	"math"
	"sync"
	"time"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/robots"
)

// A memory holds the states of the most recently used origins, within a number of bytes, and the
// fetches under way. Its lock is held for a lookup or an update, never during a fetch.
type memory struct {
	mu      sync.Mutex
	states  *simplelru.LRU[origin, *state]
	texts   map[[sha256.Size]byte]*text // those that states use, by their hash
	bytes   int64                       // size of states and texts, about
	max     int64                       // bound of bytes
	evicted int64                       // origins removed for want of room
	fetches map[origin]*fetch
}

func newMemory(maxBytes int64) *memory {
	m := &memory{
		texts:   make(map[[sha256.Size]byte]*text),
		max:     maxBytes,
		fetches: make(map[origin]*fetch),
	}
	m.states, _ = simplelru.NewLRU(math.MaxInt, m.removed) // add bounds the bytes, not the entries
	return m
}

// use returns the state of o, nil if there is none, and makes o the most recently used origin.
func (m *memory) use(o origin) *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, _ := m.states.Get(o)
	return s
}

// peek returns the state of o, nil if there is none.
func (m *memory) peek(o origin) *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, _ := m.states.Peek(o) // which doesn't move o to the front
	return s
}

// text returns the text with that hash, nil if no state uses one.
func (m *memory) text(sum [sha256.Size]byte) *text {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.texts[sum]
}

// add makes s the state of o, and removes the least recently used origins until the others fit into
// max. s itself stays, however large it is. The caller holds m.mu.
func (m *memory) add(o origin, s *state) {
	m.states.Remove(o) // calls removed, which Add doesn't for a value that it replaces
	m.states.Add(o, s)
	m.bytes += s.bytes(o)
	if s.copy != nil {
		t := s.copy.text
		t.users++
		if t.users == 1 {
			m.bytes += t.bytes() // states that share the text add nothing
		}
		// Two fetches at a time may have parsed the same text. Later ones share the first.
		if m.texts[t.sum] == nil {
			m.texts[t.sum] = t
		}
	}
	// One origin stays, even if it alone is too large: its caller has to get it.
	for m.bytes > m.max && m.states.Len() > 1 {
		m.states.RemoveOldest()
		m.evicted++
	}
}

// removed subtracts the size of s, the state of o, and of its text if no other state uses that.
func (m *memory) removed(o origin, s *state) {
	m.bytes -= s.bytes(o)
	if s.copy == nil {
		return
	}
	t := s.copy.text
	t.users--
	if t.users == 0 {
		m.bytes -= t.bytes()
		// The map may have the other of two texts that were parsed at a time.
		if m.texts[t.sum] == t {
			delete(m.texts, t.sum)
		}
	}
}

// A text is a robots.txt that all origins with these bytes share: the rules for our crawler and the
// sitemaps, and the bytes only if the Config asks for them.
type text struct {
	rules    *robots.Rules
	body     string // empty unless Config.keepsText
	sitemaps string // as written, joined by line ends
	sum      [sha256.Size]byte
	name     [8]byte // beginning of sum, in hex
	size     int64   // of the body

	validators validators // of the first origin, shared by copies that have equal ones
	users      int        // states with the text; guarded by memory.mu
}

// An element has the size that simplelru allocates for an entry.
type element struct {
	_ [3]unsafe.Pointer // next, previous, list
	_ origin            // key
	_ *state            // value
	_ time.Time         // ExpiresAt
	_ uint8             // ExpireBucket
}

// mapEntry is the size of an entry of a map, which is between half and seven eighths full.
const mapEntry = 8 * int64(unsafe.Sizeof(uintptr(0)))

// rounded returns how much the heap takes for so many bytes, about.
func rounded[N int | uintptr](size N) int64 { return int64(size+15) &^ 15 }

// bytes returns the size of s, the state of o, without its text.
func (s *state) bytes(o origin) int64 {
	n := rounded(unsafe.Sizeof(*s)) + rounded(unsafe.Sizeof(element{})) + mapEntry
	n += rounded(len(o.host)) + rounded(len(s.Reason))
	if s.copy != nil {
		n += rounded(unsafe.Sizeof(*s.copy))
		v := s.copy.validators
		if v != &s.copy.text.validators { // else they are counted with the text
			n += rounded(unsafe.Sizeof(*v)) + v.bytes()
		}
	}
	var err *unreachableError
	if errors.As(s.Err, &err) {
		n += rounded(unsafe.Sizeof(*err)) + err.size
	}
	return n
}

// bytes returns the size of t, with its entry in memory.texts.
func (t *text) bytes() int64 {
	n := rounded(unsafe.Sizeof(*t)) + mapEntry
	n += rounded(len(t.body))
	return n + rounded(len(t.sitemaps)) + int64(t.rules.Size()) + t.validators.bytes()
}

// bytes returns the size of v's strings.
func (v *validators) bytes() int64 {
	return rounded(len(v.url)) + rounded(len(v.etag)) + rounded(len(v.lastModified))
}
