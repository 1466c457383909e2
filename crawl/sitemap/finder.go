package sitemap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/coding"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/revisit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A Finder finds the pages that a site lists in its sitemaps. It is a plain value, safe for
// concurrent use.
//
// By the protocol a sitemap speaks for the host that it is on, on http and https alike, and for any
// host whose robots.txt names it. The robots.txt of the first twenty other hosts is fetched. The
// sitemaps that an index lists speak for the hosts that the index speaks for. Pages of other hosts
// are left out, with a [*ForeignError] for each host. The usual case is a site that mixes
// www.example.com and example.com.
type Finder struct {
	// Transport fetches robots.txt, to find the sitemaps that it names. Nil is a mistake.
	Transport *politeness.Transport

	// Client fetches the sitemaps. The default is a client over Transport. Use another one if
	// Transport accepts only pages, by type or size.
	Client *http.Client

	// MaxFiles is the largest number of sitemaps fetched, those of indexes included. The default is
	// 500. A sitemap that takes longer than two minutes from its response is left. So is one
	//   without a response within two minutes and the longest wait for the host
	//   (hostlimit.Config.MaxWait).
	MaxFiles int

	// AsRead yields the pages of a file while it is read, which takes a few kilobytes. The
	// connection and the slot of its host are taken meanwhile, so the loop mustn't fetch the pages,
	// nor wait for the host. It may put the pages into a queue, as crawl.Config.Discover does. A
	// loop that takes longer than two minutes for a file loses the rest of it. Pages of hosts whose
	// own robots.txt has to be asked come behind the others of the file. If it is false, see Pages.
	AsRead bool

	// Seen remembers sitemaps, so that unchanged ones are neither loaded nor yielded again. If it is
	// nil, all are read.
	Seen *Seen
}

const (
	maxFiles = 500
	maxKept  = 32 << 20        // bytes of the pages of a file
	maxLate  = 1 << 20         // the same, of pages of other hosts, with AsRead
	perEntry = 128             // bytes of an Entry beside its URL
	maxDepth = 4               // of indexes in each other; the protocol allows one
	maxHosts = 20              // other hosts whose robots.txt is asked in one go
	maxTime  = 2 * time.Minute // for a file, from its answer on
)

// usual are the places to look in when robots.txt names no sitemap.
var usual = []string{"/sitemap.xml", "/sitemap_index.xml"}

// A FileError is the reason why one sitemap, or a part of it, can't be read.
type FileError struct {
	URL string // of the sitemap
	Err error
}

func (e *FileError) Error() string {
	why := strings.ReplaceAll(e.Err.Error(), "\n", "; ")
	return fmt.Sprintf("%s: %s", printable.Clipped(e.URL, 200), printable.Clipped(why, 500))
}

func (e *FileError) Unwrap() error { return e.Err }

// A ForeignError is about pages that are left out, because their sitemap doesn't speak for their
// host. Log it, so that the site's owner can correct the sitemap.
type ForeignError struct {
	URL   string // of the sitemap
	Host  string // that it doesn't speak for, or "further hosts" beyond the first twenty
	Pages int    // of that host
	First string // of these
	why   string // they are left out
}

// Why the pages of a host are left out.
const (
	unnamed = "robots.txt there doesn't name this sitemap"
	unasked = "robots.txt there wasn't asked, as sitemaps list pages of many other hosts"
)

func (e *ForeignError) Error() string {
	pages := "pages"
	if e.Pages == 1 {
		pages = "page"
	}
	text := fmt.Sprintf("%s lists %d %s of %s, left out: %s",
		printable.Clipped(e.URL, 200), e.Pages, pages, printable.Clipped(e.Host, 100), cmp.Or(e.why, unnamed))
	if e.isNear() {
		text += fmt.Sprintf(" (if they are one site, ask for the pages of %s as well)", printable.Clipped(e.First, 200))
	}
	return text
}

// isNear reports whether the two hosts differ in "www." only.
func (e *ForeignError) isNear() bool {
	u, err := url.Parse(e.URL)
	if err != nil {
		return false
	}
	return strings.TrimPrefix(hostname.Key(u.Host), "www.") == strings.TrimPrefix(e.Host, "www.")
}

