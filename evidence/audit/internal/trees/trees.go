// Package trees checks the checkpoints of signed logs, for the judge and for bundles.
package trees

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/evidence/internal/merkle"
)

// A Known is what a reader of a log has from elsewhere, as audit.Trust says it.
type Known struct {
	Key   string // verifier key; "": none
	keys  note.Verifiers
	Older []*Older // that a log must extend
}

// An Older is a checkpoint that a log must extend.
type Older struct {
	merkle.Checkpoint
	met   bool // whether a tree had it
	other bool // whether a tree had another root at that size
}

// Read reads a key, "" for none, and signed checkpoints.
func Read(key string, checkpoints [][]byte) (*Known, error) {
	k := &Known{Key: key, keys: note.VerifierList()}
	if key != "" {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("audit: the key %q: %w", key, err)
		}
		k.keys = note.VerifierList(v)
	}
	for i, signed := range checkpoints {
		c, err := k.Open(signed)
		if err != nil {
			return nil, fmt.Errorf("audit: checkpoint %d to hold the log against: %w", i+1, err)
		}
		k.Older = append(k.Older, &Older{Checkpoint: c, met: c == merkle.Checkpoint{Origin: c.Origin, Root: emptyRoot}})
	}
	return k, nil
}

var emptyRoot = new(merkle.Edge).Root()

// Open reads a signed checkpoint. A signature that isn't that of the key, if there is a key, is an
// error.
func (k *Known) Open(signed []byte) (c merkle.Checkpoint, err error) {
	n, err := note.Open(signed, k.keys)
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) && k.Key == "" {
		n = unknown.Note
	} else if err != nil {
		var bad *note.InvalidSignatureError
		switch {
		case unknown != nil:
			s := unknown.Note.UnverifiedSigs[0]
			err = fmt.Errorf("signed with another key than %s: %s+%08x", KeyID(k.Key), s.Name, s.Hash)
		case errors.As(err, &bad):
			err = errors.New("the signature isn't right")
		default:
			err = errors.New("not a signed note")
		}
		return c, err
	}
	if c, err = merkle.ParseCheckpoint(n.Text); err != nil {
		return c, err
	}
	if len(n.Sigs) > 0 && n.Sigs[0].Name != c.Origin {
		return c, fmt.Errorf("a checkpoint of %q, signed as %q", c.Origin, n.Sigs[0].Name)
	}
	return c, nil
}

// KeyID returns the name and the hash of a verifier key, which tell it from others; "" for none.
func KeyID(key string) string {
	parts := strings.SplitN(key, "+", 3)
	return strings.Join(parts[:min(2, len(parts))], "+")
}

// Signed is audit.Signed.
type Signed struct {
	Checkpoints int    `json:"checkpoints"`      // number of those that are right
	Records     int    `json:"records"`          // number of records before them
	After       int    `json:"after"`            // number of records after the last one, or of all if there is none
	Key         string `json:"key,omitempty"`    // name and hash of the key, "" where none was given
	Older       int    `json:"older,omitempty"`  // number of older checkpoints that the log extends
	Latest      string `json:"latest,omitempty"` // the last right checkpoint, a signed note: keep it to hold the next log against
}

// A Forest checks the checkpoints in the lines of one file. The logs in a file are leaves of one
// tree where [evidence.OpenFile] wrote them, and of one each where they were only put one after the
// other; which it is shows at the first checkpoint.
type Forest struct {
	Known  *Known
	Report *Signed
	Broken func(detail string, lines ...int)
	Found  func(c merkle.Checkpoint, signed string) // is told of each right checkpoint; may be nil

	file   merkle.Edge // of the tree that the log before belonged to, and of what came after
	own    merkle.Edge // of a tree that begins with the present log
	fork   bool        // whether it isn't known yet which of both is signed
	last   int         // the last checkpoint
	Signed bool        // whether the present log has a checkpoint
	after  int         // records after it
	Lines  uint64      // number of lines so far
	lost   bool        // whether the lines can't be brought together with the checkpoints any more
}

// Begin says that another log follows.
func (f *Forest) Begin() {
	f.own = merkle.Edge{}
	f.fork, f.Signed = f.file.Size() != 0, false
}

// Line takes a line, which may be no record.
func (f *Forest) Line(text []byte) {
	leaf := merkle.Leaf(text)
	f.file.Add(leaf)
	f.Known.Meet(&f.file)
	if f.fork {
		f.own.Add(leaf)
		f.Known.Meet(&f.own)
	}
	f.after++
	f.Lines++
}

// Meet compares a tree with the older checkpoints of its size.
func (k *Known) Meet(tree *merkle.Edge) {
	for _, o := range k.Older {
		if o.Size == tree.Size() {
			same := o.Root == tree.Root()
			o.met = o.met || same
			o.other = o.other || !same
		}
	}
}

// Checkpoint takes the checkpoint e from the line at, which isn't a leaf yet.
func (f *Forest) Checkpoint(e *evidence.Entry, at int) {
	c, err := f.Known.Open([]byte(e.Text))
	last := []int{at}
	if f.last > 0 {
		last = append(last, f.last)
	}
	n := f.after
	f.Signed = true
	f.after, f.last = -1, at // the line itself is no record to be signed
	if err != nil {
		f.Broken(fmt.Sprintf("a checkpoint: %v", err), last...)
		return
	}
	if f.fork && f.own.Root() == c.Root {
		size := int(f.own.Size())
		f.Report.After += n - size // of the log before, which nobody signs any more
		n = size
		f.file, f.fork, f.lost = f.own, false, false
	}
	if f.file.Size() != c.Size || f.file.Root() != c.Root {
		if f.lost {
			return
		}
		f.Broken(f.mismatch(c, n), last...)
		// What follows is held against what was signed, so that one change is reported once.
		edge, err := merkle.ParseEdge(c.Size, e.Edge)
		if f.lost = err != nil || edge.Root() != c.Root; !f.lost {
			f.file, f.fork = *edge, false
		}
		return
	}
	f.fork, f.lost = false, false
	f.Report.Checkpoints++
	f.Report.Records += n
	f.Report.Latest = e.Text
	if f.Found != nil {
		f.Found(c, e.Text)
	}
	f.Report.Key = KeyID(f.Known.Key)
}

// mismatch tells how the last n records differ from what the checkpoint c was made of.
func (f *Forest) mismatch(c merkle.Checkpoint, n int) string {
	size := f.file.Size()
	if f.fork && f.own.Size() == c.Size {
		size = f.own.Size()
	}
	switch {
	case size < c.Size:
		return fmt.Sprintf("a checkpoint of %d lines stands after %d: %d are missing", c.Size, size, c.Size-size)
	case size > c.Size:
		return fmt.Sprintf("a checkpoint of %d lines stands after %d: %d too many", c.Size, size, size-c.Size)
	}
	return fmt.Sprintf("the %s before this checkpoint aren't what was signed: some were changed or reordered", lines.Count(n, "record"))
}

// End says that no line follows.
func (f *Forest) End() { f.Report.After += max(f.after, 0) }

// Extended reports which older checkpoints the logs don't extend.
func (k *Known) Extended(report *Signed, broken func(detail string)) {
	for _, o := range k.Older {
		switch {
		case o.met:
			report.Older++
		case o.other:
			broken(fmt.Sprintf("the first %d lines aren't those of the checkpoint that was made of them earlier: the log was rewritten", o.Size))
		default:
			broken(fmt.Sprintf("fewer lines than the %d of the checkpoint that was made of them earlier: the log was cut off", o.Size))
		}
	}
}
