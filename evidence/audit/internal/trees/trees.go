// Package trees checks the checkpoints of signed logs, for the judge and for bundles.
package trees

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/evidence/internal/merkle"
)

// A Forest checks the checkpoints in the lines of files. If [evidence.OpenFile] wrote the logs of a
// file, their lines are leaves of one tree. If they were only put one after the other, each log has
// a tree of its own. The first checkpoint shows which it is.
type Forest struct {
	// Broken is called for a checkpoint that isn't right, with its line and that of the checkpoint
	// before, or the same line twice.
	Broken func(detail string, at, before int)

	// The reader's audit.Trust.
	Key   string // name and hash of the verifier key; "": none
	keys  note.Verifiers
	Older []*Older // checkpoints that a log must extend

	// The findings, as in audit.Signed.
	Checkpoints int
	Records     int
	After       int
	Latest      string

	Signed bool   // the present log has a checkpoint
	Trees  []Tree // trees of the present file that have a checkpoint

	// trees are those of which the present line may be a leaf: the one that continues in the file, and
	// one that begins with the present log, until a checkpoint shows which is signed.
	trees []*merkle.Run
	last  int   // line of the last checkpoint
	after int   // records after it
	lines int64 // number of lines of the file so far
}

// An Older is a checkpoint that a log must extend.
type Older struct {
	merkle.Checkpoint
	met   bool // a tree had it
	other bool // a tree had another root at that size
}

// Read reads a key, "" for none, and signed checkpoints.
func Read(key string, checkpoints [][]byte) (*Forest, error) {
	f := &Forest{keys: note.VerifierList()}
	if key != "" {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("audit: the key %q: %w", key, err)
		}
		f.keys = note.VerifierList(v)
		f.Key = fmt.Sprintf("%s+%08x", v.Name(), v.KeyHash())
	}
	for i, signed := range checkpoints {
		c, err := f.Open(signed)
		if err != nil {
			return nil, fmt.Errorf("audit: checkpoint %d to hold the log against: %w", i+1, err)
		}
		f.Older = append(f.Older, &Older{Checkpoint: c})
	}
	f.Meet(new(merkle.Run)) // each log extends the empty tree
	return f, nil
}

// Open reads a signed checkpoint. A signature that isn't that of the key, if there is a key, is an
// error.
func (f *Forest) Open(signed []byte) (c merkle.Checkpoint, err error) {
	n, err := note.Open(signed, f.keys)
	unknown, isUnknown := errors.AsType[*note.UnverifiedNoteError](err)
	switch {
	case isUnknown && f.Key == "":
		n = unknown.Note // without a key any signature will do
	case isUnknown:
		s := unknown.Note.UnverifiedSigs[0]
		return c, fmt.Errorf("signed with another key than %s: %s+%08x", f.Key, s.Name, s.Hash)
	case err != nil:
		return c, err
	}
	c, err = merkle.ParseCheckpoint(n.Text)
	if err != nil {
		return c, err
	}
	if len(n.Sigs) > 0 && n.Sigs[0].Name != c.Origin { // a key may sign for its own logs only
		return c, fmt.Errorf("a checkpoint of %q, signed as %q", c.Origin, n.Sigs[0].Name)
	}
	return c, nil
}

// Meet compares a tree with the older checkpoints of its size.
func (f *Forest) Meet(tree *merkle.Run) {
	for _, o := range f.Older {
		if o.N == tree.Len() {
			same := o.Tree == tree.Tree()
			o.met = o.met || same
			o.other = o.other || !same
		}
	}
}

const (
	rewritten = "the first %d lines aren't those of the checkpoint that was made of them earlier: the log was rewritten"
	tooShort  = "fewer lines than the %d of the checkpoint that was made of them earlier: the log was cut off"
)

// Extended returns how many older checkpoints the logs extend, and a text for each that they don't.
func (f *Forest) Extended() (n int, broken []string) {
	for _, o := range f.Older {
		switch {
		case o.met: // by one of several trees
			n++
		case o.other:
			broken = append(broken, fmt.Sprintf(rewritten, o.N))
		default:
			broken = append(broken, fmt.Sprintf(tooShort, o.N))
		}
	}
	return n, broken
}

// A Tree is one of the trees that the lines of a file are leaves of. It is exact if no checkpoint
// is broken.
type Tree struct {
	From   int64  // index of its first line in the file
	Size   int64  // number of its lines that are signed
	Signed string // their checkpoint
}

// Begin begins another log.
func (f *Forest) Begin() {
	f.trees = append(f.trees[:min(len(f.trees), 1)], new(merkle.Run))
	f.Signed = false
}

// Record reads the record of a line into e, and returns the part of the line that it takes. With an
// error e is empty.
func Record(text []byte, e *evidence.LogLine) ([]byte, error) {
	err := e.UnmarshalJSON(text)
	if err == nil {
		return text, nil
	}
	// A crawler that is killed leaves half a line, and the first line of the next log may stand behind
	// it. Within a string the quotes would be escaped.
	i := bytes.LastIndex(text, []byte(lines.RecordBegins))
	if i > 0 && e.UnmarshalJSON(text[i:]) == nil && e.N == 1 {
		return text[i:], nil
	}
	*e = evidence.LogLine{}
	return text, err
}

// Line takes the line at, with its record e, which is empty if the line has none.
func (f *Forest) Line(text []byte, e *evidence.LogLine, at int) {
	if e.Type == evidence.Checkpoint {
		f.checkpoint(e, at)
	}
	// The checkpoint is of the lines before it, and a leaf for the next one.
	leaf := tlog.RecordHash(text)
	for _, tree := range f.trees {
		tree.Add(leaf)
		f.Meet(tree)
	}
	f.after++
	f.lines++
}

// checkpoint takes the checkpoint e from the line at, which isn't a leaf yet.
func (f *Forest) checkpoint(e *evidence.LogLine, at int) {
	before := cmp.Or(f.last, at)
	after := f.after
	f.Signed = true
	f.last = at
	f.after = -1 // the line itself is no record to be signed
	c, err := f.Open([]byte(e.Text))
	if err != nil {
		f.Broken(fmt.Sprintf("a checkpoint: %v", err), at, before)
		return
	}
	i := slices.IndexFunc(f.trees, func(tree *merkle.Run) bool { return tree.Tree() == c.Tree })
	if i < 0 {
		const detail = "the %d lines before this checkpoint aren't the %d that were signed"
		f.Broken(fmt.Sprintf(detail, f.trees[0].Len(), c.N), at, before)
		// The lines that follow are compared with the signed tree, so that one change is reported once.
		if tree, err := c.Resume(e.Edge); err == nil {
			f.trees = []*merkle.Run{tree}
		}
		return
	}
	f.trees = f.trees[i : i+1] // only this one continues
	signed := min(after, int(c.N))
	f.Records += signed
	f.After += after - signed // of the log before, which no later checkpoint signs
	f.Checkpoints++
	f.Latest = e.Text
	// A later checkpoint of a tree replaces the one before.
	tree := Tree{f.lines - c.N, c.N, e.Text}
	if last := len(f.Trees) - 1; last >= 0 && f.Trees[last].From == tree.From {
		f.Trees = f.Trees[:last]
	}
	f.Trees = append(f.Trees, tree)
}

// End ends the file: no line of it follows.
func (f *Forest) End() {
	f.After += max(f.after, 0)
	f.trees = nil
	f.Trees = nil
	f.Signed = false
	f.last = 0
	f.after = 0
	f.lines = 0
}
