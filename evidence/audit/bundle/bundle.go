// Package bundle hands what a signed log says of one site to the owner of that site: [Extract]
// writes the records with proofs that they are in the log, and without the name of any other host;
// [Verify] checks them with the key of the crawler and nothing else of the log.
package bundle

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
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

// A bundleLine is a line of a bundle that is no record. A bundle is JSON Lines. The first line
// names the hosts. Each other line is a record, exactly as it stands in the log; or says how many
// lines are left out there, with the hashes of the largest complete subtrees of the log's Merkle
// tree that consist of them; or is the checkpoint of all lines before it, after which the lines of
// another tree may follow. So the bundle is the tree with branches cut off: whoever reads it
// computes the root, and compares it with the checkpoint's.
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
func Extract(w io.Writer, log io.ReadSeeker, t audit.Trust, hosts ...string) (e Extracted, err error) {
	names, err := sites.Read(hosts)
	if err != nil {
		return e, err
	}
	forest, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return e, err
	}
	site := &site{names, map[string]bool{}}
	if err := survey(forest, log, site); err != nil {
		return e, err
	}
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return e, fmt.Errorf("audit: extracting reads the log twice: %w", err)
	}
	out := bufio.NewWriter(w) // keeps the first error of writing
	put := func(line bundleLine) { _ = json.NewEncoder(out).Encode(line) }
	put(bundleLine{Bundle: bundleVersion, Hosts: names})

	omitted := new(merkle.Run)     // lines of the present tree since the last that was written
	putOmitted := func(to int64) { // they end before the leaf to
		if omitted.Len() > 0 {
			put(bundleLine{Omitted: uint64(omitted.Len()), Hashes: omitted.Hashes})
		}
		omitted = &merkle.Run{From: to, To: to}
	}
	present, n := forest.Trees, int64(0) // the present tree, with those that follow, and the number of lines so far
	in := lines.NewReader(log)
	for _, text := range in.All() {
		var record evidence.LogLine
		text, _ = trees.Record(text, &record)
		ofSite, withheld := site.about(text, &record.Decision)
		shown := ofSite && !withheld
		n++
		if len(present) == 0 || n <= present[0].From { // no checkpoint covers it
			if shown {
				e.After++
			}
			continue
		}
		size := n - present[0].From
		switch {
		case shown:
			e.Records++
			putOmitted(size)
			fmt.Fprintf(out, "%s\n", text)
		case withheld:
			e.Withheld++
		default:
			e.Omitted++
		}
		if !shown {
			omitted.Add(tlog.RecordHash(text))
		}
		if slices.ContainsFunc(forest.Older, func(o *trees.Older) bool { return o.N == size }) {
			putOmitted(size) // so that the tree of this size can be seen in the bundle
		}
		if size == present[0].Size {
			putOmitted(0)
			put(bundleLine{Checkpoint: present[0].Signed})
			present = present[1:]
		}
	}
	return e, errors.Join(in.Err(), out.Flush())
}

// survey checks the trees of a log, and remembers the other hosts in it.
func survey(f *trees.Forest, log io.Reader, site *site) error {
	var fault error // the first
	f.Broken = func(detail string, at, _ int) { fault = cmp.Or(fault, fmt.Errorf("audit: line %d: %s", at, detail)) }
	f.Begin()
	in := lines.NewReader(log)
	for at, text := range in.All() {
		var e evidence.LogLine
		text, _ = trees.Record(text, &e)
		site.meet(&e.Decision)
		if e.N == 1 {
			f.Begin()
		}
		f.Line(text, &e, at)
	}
	f.Extended(func(detail string) { fault = cmp.Or(fault, errors.New("audit: "+detail)) })
	if f.Trees == nil {
		fault = cmp.Or(fault, errors.New("audit: the log has no checkpoint, so nothing in it can be proved: it has to be written with evidence.LogConfig.Signed"))
	}
	return cmp.Or(in.Err(), fault)
}

// A site is some hosts, with the names below them, among others that a crawler met.
type site struct {
	sites.Site
	others map[string]bool // names of other hosts, without ports
}

// meet remembers the names of hosts that don't belong to s.
func (s *site) meet(d *evidence.Decision) {
	for _, host := range [...]string{sites.Authority(d.URL), d.Host} {
		if host != "" && !s.Has(host) {
			s.others[hostname.WithoutPort(hostname.Key(host))] = true
		}
	}
}

// about reports whether d, the record of a line, is one of s, and whether that is withheld because
// it names another host.
func (s *site) about(text []byte, d *evidence.Decision) (is, withheld bool) {
	if !s.About(d) {
		return false, false
	}
	var v any
	to := sites.Authority(d.Location)
	return true, to != "" && !s.Has(to) || json.Unmarshal(text, &v) != nil || s.namesAnother(v)
}

// escaped is a byte of a URL that stands escaped in another one, however deep.
var escaped = regexp.MustCompile(`%(?:25)*[0-9A-Fa-f]{2}`)

