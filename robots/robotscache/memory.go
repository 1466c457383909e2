package robotscache

import (
	"crypto/sha256"
	"strings"
	"sync"
	"unsafe"

	"github.com/go-politeness/politeness/robots"
)

// A text is what all origins share that serve the same robots.txt, byte for byte: the rules for our
// crawler, and the sitemaps. The text itself isn't kept.
type text struct {
	rules    *robots.Rules
	sitemaps string // as written, each with a line end
	sum      [sha256.Size]byte
	size     int64 // of the body
	common   *good // the copy of the first origin, for others whose copies are alike; nil until then
	users    int   // how many origins have it; guarded by texts.mu
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

// texts are those that are in use, by their hash.
type texts struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*text
}

// find returns the text of a hash, nil for none.
func (t *texts) find(sum [sha256.Size]byte) *text {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[sum]
}

// alike returns g, or one that says the same and is shared by others.
func (t *texts) alike(g *good) *good {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g.text.common == nil {
		g.text.common = g
	}
	if *g.text.common == *g {
		return g.text.common
	}
	return g
}

// keep counts k in, and returns how many bytes more there are.
func (t *texts) keep(k *known) int64 {
	return t.count(k, +1)
}

// release counts k out, and returns how many bytes fewer there are.
func (t *texts) release(k *known) int64 {
	return t.count(k, -1)
}

// worth returns how many bytes fewer there would be without k, which is counted in.
func (t *texts) worth(k *known) int64 {
	return t.count(k, 0)
}

// count adds to the number of users of k's text, and returns how many bytes depend on k.
func (t *texts) count(k *known, users int) int64 {
	if k.good == nil {
		return k.bytes()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	bytes, x := k.bytes(), k.good.text
	alone := x.users == 1 && users <= 0 || x.users == 0
	if alone {
		bytes += x.bytes()
	}
	x.users += users
	switch other := t.known[x.sum]; {
	case x.users == 0 && other == x:
		delete(t.known, x.sum)
	case x.users > 0 && other == nil: // two origins may have brought the same text at once
		t.known[x.sum] = x
	}
	return bytes
}

// mapSlot returns about what a map takes for each of its entries where it is between two sizes: half
// as much again as the entry itself.
func mapSlot[K comparable, V any]() int64 {
	return int64(unsafe.Sizeof(struct {
		key   K
		value V
	}{})) * 3 / 2
}

// bytes returns about how much memory k takes of its own.
func (k *known) bytes() int64 {
	n := allocated(unsafe.Sizeof(*k)) + allocated(uintptr(len(k.origin.host))) + mapSlot[uint64, *known]() +
		allocated(uintptr(len(k.Reason)))
	if g := k.good; g != nil && g != g.text.common {
		n += g.bytes()
	}
	return n
}

func (g *good) bytes() int64 {
	return allocated(unsafe.Sizeof(*g)) + allocated(uintptr(len(g.url))) + allocated(uintptr(len(g.etag))) + allocated(uintptr(len(g.lastModified)))
}

// bytes returns about how much memory x takes, and the copy that is common to its users.
func (x *text) bytes() int64 {
	return allocated(unsafe.Sizeof(*x)) + allocated(uintptr(len(x.sitemaps))) + mapSlot[[sha256.Size]byte, *text]() +
		int64(x.rules.Size()) + x.common.bytes()
}

// allocated returns about what the heap takes for size bytes, and nothing for none.
func allocated(size uintptr) int64 {
	return int64(max((size+15)&^15, size+size/16))
}
