package crawl

import (
	"bytes"
	"net/http"
	"net/url"

	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/internal/weburl"
)

// A saying identifies the content of a response: its status with the target of a redirect, or with
// the text. Two responses with one saying differ only in numbers and ids. The zero value belongs to
// a response that isn't compared.
type saying struct {
	status int
	target string // host and path of a redirect, whose status is 302 here
	text   uint64 // see wordsOf; 0 for a redirect
}

// The rows that responses share which are no pages, by other words than their text. No status is
// as small as that of noPage.
var (
	noPage = saying{status: -1}
	gone   = saying{status: http.StatusNotFound}
)

// hasText reports whether s is of a page that its text identifies.
func (s saying) hasText() bool { return s.status == http.StatusOK }

// row returns the saying that s shares with a row of responses that may be a wall. All that isn't a
// page is one row, whatever it says: a site may refuse by statuses in turn, and redirect each page
// elsewhere.
func (s saying) row() saying {
	switch {
	case s == saying{}, s.hasText(), s.status == http.StatusNotModified:
		return s
	case s.status == http.StatusNotFound, s.status == http.StatusGone:
		return gone
	}
	return noPage
}

// longestText is the most bytes of a page whose text is compared: a few challenges have scripts
// of that length.
const longestText = 1 << 20

// sayingOf returns the saying of a page that was answered. Pages that are too long for a captcha
// have none. Responses to other methods than GET have none either.
func (r *run) sayingOf(page *Page) saying {
	resp := page.Response
	if page.otherMethod {
		return saying{}
	}
	to := weburl.Location(resp)
	if to != "" {
		u, err := url.Parse(to)
		if err != nil {
			return saying{status: http.StatusFound, target: to}
		}
		return saying{status: http.StatusFound, target: u.Host + u.Path}
	}
	says := saying{status: resp.StatusCode}
	isShort := len(page.Body) <= longestText
	switch {
	case isShort:
		says.text = r.wordsOf(page)
	case says.hasText():
		return saying{}
	}
	return says
}

// rowOf returns the row of a page, see saying.row. It is zero for responses that are in none.
func rowOf(page *Page) saying {
	isUnchanged := page.saying.status == http.StatusNotModified
	switch {
	case page.cached, isUnchanged && page.partial:
		return saying{}
	case isUnchanged: // no condition was sent
		return noPage
	}
	return page.saying.row()
}

// A kind is one of responses by which a limit may refuse a single request, between pages that are
// served.
type kind uint8

const (
	ordinary kind = iota // none: a page, a redirect, a page that is gone, or a refusal of the host
	forbids              // 403, or the like
	unusual              // another response that is no page, such as 202 and 204
)

// kindOf returns the kind of a page's response.
func kindOf(page *Page) kind {
	switch {
	case meaningOf(page) == rules.Forbidden:
		return forbids
	case rowOf(page) == noPage && page.saying.target == "":
		return unusual
	}
	return ordinary
}

// isWall reports whether page, whose URL was served before, shows that its host answers everything
// like the row doubt. It does if its response is in that row, or is another one that is no page,
// unless the limiter handles the response as a refusal or failure.
func isWall(page *Page, doubt saying) bool {
	what := meaningOf(page)
	if what != rules.Success && what != rules.Forbidden {
		return false
	}
	row := rowOf(page)
	return row == doubt || row == noPage
}

// A likeRow counts responses in a row that may be a wall, which is one response to everything. A
// ban looks like this. So do pages that really are alike, such as searches without results.
type likeRow struct {
	says   saying // of all of them; zero: the last answer is in no row
	number int
	least  int    // number at which a page that was served before is fetched again; 0: inARow
	wall   saying // of the last row that was a ban; zero: there was none
}

// After a row of real pages, the next row must be longer before it is doubted, up to this number.
const (
	longestRow     = 40
	longestTextRow = 160 // of status 200, 404 and 410
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

// believe notes that the responses of the row are real pages.
func (l *likeRow) believe() {
	longest := longestRow
	if l.says != noPage {
		longest = longestTextRow
	}
	l.least = min(2*max(inARow, l.least), longest)
	l.number = 0
	if l.wall == l.says {
		l.wall = saying{}
	}
}

// mostKeptRefs is the most references of a page for which its reading is kept until the visit. A
// page that is made of references is read again: many such pages may wait.
const mostKeptRefs = 1000

// wordsOf returns a hash of the words of a page that have no digit. It is called before it is known
// whether the page is visited. So one reading of the HTML finds the words, the links and all else,
// and is kept for the visit.
func (r *run) wordsOf(p *Page) uint64 {
	kind := mediatype.OfPage(p.Response.Header["Content-Type"])
	if _, isPage := weblink.MarkupOf(kind.Type); !isPage {
		return textOf(p.Body)
	}
	h := p.read(r.late, r.c.cfg.Transport.UserAgent(), kind)
	if len(h.refs) <= mostKeptRefs {
		p.reading = h
	}
	if !h.isPage || h.digest.words == 0 { // such as a page that is made by a script
		return textOf(p.Body)
	}
	return h.digest.words
}

// textOf returns a hash of the words of a body that have no digit, whatever its type. It leaves out
// tags and scripts, unless nothing else is there.
func textOf(body []byte) uint64 {
	var d digest
	for rest := body; len(rest) > 0; {
		text, tag, _ := bytes.Cut(rest, []byte("<"))
		d.write(text)
		d.endWord()
		_, rest, _ = bytes.Cut(tag, []byte(">"))
		if isCode(tag) {
			_, rest, _ = bytes.Cut(rest, []byte("</"))
			_, rest, _ = bytes.Cut(rest, []byte(">")) // the name of the end tag is no word
		}
	}
	if d.words == 0 {
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
