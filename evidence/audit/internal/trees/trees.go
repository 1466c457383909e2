// Package trees checks the checkpoints of signed logs, for the judge and for bundles.
package trees

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/merkle"
)

// A Known is what a reader of a log has from elsewhere, as audit.Trust says it.
type Known struct {
	Key   string // name and hash of the verifier key; "": none
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
	k := &Known{keys: note.VerifierList()}
	if key != "" {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("audit: the key %q: %w", key, err)
		}
		k.keys = note.VerifierList(v)
		k.Key = fmt.Sprintf("%s+%08x", v.Name(), v.KeyHash())
	}
	for i, signed := range checkpoints {
		c, err := k.Open(signed)
		if err != nil {
			return nil, fmt.Errorf("audit: checkpoint %d to hold the log against: %w", i+1, err)
		}
		k.Older = append(k.Older, &Older{Checkpoint: c})
	}
	k.Meet(new(merkle.Run)) // each log extends the empty tree
	return k, nil
}

// Open reads a signed checkpoint. A signature that isn't that of the key, if there is a key, is an
// error.
func (k *Known) Open(signed []byte) (c merkle.Checkpoint, err error) {
	n, err := note.Open(signed, k.keys)
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) && k.Key == "" {
		n = unknown.Note
	} else if unknown != nil {
		s := unknown.Note.UnverifiedSigs[0]
		return c, fmt.Errorf("signed with another key than %s: %s+%08x", k.Key, s.Name, s.Hash)
	} else if err != nil {
		return c, err
	}
	if c, err = merkle.ParseCheckpoint(n.Text); err == nil && len(n.Sigs) > 0 && n.Sigs[0].Name != c.Origin {
		err = fmt.Errorf("a checkpoint of %q, signed as %q", c.Origin, n.Sigs[0].Name)
	}
	return c, err
}

// Meet compares a tree with the older checkpoints of its size.
func (k *Known) Meet(tree *merkle.Run) {
	for _, o := range k.Older {
		if o.N == tree.Len() {
			same := o.Tree == tree.Tree()
			o.met, o.other = o.met || same, o.other || !same
		}
	}
}

// Extended reports which older checkpoints the logs don't extend.
func (k *Known) Extended(report *Signed, broken func(detail string)) {
	for _, o := range k.Older {
		switch {
		case o.met:
			report.Older++
		case o.other:
			broken(fmt.Sprintf("the first %d lines aren't those of the checkpoint that was made of them earlier: the log was rewritten", o.N))
		default:
			broken(fmt.Sprintf("fewer lines than the %d of the checkpoint that was made of them earlier: the log was cut off", o.N))
		}
	}
}

// Signed is audit.Signed.
type Signed struct {
	Checkpoints, Records, After int
	Key                         string
	Older                       int
	Latest                      string
}

// A Tree is one of the trees that the lines of a file are leaves of. It is exact where no
// checkpoint is broken.
type Tree struct {
	From   int64  // index of its first line in the file
	Size   int64  // number of its lines that are signed
	Signed string // their checkpoint
}

// A Forest checks the checkpoints in the lines of one file. The logs in a file are leaves of one
// tree where [evidence.OpenFile] wrote them, and of one each where they were only put one after the
// other; which it is shows at the first checkpoint.
type Forest struct {
	Known  *Known
	Report *Signed
	Broken func(detail string, at, before int) // lines of a checkpoint and of the one before, or of the same

	Signed bool   // whether the present log has a checkpoint
	Trees  []Tree // those that have one

	// trees are those of which the present line may be a leaf: the one that goes on in the file, and
	// one that begins with the present log, until a checkpoint shows which is signed.
	trees []*merkle.Run
	last  int   // line of the last checkpoint
	after int   // records after it
	lines int64 // number of lines so far
}

// Begin says that another log follows.
func (f *Forest) Begin() {
	f.trees, f.Signed = append(f.trees[:min(len(f.trees), 1)], new(merkle.Run)), false
}

// Line takes a line, which may be no record.
func (f *Forest) Line(text []byte) {
	leaf := tlog.RecordHash(text)
	for _, tree := range f.trees {
		tree.Add(leaf)
		f.Known.Meet(tree)
	}
	f.after++
	f.lines++
}

// Checkpoint takes the checkpoint e from the line at, which isn't a leaf yet.
func (f *Forest) Checkpoint(e *evidence.Entry, at int) {
	before, after := cmp.Or(f.last, at), f.after
	f.Signed, f.last, f.after = true, at, -1 // the line itself is no record to be signed
	c, err := f.Known.Open([]byte(e.Text))
	if err != nil {
		f.Broken(fmt.Sprintf("a checkpoint: %v", err), at, before)
		return
	}
	i := slices.IndexFunc(f.trees, func(tree *merkle.Run) bool { return tree.Tree() == c.Tree })
	if i < 0 {
		f.Broken(fmt.Sprintf("the %d lines before this checkpoint aren't the %d that were signed", f.trees[0].Len(), c.N), at, before)
		// What follows is held against what was signed, so that one change is reported once.
		if tree, err := c.Resume(e.Edge); err == nil {
			f.trees = []*merkle.Run{tree}
		}
		return
	}
	f.trees = f.trees[i : i+1]
	signed := min(after, int(c.N))
	f.Report.Records += signed
	f.Report.After += after - signed // of the log before, which nobody signs any more
	f.Report.Checkpoints++
	f.Report.Latest, f.Report.Key = e.Text, f.Known.Key
	tree := Tree{f.lines - c.N, c.N, e.Text}
	if last := len(f.Trees) - 1; last >= 0 && f.Trees[last].From == tree.From {
		f.Trees = f.Trees[:last]
	}
	f.Trees = append(f.Trees, tree)
}

// End says that no line follows.
func (f *Forest) End() { f.Report.After += max(f.after, 0) }