// Pages yields the pages of the site of rawURL. They are listed by the sitemaps that its robots.txt
// names, or else by those in the usual places. A line of robots.txt that names none, since it is no
// URL, is an error, and one with a relative URL is relative to robots.txt. It yields no index, but
// the sitemaps that the index leads to. A site without sitemaps has no pages here and no error.
//
// An error is about one sitemap, a [*FileError] or a [*ForeignError], and the loop may go on to the
// next pair. It is that of [politeness.Transport.Sitemaps] if robots.txt can't be fetched, and that
// of ctx, with the last pair, when ctx is done. A sitemap is read to its end before its first page
// is yielded, so the loop may fetch each page as it comes. No connection and no slot of the host is
// in use by then, unless AsRead is set. That takes the memory of one file, at most 32 MB. The rest
// of a longer file is left out with an error. The same page may come more than once. Pages may be
// of another host than rawURL's, which most crawls leave out.
func (f Finder) Pages(ctx context.Context, rawURL string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		site, err := weblink.ParseURL(nil, rawURL)
		if err != nil {
			yield(Entry{}, fmt.Errorf("sitemap: %s: %w", printable.Clipped(rawURL, 200), err))
			return
		}
		named, err := f.Transport.Sitemaps(ctx, site.String())
		if err != nil {
			// Without a robots.txt the site may have a sitemap in one of the usual places. The user's
			// own rules refuse these as well.
			isDenied := errors.Is(err, politeness.ErrDisallowed) || errors.Is(err, robotscache.ErrNoAnswer)
			mayLook := errors.Is(err, politeness.ErrUnreachable) && !isDenied
			if !yield(Entry{}, err) || !mayLook {
				return
			}
		}
		w := f.walk(ctx, yield)
		for _, raw := range named {
			if raw == "" { // a line that was left empty
				continue
			}
			u, err := weblink.ParseURL(&site, raw)
			if err == nil {
				w.add(file{url: u.Spelled(raw), hosts: []string{hostname.Key(site.Host)}})
				continue
			}
			err = fmt.Errorf("the robots.txt of %s names it: %w", site.Host, err)
			if !yield(Entry{}, &FileError{raw, err}) {
				return
			}
		}
		if len(w.queue) == 0 {
			for _, path := range usual {
				place := weblink.URL{Scheme: site.Scheme, Host: site.Host, Path: path}
				w.add(file{url: place.String(), guessed: true})
			}
		}
		w.run()
	}
}

// Read yields the pages that the given sitemaps list, as Pages does. Use it for a site whose
// sitemaps are known.
func (f Finder) Read(ctx context.Context, sitemaps ...string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := f.walk(ctx, yield)
		for _, raw := range sitemaps {
			u, err := weblink.ParseURL(nil, raw)
			if err == nil {
				w.add(file{url: u.Spelled(raw)})
			} else if !yield(Entry{}, &FileError{raw, err}) {
				return
			}
		}
		w.run()
	}
}

// A file is a sitemap to be read.
type file struct {
	url     string
	hosts   []string // that it speaks for beside its own: those of the robots.txt or index that names it
	via     []string // the indexes that led to it
	guessed bool     // neither robots.txt nor an index names it, so it may not exist
	entry   Entry    // of the index that names it; zero: none does
}

// A walk is one run of a Finder.
type walk struct {
	Finder
	ctx    context.Context
	yield  func(Entry, error) bool
	queue  []file
	listed map[string]bool     // URLs of the sitemaps that were in the queue, at most MaxFiles
	beyond string              // the first URL for which there was no room; empty: none
	unread int                 // number of entries with such a URL
	named  map[string][]string // by origin of another host: the sitemaps that its robots.txt names
}

func (f Finder) walk(ctx context.Context, yield func(Entry, error) bool) *walk {
	if f.Client == nil {
		f.Client = &http.Client{Transport: weburl.Locations{RoundTripper: f.Transport}}
	}
	if f.MaxFiles == 0 {
		f.MaxFiles = maxFiles
	}
	return &walk{Finder: f, ctx: ctx, yield: yield, listed: make(map[string]bool), named: make(map[string][]string)}
}

// add puts a sitemap at the end of the queue, unless it was there.
func (w *walk) add(f file) {
	f.url, _, _ = strings.Cut(f.url, "#")
	switch {
	case w.listed[f.url]:
	case len(w.listed) < w.MaxFiles:
		w.listed[f.url] = true
		w.queue = append(w.queue, f)
	case !f.guessed:
		w.beyond = cmp.Or(w.beyond, f.url)
		w.unread++
	}
}

