package crawl

import (
	"cmp"
	"encoding/binary"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/go-politeness/politeness/internal/weblink"
)

// A digest sums up the text of a page while it is read, piece by piece. Pages with one digest have
// the same text, except for numbers and ids. A digest doesn't depend on the process.
type digest struct {
	words uint64   // hash of the words without a digit, in their order
	whole uint64   // hash of all words as they are, and of all references
	main  uint64   // as words, without parts such as nav
	lines []uint32 // hashes of the lines, in which each row of digits is one

	around   int    // number of open parts such as nav
	word     uint64 // hash of the word so far
	exact    uint64 // as word, with digits as they are
	inWord   bool
	hasDigit bool   // the word has one
	line     uint64 // hash of the words of the line so far
	inLine   bool
}

// maxLines is the number of lines of a page that are kept, more than readable pages have.
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
			d.exact = beginning
		}
		isOne := d.word == d.exact
		if hasDigit {
			d.hasDigit = true
			d.exact = addWord(d.exact, text, start, end)
			d.addFolded(text[start:end])
		} else {
			d.word = addWord(d.word, text, start, end)
			if isOne {
				d.exact = d.word
			} else {
				d.exact = addWord(d.exact, text, start, end)
			}
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
	d.whole = mixed(d.whole, d.exact)
	if !d.hasDigit {
		d.words = mixed(d.words, d.word)
		if d.around == 0 {
			d.main = mixed(d.main, d.word)
		}
	}
	if !d.inLine {
		d.inLine = true
		d.line = beginning
	}
	d.line = mixed(d.line, d.word)
}

// refer adds a reference, without its query: that may have an id of the response.
func (d *digest) refer(ref string) {
	if i := strings.IndexAny(ref, "?#"); i >= 0 {
		ref = ref[:i]
	}
	d.whole = mixed(d.whole, addWord(beginning, []byte(ref), 0, len(ref)))
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

// isAround reports whether an element is a part around the text of a page, such as nav.
func isAround(name atom.Atom) bool {
	switch name {
	case atom.Nav, atom.Header, atom.Footer, atom.Aside, atom.Form:
		return true
	}
	return false
}

// visibleText returns the text of a page of HTML with white space folded: a line for each paragraph
// and the like.
func visibleText(page io.Reader, m weblink.Markup) []byte {
	var text []byte
	tags := weblink.NewReader(page, m)
	space := ""
	for {
		switch kind := tags.Next(); kind {
		case html.ErrorToken:
			return text
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			if !isInline(tags.Name()) {
				space = "\n"
			}
		case html.TextToken:
			for _, c := range tags.Text() {
				if c <= ' ' {
					space = cmp.Or(space, " ")
					continue
				}
				if len(text) > 0 {
					text = append(text, space...)
				}
				space = ""
				text = append(text, c)
			}
		}
	}
}
