package revisit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
)

// format is the first byte of the binary form.
const format = 1

// The parts that the binary form of a page may have, in their order.
const (
	hasETag = 1 << iota
	hasModified
	hasModifiedDate // LastModified is a date in the usual form, kept as a number
	hasText
	hasWords // that differ from Text
	hasVisited
	hasWhole
	hasChanged
	hasEarliest
	hasDue
	hasLife
	hasGone
	hasHints

	allParts = 1<<iota - 1
)

// AppendBinary appends the page to b, in some 40 bytes. Times are in whole seconds. A time before
// which the page may not be requested is rounded up. The error is always nil. Use it to keep the
// page in your own store.
func (p Page) AppendBinary(b []byte) ([]byte, error) {
	parts := p.parts()
	b = append(b, format)
	b = binary.AppendUvarint(b, uint64(parts))
	visited := p.Visited.Unix()
	if parts&hasVisited != 0 {
		b = binary.AppendVarint(b, visited)
	} else {
		visited = 0
	}
	if parts&hasETag != 0 {
		b = appendText(b, p.ETag)
	}
	if parts&hasModifiedDate != 0 {
		date, _ := http.ParseTime(p.LastModified)
		b = binary.AppendVarint(b, visited-date.Unix())
	} else if parts&hasModified != 0 {
		b = appendText(b, p.LastModified)
	}
	if parts&hasText != 0 {
		b = binary.BigEndian.AppendUint32(b, p.Text)
	}
	if parts&hasWords != 0 {
		b = binary.BigEndian.AppendUint32(b, p.Words)
	}
	if parts&hasWhole != 0 {
		b = binary.AppendVarint(b, visited-p.Whole.Unix())
	}
	if parts&hasChanged != 0 {
		b = binary.AppendVarint(b, visited-p.Changed.Unix())
	}
	if parts&hasEarliest != 0 {
		b = binary.AppendVarint(b, roundedUp(p.Earliest)-visited)
	}
	if parts&hasDue != 0 {
		b = binary.AppendVarint(b, roundedUp(p.Due)-visited)
	}
	if parts&hasLife != 0 {
		b = binary.AppendVarint(b, int64((p.Life+time.Second-1)/time.Second))
	}
	if parts&hasGone != 0 {
		b = binary.AppendUvarint(b, uint64(p.Gone))
	}
	if parts&hasHints != 0 {
		b = binary.AppendUvarint(b, uint64(p.Hints))
	}
	return b, nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (p Page) MarshalBinary() ([]byte, error) { return p.AppendBinary(nil) }

// parts returns which parts p has.
func (p Page) parts() (parts int) {
	for _, part := range []struct {
		bit int
		has bool
	}{
		{hasETag, p.ETag != ""},
		{hasModified, p.LastModified != ""},
		{hasModifiedDate, isUsualDate(p.LastModified)},
		{hasText, p.Text != 0},
		{hasWords, p.Words != p.Text},
		{hasVisited, !p.Visited.IsZero()},
		{hasWhole, !p.Whole.IsZero()},
		{hasChanged, !p.Changed.IsZero()},
		{hasEarliest, !p.Earliest.IsZero()},
		{hasDue, !p.Due.IsZero()},
		{hasLife, p.Life > 0},
		{hasGone, p.Gone > 0},
		{hasHints, p.Hints > 0},
	} {
		if part.has {
			parts |= part.bit
		}
	}
	return parts
}

// isUsualDate reports whether s is a date that is the same once it was read and written.
func isUsualDate(s string) bool {
	date, err := time.Parse(http.TimeFormat, s)
	return err == nil && date.UTC().Format(http.TimeFormat) == s
}

// roundedUp returns t in seconds since 1970, never less than t is.
func roundedUp(t time.Time) int64 {
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return seconds
}

// appendText appends s with its length.
func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// UnmarshalBinary sets p to the Page that AppendBinary appended. If the data is damaged, or of a
// later version, UnmarshalBinary returns an error, and p is the zero Page.
func (p *Page) UnmarshalBinary(data []byte) error {
	*p = Page{}
	if len(data) == 0 || data[0] != format {
		return errors.New("revisit: not a page, or one of a later version")
	}
	r := reader{rest: data[1:]}
	read := r.page()
	if r.err == nil && len(r.rest) > 0 {
		r.fail()
	}
	if r.err != nil {
		return r.err
	}
	*p = read
	return nil
}

// A reader reads the parts of a page.
type reader struct {
	rest []byte
	err  error // the first one; what is read after it is zero
}

var errDamaged = errors.New("revisit: a damaged page")

func (r *reader) fail() {
	r.rest = nil
	if r.err == nil {
		r.err = errDamaged
	}
}

func (r *reader) page() (p Page) {
	parts := r.uvarint(math.MaxInt32)
	if parts > allParts {
		r.err = fmt.Errorf("%w: unknown parts", errDamaged)
		return Page{}
	}
	has := func(part uint64) bool { return parts&part != 0 }
	var visited int64
	if has(hasVisited) {
		visited = r.varint()
		p.Visited = time.Unix(visited, 0).UTC()
	}
	if has(hasETag) {
		p.ETag = r.text(mostETag)
	}
	if has(hasModifiedDate) {
		p.LastModified = time.Unix(visited-r.varint(), 0).UTC().Format(http.TimeFormat)
	} else if has(hasModified) {
		p.LastModified = r.text(mostLastModified)
	}
	if has(hasText) {
		p.Text = r.uint32()
	}
	p.Words = p.Text
	if has(hasWords) {
		p.Words = r.uint32()
	}
	if has(hasWhole) {
		p.Whole = time.Unix(visited-r.varint(), 0).UTC()
	}
	if has(hasChanged) {
		p.Changed = time.Unix(visited-r.varint(), 0).UTC()
	}
	if has(hasEarliest) {
		p.Earliest = time.Unix(visited+r.varint(), 0).UTC()
	}
	if has(hasDue) {
		p.Due = time.Unix(visited+r.varint(), 0).UTC()
	}
	if has(hasLife) {
		seconds := min(max(r.varint(), 0), int64(longestFresh/time.Second))
		p.Life = time.Duration(seconds) * time.Second
	}
	if has(hasGone) {
		p.Gone = int(r.uvarint(math.MaxInt32))
	}
	if has(hasHints) {
		p.Hints = int(r.uvarint(math.MaxInt32))
	}
	return p
}

// mostSeconds is the largest time or distance of times that is believed: some 30,000 years.
const mostSeconds = 1 << 40

func (r *reader) varint() int64 {
	n, length := binary.Varint(r.rest)
	if length <= 0 || n > mostSeconds || n < -mostSeconds {
		r.fail()
		return 0
	}
	r.rest = r.rest[length:]
	return n
}

func (r *reader) uvarint(most uint64) uint64 {
	n, length := binary.Uvarint(r.rest)
	if length <= 0 || n > most {
		r.fail()
		return 0
	}
	r.rest = r.rest[length:]
	return n
}

func (r *reader) uint32() uint32 {
	if len(r.rest) < 4 {
		r.fail()
		return 0
	}
	n := binary.BigEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return n
}

func (r *reader) text(most uint64) string {
	n := r.uvarint(most)
	if uint64(len(r.rest)) < n {
		r.fail()
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}
