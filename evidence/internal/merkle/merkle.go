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
// is a whole tree. The zero Run is the empty tree.
type Run struct {
	From, To int64       // indices of the first leaf, and of the one behind the last
	Hashes   []tlog.Hash // from left to right; they hold until the next Add or Skip
}

// maxSize is the largest tree, which tlog can still number the hashes of.
const maxSize = 1 << 48

// Len returns the number of leaves.
func (r *Run) Len() int64 { return r.To - r.From }

// Add adds a leaf on the right.
func (r *Run) Add(leaf tlog.Hash) { r.push(0, leaf) }

// push adds a complete subtree of 2^level leaves, where such a subtree may begin.
func (r *Run) push(level int, hash tlog.Hash) {
	r.To += 1 << level
	// The left neighbour of a subtree that ends where a larger one ends is in r if its first leaf is.
	for ; r.To>>level&1 == 0 && r.Len()>>level >= 2; level++ {
		last := len(r.Hashes) - 1
		hash = tlog.NodeHash(r.Hashes[last], hash)
		r.Hashes = r.Hashes[:last]
	}
	r.Hashes = append(r.Hashes, hash)
}

// Skip adds n leaves, of which only the hashes of a Run are known.
func (r *Run) Skip(n uint64, hashes []tlog.Hash) error {
	end := r.To + int64(min(n, maxSize+1))
	for r.To < end && end <= maxSize && len(hashes) > 0 {
		// The largest subtree that may begin here and doesn't pass the end.
		level := bits.Len64(uint64(end-r.To)) - 1
		if r.To > 0 {
			level = min(level, bits.TrailingZeros64(uint64(r.To)))
		}
		r.push(level, hashes[0])
		hashes = hashes[1:]
	}
	if r.To < end || len(hashes) > 0 {
		return errors.New("the hashes don't fit the number of records that are left out")
	}
	return nil
}

// Tree returns the size and the root of the tree that r is, which must begin at leaf 0.
func (r *Run) Tree() tlog.Tree {
	// TreeHash asks for the very hashes that r holds.
	root, _ := tlog.TreeHash(r.To, tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return r.Hashes, nil }))
	return tlog.Tree{N: r.To, Hash: root}
}

// Edge returns the hashes in base64. With a checkpoint of the tree it is all that
// [Checkpoint.Resume] needs.
func (r *Run) Edge() string {
	var raw []byte
	for _, h := range r.Hashes {
		raw = append(raw, h[:]...)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// A Checkpoint says what a tree was at one time.
type Checkpoint struct {
	Origin string // name of the log
	tlog.Tree
}

// String returns the text that gets signed.
func (c Checkpoint) String() string { return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.N, c.Hash) }

// ParseCheckpoint reads the signed text of a checkpoint. Lines after the first three are somebody's
// extensions, and passed over.
func ParseCheckpoint(text string) (Checkpoint, error) {
	origin, rest, _ := strings.Cut(text, "\n")
	// tlog reads the checkpoints of Go's own log, which differ by their origin.
	tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + rest))
	if err != nil || origin == "" || tree.N > maxSize {
		return Checkpoint{}, errors.New("not a checkpoint")
	}
	return Checkpoint{origin, tree}, nil
}

// Resume returns the tree that c was made of, to go on with, by its [Run.Edge].
func (c Checkpoint) Resume(edge string) (*Run, error) {
	raw, err := base64.StdEncoding.DecodeString(edge)
	hashes := make([]tlog.Hash, len(raw)/tlog.HashSize)
	for i := range hashes {
		raw = raw[copy(hashes[i][:], raw):]
	}
	r := new(Run)
	if err != nil || len(raw) > 0 || r.Skip(uint64(c.N), hashes) != nil || r.Tree() != c.Tree {
		return nil, errors.New("its edge doesn't have its root: the file was changed")
	}
	return r, nil
}
