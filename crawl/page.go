package crawl

import (
	"net/http"
	"time"

	"github.com/go-politeness/politeness/robots"
)

// A Page is an answer, for Config.Visit.
type Page struct {
	URL         string             // as it was added: before redirects
	FinalURL    string             // URL that was fetched: URL, or the target of its redirects
	Depth       int                // links from a start URL
	Response    *http.Response     // its body has been read and closed: see Body
	Body        []byte             // at most Config.MaxBody bytes
	Truncated   bool               // the body is longer, or its compressed data ends early
	Directives  robots.Directives  // noindex and the like: of the headers and, for HTML, of the page
	Preferences robots.Preferences // the site's, for the use of the page; see politeness.PreferencesOf
	Canonical   string             // the URL that the page, or its Link header, names as its canonical one; empty: none

	// Links are those of an HTML page, in their order, and then those of the Link header. Each URL is
	// there once: its first link without nofollow, or else the last. A page whose status is an error,
	// such as 404, has no links and no canonical URL: its text is about the server, not the page.
	Links []Link

	request Request
	good    bool    // asked for because it was served before: it isn't visited
	again   bool    // asked for next after it was refused
	sent    bool    // the Client was asked for it
	late    bool    // Config.Timeout has ended the request, and nothing is asked for again
	excused bool    // why Response is nil says nothing about the host
	cut     bool    // the compressed data of Body ends early
	err     error   // why Response is nil
	outcome Outcome // of its visit
	began   time.Time
	ended   time.Time
	kept    int // bytes of Body that count in run.kept
	found   []Request
	words   uint64   // hash of the words of an HTML page, see digest
	lines   []uint32 // hashes of its lines
	unread  []unread // references that can't be read
	lost    []Result // of URLs that the page has led to, which the Queue doesn't get
	beyond  int      // number of its links after the first maxLinks
	add     func(p *Page, url string, priority int)
	release func() // gives back the room of a large body
}

// Add adds URLs to the crawl, also those that Follow would refuse; relative ones are so to the
// page. They are one link deeper than it. Call it during Visit only, in its goroutine.
func (p *Page) Add(urls ...string) {
	for _, u := range urls {
		p.add(p, u, 0)
	}
}

// AddPriority is Add for a URL that goes before those of a lower priority, on its host and, where
// connections are scarce, on others. Add gives 0.
func (p *Page) AddPriority(url string, priority int) { p.add(p, url, priority) }

// A Link leads from a page to another.
type Link struct {
	URL      string // normalised
	Element  string // its name, such as "a"; "meta" for a refresh, "header" for a Link header
	Rel      string // the rel attribute in lower case
	Nofollow bool   // Rel says nofollow
}
