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

// A source reads one of the files record by record, and checks that its logs are whole: that their
// lines are numbered without a hole, and that each has the hash that follows from the line before
// it.
type source struct {
	a      *auditor
	at     place            // the line that was read last
	entry  evidence.LogLine // the present record
	chain  hash.Hash        // of the last hash and the lines since
	forest *trees.Forest
	site   sites.Site // only records about it are read, and lines may be missing; nil: all records are
	*run              // the present log
}

// A run is one log, from its first record to its seal or to the place where it was cut off.
//
// A killed process leaves the beginning of an honest log. The last lines are lost, and those of
// requests without a response. So lines that can have been lost like this are open, not missing. A
// request without an end had its slot until the last records were made.
type run struct {
	log     int    // number of its file, as in a place
	lines   int    // number of its lines; 0: no log has begun
	next    uint64 // number that the next line should have; 0: its lines aren't numbered
	chained bool
	seal    int    // line of the seal; 0: none so far
	hash    string // the last one
	bare    int    // number of lines since that hash

	first  int64 // time of its first record, after the log before in the file
	last   int64 // time of its latest record
	jumped int64 // sum of the jumps of the clock
}

// readAll reads the logs of the file r.
func (s *source) readAll(r io.Reader) error {
	in := lines.NewReader(r)
	for line, text := range in.All() {
		s.at.line = line
		s.line(text, in.Whole)
	}
	s.end()
	if err := in.Err(); err != nil {
		return fmt.Errorf("audit: %v: %w", s.at, err)
	}
	return nil
}

// line takes a line, which is whole if it has an end.
func (s *source) line(text []byte, whole bool) {
	text = s.record(text, whole)
	if text == nil {
		return
	}
	if s.entry.N == 1 || s.lines == 0 { // a file may hold several logs
		s.begin()
	}
	s.lines++
	if s.site == nil { // otherwise lines are missing
		s.checkNumber()
		s.checkHash(text)
		s.forest.Line(text, &s.entry, s.at.line)
	}
	if s.entry.Type == evidence.LogClosed {
		s.seal = s.at.line
	}
	s.jumped += max(0, int64(s.entry.Jumped))
	s.a.take(&s.entry.Decision, s.at)
}

// record reads the record of a line into s.entry, and returns the part of the line that it takes.
// It returns nil for a line without a record, or with one that isn't about the site.
func (s *source) record(text []byte, whole bool) []byte {
	record, err := trees.Record(text, &s.entry)
	if s.site != nil && (err != nil || !s.site.About(&s.entry.Decision)) {
		return nil
	}
	s.a.report.Lines++
	// The first line of a log may stand behind half a line of the log before it.
	half := len(record) < len(text)
	if err != nil && !whole {
		half = beginsRecord(text)
	}
	s.a.openIf(half, logWhole, "half a line, as after a kill")
	if err == nil {
		return record
	}
	if !half {
		s.a.violation(Unreadable, "", strings.TrimPrefix(err.Error(), "evidence: "), s.at)
	}
	// An unreadable line is a leaf of the tree, and has a number if the others do: otherwise the
	// lines after it would be reported too.
	s.forest.Line(text, &s.entry, s.at.line)
	s.next += min(s.next, 1)
	return nil
}

// beginsRecord reports whether text, as far as it goes, begins as each record does.
func beginsRecord(text []byte) bool {
	begin := text[:min(len(text), len(lines.RecordBegins))]
	return strings.HasPrefix(lines.RecordBegins, string(begin))
}

// begin takes the first line of a log, which names the log before it in the file.
func (s *source) begin() {
	s.end()
	s.forest.Begin()
	before := s.hash
	after := s.entry.After
	s.run = &run{
		log:     s.at.log,
		first:   max(stamp(s.entry.Time), s.last),
		chained: s.entry.Hash != "",
		next:    min(s.entry.N, 1), // 0: another program than JSONLines wrote it
	}
	s.a.at = s.at
	s.a.run = s.run
	switch {
	case after == before: // it follows the log before it, or begins the file
	case after == "":
		s.a.openEnded(logWhole, "a log that doesn't say which one is before it in the file (evidence.OpenFile does)")
	case before == "":
		s.a.openEnded(logWhole, "a log whose first line names one before it, which isn't in the file")
	default:
		s.a.violation(BrokenChain, "", "the log before this one was taken out, or isn't the one that was there", s.at)
	}
}

const notSealed = "the log isn't sealed: its end was cut off, or the process was killed, or Close never called"

// end checks the end of a log, if one has begun.
func (s *source) end() {
	if s.lines == 0 {
		return
	}
	r := &s.a.report
	r.Logs++
	// Only chained and signed logs have a seal.
	s.a.openIf(s.seal == 0 && (s.chained || s.forest.Signed), logWhole, notSealed)
	s.a.endLog()
	// The report's are true if they are of every log.
	first := r.Logs == 1
	r.Numbered = (r.Numbered || first) && s.next > 0
	r.Chained = (r.Chained || first) && s.chained
}

// checkNumber checks that the line has the number after that of the line before it.
func (s *source) checkNumber() {
	n := s.entry.N
	before := place{s.at.log, s.at.line - min(s.lines-1, 1)} // the first line has none
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

// brokenIf reports a broken chain, if it is broken, with the lines before that are concerned.
func (s *source) brokenIf(broken bool, detail string, before ...place) {
	if broken {
		s.a.violation(BrokenChain, "", detail, append(before, s.at)...)
	}
}

// checkHash checks the text of a line against the hash in it, which covers the lines since the last
// hash.
func (s *source) checkHash(text []byte) {
	sealed := s.seal > 0 && s.entry.Type != evidence.Checkpoint
	s.brokenIf(s.lines > 1 && s.entry.After != "", "a line in the middle of a log that says which log comes before")
	s.brokenIf(sealed, "a line after the end of the log", place{s.at.log, s.seal})
	hash := s.entry.Hash
	if !s.chained {
		s.brokenIf(hash != "", "a hash in a log that isn't chained")
		return
	}
	if s.bare == 0 {
		s.resetChain()
	}
	s.bare++
	if hash == "" {
		s.chain.Write(text)
		s.chain.Write([]byte{'\n'})
		s.brokenIf(s.entry.Type == evidence.LogClosed, "the last line of a chained log has no hash")
		return
	}
	// The line was hashed before the hash was put at its end.
	body, ok := bytes.CutSuffix(text, []byte(`,"hash":"`+hash+`"}`))
	s.chain.Write(body)
	same := ok && base64.RawURLEncoding.EncodeToString(s.chain.Sum(nil)) == hash
	first := s.at.line - min(s.lines-1, max(1, s.bare-1))
	const detail = "these lines aren't what was hashed, or don't follow the line before them"
	s.brokenIf(!same, detail, place{s.at.log, first})
	// The next hash is checked against the one that this line claims, so that one change is
	// reported once.
	s.bare = 0
	s.hash = strings.Clone(hash)
}

// resetChain begins the hash of the lines that follow the last hash.
func (s *source) resetChain() {
	var last [sha256.Size]byte
	text := s.hash[:min(len(s.hash), base64.RawURLEncoding.EncodedLen(len(last)))]
	_, _ = base64.RawURLEncoding.Decode(last[:], []byte(text)) // a hash that isn't one is found as another hash
	s.chain.Reset()
	s.chain.Write(last[:])
}
