package bundle

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
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
)

// Extracted counts the records of a log by their way into a bundle, or out of it. Show it to the
// crawler's operator.
type Extracted struct {
	Records  int `json:"records"`  // number of records in the bundle
	Withheld int `json:"withheld"` // records of these hosts that name others, and were left out therefore
	Omitted  int `json:"omitted"`  // all other records that were left out
	After    int `json:"after"`    // records of these hosts that no checkpoint covers yet, left out too
}

// Extract writes a bundle. It has the records of the given hosts in a signed log, and of the names
// below them, with the proof that they are in that log. A site's owner checks it by [Verify]. With
// the records of the hosts go the log's policy records. The name of no other host that the crawler
// met is in the bundle. A record of these hosts that names another one, such as a redirect to it,
// is withheld. Give that host too if its owner is the same.
//
// With the Checkpoints of t, the bundle proves too that the log extends them. The log is read
// twice. It is an error if its checkpoints aren't right, or if it has none.
func Extract(w io.Writer, log io.ReadSeeker, t audit.Trust, hosts ...string) (Extracted, error) {
	names, err := sites.Read(hosts)
	if err != nil {
		return Extracted{}, err
	}
	forest, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return Extracted{}, err
	}
	site := &site{
		Site:   names,
		others: make(map[string]bool),
		ports:  make(map[string]bool),
	}
	// A record can be written only when it is known which hosts it must not name, and which checkpoint
	// covers it.
	if err := survey(forest, log, site); err != nil {
		return Extracted{}, err
	}
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return Extracted{}, fmt.Errorf("audit: extracting reads the log twice: %w", err)
	}
	out := &writer{
		out:     bufio.NewWriter(w),
		site:    site,
		older:   forest.Older,
		present: forest.Trees,
		omitted: new(merkle.Run),
	}
	out.put(bundleLine{Bundle: bundleVersion, Hosts: names})
	in := lines.NewReader(log)
	for _, text := range in.All() {
		out.line(text)
	}
	return out.Extracted, errors.Join(in.Err(), out.out.Flush())
}

// A writer writes the bundle of a log, line by line.
type writer struct {
	Extracted
	out     *bufio.Writer // it keeps the first error of writing
	site    *site
	older   []*trees.Older
	present []trees.Tree // the present tree, with those that follow
	lines   int64        // number of lines so far
	omitted *merkle.Run  // lines of the present tree since the last that was written
}

// put writes a line that is no record.
func (w *writer) put(line bundleLine) {
	_ = json.NewEncoder(w.out).Encode(line) // Flush returns the error
}

// putOmitted writes the line for those that are left out before the leaf to.
func (w *writer) putOmitted(to int64) {
	if w.omitted.Len() > 0 {
		w.put(bundleLine{Omitted: uint64(w.omitted.Len()), Hashes: w.omitted.Hashes})
	}
	w.omitted = &merkle.Run{From: to, To: to}
}

// line takes a line of the log.
func (w *writer) line(text []byte) {
	var record evidence.LogLine
	text, _ = trees.Record(text, &record)
	ofSite, withheld := w.site.about(text, &record.Decision)
	shown := ofSite && !withheld
	w.lines++
	if len(w.present) == 0 || w.lines <= w.present[0].From {
		// No checkpoint covers it, so it can't be proved.
		if shown {
			w.After++
		}
		return
	}
	size := w.lines - w.present[0].From
	switch {
	case shown:
		w.Records++
		w.putOmitted(size)
		fmt.Fprintf(w.out, "%s\n", text)
	case withheld:
		w.Withheld++
	default:
		w.Omitted++
	}
	if !shown {
		w.omitted.Add(tlog.RecordHash(text))
	}
	if slices.ContainsFunc(w.older, func(o *trees.Older) bool { return o.N == size }) {
		// The tree of an older checkpoint can be seen in the bundle if no subtree goes beyond it.
		w.putOmitted(size)
	}
	if size == w.present[0].Size {
		w.putOmitted(0) // the leaves of the next tree are numbered anew
		w.put(bundleLine{Checkpoint: w.present[0].Signed})
		w.present = w.present[1:]
	}
}

var errNoCheckpoint = errors.New("audit: the log has no checkpoint, so nothing in it can be proved: " +
	"it has to be written with evidence.LogConfig.Signed")

// survey checks the trees of a log, and remembers the other hosts in it.
func survey(f *trees.Forest, log io.Reader, site *site) error {
	var faults faults
	f.Broken = func(detail string, at, _ int) { faults.add("audit: line %d: %s", at, detail) }
	f.Begin()
	in := lines.NewReader(log)
	for at, text := range in.All() {
		var e evidence.LogLine
		text, _ = trees.Record(text, &e)
		site.meet(&e.Decision)
		if e.N == 1 { // another log of the file begins
			f.Begin()
		}
		f.Line(text, &e, at)
	}
	if err := in.Err(); err != nil {
		return err
	}
	_, broken := f.Extended()
	for _, detail := range broken {
		faults.add("audit: %s", detail)
	}
	if f.Trees == nil {
		faults = append(faults, errNoCheckpoint)
	}
	if len(faults) > 0 {
		return faults[0] // the others may follow from it
	}
	return nil
}

