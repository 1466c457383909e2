package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/evidence/audit/internal/trees"
	"github.com/go-politeness/politeness/evidence/internal/lines"
)

// A source reads one of the logs record by record, and checks that the log is whole: that its lines
// are numbered without a hole, and that each has the hash that follows from the line before it.
type source struct {
	a      *auditor
	at     place            // the line that was read last
	entry  evidence.LogLine // the present record
	chain  hash.Hash        // of the last hash and the lines since
	forest *trees.Forest
	site   sites.Site // what the records are to be about; nil: anything, and all lines are to be there
	*run              // the present log
}

// A run is one log, from its first record to its seal or to where it was cut off. A process that is
// killed leaves the beginning of an honest log: the last lines are lost, and those of requests that
// had no answer yet. So what such a log lacks is open, as far as it can have been lost that way: a
// request that isn't known to have ended had its slot until the last records were made.
type run struct {
	log     int    // of its file, as in a place
	lines   int    // number of its lines; 0: no log has begun
	next    uint64 // number that the next line should have; 0: its lines aren't numbered
	chained bool
	seal    int    // line of the seal; 0: none so far
	hash    string // the last one
	bare    int    // number of lines since

	first, last int64 // its first record, after the log before in the file, and its latest one
	jumped      int64 // how far the clock has jumped ahead in all
}

// readAll reads the log from r.
func (s *source) readAll(r io.Reader) error {
	in := lines.NewReader(r)
	for line, text := range in.All() {
		s.at.line = line
		if text = s.record(text, in.Whole); text == nil {
			continue
		}
		if s.entry.N == 1 || s.lines == 0 {
			s.begin()
		}
		s.lines++
		if s.site == nil {
			s.checkNumber()
			s.checkHash(text)
			s.forest.Line(text, &s.entry, line)
		}
		if s.entry.Type == evidence.LogClosed {
			s.seal = line
		}
		s.jumped += max(0, int64(s.entry.Jumped))
		s.a.take(&s.entry.Decision, s.at)
	}
	s.end()
	if err := in.Err(); err != nil {
		return fmt.Errorf("audit: %v: %w", s.at, err)
	}
	return nil
}

// record reads the record of a line, which is whole if it has an end, and returns what of the line
// that is; nil: it is none, or isn't about the site.
func (s *source) record(text []byte, whole bool) []byte {
	record, err := trees.Record(text, &s.entry)
	if s.site != nil && (err != nil || !s.site.About(&s.entry.Decision)) {
		return nil
	}
	s.a.report.Lines++
	half := len(record) < len(text) || err != nil && !whole && strings.HasPrefix(lines.RecordBegins, string(text[:min(len(text), len(lines.RecordBegins))]))
	s.a.openIf(half, logWhole, "half a line, as after a kill")
	if err == nil {
		return record
	}
	if !half {
		s.a.violation(Unreadable, "", strings.TrimPrefix(err.Error(), "evidence: "), s.at)
	}
	s.forest.Line(text, &s.entry, s.at.line)
	s.next += min(s.next, 1) // keeps the lines after it from being reported too
	return nil
}

// begin takes the first line of a log, which says which log is before it in the file.
func (s *source) begin() {
	s.end()
	s.forest.Begin()
	before, after := s.hash, s.entry.After
	s.run = &run{log: s.at.log, first: max(stamp(s.entry.Time), s.last), chained: s.entry.Hash != "", next: min(s.entry.N, 1)} // without a number something else than JSONLines wrote it
	s.a.at, s.a.run = s.at, s.run
	switch {
	case after == before:
	case after == "":
		s.a.openEnded(logWhole, "a log that doesn't say which one is before it in the file (evidence.OpenFile does)")
	case before == "":
		s.a.openEnded(logWhole, "a log whose first line names one before it, which isn't in the file")
	default:
		s.a.violation(BrokenChain, "", "the log before this one was taken out, or isn't the one that was there", s.at)
	}
}

// end checks the end of a log.
func (s *source) end() {
	if s.lines == 0 {
		return
	}
	r := &s.a.report
	r.Logs++
	s.a.openIf(s.seal == 0 && (s.chained || s.forest.Signed), logWhole, "the log isn't sealed: its end was cut off, or the process was killed, or Close never called")
	s.a.end()
	r.Numbered = (r.Numbered || r.Logs == 1) && s.next > 0
	r.Chained = (r.Chained || r.Logs == 1) && s.chained
}

// checkNumber checks that the line has the number after that of the line before it.
func (s *source) checkNumber() {
	n, before := s.entry.N, place{s.at.log, s.at.line - min(s.lines-1, 1)}
	switch {
	case n == s.next:
	case s.next == 0 || n == 0:
		s.a.violation(MissingLine, "", "some lines have a number and some haven't", s.at)
	case n > s.next:
		s.a.violation(MissingLine, "", missing("record", s.next, n-1), before, s.at)
	default:
		s.a.violation(MissingLine, "", fmt.Sprintf("record %d comes after record %d", n, s.next-1), before, s.at)
	}
	if s.next > 0 {
		s.next = max(s.next, n+1)
	}
}

// checkHash checks what the line says of the lines before it.
func (s *source) checkHash(text []byte) {
	broken := func(is bool, detail string, before ...place) {
		if is {
			s.a.violation(BrokenChain, "", detail, append(before, s.at)...)
		}
	}
	hash := s.entry.Hash
	broken(s.lines > 1 && s.entry.After != "", "a line in the middle of a log that says which log comes before")
	broken(s.seal > 0 && s.entry.Type != evidence.Checkpoint, "a line after the end of the log", place{s.at.log, s.seal})
	if !s.chained {
		broken(hash != "", "a hash in a log that isn't chained")
		return
	}
	if s.bare == 0 {
		var last [sha256.Size]byte
		_, _ = base64.RawURLEncoding.Decode(last[:], []byte(s.hash[:min(len(s.hash), base64.RawURLEncoding.EncodedLen(len(last)))]))
		s.chain.Reset()
		s.chain.Write(last[:])
	}
	if s.bare++; hash == "" {
		s.chain.Write(text)
		s.chain.Write([]byte{'\n'})
		broken(s.entry.Type == evidence.LogClosed, "the last line of a chained log has no hash")
		return
	}
	body, ok := bytes.CutSuffix(text, []byte(`,"hash":"`+hash+`"}`))
	s.chain.Write(body)
	first := s.at.line - min(s.lines-1, max(1, s.bare-1))
	broken(!ok || base64.RawURLEncoding.EncodeToString(s.chain.Sum(nil)) != hash,
		"these lines aren't what was hashed, or don't follow the line before them", place{s.at.log, first})
	// The hash that the line claims is what the next one should follow from, so that one change is
	// reported once.
	s.bare, s.hash = 0, strings.Clone(hash)
}
