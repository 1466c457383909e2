package politenesstest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Hostile returns sites that harm a crawler, as strangers on the web do by mistake or on purpose,
// in the order of their names. Let a crawler loose on them beside honest sites. It should come to
// an end, in bounded memory, and crawl the honest ones as fast as ever.
//
//	for name, site := range politenesstest.Hostile() {
//		web.Site("https://"+name+".example").Handle("/", site).Handle("/robots.txt", site)
//	}
//
// Each handler is a whole site, robots.txt included, and its name says what is wrong with it.
// "robots-" is about robots.txt, and other pages are harmless. Names with "page-", "redirect-",
// "header-", "retry-" and "answer-" are about every other page, and robots.txt is 404. Some sites
// seem endless and come to an end after at least 10 GiB, a million redirects or a day of waiting.
// That is as good as endless for a crawler. Bodies are made as they are read, so that they cost the
// test nothing. Each iteration makes new sites.
//
// The handlers serve in an httptest.Server as well. Handlers with "raw-" at the beginning of the
// name send bytes that an [http.ResponseWriter] doesn't let through. They need a connection of
// HTTP/1 for [http.Hijacker.Hijack]. A Web has no such connection, so these handlers never respond
// in a Web.
func Hostile() iter.Seq2[string, http.Handler] {
	return func(yield func(string, http.Handler) bool) {
		sites := hostileSites()
		for _, name := range slices.Sorted(maps.Keys(sites)) {
			if !yield(name, sites[name]) {
				return
			}
		}
	}
}

// unprintable has escape sequences and bidi overrides, which a terminal shows as something else.
const unprintable = "\x1b]0;owned\x07\x1b[2J\u202egpj.live\u2066\u200b\x9b31m\x7f\xff"

const (
	metadata = "http://169.254.169.254/latest/meta-data/iam/security-credentials/"
	huge     = "1000000000000000000000000000000" // 10^30
)

func hostileSites() map[string]http.Handler {
	long := strings.Repeat("a", 1<<20)
	sites := hostileRobots(long)
	maps.Copy(sites, hostilePages(long))
	maps.Copy(sites, hostileAnswers(long))
	maps.Copy(sites, hostileConnections(long))
	return sites
}

// hostileRobots returns the sites whose robots.txt is hostile. long is a megabyte of text.
func hostileRobots(long string) map[string]http.Handler {
	robots := func(h http.Handler) http.Handler {
		return hostileSite{robots: h, page: Text("a page like any other")}
	}
	rules := func(text string) http.Handler { return robots(plain(strings.NewReader(text))) }
	lines := func(head, format string) http.Handler { return robots(endless(head, format)) }

	return map[string]http.Handler{
		// robots.txt that is too much.
		"robots-endless":     robots(endless("User-agent: *\n", "Disallow: /%d\n")),
		"robots-gzip-bomb":   robots(bomb("gzip")),
		"robots-zlib-bomb":   robots(bomb("deflate")),
		"robots-drip":        robots(Drip("D", 100_000, 10*time.Second)),
		"robots-silent":      robots(Slow(24*time.Hour, Text(""))),
		"robots-short-rules": rules("User-agent: *\n" + strings.Repeat("Allow:/a\n", 500<<10/9)),
		"robots-wildcards":   lines("User-agent: *\n", "Disallow: /*a*b*a%d*b*a*b*a*b$\n"),
		"robots-groups":      lines("", "User-agent: bot%d\nDisallow: /\n"),
		"robots-agents":      lines("", "User-agent: *\nUser-agent: bot%d\n"),
		"robots-sitemaps":    lines("", "Sitemap: https://example.com/%d.xml\n"),
		"robots-preferences": lines("User-agent: *\n",
			"Content-Signal: ai-train=no, x%d=yes\nContent-Usage: /a train-ai=n\n"),
		"robots-usages":    lines("User-agent: *\n", "Content-Usage: a%d=n\n"),
		"robots-long-line": rules("User-agent: *\nDisallow: /" + long + "\nDisallow: /private\n"),

		// robots.txt that leads elsewhere, or on and on.
		"robots-drips-on": robots(dripsOn("/elsewhere")),
		"robots-loop":     robots(http.RedirectHandler("/robots.txt", http.StatusFound)),
		"robots-chain":    robots(onwards("/robots.txt?hop=%d")),
		"robots-metadata": robots(Status(http.StatusFound, "Location", metadata)),
		"robots-file":     robots(Status(http.StatusFound, "Location", "file:///etc/passwd")),
		"robots-userinfo": robots(Status(http.StatusFound,
			"Location", "https://user:secret@elsewhere.example/robots.txt")),

		// robots.txt that lies, or is something else.
		"robots-unprintable": rules("User-agent: *\nDisallow: /" + unprintable + "\x00*\nDisallow: /*" + unprintable +
			"\nUser-agent: " + unprintable + "\nSitemap: " + unprintable + "\nDisallow: /\x00\n"),
		"robots-html":    robots(Text("<!doctype html><script>alert(1)</script>Disallow: /\nUser-agent: *\n")),
		"robots-changes": robots(changing()),
		"robots-delay":   rules("User-agent: *\nCrawl-delay: " + huge + "\nRequest-rate: 1/" + huge + "d\n"),
		"robots-year":    rules("User-agent: *\nCrawl-delay: 31536000\n"),
		"robots-cut":     robots(cut("User-agent: *\nAllow: /\n")),
		"robots-429":     robots(Status(http.StatusTooManyRequests, "Retry-After", huge)),
		"robots-304":     robots(Status(http.StatusNotModified, "ETag", `"never asked for"`)),
		"robots-status":  robots(Status(999)),
		"robots-forever": robots(plain(strings.NewReader("User-agent: *\nDisallow:\n"),
			"Cache-Control", "max-age="+huge, "Age", "-"+huge)),
		"robots-validators": robots(plain(strings.NewReader("User-agent: *\n"),
			"ETag", `"`+long+`"`, "Last-Modified", unprintable)),
	}
}

