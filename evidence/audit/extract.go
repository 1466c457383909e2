package audit

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

// Extract is [Trust.Extract] without a key.
func Extract(w io.Writer, log io.ReadSeeker, hosts ...string) (Extracted, error) {
	return Trust{}.Extract(w, log, hosts...)
}

// Extract writes a bundle: what a signed log says of the given hosts, and of the names below them,
// with the proof that it stands in that log: for a site's owner, who checks it by [Trust.Verify].
// With the records of the hosts go the log's policy records. The name of no other host that the
// crawler met is in the bundle. A record of these hosts that names another one, such as a redirect
// to it, is withheld; give that host too if its owner is the same.
//
// With the Checkpoints of t, the bundle proves too that the log extends them. The log is read
// twice; it is an error if its checkpoints aren't right, or if it has none.
func (t Trust) Extract(w io.Writer, log io.ReadSeeker, hosts ...string) (Extracted, error) {
	var e Extracted
	site, err := newSite(hosts)
	if err != nil {
		return e, err
	}
	k, err := t.known()
	if err != nil {
		return e, err
	}
	trees, err := k.survey(log, site)
	if err != nil {
		return e, err
	}
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return e, fmt.Errorf("audit: extracting reads the log twice: %w", err)
	}
	out := bufio.NewWriter(w)
	x := &extraction{to: json.NewEncoder(out), trees: trees, known: k}
	x.to.SetEscapeHTML(false)
	x.put(bundleLine{Bundle: bundleVersion, Hosts: site.names})
	err = eachLine(log, func(text []byte, _ place) {
		about := site.about(text)
		if !x.covered() {
			if x.index++; about == ofSite {
				e.After++
			}
			return
		}
		switch about {
		case ofSite:
			e.Records++
			x.keep(text, out)
		case withheld:
			e.Withheld++
			x.leaveOut(text)
		default:
			e.Omitted++
			x.leaveOut(text)
		}
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
func (k *known) survey(log io.Reader, site *site) ([]signedTree, error) {
	var trees []signedTree
	var fault error
	f := forest{known: k, report: new(Signed), broken: func(detail string, at ...place) {
		if fault == nil {
			fault = fmt.Errorf("audit: %v: %s", at[0], detail)
		}
	}}
	f.found = func(c merkle.Checkpoint, signed string) {
		t := signedTree{f.lines - c.Size, c.Size, signed}
		if n := len(trees); n > 0 && trees[n-1].from == t.from {
			trees[n-1] = t
		} else {
			trees = append(trees, t)
		}
	}
	err := eachLine(log, func(text []byte, at place) {
		var e evidence.Entry
		if err := e.UnmarshalJSON(text); err == nil {
			site.meet(&e.Decision)
			if e.N == 1 {
				f.begin()
			}
			if e.Type == evidence.Checkpoint {
				f.checkpoint(&e, at)
			}
		}
		f.line(text)
	})
	k.extended(f.report, func(detail string) { err = errors.Join(err, errors.New("audit: "+detail)) })
	switch {
	case err != nil:
		return nil, err
	case fault != nil:
		return nil, fault
	case trees == nil:
		return nil, errors.New("audit: the log has no checkpoint, so nothing in it can be proved: it has to be written with evidence.Signed")
	}
	return trees, nil
}

// eachLine calls f for each line of r that isn't blank, without its end.
func eachLine(r io.Reader, f func(text []byte, at place)) error {
	s := &source{in: bufio.NewReaderSize(r, 64<<10)}
	for {
		text, err := s.readLine()
		s.at.line++
		if text = bytes.TrimRight(text, "\r\n"); len(bytes.TrimSpace(text)) > 0 {
			f(text, s.at)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("audit: after %v: %w", s.at, err)
		}
	}
}

// An extraction writes the lines of a bundle.
type extraction struct {
	to    *json.Encoder
	known *known
	trees []signedTree // the present one, and those that follow
	index uint64       // of the next line in the file
	run   *merkle.Run  // lines that are left out
}

func (x *extraction) put(line bundleLine) {
	_ = x.to.Encode(line) // the error stays with the Writer that it writes to
}

// covered reports whether a checkpoint covers the next line.
func (x *extraction) covered() bool {
	return len(x.trees) > 0 && x.index >= x.trees[0].from
}

// keep writes a record.
func (x *extraction) keep(text []byte, out *bufio.Writer) {
	x.flush()
	_, _ = out.Write(text) // the error stays with out
	_ = out.WriteByte('\n')
	x.next()
}

// leaveOut writes no more of a line than is needed for the proof.
func (x *extraction) leaveOut(text []byte) {
	if x.run == nil {
		x.run = merkle.RunAt(x.index - x.trees[0].from)
	}
	x.run.Add(merkle.Leaf(text))
	x.next()
}

// next goes on to the next line.
func (x *extraction) next() {
	x.index++
	size := x.index - x.trees[0].from
	if slices.ContainsFunc(x.known.older, func(o *olderCheckpoint) bool { return o.Size == size }) {
		x.flush() // so that the tree of this size can be seen in the bundle
	}
	if size == x.trees[0].size {
		x.flush()
		x.put(bundleLine{Checkpoint: x.trees[0].signed})
		x.trees = x.trees[1:]
	}
}

// flush writes what was left out since the last record.
func (x *extraction) flush() {
	if x.run != nil {
		x.put(bundleLine{Omitted: x.run.Len(), Hashes: x.run.Hashes()})
		x.run = nil
	}
}

// A site is some hosts, with the names below them, among others that a crawler met.
type site struct {
	names  []string
	others map[string]bool // names of other hosts, without ports
}

func newSite(hosts []string) (*site, error) {
	s := &site{others: map[string]bool{}}
	for _, h := range hosts {
		name := hostname.Key(h)
		if name == "" || strings.ContainsAny(h, "/@ ") {
			return nil, fmt.Errorf("audit: %q isn't a host: give a name such as example.com", h)
		}
		s.names = append(s.names, name)
	}
	if s.names == nil {
		return nil, errors.New("audit: no host to extract")
	}
	return s, nil
}

// has reports whether a host, which may have a port, belongs to s.
func (s *site) has(host string) bool {
	return slices.ContainsFunc(s.names, func(name string) bool { return hostname.Within(host, name) })
}

// hostOf returns the host that d is about, "" if it is about none.
func hostOf(d *evidence.Decision) string {
	if d.URL == "" {
		return d.Host
	}
	return authorityOf(d.URL)
}

// authorityOf returns the host of an absolute URL, or of one that lacks the scheme only; "" if u is
// none of these.
func authorityOf(u string) string {
	if strings.HasPrefix(u, "//") {
		u = "http:" + u
	}
	origin, _ := splitURL(u)
	_, host, _ := strings.Cut(origin, "://")
	return host
}

// meet remembers the names of hosts that don't belong to s.
func (s *site) meet(d *evidence.Decision) {
	for _, host := range [...]string{hostOf(d), d.Host} {
		if host != "" && !s.has(host) {
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

// isAbout reports whether d is about s, or states what the crawler promises everywhere, or that it
// has come to its end.
func (s *site) isAbout(d *evidence.Decision) bool {
	host := hostOf(d)
	return host == "" && (d.Type == evidence.PolicyStated || d.Type == evidence.LogClosed) || host != "" && s.has(host)
}

// about returns what a line is about.
func (s *site) about(text []byte) int {
	var d evidence.Decision
	if err := d.UnmarshalJSON(text); err != nil {
		return ofOthers
	}
	if !s.isAbout(&d) {
		return ofOthers
	}
	if to := authorityOf(d.Location); to != "" && !s.has(to) {
		return withheld
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil || s.namesAnother(v) {
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
		if s.has(name) {
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

// CheckSite judges what a log says of the given hosts, and of the names below them: for the owner
// of one of them, who doesn't care about the rest. It can't tell whether the log is whole: see
// [Check].
func CheckSite(log io.Reader, hosts ...string) (*Report, error) {
	site, err := newSite(hosts)
	if err != nil {
		return nil, err
	}
	j := siteJudge{a: newAuditor()}
	err = eachLine(log, func(text []byte, at place) {
		var e evidence.Entry
		if e.UnmarshalJSON(text) == nil && site.isAbout(&e.Decision) {
			j.take(&e, at)
		}
	})
	r := j.finish(Signed{})
	whole := &r.Promises[logWhole]
	whole.Proved, whole.Open, whole.Why = 0, 1, []string{"only the records of some hosts were judged"}
	whole.Proof = count(r.Lines, "line") + " of it"
	return r, err
}

// A siteJudge judges some of the records of a log, in their order.
type siteJudge struct {
	a *auditor
	n uint64 // number of the last record in its log
}

func (j *siteJudge) take(e *evidence.Entry, at place) {
	r := &j.a.report
	if r.Logs == 0 || e.N != 0 && e.N <= j.n { // another log in the same file
		j.end()
		j.a.run = j.a.newRun()
		j.a.begin()
		r.Logs++
	}
	j.n = e.N
	r.Lines++
	j.a.run.sealed = e.Type == evidence.LogClosed
	j.a.take(&e.Decision, at)
}

// end says that a log is over, if there was one.
func (j *siteJudge) end() {
	if j.a.run != nil {
		j.a.over(j.a.run)
		j.a.end()
	}
}

func (j *siteJudge) finish(s Signed) *Report {
	j.end()
	j.a.report.Signed, j.a.report.Proofs.Numbered, j.a.report.Proofs.Chained = s, false, false
	return j.a.finish()
}

// A Bundle is what [Trust.Verify] has read from a bundle whose proofs are right.
type Bundle struct {
	Hosts   []string `json:"hosts"`   // hosts that it is about
	Records int      `json:"records"` // number of records in it
	Omitted uint64   `json:"omitted"` // number of records of the log that were left out
	Signed  Signed   `json:"signed"`

	// Report judges the records. It says "sequence" where the number of a start is missing: the
	// records of that start were left out, though they are about the same host. The starts of a host
	// are numbered over the whole crawl, so that where no number is missing from 1 on, there was no
	// other request before the last of them, by this limiter.
	Report *Report `json:"report"`
}

// WriteText writes for people what the bundle proves.
func (b *Bundle) WriteText(w io.Writer) error {
	whose := "with an unknown key: give the crawler's key to know whose log it is"
	if b.Signed.Key != "" {
		whose = "by " + b.Signed.Key
	}
	_, err := fmt.Fprintf(w, "%s on %s stand in the log, signed %s; %d others are left out\n",
		count(b.Records, "record"), printable.Text(strings.Join(b.Hosts, ", ")), whose, b.Omitted)
	if err == nil && b.Signed.Older > 0 {
		_, err = fmt.Fprintf(w, "the log extends %s\n", count(b.Signed.Older, "older checkpoint"))
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return errors.Join(err, b.Report.WriteText(w))
}

// A ProofError says why a bundle proves nothing. It is the error of [Trust.Verify], unless the
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

// Verify checks a bundle that [Trust.Extract] wrote, with nothing else from the log: that each
// record in it stands in a log of which the checkpoint was made, in this order, and that the
// checkpoint is signed with the key, if there is one, and extends the Checkpoints. What isn't right
// is a [*ProofError].
//
// It can't show that the log itself is true, nor what was left out of it: see Bundle.Report for
// what was left out of the bundle.
func (t Trust) Verify(bundle io.Reader) (*Bundle, error) {
	k, err := t.known()
	if err != nil {
		return nil, err
	}
	v := &verification{known: k, judge: siteJudge{a: newAuditor()}}
	err = eachLine(bundle, func(text []byte, at place) {
		if v.err == nil {
			if err := v.line(text, at); err != nil {
				v.err = &ProofError{at.line, err}
			}
		}
	})
	if err = errors.Join(err, v.err); err != nil {
		return nil, err
	}
	switch {
	case v.Hosts == nil:
		return nil, &ProofError{Err: errors.New("not a bundle: it is empty")}
	case v.tree.Size() > 0 || v.Signed.Checkpoints == 0:
		return nil, &ProofError{Err: errors.New("the bundle ends without a checkpoint: it was cut off")}
	}
	k.extended(&v.Signed, func(detail string) { err = &ProofError{Err: errors.New(detail)} })
	if err != nil {
		return nil, err
	}
	v.Report = v.judge.finish(v.Signed)
	return &v.Bundle, nil
}

// A verification reads a bundle.
type verification struct {
	Bundle
	known *known
	judge siteJudge
	tree  merkle.Edge
	err   error
}

func (v *verification) line(text []byte, at place) error {
	if v.Hosts != nil && bytes.HasPrefix(text, []byte(`{"type":"`)) {
		return v.record(text, at)
	}
	var l bundleLine
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	err := from.Decode(&l)
	switch {
	case v.Hosts == nil && (err != nil || l.Bundle == 0):
		return errors.New("not a bundle")
	case err != nil || from.More():
		return errors.New("neither a record nor another line of a bundle")
	case v.Hosts == nil && l.Bundle != bundleVersion:
		return fmt.Errorf("a bundle of version %d, and this program knows %d", l.Bundle, bundleVersion)
	case v.Hosts == nil:
		v.Hosts = slices.Concat([]string{}, l.Hosts)
	case l.Checkpoint != "":
		return v.checkpoint(l.Checkpoint)
	case l.Omitted > 0:
		v.Omitted += l.Omitted
		if err := v.tree.Skip(l.Omitted, l.Hashes); err != nil {
			return err
		}
		v.known.meet(&v.tree)
	default:
		return errors.New("neither a record nor another line of a bundle")
	}
	return nil
}

func (v *verification) record(text []byte, at place) error {
	var e evidence.Entry
	if err := e.UnmarshalJSON(text); err != nil {
		return err
	}
	v.Records++
	v.tree.Add(merkle.Leaf(text))
	v.known.meet(&v.tree)
	v.judge.take(&e, at)
	return nil
}

func (v *verification) checkpoint(signed string) error {
	c, err := v.known.open([]byte(signed))
	if err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	if c.Size != v.tree.Size() || c.Root != v.tree.Root() {
		return errors.New("the lines before it aren't in the log that this checkpoint was made of")
	}
	v.Signed.Checkpoints++
	v.Signed.Latest = signed
	v.Signed.Key = keyID(v.known.key)
	v.Signed.Records = v.Records
	v.tree = merkle.Edge{}
	return nil
}
