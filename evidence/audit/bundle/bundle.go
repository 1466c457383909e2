// Package bundle hands what a signed log says of one site to the owner of that site: [Extract]
// writes the records with proofs that they are in the log, and without the name of any other host;
// [Verify] checks them with the key of the crawler and nothing else of the log.
package bundle

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/evidence/audit/internal/trees"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/evidence/internal/merkle"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/printable"
)

// A bundleLine is a line of a bundle, which is JSON Lines. The first line names the hosts. Each
// other line is a record, exactly as it stands in the log; or says how many lines are left out
// there, with the hashes of the largest complete subtrees of the log's Merkle tree that consist of
// them; or is the checkpoint of all lines before it, after which the lines of another tree may
// follow. So the bundle is the tree with branches cut off: whoever reads it computes the root, and
// compares it with the checkpoint's.
type bundleLine struct {
	Bundle     int         `json:"bundle,omitempty"` // version; in the first line
	Hosts      []string    `json:"hosts,omitempty"`
	Omitted    uint64      `json:"omitted,omitempty"`
	Hashes     []tlog.Hash `json:"hashes,omitempty"`
	Checkpoint string      `json:"checkpoint,omitempty"`
}

// bundleVersion is that of the bundles that Extract writes.
const bundleVersion = 1

// Extracted says what went into a bundle.
type Extracted struct {
	Records  int `json:"records"`  // number of records in the bundle
	Withheld int `json:"withheld"` // records of these hosts that name others, and were left out therefore
	Omitted  int `json:"omitted"`  // all other records that were left out
	After    int `json:"after"`    // records of these hosts that no checkpoint covers yet, left out too
}

// Extract writes a bundle: what a signed log says of the given hosts, and of the names below them,
// with the proof that it stands in that log: for a site's owner, who checks it by [Verify].
// With the records of the hosts go the log's policy records. The name of no other host that the
// crawler met is in the bundle. A record of these hosts that names another one, such as a redirect
// to it, is withheld; give that host too if its owner is the same.
//
// With the Checkpoints of t, the bundle proves too that the log extends them. The log is read
// twice; it is an error if its checkpoints aren't right, or if it has none.
func Extract(w io.Writer, log io.ReadSeeker, t audit.Trust, hosts ...string) (Extracted, error) {
	var e Extracted
	of, err := sites.Read(hosts)
	if err != nil {
		return e, err
	}
	k, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return e, err
	}
	site := &site{of, map[string]bool{}}
	signed, err := survey(k, log, site)
	if err != nil {
		return e, err
	}
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return e, fmt.Errorf("audit: extracting reads the log twice: %w", err)
	}
	out := bufio.NewWriter(w) // with which errors of writing stay
	x := &extraction{out, signed, k, 0, nil}
	x.put(bundleLine{Bundle: bundleVersion, Hosts: site.Names})
	err = lines.Each(log, func(text []byte, _ int) {
		about := site.about(text)
		switch covered := len(x.trees) > 0 && x.index >= x.trees[0].from; {
		case !covered:
			if x.index++; about == ofSite {
				e.After++
			}
			return
		case about == ofSite:
			e.Records++
		case about == withheld:
			e.Withheld++
		default:
			e.Omitted++
		}
		x.line(text, about == ofSite)
	})
	return e, errors.Join(err, out.Flush())
}

// A signedTree is one of the trees that the lines of a file belong to.
type signedTree struct {
	from   uint64 // index of its first line in the file
	size   uint64 // number of lines that the last checkpoint covers
	signed string // that checkpoint
}

// survey reads a log as far as the trees go, and tells site of every host.
func survey(k *trees.Known, log io.Reader, site *site) ([]signedTree, error) {
	var all []signedTree
	var fault error
	f := trees.Forest{Known: k, Report: new(trees.Signed), Broken: func(detail string, at ...int) {
		if fault == nil {
			fault = fmt.Errorf("audit: line %d: %s", at[0], detail)
		}
	}}
	f.Found = func(c merkle.Checkpoint, signed string) {
		t := signedTree{f.Lines - c.Size, c.Size, signed}
		if n := len(all); n > 0 && all[n-1].from == t.from {
			all[n-1] = t
		} else {
			all = append(all, t)
		}
	}
	err := lines.Each(log, func(text []byte, at int) {
		var e evidence.Entry
		if err := e.UnmarshalJSON(text); err == nil {
			site.meet(&e.Decision)
			if e.N == 1 {
				f.Begin()
			}
			if e.Type == evidence.Checkpoint {
				f.Checkpoint(&e, at)
			}
		}
		f.Line(text)
	})
	k.Extended(f.Report, func(detail string) { err = errors.Join(err, errors.New("audit: "+detail)) })
	switch {
	case err != nil:
		return nil, err
	case fault != nil:
		return nil, fault
	case all == nil:
		return nil, errors.New("audit: the log has no checkpoint, so nothing in it can be proved: it has to be written with evidence.Signed")
	}
	return all, nil
}

