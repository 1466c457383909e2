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
	noPage    = saying{status: -1}
	gone      = saying{status: http.StatusNotFound}
	someTexts = saying{status: -2} // texts of pages, each like one of the last few, see likeRow.texts
	wallTexts = saying{status: -3} // texts that are like those of the last wall, see likeRow.walls
)

// isTexts reports whether s is a row of texts that differ a little, or that take turns.
func (s saying) isTexts() bool { return s == someTexts || s == wallTexts }

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

// sayingOf returns the saying of a page that was answered, and sets Page.some. Pages that are too
// long for a captcha have none. Responses to other methods than GET have none either.
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
		says.text, page.some = r.wordsOf(page)
	case says.hasText():
		return saying{}
	}
	return says
}

// rowOf returns the row of a page by its saying alone, see saying.row. It is zero for responses
// that are in none.
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

// A control is a page that was served before. A further request for it shows whether the host
// refuses. The zero value is none.
type control struct {
	Request
	says saying
	some sketch // of its text
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

// A doubt is why a control is asked for: its host may answer everything like a row.
type doubt struct {
	row   saying
	texts []sketch // of a row of texts; not changed
	was   sketch   // of the control, when it was served before
}

// isWall reports whether page, which is a control, shows that its host answers everything like the
// row of d. It does if its response is in that row, or is another one that is no page, unless the
// limiter handles the response as a refusal or failure.
func (d *doubt) isWall(page *Page) bool {
	what := meaningOf(page)
	if what != rules.Success && what != rules.Forbidden {
		return false
	}
	row := rowOf(page)
	if d.row.isTexts() && row.hasText() {
		return isLikeAny(&page.some, d.texts) && !page.some.isLike(&d.was)
	}
	return row == d.row || row == noPage
}

// isLikeAny reports whether a text is like one of the others.
func isLikeAny(some *sketch, others []sketch) bool {
	for i := range others {
		if some.isLike(&others[i]) {
			return true
		}
	}
	return false
}

// isFarFromAll reports whether a text is far from each of the others.
func isFarFromAll(some *sketch, others []sketch) bool {
	for i := range others {
		if !some.isFarFrom(&others[i]) {
			return false
		}
	}
	return true
}

// A likeRow counts responses in a row that may be a wall, which is one response to everything. A
// ban looks like this. So do pages that really are alike, such as searches without results.
//
// The texts of a wall may differ in a few words, or take turns. Then the row is someTexts. Pages
// that are made from one template are such a row too, so they don't wait before the row is long.
type likeRow struct {
	says   saying // of all of them; zero: the last answer is in no row
	number int
	texts  []text   // the last different texts of the host's pages, the latest at the end
	wall   saying   // of the last row that was a ban; zero: there was none
	walls  []sketch // the texts of wall, if that is wallTexts

	// The number at which a control is fetched again; 0: inARow.
	least        int
	leastOfTexts int // of someTexts and wallTexts
}

// A text is one of the last texts of a host.
type text struct {
	some    sketch
	isInRow bool // a page of this row has it
}

// mostTexts is the most texts of a wall that takes them in turn.
const mostTexts = 5

// After a row of real pages, the next row must be longer before it is doubted, up to this number.
const (
	longestRow     = 40
	longestTextRow = 160 // of one text with status 200, and of 404 and 410
)

// add adds a response to the row, or begins another one. It returns what the response shares with
// the row.
func (l *likeRow) add(page *Page) saying {
	row := rowOf(page)
	if row.hasText() {
		row = l.rowOfText(row, &page.some)
	}
	if row != l.says && !row.continues(l.says) {
		l.number = 0
	}
	l.says = row
	l.number++
	return row
}

// rowOfText returns the row of a page with a text: the text itself, unless the text before it is
// another one, and it is like one of the last few.
func (l *likeRow) rowOfText(own saying, some *sketch) saying {
	isKnown := l.recall(some)
	switch {
	case own == l.says:
		return own
	case isLikeAny(some, l.walls):
		return wallTexts
	case isKnown:
		return someTexts
	}
	return own
}

// recall makes some the latest of the texts, and reports whether it is like one of them.
func (l *likeRow) recall(some *sketch) bool {
	for i := range l.texts {
		if !some.isLike(&l.texts[i].some) {
			continue
		}
		known := l.texts[i]
		known.isInRow = true
		copy(l.texts[i:], l.texts[i+1:])
		l.texts[len(l.texts)-1] = known
		return true
	}
	for i := range l.texts {
		l.texts[i].isInRow = false // a new text begins a row
	}
	if len(l.texts) == mostTexts {
		copy(l.texts, l.texts[1:])
		l.texts = l.texts[:mostTexts-1]
	}
	l.texts = append(l.texts, text{some: *some, isInRow: true})
	return false
}

// textsOfRow returns the texts of the row, if it is one of texts.
func (l *likeRow) textsOfRow() (texts []sketch) {
	switch l.says {
	case wallTexts:
		return l.walls
	case someTexts:
		for i := range l.texts {
			if l.texts[i].isInRow {
				texts = append(texts, l.texts[i].some)
			}
		}
	}
	return texts
}

// continues reports whether s is a row that begins as former, which is a row of one text.
func (s saying) continues(former saying) bool { return s == someTexts && former.hasText() }

// due returns the number at which the row is doubted.
func (l *likeRow) due() int {
	if l.says.isTexts() {
		return max(inARow, l.leastOfTexts)
	}
	return max(inARow, l.least)
}

// isLong reports whether the row is to be doubted.
func (l *likeRow) isLong() bool {
	if l.says == (saying{}) {
		return false
	}
	return l.says == l.wall || l.number >= l.due()
}

// believe notes that the responses of the row are real pages.
func (l *likeRow) believe() {
	next := 2 * l.due()
	switch l.says {
	case someTexts, wallTexts:
		l.leastOfTexts = min(next, longestRow)
	case noPage:
		l.least = min(next, longestRow)
	default:
		l.least = min(next, longestTextRow)
	}
	l.number = 0
	if l.wall == l.says {
		l.wall = saying{}
		l.walls = nil
	}
}

// ban notes that the row is a wall, with the given texts if it is one of texts.
func (l *likeRow) ban(row saying, texts []sketch) {
	if row.isTexts() {
		row = wallTexts
	}
	*l = likeRow{wall: row, walls: texts, least: l.least, leastOfTexts: l.leastOfTexts}
}

// mostKeptRefs is the most references of a page for which its reading is kept until the visit. A
// page that is made of references is read again: many such pages may wait.
const mostKeptRefs = 1000

// wordsOf returns a hash and a sketch of the words of a page that have no digit. It is called
// before it is known whether the page is visited. So one reading of the HTML finds the words, the
// links and all else, and is kept for the visit.
func (r *run) wordsOf(p *Page) (uint64, sketch) {
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
	return h.digest.words, h.digest.some
}

// textOf returns a hash and a sketch of the words of a body that have no digit, whatever its type.
// It leaves out tags and scripts, unless nothing else is there.
func textOf(body []byte) (uint64, sketch) {
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
	return d.words, d.some
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
