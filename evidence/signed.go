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

// A SignConfig makes a Log that a stranger can check. The lines of the log are the leaves of a
// Merkle tree (RFC 6962). A checkpoint is the number of lines and the root of the tree, as a note
// signed with Key (https://c2sp.org/tlog-checkpoint). When a minute has passed since a checkpoint,
// the next record is followed by a new checkpoint. At Close, the last record is followed by a
// checkpoint too. Lines after the last checkpoint aren't signed.
//
// Use it if a chain isn't enough. A reader needs a checkpoint and the verifier key.
// [golang.org/x/mod/sumdb/note.NewEd25519VerifierKey] makes the verifier key from Origin and the
// public key. The reader then notices if a line before the checkpoint is changed, removed or moved.
// Once a checkpoint is in other hands, the owner of the key can't change these lines either.
// Package audit checks a signed log against the key, and extracts the records of one site with
// proofs that they are in it.
//
// A line of a signed log has "salt", 64 random bits, so that the hashes in a proof don't let a
// reader guess the lines that are left out. [OpenFile] continues with the tree of a file, so each
// file has one tree that only grows. If you send checkpoints to a public witness, use a separate
// Origin for each file, because a witness expects one tree for each Origin.
type SignConfig struct {
	// Key signs the checkpoints. Make one with ed25519.GenerateKey.
	Key ed25519.PrivateKey

	// Origin is the name of the log. Begin it with a domain of yours, such as "example.com/crawler".
	// It has no spaces and no "+".
	Origin string

	// Publish receives each checkpoint when the checkpoint and all lines before it are written.
	// Send the checkpoint to other people, such as by mail or to a witness. If the writer has a
	// method Sync and isn't a pipe, the lines are synced first. If Sync fails, nothing is published
	// any more, and Err and Close report the failure. The goroutine that is writing a record calls
	// Publish, never two at once. Don't call methods of the Log in Publish. If publishing takes
	// time, pass the checkpoint to another goroutine. If Publish is nil, checkpoints are only
	// records of the log.
	Publish func(checkpoint []byte)
}

// A treeSigner signs a log with an Ed25519 key. It is a note.Signer.
type treeSigner struct {
	note.Verifier // of the same key: it has the Signer's name
	key           ed25519.PrivateKey
	publish       func(checkpoint []byte) // may be nil
	random        [8]byte                 // the last salt
	salted        []byte                  // the same in base64
	tree          merkle.Run
	unsynced      error // why the log's writer couldn't be synced once
}

func newTreeSigner(cfg *SignConfig) (*treeSigner, error) {
	if len(cfg.Key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("a key of %d bytes, want %d: make one with ed25519.GenerateKey",
			len(cfg.Key), ed25519.PrivateKeySize)
	}
	// The only error is for a key of another size.
	public, _ := note.NewEd25519VerifierKey(cfg.Origin, cfg.Key.Public().(ed25519.PublicKey))
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return nil, fmt.Errorf("origin %q can't name a key: give a name without spaces and \"+\", such as %q",
			cfg.Origin, "example.com/crawler")
	}
	return &treeSigner{Verifier: verifier, key: cfg.Key, publish: cfg.Publish}, nil
}

// Sign implements note.Signer.
func (s *treeSigner) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.key, text), nil }

// salt returns 64 random bits in base64. They hold until the next call.
func (s *treeSigner) salt() string {
	_, _ = rand.Read(s.random[:]) // never fails
	s.salted = base64.RawURLEncoding.AppendEncode(s.salted[:0], s.random[:])
	return unsafe.String(&s.salted[0], len(s.salted))
}

// checkpoint signs the lines that were added so far.
func (s *treeSigner) checkpoint(now time.Time) Decision {
	text := merkle.Checkpoint{Origin: s.Name(), Tree: s.tree.Tree()}.String()
	signed, err := note.Sign(&note.Note{Text: text}, s)
	if err != nil { // the origin was checked, and nothing else can be wrong
		panic("evidence: " + err.Error())
	}
	return Decision{Type: Checkpoint, Time: now, Allowed: true, Text: string(signed)}
}

// send publishes a checkpoint of lines that were written to w, if they are on its disk. After a
// failure no checkpoint is ever sent, as a system may forget lines that it couldn't write.
func (s *treeSigner) send(w io.Writer, signed []byte) error {
	f, ok := w.(interface{ Sync() error })
	if ok && modeOf(w).IsRegular() { // a pipe can't be synced
		s.unsynced = cmp.Or(s.unsynced, f.Sync())
	}
	if s.unsynced != nil {
		return fmt.Errorf("evidence: SignConfig: the log couldn't be synced, and its checkpoints aren't published: %w",
			s.unsynced)
	}
	p := caught(func() { s.publish(signed) })
	if p != nil {
		return fmt.Errorf("evidence: SignConfig: panic in Publish: %v", p)
	}
	return nil
}

// resume gives s the tree of the first size bytes of file. It continues from the line of the last
// checkpoint, which begins at from. Without a checkpoint it is nil, and from is 0.
func (s *treeSigner) resume(file io.ReaderAt, size, from int64, checkpoint []byte) error {
	if checkpoint != nil {
		var line LogLine
		if err := line.UnmarshalJSON(checkpoint); err != nil {
			return err
		}
		tree, err := s.treeAt(&line)
		if err != nil {
			return err
		}
		s.tree = *tree
	}
	// The line of the checkpoint is the first leaf that the checkpoint doesn't cover.
	in := lines.NewReader(io.NewSectionReader(file, from, size-from))
	for _, line := range in.All() {
		s.tree.Add(tlog.RecordHash(line))
	}
	return in.Err()
}

// treeAt returns the tree as the checkpoint in line says that it was.
func (s *treeSigner) treeAt(line *LogLine) (*merkle.Run, error) {
	c, err := merkle.ParseCheckpoint(line.Text)
	if err != nil {
		return nil, fmt.Errorf("its last checkpoint: %w", err)
	}
	if c.Origin != s.Name() {
		return nil, fmt.Errorf("it is the log %q, and SignConfig.Origin is %q: give another file, or the same origin",
			c.Origin, s.Name())
	}
	tree, err := c.Resume(line.Edge)
	if err != nil {
		return nil, fmt.Errorf("its last checkpoint: %w", err)
	}
	return tree, nil
}