// run reads the sitemaps of the queue, and those that they lead to, until there are no more.
func (w *walk) run() {
	for len(w.queue) > 0 && w.ctx.Err() == nil {
		next := w.queue[0]
		w.queue = w.queue[1:]
		if !w.file(next) {
			return
		}
	}
	switch {
	case w.ctx.Err() != nil:
		w.yield(Entry{}, w.ctx.Err())
	case w.beyond != "":
		why := fmt.Errorf("not read: MaxFiles is %d; sitemaps left out: %d", w.MaxFiles, w.unread)
		w.yield(Entry{}, &FileError{w.beyond, why})
	}
}

// file reads a sitemap and yields its pages. It reports whether the consumer wants more.
func (w *walk) file(f file) bool {
	l := &listing{
		walk:    w,
		file:    f,
		urls:    append(slices.Clone(f.via), f.url),
		why:     make(map[string]string),
		foreign: make(map[string]*ForeignError),
		memory:  w.Seen.load(w.ctx, f.url),
	}
	if spares(f, l.memory, time.Now()) {
		if l.memory.Gone == 0 {
			w.Seen.countSame()
		}
		return true
	}
	err := w.fetch(l)
	switch {
	case errors.Is(err, errStopped):
		return false
	case w.ctx.Err() != nil:
		return true // run yields the error of ctx
	}
	// The connection is closed by now.
	for _, entry := range l.kept {
		if !l.take(entry) {
			return false
		}
	}
	err = cmp.Or(l.tooDeep, err)
	for _, host := range slices.Sorted(maps.Keys(l.foreign)) {
		if !w.yield(Entry{}, l.foreign[host]) {
			return false
		}
	}
	if err != nil && !w.yield(Entry{}, &FileError{f.url, err}) {
		return false
	}
	switch {
	case w.Seen == nil:
	case err == nil && len(l.foreign) == 0:
		w.Seen.take(l)
	case isMissing(l.answer.Status): // if it comes back, it is read whole
		w.Seen.note(f.url, revisit.Page{})
	}
	return true
}

// A listing is a sitemap that is being read.
type listing struct {
	*walk
	file    file
	final   string                   // its URL after redirects
	urls    []string                 // it, and the indexes that led to it
	hosts   []string                 // that it speaks for
	kept    []Entry                  // for after the end of the file
	bytes   int                      // of kept
	tooDeep error                    // not nil: it leads to sitemaps that aren't read
	why     map[string]string        // by host: why its pages are left out; empty: they aren't
	foreign map[string]*ForeignError // by host

	memory       revisit.Page   // of an earlier loop; zero: none
	answer       revisit.Answer // to the last request
	isIndex      bool           // it lists sitemaps
	isRedirected bool           // its URL leads to another one
}

// begin notes the URL at which the file was in the end.
func (l *listing) begin(final string) {
	l.final = final
	l.hosts = append([]string{hostOf(l.file.url), hostOf(final)}, l.file.hosts...)
}

// add takes an entry while the file is read, or keeps it for afterwards.
func (l *listing) add(entry Entry) error {
	l.isIndex = l.isIndex || entry.Index
	most := maxKept
	if l.AsRead {
		host := hostOf(entry.Loc)
		_, known := l.why[host]
		if entry.Index || known || slices.Contains(l.hosts, host) {
			if !l.take(entry) {
				return errStopped
			}
			return nil
		}
		most = maxLate // another host's robots.txt is asked once no slot is held
	}
	l.bytes += len(entry.Loc) + perEntry
	switch {
	case l.bytes <= most:
		l.kept = append(l.kept, entry)
		return nil
	case !l.AsRead:
		return errTooMuch
	}
	l.leaveOut(entry, hostOf(entry.Loc), unasked)
	return nil
}

// take yields the page of an entry, or queues its sitemap. It reports whether the consumer wants
// more.
func (l *listing) take(entry Entry) bool {
	switch {
	case entry.Index && len(l.file.via) == maxDepth:
		l.tooDeep = errTooDeep
	case entry.Index: // it speaks for the hosts that the index speaks for
		l.walk.add(file{url: entry.Loc, hosts: l.hosts, via: l.urls, entry: entry})
	default:
		return l.page(entry)
	}
	return true
}

// page yields a page, or counts it among those that are left out. It reports whether the consumer
// wants more.
func (l *listing) page(entry Entry) bool {
	host := hostOf(entry.Loc)
	why, known := l.why[host]
	if !known {
		if !slices.Contains(l.hosts, host) {
			why = l.refuses(entry.Loc, l.urls, l.final)
		}
		l.why[host] = why
	}
	if why == "" {
		return l.yield(entry, nil)
	}
	l.leaveOut(entry, host, why)
	return true
}

