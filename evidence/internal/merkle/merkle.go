// Package merkle holds what the writer and the judge of a signed log share: runs of leaves of a
// Merkle tree (RFC 6962, section 2.1), which grow leaf by leaf in memory that doesn't, and the text
// of a checkpoint (https://c2sp.org/tlog-checkpoint).
package merkle

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// A Run is neighbouring leaves of a tree, of which it holds the hashes of the largest complete
// subtrees that they form: at most 96, however many leaves there are. A Run that begins at leaf 0
// is a whole tree. The zero Run is the empty tree; [RunAt] begins elsewhere.
type Run struct {
	from, to uint64
	hashes   []tlog.Hash // from left to right
}

// maxSize is the largest tree, which tlog can still number the hashes of.
const maxSize = 1 << 48

// RunAt returns the empty run that begins at the leaf of that index.
func RunAt(from uint64) *Run { return &Run{from: from, to: from} }

// Leaf returns the hash of a leaf.
func Leaf(data []byte) tlog.Hash { return tlog.RecordHash(data) }

// Len returns the number of leaves.
func (r *Run) Len() uint64 { return r.to - r.from }

// Hashes returns the hashes of the subtrees. They hold until the next Add or Skip.
func (r *Run) Hashes() []tlog.Hash { return r.hashes }

// Add adds a leaf on the right.
func (r *Run) Add(leaf tlog.Hash) { r.push(0, leaf) }

// push adds a complete subtree of 2^level leaves, where such a subtree may begin.
func (r *Run) push(level int, hash tlog.Hash) {
	r.to += 1 << level
	// The left neighbour of a subtree that ends where a larger one ends is in r if its first leaf is.
	for ; r.to>>level&1 == 0 && r.Len()>>level >= 2; level++ {
		last := len(r.hashes) - 1
		hash = tlog.NodeHash(r.hashes[last], hash)
		r.hashes = r.hashes[:last]
	}
	r.hashes = append(r.hashes, hash)
}

// Skip adds n leaves, of which only the hashes of a Run are known.
func (r *Run) Skip(n uint64, hashes []tlog.Hash) error {
	fits := n <= maxSize && r.to+n <= maxSize
	for end := r.to + n; fits && r.to < end; {
		// The largest subtree that may begin here and doesn't pass the end.
		level := bits.Len64(end-r.to) - 1
		if r.to > 0 {
			level = min(level, bits.TrailingZeros64(r.to))
		}
		if fits = len(hashes) > 0; fits {
			r.push(level, hashes[0])
			hashes = hashes[1:]
		}
	}
	if !fits || len(hashes) > 0 {
		return errors.New("the hashes don't fit the number of records that are left out")
	}
	return nil
}

// Root returns the hash of the tree that r is, which must begin at leaf 0.
func (r *Run) Root() tlog.Hash {
	// TreeHash asks for the very hashes that r holds.
	root, _ := tlog.TreeHash(int64(r.to), tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return r.hashes, nil }))
	return root
}

// String returns the hashes in base64. With the size of a tree it is all that [Parse] needs.
func (r *Run) String() string {
	var raw []byte
	for _, h := range r.hashes {
		raw = append(raw, h[:]...)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// Parse reads what String wrote of a tree of the given size.
func Parse(size uint64, s string) (*Run, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	hashes := make([]tlog.Hash, len(raw)/tlog.HashSize)
	for i := range hashes {
		raw = raw[copy(hashes[i][:], raw):]
	}
	r := new(Run)
	if err != nil || len(raw) > 0 || r.Skip(size, hashes) != nil {
		return nil, fmt.Errorf("not the edge of a tree of %d records", size)
	}
	return r, nil
}

// A Checkpoint says what a tree was at one time.
type Checkpoint struct {
	Origin string // name of the log
	Size   uint64
	Root   tlog.Hash
}

// Of reports whether c was made of the tree.
func (c *Checkpoint) Of(tree *Run) bool { return c.Size == tree.Len() && c.Root == tree.Root() }

// String returns the text that gets signed.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
}

// ParseCheckpoint reads the signed text of a checkpoint. Lines after the first three are somebody's
// extensions, and passed over.
func ParseCheckpoint(text string) (Checkpoint, error) {
	origin, rest, _ := strings.Cut(text, "\n")
	// tlog reads the checkpoints of Go's own log, which differ by their origin.
	tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + rest))
	if err != nil || origin == "" || tree.N > maxSize {
		return Checkpoint{}, errors.New("not a checkpoint")
	}
	return Checkpoint{origin, uint64(tree.N), tree.Hash}, nil
}