// An extraction writes the lines of a bundle.
type extraction struct {
	out   *bufio.Writer
	trees []signedTree // the present one, and those that follow
	known *trees.Known
	index uint64      // of the next line in the file
	run   *merkle.Run // lines that are left out since the last that was written; nil: none
}

func (x *extraction) put(line bundleLine) { _ = json.NewEncoder(x.out).Encode(line) }

// line writes a line that a checkpoint covers, or no more of it than is needed for the proof.
func (x *extraction) line(text []byte, keep bool) {
	tree := x.trees[0]
	if keep {
		x.flush()
		_, _ = x.out.Write(text)
		_ = x.out.WriteByte('\n')
	} else {
		if x.run == nil {
			x.run = merkle.RunAt(x.index - tree.from)
		}
		x.run.Add(merkle.Leaf(text))
	}
	x.index++
	size := x.index - tree.from
	if slices.ContainsFunc(x.known.Older, func(o *trees.Older) bool { return o.Size == size }) {
		x.flush() // so that the tree of this size can be seen in the bundle
	}
	if size == tree.size {
		x.flush()
		x.put(bundleLine{Checkpoint: tree.signed})
		x.trees = x.trees[1:]
	}
}

// flush writes the hashes of the lines that are left out.
func (x *extraction) flush() {
	if x.run != nil {
		x.put(bundleLine{Omitted: x.run.Len(), Hashes: x.run.Hashes()})
		x.run = nil
	}
}

// A site is some hosts, with the names below them, among others that a crawler met.
type site struct {
	sites.Site
	others map[string]bool // names of other hosts, without ports
}

// meet remembers the names of hosts that don't belong to s.
func (s *site) meet(d *evidence.Decision) {
	for _, host := range [...]string{sites.HostOf(d), d.Host} {
		if host != "" && !s.Has(host) {
			s.others[hostname.WithoutPort(hostname.Key(host))] = true
		}
	}
}

// What a line is about.
const (
	ofOthers = iota
	ofSite
	withheld // of the site, but it names another host
)

// about returns what a line is about.
func (s *site) about(text []byte) int {
	var d evidence.Decision
	if d.UnmarshalJSON(text) != nil || !s.About(&d) {
		return ofOthers
	}
	var v any
	to := sites.Authority(d.Location)
	if to != "" && !s.Has(to) || json.Unmarshal(text, &v) != nil || s.namesAnother(v) {
		return withheld
	}
	return ofSite
}

// namesAnother reports whether a text in v, which is JSON, names a host that doesn't belong to s.
func (s *site) namesAnother(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if s.namesAnother(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, s.namesAnother)
	case string:
		for range 4 { // a URL may stand escaped in another one
			if s.mentions(v) {
				return true
			}
			plain := unescape(v)
			if plain == v {
				return false
			}
			v = plain
		}
	}
	return false
}

var escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// unescape returns s without its escapes. A % that is no part of one is left as it is, as other
// readers do, and so doesn't hide the names that stand beside it.
func unescape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(code string) string {
		b, _ := hex.DecodeString(code[1:])
		return string(b)
	})
}

// mentions reports whether text has the name of a host that doesn't belong to s.
func (s *site) mentions(text string) bool {
	for name := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return r <= unicode.MaxASCII && r != '.' && r != '-' && r != '_' && !('a' <= r && r <= 'z') && !('0' <= r && r <= '9')
	}) {
		name = strings.Trim(name, ".")
		if s.Has(name) {
			continue
		}
		for ok := true; ok; _, name, ok = strings.Cut(name, ".") {
			if s.others[name] || s.others[hostname.ASCII(name)] {
				return true
			}
		}
	}
	return false
}

// A Bundle is what [Verify] has read from a bundle whose proofs are right.
type Bundle struct {
	Hosts   []string     `json:"hosts"`   // hosts that it is about
	Records int          `json:"records"` // number of records in it
	Omitted uint64       `json:"omitted"` // number of records of the log that were left out
	Signed  audit.Signed `json:"signed"`

	// Report judges the records. It says "sequence" where the number of a start is missing: the
	// records of that start were left out, though they are about the same host. The starts of a host
	// are numbered over the whole crawl, so that where no number is missing from 1 on, there was no
	// other request before the last of them, by this limiter.
	Report *audit.Report `json:"report"`
}