// faults are errors in a log, the first one first.
type faults []error

func (f *faults) add(format string, values ...any) { *f = append(*f, fmt.Errorf(format, values...)) }

// A site is some hosts, with the names below them, among others that a crawler met.
type site struct {
	sites.Site
	others map[string]bool // names of other hosts, without ports
	ports  map[string]bool // keys of other hosts that differ from one of Site by their port alone
}

// meet remembers the names of hosts that don't belong to s.
func (s *site) meet(d *evidence.Decision) {
	for _, host := range [...]string{sites.Authority(d.URL), d.Host} {
		if host == "" || s.Has(host) {
			continue
		}
		key := hostname.Key(host)
		name := hostname.WithoutPort(key)
		if s.hasName(name) {
			s.ports[key] = true
		} else {
			s.others[name] = true
		}
	}
}

// hasName reports whether a host of s has the given name, whatever its port.
func (s *site) hasName(name string) bool {
	return slices.ContainsFunc(s.Site, func(key string) bool { return hostname.WithoutPort(key) == name })
}

// about reports whether d, the record of a line, is one of s, and whether it is withheld because it
// names another host.
func (s *site) about(text []byte, d *evidence.Decision) (is, withheld bool) {
	if !s.About(d) {
		return false, false
	}
	if to := sites.Authority(d.Location); to != "" && !s.Has(to) {
		return true, true // the crawler may never have met it
	}
	var v any
	if json.Unmarshal(text, &v) != nil {
		return true, true // it can't be looked through
	}
	return true, s.namesAnother(v)
}

// escaped is a byte of a URL that stands escaped in another one, however deep.
var escaped = regexp.MustCompile(`%(?:25)*[0-9A-Fa-f]{2}`)

// namesAnother reports whether a text in v, which is JSON, names a host that doesn't belong to s.
func (s *site) namesAnother(v any) bool {
	// Fields of types that this version doesn't know are looked through as well.
	switch v := v.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), s.namesAnother)
	case []any:
		return slices.ContainsFunc(v, s.namesAnother)
	case string:
		return s.mentions(v) || s.mentions(unescape(v))
	}
	return false
}

// unescape returns text with each escaped byte as it is.
func unescape(text string) string {
	return escaped.ReplaceAllStringFunc(text, func(code string) string {
		b, _ := hex.DecodeString(code[len(code)-2:])
		return string(b)
	})
}

// mentions reports whether text has the name of a host that doesn't belong to s.
func (s *site) mentions(text string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsFuncSeq(text, notOfAddress) {
		ip, err := netip.ParseAddr(strings.Trim(word, ":."))
		if err == nil && s.others["["+ip.String()+"]"] {
			return true
		}
	}
	for key := range s.ports {
		if hasHost(text, key) {
			return true
		}
	}
	// A name of ASCII letters alone may stand between other letters, so the text is split twice.
	return s.anyNames(strings.FieldsFuncSeq(text, notOfName)) ||
		s.anyNames(strings.FieldsFuncSeq(text, notOfASCIIName))
}

// hasHost reports whether text has the host with the given key: its name with this very port, or
// without any.
func hasHost(text, key string) bool {
	for {
		_, after, found := strings.Cut(text, key)
		if !found {
			return false
		}
		if !goesOn(after, key) {
			return true
		}
		text = after
	}
}

// goesOn reports whether text, which comes right after key, makes it another host: with a longer
// name, a longer port or a port.
func goesOn(text, key string) bool {
	if key != hostname.WithoutPort(key) {
		return startsWithDigit(text)
	}
	port, ok := strings.CutPrefix(text, ":")
	if ok {
		return startsWithDigit(port)
	}
	name := strings.TrimLeft(text, ".")
	return name != "" && !notOfASCIIName(rune(name[0]))
}

func startsWithDigit(text string) bool { return text != "" && '0' <= text[0] && text[0] <= '9' }

// anyNames reports whether one of some words is, or ends in, the name of a host that doesn't belong
// to s.
func (s *site) anyNames(words iter.Seq[string]) bool {
	for name := range words {
		name = strings.TrimFunc(name, isMark)
		for more := !s.Has(name); more; {
			if s.others[name] || s.others[hostname.ASCII(name)] {
				return true
			}
			_, name, more = strings.Cut(name, ".") // a name below a host names that host, too
		}
	}
	return false
}

// notOfAddress reports whether r is no part of an IP address.
func notOfAddress(r rune) bool { return !strings.ContainsRune("0123456789abcdef.:", r) }

// notOfName reports whether r is no part of a name in lower case. Other letters than those of ASCII
// may be.
func notOfName(r rune) bool { return r <= unicode.MaxASCII && notOfASCIIName(r) }

// notOfASCIIName reports whether r is no part of a name in lower case with ASCII letters alone.
func notOfASCIIName(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", r)
}

// isMark reports whether r is punctuation, a symbol or a space around a name.
func isMark(r rune) bool { return r != '_' && unicode.In(r, unicode.P, unicode.S, unicode.Z) }
