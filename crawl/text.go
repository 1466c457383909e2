package crawl

import "encoding/binary"

// A digest sums up the text of a page while it is read, piece by piece. Two pages with the same
// digest have the same text, but for what differs from answer to answer: numbers and ids. It is the
// same in every process.
type digest struct {
	words uint64   // hash of the words without a digit, in their order
	lines []uint32 // hashes of the lines, in which each row of digits is one

	word     uint64 // hash of the word so far
	inWord   bool
	hasDigit bool   // the word has one
	line     uint64 // hash of the words of the line so far
	inLine   bool
}

// maxLines is how many lines of a page are told apart: more than pages have that people read.
const maxLines = 100_000

const (
	beginning = 14695981039346656037 // of a hash
	factor    = 0x9e3779b97f4a7c15   // an odd number without a pattern
)

// mixed returns the hash h with another number.
func mixed(h, number uint64) uint64 {
	h = (h ^ number) * factor
	return h ^ h>>29
}

// write adds text. A word may go on in the next piece.
func (d *digest) write(text []byte) {
	for start := 0; start < len(text); {
		if text[start] <= ' ' {
			d.endWord()
			start++
			continue
		}
		end := start
		hasDigit := false
		for end < len(text) && text[end] > ' ' {
			hasDigit = hasDigit || text[end]-'0' <= 9
			end++
		}
		if !d.inWord {
			d.inWord = true
			d.hasDigit = false
			d.word = beginning
		}
		if hasDigit {
			d.hasDigit = true
			d.addFolded(text[start:end])
		} else {
			d.word = addWord(d.word, text, start, end)
		}
		start = end
	}
}

// addWord returns the hash h with text[start:end], eight bytes at a time.
func addWord(h uint64, text []byte, start, end int) uint64 {
	for ; end-start >= 8; start += 8 {
		h = mixed(h, binary.LittleEndian.Uint64(text[start:]))
	}
	rest := uint64(0)
	switch n := end - start; {
	case n == 0:
		return h
	case start+8 <= len(text):
		rest = binary.LittleEndian.Uint64(text[start:]) << (64 - 8*n) >> (64 - 8*n)
	default:
		for i := range n {
			rest |= uint64(text[start+i]) << (8 * i)
		}
	}
	return mixed(h, rest)
}

// addFolded adds a piece of a word in which each row of digits is one.
func (d *digest) addFolded(word []byte) {
	wasDigit := false
	for _, c := range word {
		isDigit := '0' <= c && c <= '9'
		switch {
		case !isDigit:
			d.word = mixed(d.word, uint64(c))
		case !wasDigit:
			d.word = mixed(d.word, '0')
		}
		wasDigit = isDigit
	}
}

// endWord ends the word, if one has begun.
func (d *digest) endWord() {
	if !d.inWord {
		return
	}
	d.inWord = false
	if !d.hasDigit {
		d.words = mixed(d.words, d.word)
	}
	if !d.inLine {
		d.inLine = true
		d.line = beginning
	}
	d.line = mixed(d.line, d.word)
}

// endLine ends the line, as where a paragraph ends.
func (d *digest) endLine() {
	d.endWord()
	if !d.inLine {
		return
	}
	d.inLine = false
	if len(d.lines) < maxLines {
		d.lines = append(d.lines, uint32(d.line>>32)) //nolint:gosec // half of a hash is one
	}
}