// hostilePage returns a site without a robots.txt.
func hostilePage(h http.Handler) http.Handler {
	return hostileSite{robots: http.NotFoundHandler(), page: h}
}

// hostilePages returns the sites whose pages are hostile.
func hostilePages(long string) map[string]http.Handler {
	page := hostilePage
	header := func(headers ...string) http.Handler { return page(Status(http.StatusOK, headers...)) }

	return map[string]http.Handler{
		// Pages that are too much.
		"page-endless":    page(endless("<p>", "<a href=/%d>on</a>")),
		"page-gzip-bomb":  page(bomb("gzip")),
		"page-zlib-bomb":  page(bomb("deflate")),
		"page-drip":       page(Drip("<", 100_000, 10*time.Second)),
		"page-silent":     page(Slow(24*time.Hour, Text("at last"))),
		"page-directives": page(endless("<head>", `<meta name="robots" content="max-snippet:%d">`)),
		"page-names":      page(endless("<p>", "<a href=https://%d.wildcard.example/>another name</a>")),
		"page-cut":        page(cut("<p>half a p")),
		"page-hangs-up":   page(Drop()),

		// Redirects.
		"redirect-loop":        page(http.RedirectHandler("/", http.StatusFound)),
		"redirect-chain":       page(onwards("/%d")),
		"redirect-metadata":    page(Status(http.StatusFound, "Location", metadata)),
		"redirect-file":        page(Status(http.StatusFound, "Location", "file:///etc/passwd")),
		"redirect-userinfo":    page(Status(http.StatusFound, "Location", "https:/user:secret@elsewhere.example/")),
		"redirect-long":        page(Status(http.StatusFound, "Location", "/"+long)),
		"redirect-quotes":      page(Status(http.StatusFound, "Location", strings.Repeat(`"http:"@`, 20_000))),
		"redirect-unprintable": page(Status(http.StatusFound, "Location", "https://elsewhere.example/"+unprintable)),
		"redirect-injection": page(Status(http.StatusFound,
			"Location", "/a\r\nSet-Cookie: session=1\r\n\r\n<script>")),
		"redirect-lookalike": page(Status(http.StatusFound, "Location", "https://\u0430pple.example/")), // Cyrillic

		// Headers.
		"header-content-type": header("Content-Type", "text/"+long),
		"header-unprintable": header("Content-Type", "text/"+unprintable, "ETag", unprintable,
			"Last-Modified", unprintable),
		"header-many": header(slices.Repeat([]string{"Set-Cookie", "a=" + long[:1<<10]}, 2_000)...),
		"header-directives": header(slices.Repeat([]string{
			"X-Robots-Tag", "bot: noindex, max-snippet: " + huge,
		}, 10_000)...),
		"header-long-directives": header("X-Robots-Tag", "unavailable_after: "+long+unprintable),
		"header-colons":          header("X-Robots-Tag", strings.Repeat(":", 200_000)),
		"header-preferences":     header("Content-Usage", strings.Repeat("train-ai=n;x=1,", 50_000)+unprintable),
		"header-rate-limit": header("RateLimit", `"p";r=-1;t=`+huge+", "+unprintable,
			"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", huge, "RateLimit-Policy", long),
	}
}

