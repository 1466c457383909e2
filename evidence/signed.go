package evidence

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"time"
	"unsafe"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/evidence/internal/merkle"
)

// signEvery is the least time between two checkpoints, the last one aside.
const signEvery = time.Minute

// Signed makes a Log that can be checked by a stranger. Its lines are the leaves of a Merkle tree
// (RFC 6962). A checkpoint, which is the number of lines and the tree's root as a note signed with
// key (https://c2sp.org/tlog-checkpoint), follows the first record that comes a minute after the
// checkpoint before, and the last record at Close. What comes after the last checkpoint isn't
// signed.
//
// Use it where a chain isn't enough: whoever has a checkpoint, and the verifier key that
// [golang.org/x/mod/sumdb/note.NewEd25519VerifierKey] makes of origin and the public key, notices
// anything that is changed, removed or reordered in the lines before it; the key's owner can't do
// it either once a checkpoint is in other hands. Package audit checks a signed log against the key,
// and extracts the records of one site with proofs that they are in it.
//
// Origin is the log's name, usually one that you control, such as "example.com/crawler"; it can't
// hold spaces or "+". Each checkpoint is a record of the log, and goes to publish (unless that is
// nil) when it and all that it covers are written, and synced where the writer has a method Sync
// (and is no pipe): mail it, post it, have it witnessed. Once Sync has failed nothing is published
// any more; Err and Close say so. Calls of publish come one after the other, from a goroutine that
// records: hand the checkpoint to one of your own if that takes time, and don't use the Log within.
//
// A line of a signed log has "salt", 64 random bits, so that nobody can guess from the hashes in a
// proof what stands in the lines that are left out. [OpenFile] goes on with the tree of a file, so
// that one key and origin stand for one tree that only grows.
func Signed(key ed25519.PrivateKey, origin string, publish func(checkpoint []byte)) Option {
	return func(l *Log) {
		var err error
		if l.signer, err = newTreeSigner(key, origin, publish); err != nil {
			l.misuse = fmt.Errorf("evidence: Signed: %w", err)
		}
	}
}

// A treeSigner signs a log with an Ed25519 key. It is a note.Signer.
type treeSigner struct {
	note.Verifier // of the same key: it has the Signer's name
	key           ed25519.PrivateKey
	tell          func(checkpoint []byte) // may be nil
	random        [8]byte                 // the last salt
	salted        []byte                  // the same in base64
	tree          merkle.Run
	unsynced      error // why the log's writer couldn't be synced once
}

func newTreeSigner(key ed25519.PrivateKey, origin string, publish func([]byte)) (*treeSigner, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("a key of %d bytes, want %d: make one with ed25519.GenerateKey", len(key), ed25519.PrivateKeySize)
	}
	public, _ := note.NewEd25519VerifierKey(origin, key.Public().(ed25519.PublicKey)) // an error is for a key of another size
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return nil, fmt.Errorf("origin %q can't name a key: give a name without spaces and \"+\", such as \"example.com/crawler\"", origin)
	}
	return &treeSigner{Verifier: verifier, key: key, tell: publish}, nil
}

// Sign implements note.Signer.
func (s *treeSigner) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.key, text), nil }

// salt returns 64 random bits in base64. They hold until the next call.
func (s *treeSigner) salt() string {
	_, _ = rand.Read(s.random[:]) // never fails
	s.salted = base64.RawURLEncoding.AppendEncode(s.salted[:0], s.random[:])
	return unsafe.String(&s.salted[0], len(s.salted))
}

// checkpoint signs what was added so far.
func (s *treeSigner) checkpoint(now time.Time) Decision {
	text := merkle.Checkpoint{Origin: s.Name(), Tree: s.tree.Tree()}.String()
	signed, err := note.Sign(&note.Note{Text: text}, s)
	if err != nil { // the origin was checked, and nothing else can be wrong
		panic("evidence: " + err.Error())
	}
	return Decision{Type: Checkpoint, Time: now, Allowed: true, Text: string(signed)}
}

// publish publishes a checkpoint of lines that were written to w, if they are on its disk. After a
// failure none ever is, as a system may forget what it couldn't write.
func (s *treeSigner) publish(w io.Writer, signed []byte) error {
	if f, ok := w.(interface{ Sync() error }); ok && modeOf(w).IsRegular() { // a pipe can't be synced
		s.unsynced = cmp.Or(s.unsynced, f.Sync())
	}
	if s.unsynced != nil {
		return fmt.Errorf("evidence: Signed: the log couldn't be synced, and its checkpoints aren't published: %w", s.unsynced)
	}
	if p := caught(func() { s.tell(signed) }); p != nil {
		return fmt.Errorf("evidence: Signed: panic in publish: %v", p)
	}
	return nil
}

// resume makes the tree that of the first size bytes of file. It goes on from the last checkpoint,
// which is the line that begins there; nil: there is none.
func (s *treeSigner) resume(file io.ReaderAt, size, from int64, checkpoint []byte) error {
	if checkpoint != nil {
		var e Entry
		if err := e.UnmarshalJSON(checkpoint); err != nil {
			return err
		}
		c, err := merkle.ParseCheckpoint(e.Text)
		if err == nil && c.Origin != s.Name() {
			return fmt.Errorf("it is the log %q, and Signed was told %q: give another file, or the same origin", c.Origin, s.Name())
		}
		tree, unlike := c.Resume(e.Edge)
		if err = cmp.Or(err, unlike); err != nil {
			return fmt.Errorf("its last checkpoint: %w", err)
		}
		s.tree = *tree
	}
	in := lines.NewReader(io.NewSectionReader(file, from, size-from))
	for _, line := range in.All() {
		s.tree.Add(tlog.RecordHash(line))
	}
	return in.Err()
}