// WriteText writes for people what the bundle proves.
func (b *Bundle) WriteText(w io.Writer) error {
	whose := "with an unknown key: give the crawler's key to know whose log it is"
	if b.Signed.Key != "" {
		whose = "by " + b.Signed.Key
	}
	extends := ""
	if b.Signed.Older > 0 {
		extends = fmt.Sprintf("the log extends %s\n", lines.Count(b.Signed.Older, "older checkpoint"))
	}
	_, err := fmt.Fprintf(w, "%s on %s stand in the log, signed %s; %d others are left out\n%s\n",
		lines.Count(b.Records, "record"), printable.Text(strings.Join(b.Hosts, ", ")), whose, b.Omitted, extends)
	return errors.Join(err, b.Report.WriteText(w))
}

// A ProofError says why a bundle proves nothing. It is the error of [Verify], unless the
// bundle or the Trust can't be read.
type ProofError struct {
	Line int // of the bundle; 0: all of it
	Err  error
}

// Error implements error.
func (e *ProofError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("audit: line %d of the bundle: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("audit: %v", e.Err)
}

// Unwrap returns Err.
func (e *ProofError) Unwrap() error { return e.Err }

// Verify checks a bundle that [Extract] wrote, with nothing else from the log: that each record in
// it stands in a log of which the checkpoint was made, in this order, and that the checkpoint is
// signed with the key of t, if there is one, and extends the Checkpoints. What isn't right is a
// [*ProofError].
//
// It can't show that the log itself is true, nor what was left out of it: see Bundle.Report for
// what was left out of the bundle.
func Verify(bundle io.Reader, t audit.Trust) (*Bundle, error) {
	k, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return nil, err
	}
	v := &verification{known: k}
	var records bytes.Buffer // and an empty line for each other one, so that the judge names the lines of the bundle
	var fault error
	err = lines.Each(bundle, func(text []byte, line int) {
		if fault != nil {
			return
		}
		isRecord, err := v.line(text)
		if err != nil {
			fault = &ProofError{line, err}
		} else if isRecord {
			records.Write(bytes.Repeat([]byte{'\n'}, line-1-v.judged))
			records.Write(text)
			v.judged = line - 1
		}
	})
	switch {
	case err != nil || fault != nil:
		return nil, errors.Join(err, fault)
	case v.Hosts == nil:
		return nil, &ProofError{Err: errors.New("not a bundle: it is empty")}
	case v.tree.Size() > 0 || v.Signed.Checkpoints == 0:
		return nil, &ProofError{Err: errors.New("the bundle ends without a checkpoint: it was cut off")}
	}
	k.Extended((*trees.Signed)(&v.Signed), func(detail string) { fault = &ProofError{Err: errors.New(detail)} })
	if fault != nil {
		return nil, fault
	}
	if v.Report, err = audit.CheckSite(&records, v.Hosts...); err != nil {
		return nil, err
	}
	v.Report.Signed = v.Signed
	return &v.Bundle, nil
}

// A verification reads a bundle.
type verification struct {
	Bundle
	known  *trees.Known
	tree   merkle.Edge
	judged int // lines before the last record
}

var errLine = errors.New("neither a record nor another line of a bundle")

// line reads a line, and reports whether it is a record.
func (v *verification) line(text []byte) (isRecord bool, err error) {
	if v.Hosts != nil && bytes.HasPrefix(text, []byte(`{"type":"`)) {
		if err := new(evidence.Entry).UnmarshalJSON(text); err != nil {
			return true, err
		}
		v.Records++
		v.tree.Add(merkle.Leaf(text))
		v.known.Meet(&v.tree)
		return true, nil
	}
	var l bundleLine
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	err = from.Decode(&l)
	switch {
	case v.Hosts == nil && (err != nil || l.Bundle == 0):
		return false, errors.New("not a bundle")
	case err != nil || from.More():
		return false, errLine
	case v.Hosts == nil && l.Bundle != bundleVersion:
		return false, fmt.Errorf("a bundle of version %d, and this program knows %d", l.Bundle, bundleVersion)
	case v.Hosts == nil:
		v.Hosts = slices.Concat([]string{}, l.Hosts)
	case l.Checkpoint != "":
		return false, v.checkpoint(l.Checkpoint)
	case l.Omitted == 0:
		return false, errLine
	default:
		v.Omitted += l.Omitted
		if err = v.tree.Skip(l.Omitted, l.Hashes); err == nil {
			v.known.Meet(&v.tree)
		}
	}
	return false, err
}

func (v *verification) checkpoint(signed string) error {
	c, err := v.known.Open([]byte(signed))
	if err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	if c.Size != v.tree.Size() || c.Root != v.tree.Root() {
		return errors.New("the lines before it aren't in the log that this checkpoint was made of")
	}
	v.Signed.Checkpoints++
	v.Signed.Latest = signed
	v.Signed.Key = trees.KeyID(v.known.Key)
	v.Signed.Records = v.Records
	v.tree = merkle.Edge{}
	return nil
}