// hostileAnswers returns the sites whose refusals, and answers that nobody asked for, are hostile.
func hostileAnswers(long string) map[string]http.Handler {
	page := hostilePage
	refusal := func(headers ...string) http.Handler {
		return page(Status(http.StatusTooManyRequests, headers...))
	}

	return map[string]http.Handler{
		// Refusals.
		"retry-huge":     refusal("Retry-After", huge),
		"retry-negative": refusal("Retry-After", "-"+huge),
		"retry-year-9999": refusal("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT",
			"Date", "Thu, 01 Jan 1970 00:00:00 GMT"),
		"retry-unprintable": refusal("Retry-After", unprintable+long),
		"retry-never-twice": page(InTurn(
			Status(http.StatusTooManyRequests, "Retry-After", "0"),
			Status(http.StatusServiceUnavailable, "Retry-After", "1.5"),
			Status(http.StatusForbidden, "Retry-After", ""),
			Status(http.StatusTooManyRequests),
		)),

		// Answers to other questions.
		"answer-206": page(Status(http.StatusPartialContent, "Content-Range", "bytes 0-"+huge+"/*")),
		"answer-304": page(Status(http.StatusNotModified)),
		"answer-401": page(Status(http.StatusUnauthorized, "WWW-Authenticate", `Basic realm="`+unprintable+`"`)),
		"answer-999": page(Status(999)),
	}
}

// hostileConnections returns the sites that don't speak HTTP.
func hostileConnections(long string) map[string]http.Handler {
	raw := func(say func(io.Writer) error) http.Handler { return hostilePage(hijacked(say)) }
	const ok = "HTTP/1.1 200 OK\r\n"
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"

	return map[string]http.Handler{
		"raw-garbage":       raw(write("\x16\x03\x01" + unprintable + "\r\n\r\n")),
		"raw-silence":       raw(silence),
		"raw-header-drip":   raw(drip(ok+"X-Drip: ", "a", time.Second)),
		"raw-header-flood":  raw(flood(ok, "X-Flood: "+long[:1<<10]+"\r\n")),
		"raw-1xx-storm":     raw(flood("", "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")),
		"raw-length-short":  raw(write(ok + "Content-Length: 3\r\n\r\nmore than three bytes")),
		"raw-two-lengths":   raw(write(ok + "Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc")),
		"raw-length-huge":   raw(write(ok + "Content-Length: " + huge + "\r\n\r\nabc")),
		"raw-chunk-lies":    raw(write(chunked + "7fffffffffffffff\r\nabc\r\n-1\r\n")),
		"raw-chunk-flood":   raw(flood(chunked, "1;"+long[:1<<10]+"\r\na\r\n")),
		"raw-trailer-flood": raw(flood(chunked+"0\r\n", "X-Flood: "+long[:1<<10]+"\r\n")),
		"raw-switch": raw(write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: evil\r\nConnection: Upgrade\r\n\r\n" +
			unprintable)),
	}
}

// A hostileSite answers robots.txt by one handler and everything else by another.
type hostileSite struct{ robots, page http.Handler }

func (s hostileSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == robotsPath {
		s.robots.ServeHTTP(w, r)
		return
	}
	s.page.ServeHTTP(w, r)
}

