package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/revisit"
	"github.com/go-politeness/politeness/robots"
)

// A Page is a response, for Config.Visit.
type Page struct {
	URL         string             // as it was added, before redirects
	FinalURL    string             // URL that was fetched, that is URL or the target of its redirects
	Depth       int                // links from a start URL
	Data        string             // Request.Data of URL
	Response    *http.Response     // its body has been read and closed, see Body
	Body        []byte             // at most Config.MaxBody bytes, in the encoding of the page, see Text
	Truncated   bool               // the body is longer, or its compressed data ends early
	Directives  robots.Directives  // noindex and the like, of the headers and, for HTML and XHTML, of the page
	Preferences robots.Preferences // the site's, for the use of the page, see politeness.PreferencesOf
	Canonical   string             // the URL that the page, or its Link header, names as its canonical one, or empty

	// Links are those of an HTML or XHTML page, in their order, and then those of the Link header.
	// If a page links to a URL several times, Links has one of these links. It is the first without
	// nofollow, or the last if all have nofollow. A page whose status is an error, such as 404, has
	// no links and no canonical URL, because its text is about the server.
	Links []Link

	// Change is the change since the last fetch of the page, with Config.Revisit. It is
	// revisit.New, Changed or Gone. It is empty if the response is no version of the page, such as
	// 403, or without Config.Revisit.
	Change revisit.Change
	// If Change is set, Since is the time of the fetch before this one. At the first fetch Since is
	// zero.
	Since time.Time

	request     Request
	recall      *recall          // nil: without Config.Revisit
	to          string           // URL to which it redirects; empty: none
	call        *politeness.Call // of the request, once it was answered
	saying      saying
	row         saying  // shared with others of a row, see rowOf
	doubt       saying  // row that its response is to check; zero: none
	banned      bool    // its answer shows that the host refuses everything, whatever the status
	broken      bool    // the host has ended its body before the end
	sparse      kind    // see refusals.sparse
	limited     bool    // it is refused by refusals.sparse
	mayWait     bool    // it may be held as one of such a row
	told        saying  // saying that Visit has called a refusal of the host; zero: none
	toldAlike   bool    // it is refused because its saying is refusals.told
	refused     string  // reason why the Transport takes the response for a refusal with any status; empty: it doesn't
	good        bool    // asked for because it was served before: it isn't visited
	again       bool    // asked for next after it was refused
	method      string  // of the request
	otherMethod bool    // the request isn't a GET
	partial     bool    // the request has a condition or a range: a 4xx says nothing of a plain one
	cached      bool    // the response hasn't come from the Transport
	sent        bool    // the Client was asked for it
	late        bool    // Config.Timeout has ended the request, and nothing is asked for again
	excused     bool    // why Response is nil doesn't count for the host
	cut         bool    // the compressed data of Body ends early
	err         error   // why Response is nil
	outcome     Outcome // of its visit
	began       time.Time
	ended       time.Time
	kept        int // bytes of Body that count in run.kept
	found       []Request
	reading     *reading  // of its text, until readHTML; nil: it isn't HTML, or wasn't read yet
	lines       []uint32  // hashes of the lines of an HTML page, see digest
	wholeText   uint64    // hash of its text and its references
	mainText    uint64    // hash of them without digits, and without parts such as nav
	unread      []unread  // references that can't be read
	lost        []Result  // of URLs that the page has led to, which the Queue doesn't get
	beyond      int       // number of its links after the first maxLinks
	refs        *resolver // nil: the page isn't HTML, or wasn't read
	add         func(p *Page, req Request)
	release     func() // gives back the room of a large body
}

// Text returns Body in UTF-8, for parsers that read nothing else, such as goquery. The encoding of
// the page is found as browsers find it, by a byte order mark, the Content-Type, the XML
// declaration or the <meta> of HTML, or else the bytes. Bytes that the encoding doesn't have are
// U+FFFD. A byte order mark is left out. Each call returns a new reader, of all of Body.
func (p *Page) Text() io.Reader {
	kind := mediatype.OfPage(p.Response.Header["Content-Type"])
	name := encodingOf(p.Body, kind)
	body := p.Body
	for _, mark := range byteOrderMarks {
		if rest, ok := bytes.CutPrefix(body, []byte(mark)); ok {
			body = rest
			break
		}
	}
	if name == "utf-8" && utf8.Valid(body) {
		return bytes.NewReader(body)
	}
	e, _ := charset.Lookup(name) // it knows all names of encodingOf
	return e.NewDecoder().Reader(bytes.NewReader(body))
}

// Resolve returns the URL of a reference of the page, such as the href or the src of an element.
// The result is in one spelling, without a fragment, as Link.URL is. Like a browser it resolves a
// relative one by the <base> of an HTML page, and encodes a query in the encoding of the page. It
// returns an error if ref isn't a URL, or has another scheme, such as mailto. Call it in Follow,
// Visit, or later.
func (p *Page) Resolve(ref string) (string, error) {
	if p.refs == nil {
		return p.resolve(ref)
	}
	to, err := p.refs.resolve(ref)
	if err == nil && to == "" {
		return "", errLongBase
	}
	return to, err
}

// errLongBase is why a reference has no URL that is longer than any URL of a crawl, by its <base>.
var errLongBase = errors.New("crawl: the <base> of the page is too long")

// StatusErr returns nil if the status of the page is 2xx, or else an error with the status. Visit
// is called for pages of any status. Begin Visit with this call if you want only pages that were
// served.
//
//	if err := p.StatusErr(); err != nil {
//		return err // the page is VisitFailed
//	}
//
// 304 is an error, too, since the page hasn't changed and has no body (Config.Known). With
// Config.Revisit Visit isn't called for such a page.
func (p *Page) StatusErr() error {
	status := p.Response.StatusCode
	if status/100 == 2 {
		return nil
	}
	text := http.StatusText(status)
	if text == "" {
		return fmt.Errorf("crawl: status %d", status)
	}
	return fmt.Errorf("crawl: status %d %s", status, text)
}

// Add adds URLs to the crawl, without asking Follow. Pass absolute URLs, as Resolve returns them.
// The URLs are one link deeper than the page. Add doesn't obey nofollow. Check Page.Directives and
// the rel of a link yourself. Call it during Visit only, in its goroutine.
func (p *Page) Add(urls ...string) {
	for _, u := range urls {
		p.add(p, Request{URL: u})
	}
}

// AddPriority is Add for one URL with a priority. The URL goes before URLs of its host with a lower
// priority. If connections are scarce, it goes before such URLs of other hosts too. Add gives the
// priority 0. Use it for pages that you need first.
func (p *Page) AddPriority(url string, priority int) {
	p.add(p, Request{URL: url, Priority: priority})
}

// AddRequest is Add for a URL with data and a priority. Only URL, Data and Priority of req count.
// The rest comes from the page.
func (p *Page) AddRequest(req Request) {
	p.add(p, Request{URL: req.URL, Data: req.Data, Priority: req.Priority})
}

// A Link leads from a page to another. Config.Follow and Config.Take get it. Some values of Element
// are no elements of the page. "meta" is a refresh, and "header" is a Link or Refresh header.
// "redirect", "discover" and, for a canonical URL, "link" are explained at Config.Take.
type Link struct {
	URL      string // normalised
	Element  string // its name, such as "a", or "meta" for a refresh, or "header" for a Link header
	Rel      string // the rel attribute in lower case
	Nofollow bool   // Rel has nofollow
}
