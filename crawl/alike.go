package crawl

import "bytes"

// A saying is what an answer says: its status and its text. Two answers with one saying are the
// same answer, but for numbers and ids. The zero value is that of an answer which isn't compared.
type saying struct {
	status int
	text   uint64 // see textOf
}

// sayingOf returns the saying of a page that was answered. Pages that are too long for a captcha
// have none, nor have the answers to questions other than GET.
func sayingOf(page *Page) saying {
	if page.otherMethod || len(page.Body) > keptBody {
		return saying{}
	}
	return saying{page.Response.StatusCode, textOf(page.Body)}
}

// textOf returns a hash of the words of a body that have no digit. Of HTML it leaves out tags and
// scripts, unless nothing else is there. It reads a body far faster than the parser that finds
// links, as each answer is hashed before it is known whether it is visited.
func textOf(body []byte) uint64 {
	var d digest
	for rest := body; len(rest) > 0; {
		text, tag, _ := bytes.Cut(rest, []byte("<"))
		d.write(text)
		d.endWord()
		_, rest, _ = bytes.Cut(tag, []byte(">"))
		if isCode(tag) {
			_, rest, _ = bytes.Cut(rest, []byte("</"))
		}
	}
	if d.words == 0 { // a page that is made by a script
		d.write(body)
		d.endWord()
	}
	return d.words
}

// isCode reports whether a tag begins text that isn't for people.
func isCode(tag []byte) bool {
	for _, name := range []string{"script", "style"} {
		if len(tag) >= len(name) && bytes.EqualFold(tag[:len(name)], []byte(name)) {
			return true
		}
	}
	return false
}