// namesAnother reports whether a text in v, which is JSON, names a host that doesn't belong to s.
func (s *site) namesAnother(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), s.namesAnother)
	case []any:
		return slices.ContainsFunc(v, s.namesAnother)
	case string:
		return s.mentions(v) || s.mentions(escaped.ReplaceAllStringFunc(v, func(code string) string {
			b, _ := hex.DecodeString(code[len(code)-2:])
			return string(b)
		}))
	}
	return false
}

// mentions reports whether text has the name of a host that doesn't belong to s.
func (s *site) mentions(text string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef.:", r) }) {
		if ip, err := netip.ParseAddr(strings.Trim(word, ":.")); err == nil && s.others["["+ip.String()+"]"] {
			return true
		}
	}
	for _, last := range [...]rune{unicode.MaxRune, unicode.MaxASCII} { // a name in ASCII may stand between other letters
		for name := range strings.FieldsFuncSeq(text, func(r rune) bool {
			return r > last || r <= unicode.MaxASCII && r != '.' && r != '-' && r != '_' && !('a' <= r && r <= 'z') && !('0' <= r && r <= '9')
		}) {
			name = strings.TrimFunc(name, func(r rune) bool { return r != '_' && unicode.In(r, unicode.P, unicode.S, unicode.Z) })
			for ok := !s.Has(name); ok; _, name, ok = strings.Cut(name, ".") {
				if s.others[name] || s.others[hostname.ASCII(name)] {
					return true
				}
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

// String returns what the bundle proves as text.
func (b *Bundle) String() string {
	whose, extends := "by "+b.Signed.Key, ""
	if b.Signed.Key == "" {
		whose = "with an unknown key: give the crawler's key to know whose log it is"
	}
	if b.Signed.Older > 0 {
		extends = fmt.Sprintf("the log extends %s\n", lines.Count(b.Signed.Older, "older checkpoint"))
	}
	return fmt.Sprintf("%s on %s stand in the log, signed %s; %d others are left out\n%s\n%v",
		lines.Count(b.Records, "record"), printable.Text(strings.Join(b.Hosts, ", ")), whose, b.Omitted, extends, b.Report)
}

// ErrNotProved is the error of [Verify] where a bundle proves nothing, with the reason behind it.
var ErrNotProved = errors.New("audit: the bundle proves nothing")

// Verify checks a bundle that [Extract] wrote, with nothing else from the log: that each record in
// it stands in a log of which the checkpoint was made, in this order, and that the checkpoint is
// signed with the key of t, if there is one, and extends the Checkpoints. What isn't right is
// [ErrNotProved]; a bundle or a Trust that can't be read is another error.
//
// It can't show that the log itself is true, nor what was left out of it: see Bundle.Report for
// what was left out of the bundle.
func Verify(bundle io.Reader, t audit.Trust) (*Bundle, error) {
	forest, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return nil, err
	}
	b := new(Bundle)
	var tree merkle.Run
	var read bytes.Buffer
	in := lines.NewReader(io.TeeReader(bundle, &read))
	for line, text := range in.All() {
		var l bundleLine
		var e evidence.LogLine // what the judge will read: a line that has its type is a record, and a leaf
		err := errors.Join(e.UnmarshalJSON(text), json.Unmarshal(text, &l))
		switch {
		case b.Hosts == nil && (err != nil || l.Bundle == 0 || e.Type != ""): // no tree has the first line
			err = errors.New("not a bundle")
		case b.Hosts == nil && l.Bundle != bundleVersion:
			err = fmt.Errorf("a bundle of version %d, and this program knows %d", l.Bundle, bundleVersion)
		case b.Hosts == nil:
			b.Hosts = slices.Concat([]string{}, l.Hosts)
		case err == nil && e.Type != "":
			b.Records++
			tree.Add(tlog.RecordHash(text))
		case err == nil && l.Checkpoint != "":
			c, unread := forest.Open([]byte(l.Checkpoint))
			if unread != nil {
				err = fmt.Errorf("the checkpoint: %w", unread)
			} else if c.Tree != tree.Tree() {
				err = errors.New("the lines before it aren't in the log that this checkpoint was made of")
			}
			b.Signed = audit.Signed{Checkpoints: b.Signed.Checkpoints + 1, Records: b.Records, Key: forest.Key, Latest: l.Checkpoint}
			tree = merkle.Run{}
		case err == nil && l.Omitted > 0:
			b.Omitted += l.Omitted
			err = tree.Skip(l.Omitted, l.Hashes)
		default:
			err = errors.New("neither a record nor another line of a bundle")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrNotProved, line, err)
		}
		forest.Meet(&tree)
	}
	switch {
	case in.Err() != nil:
		return nil, in.Err()
	case b.Hosts == nil:
		err = errors.New("not a bundle: it is empty")
	case tree.Len() > 0 || b.Signed.Checkpoints == 0:
		err = errors.New("it ends without a checkpoint: it was cut off")
	default:
		b.Signed.Older = forest.Extended(func(detail string) { err = errors.New(detail) })
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotProved, err)
	}
	if b.Report, err = audit.CheckSite(&read, b.Hosts...); err != nil { // which passes over what is no record
		return nil, err
	}
	b.Report.Signed = b.Signed
	return b, nil
}
