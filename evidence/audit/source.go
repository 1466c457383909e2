package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/trees"
	"github.com/go-politeness/politeness/evidence/internal/lines"
)

// A place is a line of one of the logs that are checked.
type place struct {
	log  int // number of the log, from 1; 0 where there is only one
	line int // number of the line in its log, from 1
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.line, b.line))
}

// String returns "line 7", with the log before it where there are several.
func (p place) String() string {
	if p.log == 0 {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("log %d, line %d", p.log, p.line)
}

// A source reads one of the logs record by record, and checks that the log is whole: that its lines
// are numbered without a hole, and that each has the hash that follows from the line before it.
type source struct {
	a  *auditor
	in *lines.Reader
	at place // the line that was read last

	entry evidence.Entry // the present record
	any   bool           // whether there was one

	// What is known of the log that entry belongs to.
	lines   int    // number of its lines so far
	next    uint64 // number that the next line should have; 0: its lines aren't numbered
	chained bool
	sealed  int               // line of the seal; 0: none so far
	before  string            // hash of the last line of the log before it in the file; "": none, or it isn't chained
	hash    [sha256.Size]byte // the last one
	chain   hash.Hash         // of hash and the lines since, as far as it isn't empty
	bare    int               // number of lines since

	forest trees.Forest
}

// recordBegins is what each record begins with.
const recordBegins = `{"type":"`

// readAll reads the log record by record.
func (s *source) readAll() error {
	for {
		text, err := s.in.Next()
		if len(text) > 0 {
			s.at.line++
			s.a.report.Lines++
			line := bytes.TrimRight(text, "\r\n")
			if len(bytes.TrimSpace(line)) > 0 && s.read(line, len(line) < len(text)) {
				s.a.run.jumped += max(0, int64(s.entry.Jumped))
				s.a.take(&s.entry.Decision, s.at)
			}
		}
		if err != nil {
			s.end()
			s.forest.End()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("audit: after %v: %w", s.at, err)
		}
	}
}

// read reads text into s.entry and reports whether it is a record; whole tells whether the line has
// an end.
func (s *source) read(text []byte, whole bool) bool {
	if err := s.entry.UnmarshalJSON(text); err != nil {
		// A crawler that is killed leaves half a line, and the first line of the next one may stand
		// behind it. Within a string the quotes would be escaped.
		half := !whole && bytes.HasPrefix([]byte(recordBegins), text[:min(len(text), len(recordBegins))])
		i := bytes.LastIndex(text, []byte(recordBegins))
		another := i >= 0 && s.entry.UnmarshalJSON(text[i:]) == nil && s.entry.N == 1
		switch {
		case half || another:
			s.a.openEnded(logWhole, "half a line, as after a kill")
		default:
			s.a.violation(Unreadable, "", strings.TrimPrefix(err.Error(), "evidence: "), s.at)
		}
		if !another {
			s.forest.Line(text)
			if s.next > 0 {
				s.next++ // keeps the lines after it from being reported too
			}
			return false
		}
		text = text[i:]
	}
	if s.entry.N == 1 { // the first record of a log
		s.end()
		s.forest.Begin()
		s.before = ""
		if s.chained {
			s.before = base64.RawURLEncoding.EncodeToString(s.hash[:])
		}
		s.lines, s.next, s.chained, s.sealed, s.bare, s.hash = 0, 0, false, 0, 0, [sha256.Size]byte{}
	}
	if s.lines++; s.lines == 1 {
		s.a.at = s.at
		s.a.begin()
		s.any = true
		s.chained = s.entry.Hash != ""
		if s.entry.N != 0 { // otherwise something else than JSONLines wrote it
			s.next = 1
		}
	}
	s.checkNumber()
	s.checkHash(text)
	if s.entry.Type == evidence.Checkpoint {
		s.forest.Checkpoint(&s.entry, s.at.line)
	}
	s.forest.Line(text)
	if s.entry.Type == evidence.LogClosed {
		if s.sealed = s.at.line; s.chained && s.entry.Hash == "" {
			s.a.violation(BrokenChain, "", "the last line of a chained log has no hash", s.at)
		}
	}
	return true
}

// missing says that what has the numbers from first to last is missing.
func missing(what string, first, last uint64) string {
	if first == last {
		return fmt.Sprintf("%s %d is missing", what, first)
	}
	return fmt.Sprintf("%ss %d to %d are missing", what, first, last)
}

// broken reports what is wrong between the present line and the one before it.
func (s *source) broken(kind Kind, detail string) {
	if s.lines == 1 {
		s.a.violation(kind, "", detail, s.at)
	} else {
		s.a.violation(kind, "", detail, place{s.at.log, s.at.line - 1}, s.at)
	}
}

func (s *source) checkNumber() {
	switch n := s.entry.N; {
	case n == s.next:
	case s.next == 0 || n == 0:
		s.a.violation(MissingLine, "", "some lines have a number and some haven't", s.at)
	case n > s.next:
		s.broken(MissingLine, missing("record", s.next, n-1))
	default:
		s.broken(MissingLine, fmt.Sprintf("record %d comes after record %d", n, s.next-1))
	}
	if s.next > 0 {
		s.next = max(s.next, s.entry.N+1)
	}
}

func (s *source) checkHash(text []byte) {
	chain := func(detail string, before ...place) { s.a.violation(BrokenChain, "", detail, append(before, s.at)...) }
	if s.sealed > 0 && s.entry.Type != evidence.Checkpoint {
		chain("a line after the end of the log", place{s.at.log, s.sealed})
	}
	// A log follows the one before it in its file, as its first line says.
	switch after := s.entry.After; {
	case s.lines > 1 && after != "":
		chain("a line in the middle of a log that says which log comes before")
	case s.lines > 1 || after == s.before:
	case after == "":
		s.a.openEnded(logWhole, "a log that doesn't say which one is before it in the file (evidence.OpenFile does)")
	case s.before == "":
		s.a.openEnded(logWhole, "a log whose first line names one before it, which isn't in the file")
	default:
		chain("the log before this one was taken out, or isn't the one that was there")
	}
	hash := s.entry.Hash
	if !s.chained {
		if hash != "" {
			chain("a hash in a log that isn't chained")
		}
		return
	}
	if s.bare == 0 {
		s.chain.Reset()
		s.chain.Write(s.hash[:])
	}
	if s.bare++; hash == "" {
		s.chain.Write(text)
		s.chain.Write([]byte{'\n'})
		return
	}
	body, ok := bytes.CutSuffix(text, []byte(`,"hash":"`+hash+`"}`))
	s.chain.Write(body)
	switch {
	case !ok:
		chain("the line doesn't end with its hash")
	case base64.RawURLEncoding.EncodeToString(s.chain.Sum(nil)) == hash:
	case s.lines == 1:
		chain("the line isn't what was hashed")
	default:
		chain("these lines aren't what was hashed, or don't follow the line before them", place{s.at.log, s.at.line - max(1, s.bare-1)})
	}
	// The hash that the line claims is what the next one should follow from, so that one change is
	// reported once.
	s.bare, s.hash = 0, [sha256.Size]byte{}
	_, _ = base64.RawURLEncoding.Decode(s.hash[:], []byte(hash[:min(len(hash), base64.RawURLEncoding.EncodedLen(sha256.Size))]))
}

// end checks the end of a log.
func (s *source) end() {
	if s.lines == 0 {
		return
	}
	r := &s.a.report
	r.Logs++
	s.a.run.sealed = s.sealed > 0
	if s.sealed == 0 && (s.chained || s.forest.Signed) {
		s.a.openEnded(logWhole, "the log isn't sealed: its end was cut off, or the process was killed, or Close never called")
	}
	s.a.end()
	r.Numbered = r.Numbered && s.next > 0
	r.Chained = r.Chained && s.chained
	s.lines = 0
}