// leaveOut counts a page among those of host that are left out.
func (l *listing) leaveOut(entry Entry, host, why string) {
	if l.foreign[host] == nil && len(l.foreign) >= maxHosts {
		host = "further hosts" // a stranger may list a thousand, of which each would be an error
	}
	if l.foreign[host] == nil {
		l.foreign[host] = &ForeignError{URL: l.file.url, Host: host, First: entry.Loc, why: why}
	}
	l.foreign[host].Pages++
}

var errTooDeep = fmt.Errorf(
	"leads to further sitemaps, which aren't read: it is an index in an index, %d deep", maxDepth+1)

var errTooMuch = fmt.Errorf("lists more than fits into %d MB: set Finder.AsRead", maxKept>>20)

var errSlow = fmt.Errorf("takes longer than %v", maxTime)

// fetch reads the sitemap of l, and adds its entries to l.
func (w *walk) fetch(l *listing) error {
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	timer := time.AfterFunc(w.longest(), func() { cancel(errSlow) })
	defer timer.Stop()
	err := w.fetchIn(ctx, l, timer)
	if err != nil && !errors.Is(err, errStopped) && errors.Is(context.Cause(ctx), errSlow) {
		return errSlow
	}
	return err
}

// longest is the time for a response. The longest wait for a turn is no part of maxTime.
func (w *walk) longest() time.Duration {
	wait := w.Transport.Limiter().Config().WithDefaults().MaxWait
	return min(wait, math.MaxInt64-maxTime) + maxTime
}

// fetchIn is fetch in a context that timer ends.
func (w *walk) fetchIn(ctx context.Context, l *listing, timer *time.Timer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.file.url, nil)
	if err != nil {
		return errors.New("the URL can't be parsed")
	}
	isConditional := l.memory.Conditions(req.Header, time.Now())
	resp, err := w.Client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err // FileError has the URL
		}
		return err
	}
	defer resp.Body.Close()
	timer.Reset(maxTime)
	final := resp.Request.URL.String()
	l.begin(final)
	l.isRedirected = final != req.URL.String()
	l.answer = revisit.Answer{
		Time:        time.Now(),
		Status:      resp.StatusCode,
		Header:      resp.Header,
		Conditional: isConditional,
	}
	isUnchanged := resp.StatusCode == http.StatusNotModified && isConditional
	switch {
	case isUnchanged && l.isRedirected: // another file was compared with what is remembered
		l.memory = revisit.Page{}
		resp.Body.Close()
		timer.Reset(w.longest())
		return w.fetchIn(ctx, l, timer)
	case isUnchanged:
		w.Seen.countSame()
		return nil
	case l.file.guessed && isMissing(resp.StatusCode):
		return nil
	case resp.StatusCode != http.StatusOK:
		return errors.New(printable.Clipped(resp.Status, 100))
	}
	base, err := weblink.ParseURL(nil, final)
	if err != nil {
		return err
	}
	body, err := unpacked(resp)
	if err != nil {
		return err
	}
	for entry, err := range readFrom(&base, maxBytes, body) {
		if err != nil {
			return err // those before it are good
		}
		if err := l.add(entry); err != nil {
			return err
		}
	}
	return nil
}

// unpacked returns the body of a response without its content codings. Whether it is gzip is known
// by its first bytes, whatever the header says.
func unpacked(resp *http.Response) (io.Reader, error) {
	codings := slices.DeleteFunc(coding.Of(resp.Header), func(name string) bool {
		return name == "gzip" || name == "x-gzip"
	})
	return coding.NewReader(resp.Body, codings, maxBytes+1)
}

// refuses returns why a page isn't yielded, or "" if it is. The robots.txt of the page's host must
// name the sitemap that lists the page, or an index that leads to the sitemap. Their URLs are urls
// and final.
func (w *walk) refuses(page string, urls []string, final string) (why string) {
	u, err := url.Parse(page)
	if err != nil {
		return unnamed
	}
	origin := u.Scheme + "://" + hostname.Authority(u.Scheme, u.Host)
	named, known := w.named[origin]
	if !known && len(w.named) >= maxHosts {
		return unasked
	}
	if !known {
		named, _ = w.Transport.Sitemaps(w.ctx, origin+"/") // one that can't be fetched permits nothing
		w.named[origin] = named
	}
	for _, s := range named {
		if s == final || slices.Contains(urls, s) {
			return ""
		}
	}
	return unnamed
}

// hostOf returns the key of the host of a URL.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return hostname.Key(u.Host)
}