// endlessBytes is the length of an endless answer.
const endlessBytes int64 = 10 << 30

// endless answers with head and then with numbered lines of the given format, 10 GiB of them.
func endless(head, format string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		var block bytes.Buffer
		line := 0
		written := int64(0)
		for err == nil && written < endlessBytes {
			block.Reset()
			for block.Len() < flushAt {
				fmt.Fprintf(&block, format, line)
				line++
			}
			_, err = w.Write(block.Bytes())
			written += int64(block.Len())
		}
	})
}

// dripsOn redirects, and lets the body of that drip.
func dripsOn(location string) http.Handler {
	drip := Drip("D", 100_000, 10*time.Second)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
		drip.ServeHTTP(w, r)
	})
}

// plain answers 200 with a text, whatever it is, and the given headers.
func plain(text *strings.Reader, headers ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Add(headers[i], headers[i+1])
		}
		_, _ = io.Copy(w, io.NewSectionReader(text, 0, text.Size()))
	})
}

// bomb answers with zeros that are a thousand times as many once they are decompressed, 10 GiB of
// them, whether the client has asked for the coding or not.
func bomb(coding string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		head, block := bombs[coding]()
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", coding)
		_, err := w.Write(head)
		for n := int64(0); err == nil && n < endlessBytes; n += bombBlock {
			_, err = w.Write(block)
		}
	})
}

// bombBlock is how many zeros one block of a bomb holds.
const bombBlock = 1 << 20

// bombs return, for each coding, the beginning of a stream and a block that can follow it any
// number of times.
var bombs = map[string]func() (head, block []byte){
	"gzip": sync.OnceValues(func() (head, block []byte) {
		return packed(func(w io.Writer) flusher { return gzip.NewWriter(w) })
	}),
	"deflate": sync.OnceValues(func() (head, block []byte) {
		return packed(func(w io.Writer) flusher { return zlib.NewWriter(w) })
	}),
}

type flusher interface {
	io.Writer
	Flush() error
}

// packed returns the output of a compressor for its first bombBlock zeros, and for as many more.
// The latter refers to nothing but zeros, so it can be repeated.
func packed(compressor func(io.Writer) flusher) (head, block []byte) {
	var b bytes.Buffer
	z := compressor(&b)
	for range 2 {
		head = bytes.Clone(b.Bytes())
		b.Reset()
		_, _ = io.CopyN(z, zeros{}, bombBlock)
		_ = z.Flush() // into a Buffer, which takes everything
	}
	return append(head, b.Bytes()...), bytes.Clone(b.Bytes())
}

// onwards redirects every request to another URL, for ever.
func onwards(format string) http.Handler {
	var hops atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf(format, hops.Add(1)), http.StatusFound)
	})
}

// changing answers with another robots.txt each time, which it says is out of date already.
func changing() http.Handler {
	var asked atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		text := strings.NewReader(fmt.Sprintf("User-agent: *\nDisallow: /%d\nCrawl-delay: 1\n", n))
		plain(text, "Cache-Control", "no-store, max-age=0", "ETag", fmt.Sprintf(`"%d"`, n)).ServeHTTP(w, r)
	})
}

// cut announces more than it says, and hangs up.
func cut(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)+1000))
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// hijacked lets say write to the connection itself, until the client has closed it. If there is no
// connection, as in a Web, it never answers.
func hijacked(say func(io.Writer) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			Slow(24*time.Hour, Drop()).ServeHTTP(w, r)
			return
		}
		defer conn.Close()
		if say(conn) == nil {
			_, _ = io.Copy(io.Discard, conn) // until the client hangs up
		}
	})
}

func silence(io.Writer) error { return nil }

func write(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// flood writes head, and then piece until the reader stops.
func flood(head, piece string) func(io.Writer) error { return drip(head, piece, 0) }

// drip is flood with an interval between the pieces.
func drip(head, piece string, interval time.Duration) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, head)
		for written := int64(0); err == nil && written < endlessBytes; written += int64(len(piece)) {
			<-time.After(interval) // the client's end is found by the next write
			_, err = io.WriteString(w, piece)
		}
		return err
	}
}
