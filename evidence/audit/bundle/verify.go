package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/internal/trees"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/evidence/internal/merkle"
	"github.com/go-politeness/politeness/internal/printable"
)

// A Bundle is the content of a bundle whose proofs are right. Verify returns it.
type Bundle struct {
	Hosts   []string     `json:"hosts"`   // hosts that it is about
	Records int          `json:"records"` // number of records in it
	Omitted uint64       `json:"omitted"` // number of records of the log that were left out
	Signed  audit.Signed `json:"signed"`

	// Report judges the records. It has a violation "sequence" if the number of a start is missing.
	// The records of that start were left out, though they are about the same host. The starts of a
	// host are numbered over the whole crawl. So if no number from 1 on is missing, there was no
	// other request before the last of them, by this limiter.
	Report *audit.Report `json:"report"`
}

// String returns the proofs of the bundle as text.
func (b *Bundle) String() string {
	// A signature without a key to check it by proves nothing about the signer.
	whose := "by " + b.Signed.Key
	if b.Signed.Key == "" {
		whose = "with an unknown key: give the crawler's key to know whose log it is"
	}
	extends := ""
	if b.Signed.Older > 0 {
		extends = fmt.Sprintf("the log extends %s\n", lines.Count(b.Signed.Older, "older checkpoint"))
	}
	records := lines.Count(b.Records, "record")
	hosts := printable.Text(strings.Join(b.Hosts, ", "))
	stand := fmt.Sprintf("%s on %s stand in the log, signed %s", records, hosts, whose)
	return fmt.Sprintf("%s; %d others are left out\n%s\n%v", stand, b.Omitted, extends, b.Report)
}

// ErrNotProved is the error of [Verify] if a bundle proves nothing, with the reason behind it.
var ErrNotProved = errors.New("audit: the bundle proves nothing")

// Verify checks a bundle that [Extract] wrote, without the log. Each record must be in the log of
// the checkpoint, in this order. The checkpoint must be signed with the key of t, if there is one,
// and extend the Checkpoints. If one of these is wrong, the error is [ErrNotProved]. A bundle or a
// Trust that can't be read is another error.
//
// Verify can't show that the log itself is true, nor which records were left out of it. See
// Bundle.Report for those that were left out of the bundle.
func Verify(bundle io.Reader, t audit.Trust) (*Bundle, error) {
	forest, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return nil, err
	}
	r := &reader{forest: forest}
	var read bytes.Buffer
	in := lines.NewReader(io.TeeReader(bundle, &read))
	for line, text := range in.All() {
		if err := r.line(text); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrNotProved, line, err)
		}
		forest.Meet(&r.tree) // each size of the tree may be that of an older checkpoint
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotProved, err)
	}
	b := &r.Bundle
	b.Report, err = audit.CheckSite(&read, b.Hosts...) // it passes over lines that are no records
	if err != nil {
		return nil, err
	}
	b.Report.Signed = b.Signed
	b.proveWhole()
	return b, nil
}

// proveWhole removes the auditor's reasons about lines that the bundle leaves out, because each
// record of b is proved to be in the log.
func (b *Bundle) proveWhole() {
	for i := range b.Report.Promises {
		p := &b.Report.Promises[i]
		if p.Name != "log whole" {
			continue
		}
		p.Proof = fmt.Sprintf("records of the bundle, signed by %s", cmp.Or(b.Signed.Key, "a key that wasn't given"))
		p.Proved = b.Records
		p.Open = 0
		p.Why = nil
		if b.Signed.Key == "" {
			p.Open = 1
			p.Why = []string{"the log is signed, but no key was given"}
		}
	}
}

// A reader reads a bundle line by line.
type reader struct {
	Bundle
	forest *trees.Forest
	tree   merkle.Run // the present tree
}

// line takes a line of the bundle.
func (r *reader) line(text []byte) error {
	var l bundleLine
	var record evidence.LogLine
	err := errors.Join(record.UnmarshalJSON(text), json.Unmarshal(text, &l))
	isRecord := record.Type != "" // as for the judge, so that it reads no line that isn't a leaf
	if r.Hosts == nil {
		return r.begin(l, err == nil && !isRecord)
	}
	switch {
	case err != nil:
		return errNoLine
	case isRecord: // the proof is that it is a leaf, at this place
		r.Records++
		r.tree.Add(tlog.RecordHash(text))
		return nil
	case l.Checkpoint != "":
		return r.checkpoint(l.Checkpoint)
	case l.Omitted > 0: // hashes stand for leaves that aren't shown
		r.Omitted += l.Omitted
		return r.tree.Skip(l.Omitted, l.Hashes)
	}
	return errNoLine
}

var errNoLine = errors.New("neither a record nor another line of a bundle")

// begin takes the first line, which is in no tree.
func (r *reader) begin(l bundleLine, ok bool) error {
	switch {
	case !ok || l.Bundle == 0:
		return errors.New("not a bundle")
	case l.Bundle != bundleVersion:
		return fmt.Errorf("a bundle of version %d, and this program knows %d", l.Bundle, bundleVersion)
	}
	if len(l.Hosts) > 0 { // without a host the next line is taken for the first one, which it isn't
		r.Hosts = l.Hosts
	}
	return nil
}

// checkpoint takes a signed checkpoint, which ends the present tree.
func (r *reader) checkpoint(signed string) error {
	c, err := r.forest.Open([]byte(signed))
	if err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	if c.Tree != r.tree.Tree() {
		return errors.New("the lines before it aren't in the log that this checkpoint was made of")
	}
	r.Signed = audit.Signed{
		Checkpoints: r.Signed.Checkpoints + 1,
		Records:     r.Records,
		Key:         r.forest.Key,
		Latest:      signed,
	}
	r.tree = merkle.Run{} // another tree may follow
	return nil
}

// end checks that the bundle ends with a checkpoint, and extends the older ones.
func (r *reader) end() error {
	switch {
	case r.Hosts == nil:
		return errors.New("not a bundle: it is empty")
	case r.tree.Len() > 0 || r.Signed.Checkpoints == 0:
		return errors.New("it ends without a checkpoint: it was cut off")
	}
	older, broken := r.forest.Extended()
	r.Signed.Older = older
	if len(broken) > 0 {
		return errors.New(broken[len(broken)-1])
	}
	return nil
}
