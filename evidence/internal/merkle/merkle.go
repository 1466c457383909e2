// Package merkle holds what the writer and the judge of a signed log share: the right edge of a
// Merkle tree (RFC 6962, section 2.1), which grows leaf by leaf in memory that doesn't, and the
// text of a checkpoint (https://c2sp.org/tlog-checkpoint).
package merkle

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// An Edge is the right edge of a tree: the hashes of the largest complete subtrees that its leaves
// form from left to right, one for each bit that is set in the number of leaves. The zero Edge is
// that of the empty tree.
type Edge struct {
	size uint64
	left [64]tlog.Hash // left[i] is the subtree of 2^i leaves, where that bit of size is set
}

// maxSize is the largest tree, which tlog can still number the hashes of.
const maxSize = 1 << 48

// Leaf returns the hash of a leaf.
func Leaf(data []byte) tlog.Hash { return tlog.RecordHash(data) }

// Size returns the number of leaves.
func (e *Edge) Size() uint64 { return e.size }

// Add adds the leaf with the given hash on the right.
func (e *Edge) Add(leaf tlog.Hash) { e.push(0, leaf) }

// push adds a complete subtree of 2^level leaves; the size must be a multiple of that.
func (e *Edge) push(level int, hash tlog.Hash) {
	to := level
	for ; e.size>>to&1 == 1; to++ {
		hash = tlog.NodeHash(e.left[to], hash)
	}
	e.left[to] = hash
	e.size += 1 << level
}

// Root returns the hash of the tree.
func (e *Edge) Root() tlog.Hash {
	root, _ := tlog.TreeHash(int64(e.size), e) // no error: e has the hashes that it asks for
	return root
}

// ReadHashes implements tlog.HashReader for the subtrees of the edge.
func (e *Edge) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		level, _ := tlog.SplitStoredHashIndex(x)
		hashes[i] = e.left[level]
	}
	return hashes, nil
}

// String returns the hashes of the edge, the largest subtree first, in base64. With the size it is
// all that [ParseEdge] needs.
func (e *Edge) String() string {
	var raw []byte
	for level := 63; level >= 0; level-- {
		if e.size>>level&1 == 1 {
			raw = append(raw, e.left[level][:]...)
		}
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// ParseEdge reads what String wrote about a tree of the given size.
func ParseEdge(size uint64, s string) (*Edge, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || size > maxSize || len(raw) != bits.OnesCount64(size)*tlog.HashSize {
		return nil, fmt.Errorf("not the edge of a tree of %d records", size)
	}
	e := &Edge{size: size}
	for level := 63; level >= 0; level-- {
		if size>>level&1 == 1 {
			raw = raw[copy(e.left[level][:], raw):]
		}
	}
	return e, nil
}

// A Run is a run of neighbouring leaves of which only hashes are told: those of the largest
// complete subtrees of the whole tree that the run consists of, from left to right. Its zero value
// begins at the first leaf; [RunAt] begins elsewhere.
type Run struct {
	from, to uint64
	levels   []int // of the hashes; determined by from and to
	hashes   []tlog.Hash
}

// RunAt returns the empty run that begins at the leaf of that index.
func RunAt(from uint64) *Run { return &Run{from: from, to: from} }

// Len returns the number of leaves.
func (r *Run) Len() uint64 { return r.to - r.from }

// Hashes returns the hashes that tell of the run.
func (r *Run) Hashes() []tlog.Hash { return r.hashes }

// Add adds the next leaf.
func (r *Run) Add(leaf tlog.Hash) {
	level := 0
	r.to++
	// Two neighbours make one subtree if the left one begins where such a subtree may begin.
	for i := len(r.hashes) - 1; i >= 0 && r.levels[i] == level && r.to&(1<<(level+1)-1) == 0; i-- {
		leaf = tlog.NodeHash(r.hashes[i], leaf)
		r.hashes, r.levels = r.hashes[:i], r.levels[:i]
		level++
	}
	r.hashes, r.levels = append(r.hashes, leaf), append(r.levels, level)
}

var errRun = errors.New("the hashes don't fit the number of records that are left out")

// Skip adds n leaves of which only the hashes of a [Run] are known.
func (e *Edge) Skip(n uint64, hashes []tlog.Hash) error {
	if n > maxSize || e.size+n > maxSize {
		return errRun
	}
	for end := e.size + n; e.size < end; {
		if len(hashes) == 0 {
			return errRun
		}
		// The largest subtree that may begin here and doesn't pass the end.
		level := bits.Len64(end-e.size) - 1
		if e.size > 0 {
			level = min(level, bits.TrailingZeros64(e.size))
		}
		e.push(level, hashes[0])
		hashes = hashes[1:]
	}
	if len(hashes) > 0 {
		return errRun
	}
	return nil
}

// A Checkpoint says what a tree was at one time.
type Checkpoint struct {
	Origin string // name of the log
	Size   uint64
	Root   tlog.Hash
}

// String returns the text that gets signed.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
}

var errCheckpoint = errors.New("not a checkpoint")

// ParseCheckpoint reads the signed text of a checkpoint. Lines after the first three are somebody's
// extensions, and passed over.
func ParseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) < 4 || lines[0] == "" {
		return Checkpoint{}, errCheckpoint
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || size > maxSize || lines[1] != strconv.FormatUint(size, 10) {
		return Checkpoint{}, errCheckpoint
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return Checkpoint{}, errCheckpoint
	}
	return Checkpoint{lines[0], size, root}, nil
}
