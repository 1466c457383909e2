package crawl

import (
	"bytes"
	"net/http"
	"net/url"

	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/weburl"
)

// A saying is what a response says: its status, and where it redirects, or its text. Two answers
// with one saying are the same answer, but for numbers and ids. The zero value is that of a
// response which isn't compared.
type saying struct {
	status int
	target string // host and path of a redirect, whose status is 302 here
	text   uint64 // see textOf; 0 for a redirect
}

// sayingOf returns the saying of a page that was answered. Pages that are too long for a captcha
// have none, nor have the responses to questions other than GET.
func sayingOf(page *Page) saying {
	resp := page.Response
	if page.otherMethod || len(page.Body) > keptBody {
		return saying{}
	}
	to := weburl.Location(resp)
	if to == "" {
		return saying{status: resp.StatusCode, text: textOf(page.Body)}
	}
	u, err := url.Parse(to)
	if err != nil {
		return saying{status: http.StatusFound, target: to}
	}
	return saying{status: http.StatusFound, target: u.Host + u.Path}
}

// rowOf returns what page has in common with others of a row of answers that may be a wall: the
// target of redirects, the text where the status is 200, or else the status. It is zero for a
// response that is in no such row, as its status says all: the page hasn't changed, or is gone.
func rowOf(page *Page) saying {
	says := page.saying
	switch {
	case page.cached, says.status == 0:
		return saying{}
	case says.status == http.StatusNotModified, says.status == http.StatusNotFound, says.status == http.StatusGone:
		return saying{}
	case says.target != "", says.status == http.StatusOK:
		return says
	}
	return saying{status: says.status}
}

// isWall reports whether page, that of a URL which was served before, shows that its host answers
// everything like the row doubt: by the same answer, or by another one that is no page. What the
// host's limiter takes for a refusal or a failure of its own account is left to that.
func isWall(page *Page, doubt saying) bool {
	what := meaningOf(page)
	if what != rules.Success && what != rules.Forbidden {
		return false
	}
	row := rowOf(page)
	isPage := row == saying{} || row.status == http.StatusOK
	return row == doubt || !isPage
}

// A likeRow counts answers in a row that may be a wall: one answer to everything, in whatever
// words. A ban looks so, and so do pages that are alike in truth, such as searches that find
// nothing.
type likeRow struct {
	says   saying // of all of them; zero: the last answer is in no row
	number int
	least  int    // number at which a page that was served before is asked for; 0: inARow
	wall   saying // of the last row that was a ban; zero: there was none
}

// Each row that turned out to be what the site has makes the next one longer that is doubted.
const (
	longestRow     = 40
	longestTextRow = 160 // of status 200
)

// add adds a response to the row, or begins another one.
func (l *likeRow) add(row saying) {
	if row != l.says {
		l.says = row
		l.number = 0
	}
	l.number++
}

// isLong reports whether the row is to be doubted.
func (l *likeRow) isLong() bool {
	if l.says == (saying{}) {
		return false
	}
	return l.says == l.wall || l.number >= max(inARow, l.least)
}

// believe notes that the row is what the site has.
func (l *likeRow) believe() {
	longest := longestRow
	if l.says.status == http.StatusOK {
		longest = longestTextRow
	}
	l.least = min(2*max(inARow, l.least), longest)
	l.number = 0
	if l.wall == l.says {
		l.wall = saying{}
	}
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
