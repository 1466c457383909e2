package audit

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/merkle"
)

// A Trust is what a reader of a log has from elsewhere: from the crawler's web page, from a
// mailbox, from a witness. The owner of a log can invent it anew as long as nobody has any of that.
// The zero Trust knows nothing.
type Trust struct {
	// Key is the verifier key of a signed log ("example.com/crawler+c74f20a3+AR..."), as
	// golang.org/x/mod/sumdb/note.NewEd25519VerifierKey makes it. Without it signatures stay open.
	Key string
	// Checkpoints are checkpoints that were made earlier. The log must begin with the very lines
	// that they were made of.
	Checkpoints [][]byte
}

// Check is [Check] for a reader who has a key, or checkpoints, to hold the logs against. A key or a
// checkpoint that can't be read is an error.
func (t Trust) Check(logs ...io.Reader) (*Report, error) {
	k, err := t.known()
	if err != nil {
		return nil, err
	}
	return check(k, logs)
}

// A known is a Trust that was read.
type known struct {
	key   string
	keys  note.Verifiers
	older []*olderCheckpoint
}

// An olderCheckpoint is one that a log must extend.
type olderCheckpoint struct {
	merkle.Checkpoint
	met   bool // whether a tree had it
	other bool // whether a tree had another root at that size
}

func (t Trust) known() (*known, error) {
	k := &known{key: t.Key, keys: note.VerifierList()}
	if t.Key != "" {
		v, err := note.NewVerifier(t.Key)
		if err != nil {
			return nil, fmt.Errorf("audit: the key %q: %w", t.Key, err)
		}
		k.keys = note.VerifierList(v)
	}
	for i, signed := range t.Checkpoints {
		c, err := k.open(signed)
		if err != nil {
			return nil, fmt.Errorf("audit: checkpoint %d to hold the log against: %w", i+1, err)
		}
		k.older = append(k.older, &olderCheckpoint{Checkpoint: c, met: c == merkle.Checkpoint{Origin: c.Origin, Root: emptyRoot}})
	}
	return k, nil
}

var emptyRoot = new(merkle.Edge).Root()

// open reads a signed checkpoint. A signature that isn't that of the key, if there is a key, is an
// error.
func (k *known) open(signed []byte) (c merkle.Checkpoint, err error) {
	n, err := note.Open(signed, k.keys)
	if unknown := (*note.UnverifiedNoteError)(nil); errors.As(err, &unknown) && k.key == "" {
		n = unknown.Note
	} else if err != nil {
		var bad *note.InvalidSignatureError
		switch {
		case unknown != nil:
			s := unknown.Note.UnverifiedSigs[0]
			err = fmt.Errorf("signed with another key than %s: %s+%08x", keyID(k.key), s.Name, s.Hash)
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

// keyID returns the name and the hash of a verifier key, which tell it from others; "" for none.
func keyID(key string) string {
	plus := 0
	for i := range len(key) {
		if key[i] == '+' {
			if plus++; plus == 2 {
				return key[:i]
			}
		}
	}
	return key
}

// Signed says what the checkpoints of a signed log prove.
type Signed struct {
	Checkpoints int    `json:"checkpoints"`      // number of those that are right
	Records     int    `json:"records"`          // number of records before them
	After       int    `json:"after"`            // number of records after the last one, or of all if there is none
	Key         string `json:"key,omitempty"`    // name and hash of the key, "" where none was given
	Older       int    `json:"older,omitempty"`  // number of older checkpoints that the log extends
	Latest      string `json:"latest,omitempty"` // the last right checkpoint, a signed note: keep it to hold the next log against
}

// A forest checks the checkpoints in the lines of one file. The logs in a file are leaves of one
// tree where [evidence.OpenFile] wrote them, and of one each where they were only put one after the
// other; which it is shows at the first checkpoint.
type forest struct {
	known  *known
	report *Signed
	broken func(detail string, others ...place)
	found  func(c merkle.Checkpoint, signed string) // is told of each right checkpoint; may be nil

	file   merkle.Edge // of the tree that the log before belonged to, and of what came after
	own    merkle.Edge // of a tree that begins with the present log
	fork   bool        // whether it isn't known yet which of both is signed
	last   place       // the last checkpoint
	signed bool        // whether the present log has a checkpoint
	after  int         // records after it
	lines  uint64      // number of lines so far
	lost   bool        // whether the lines can't be brought together with the checkpoints any more
}

// begin says that another log follows.
func (f *forest) begin() {
	f.own = merkle.Edge{}
	f.fork, f.signed = f.file.Size() != 0, false
}

// line takes a line, which may be no record.
func (f *forest) line(text []byte) {
	leaf := merkle.Leaf(text)
	f.file.Add(leaf)
	f.known.meet(&f.file)
	if f.fork {
		f.own.Add(leaf)
		f.known.meet(&f.own)
	}
	f.after++
	f.lines++
}

// meet compares a tree with the older checkpoints of its size.
func (k *known) meet(tree *merkle.Edge) {
	for _, o := range k.older {
		if o.Size == tree.Size() {
			same := o.Root == tree.Root()
			o.met = o.met || same
			o.other = o.other || !same
		}
	}
}

// checkpoint takes the checkpoint e from the line at, which isn't a leaf yet.
func (f *forest) checkpoint(e *evidence.Entry, at place) {
	c, err := f.known.open([]byte(e.Text))
	last := []place{at}
	if f.last.line > 0 {
		last = append(last, f.last)
	}
	n := f.after
	f.signed = true
	f.after, f.last = -1, at // the line itself is no record to be signed
	if err != nil {
		f.broken(fmt.Sprintf("a checkpoint: %v", err), last...)
		return
	}
	if f.fork && f.own.Root() == c.Root {
		size := int(f.own.Size())
		f.report.After += n - size // of the log before, which nobody signs any more
		n = size
		f.file, f.fork, f.lost = f.own, false, false
	}
	if f.file.Size() != c.Size || f.file.Root() != c.Root {
		if f.lost {
			return
		}
		f.broken(f.mismatch(c, n), last...)
		// What follows is held against what was signed, so that one change is reported once.
		edge, err := merkle.ParseEdge(c.Size, e.Edge)
		if f.lost = err != nil || edge.Root() != c.Root; !f.lost {
			f.file, f.fork = *edge, false
		}
		return
	}
	f.fork, f.lost = false, false
	f.report.Checkpoints++
	f.report.Records += n
	f.report.Latest = e.Text
	if f.found != nil {
		f.found(c, e.Text)
	}
	f.report.Key = keyID(f.known.key)
}

// mismatch tells how the last n records differ from what the checkpoint c was made of.
func (f *forest) mismatch(c merkle.Checkpoint, n int) string {
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
	return fmt.Sprintf("the %s before this checkpoint aren't what was signed: some were changed or reordered", count(n, "record"))
}

// end says that no line follows.
func (f *forest) end() { f.report.After += max(f.after, 0) }

// extended reports which older checkpoints the logs don't extend.
func (k *known) extended(report *Signed, broken func(detail string)) {
	for _, o := range k.older {
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
