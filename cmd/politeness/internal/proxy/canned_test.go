package proxy

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A canned answer is what a site sends, as it is.
type canned struct {
	name    string
	answer  string
	head    bool   // the request is HEAD
	differs string // why the program gets another answer than without a proxy; empty: it doesn't
	want    string // what it gets then
}

// Whatever is no HTTP can't be passed on: the answer has a length and a status of its own, and a
// program that read it as the site meant it would be the only one.
const (
	noHTTP     = "the answer is no HTTP, and what net/http can't read it can't pass on"
	noAnswer   = "a proxy has to say that there is none (RFC 9110, section 15.6.3)"
	usualWords = "RFC 9112, section 4: the words mean nothing, and net/http's server writes the usual ones where there are none"
	below100   = "RFC 9110, section 15: such an answer counts as one with 5xx"
	shorter    = "RFC 9110, section 15.4.5: a 304 needs no metadata that the page has, and net/http's server leaves it out"
)

// ok is an answer with these fields and a body of two bytes.
func ok(fields string) string {
	return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n" + fields + "\r\nab"
}

// cannedAnswers are statuses, fields, bodies and faults.
func cannedAnswers() []canned {
	all := []canned{
		{name: "no content", answer: "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"},
		{name: "not modified", answer: "HTTP/1.1 304 Not Modified\r\nConnection: close\r\nETag: \"a\"\r\n\r\n"},
		{
			name: "not modified, with a length", answer: "HTTP/1.1 304 Not Modified\r\nConnection: close\r\nContent-Length: 7\r\n\r\n",
			differs: shorter, want: "304",
		},
		{name: "reset content", answer: "HTTP/1.1 205 Reset Content\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
		{name: "HEAD", head: true, answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1234\r\nContent-Type: text/html\r\n\r\n"},
		{name: "HEAD without a length", head: true, answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
		{name: "HEAD, chunked", head: true, answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end"},
		{name: "no reason", answer: strings.Replace(ok(""), "200 OK", "200 ", 1), differs: usualWords, want: "200 OK"},
		{name: "no reason, nor a space", answer: strings.Replace(ok(""), "200 OK", "200", 1), differs: usualWords, want: "200 OK"},
		{name: "100 before", answer: "HTTP/1.1 100 Continue\r\n\r\n" + ok("")},
		{name: "103 before", answer: "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n" + ok("")},
		{name: "three before", answer: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 3) + ok("")},
		{name: "until the end", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end"},
		{name: "empty until the end", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
		{name: "HTML, empty", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n"},
		{name: "HTML, until the end", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\n\r\n<p>until the end"},
		{name: "chunked", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3;x=y\r\ncde\r\n0\r\n\r\n"},
		{name: "chunked, with trailers", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-T: 1\r\n\r\n"},
		{name: "chunked, empty", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{name: "a megabyte", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat("x", 1<<20)},
		{name: "bytes of all kinds", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 256\r\n\r\n" + allBytes()},
		{
			name: "lines end in LF", answer: "HTTP/1.1 200 OK\nConnection: close\nContent-Length: 2\n\nab",
			differs: "RFC 9112, section 2.2: a sender ends its lines in CRLF", want: "200 OK",
		},
		{
			name: "a length, twice", answer: ok("Content-Length: 2\r\n"),
			differs: "RFC 9110, section 8.6: equal lengths become one", want: "200 OK",
		},
		{
			name: "a folded field", answer: ok("X-Folded: a\r\n b\r\n"),
			differs: "RFC 9112, section 5.2: a proxy unfolds it", want: "200 OK\ncontent-length:2\nx-folded:a b\n",
		},
		{name: "more than its length", answer: ok("") + "cdef"},

		{name: "less than its length", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nab"},
		{name: "HTML, less than its length", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\nab"},
		{name: "a chunk that ends early", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab"},
		{name: "no last chunk", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"},
		{
			name: "a chunk of no size", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nx\r\n",
			differs: "the same bytes, and curl names another fault: of the chunk without a proxy, of the end with one", want: "exit 18",
		},

		{name: "status 099", answer: strings.Replace(ok(""), "200 OK", "099 Odd", 1), differs: below100, want: "502"},
		{name: "status 000", answer: strings.Replace(ok(""), "200 OK", "000 Odd", 1), differs: below100, want: "502"},
		{name: "switched unasked", answer: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", differs: "RFC 9110, section 15.2.2", want: "502"},
		{name: "nothing", answer: "", differs: noAnswer, want: "502"},
		{name: "half a line", answer: "HTTP/1.1 2", differs: noAnswer, want: "502"},
		{name: "half a head", answer: "HTTP/1.1 200 OK\r\nContent-Ty", differs: noAnswer, want: "502"},
		{name: "text alone", answer: "<html>hello</html>\r\n\r\n", differs: noHTTP, want: "502"},
		{name: "ICY", answer: "ICY 200 OK\r\n\r\nab", differs: noHTTP, want: "502"},
		{name: "a status of letters", answer: strings.Replace(ok(""), "200 OK", "abc OK", 1), differs: noHTTP, want: "502"},
		{name: "a status of four digits", answer: strings.Replace(ok(""), "200 OK", "1000 OK", 1), differs: noHTTP, want: "502"},
		{name: "a field without a colon", answer: ok("X-Odd\r\n"), differs: noHTTP, want: "502"},
		{name: "a NUL in a field", answer: ok("X-Odd: a\x00b\r\n"), differs: noHTTP, want: "502"},
		{name: "two lengths", answer: ok("Content-Length: 3\r\n"), differs: noHTTP, want: "502"},
		{name: "a length of letters", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: x\r\n\r\nab", differs: noHTTP, want: "502"},
		{name: "a negative length", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: -1\r\n\r\nab", differs: noHTTP, want: "502"},
		{name: "a head of 2 MB", answer: ok("X-Long: " + strings.Repeat("a", 2<<20) + "\r\n"), differs: "a bound of its own, 1 MB", want: "502"},
		{name: "a transfer coding that nobody knows", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: rot13\r\n\r\nab", differs: noHTTP, want: "502"},
	}
	for _, status := range []int{
		200, 201, 202, 203, 206, 207, 208, 226, 299, 300, 301, 302, 303, 305, 306, 307, 308, 399,
		400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 420, 421, 422, 423, 424, 425, 426,
		428, 429, 430, 431, 440, 444, 449, 450, 451, 498, 499, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511, 520, 529, 530, 598, 599,
		600, 700, 999,
	} {
		all = append(all, canned{
			name:   fmt.Sprint("status ", status),
			answer: fmt.Sprintf("HTTP/1.1 %d Its Own Words\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", status),
		})
	}
	for _, fields := range []string{
		"", "Content-Type: text/plain\r\n", "Content-Type: x\r\n", "Content-Type: \r\n", "Content-Type: text/html; charset=\"utf-8\"\r\n",
		"Set-Cookie: a=1\r\nSet-Cookie: b=2; Path=/\r\n", "X-A: 1\r\nX-A: 2\r\nX-B: 3\r\nX-A: 4\r\n", "X-Empty:\r\n", "X-Space:    a   b   \r\n", "x-lower: 1\r\n",
		"X_Under: 1\r\n", "X!#$%&'*+-.^_`|~: 1\r\n", "X-Latin: caf\xe9\r\n", "X-UTF: caf\xc3\xa9\r\n", "X-Tab: a\tb\r\n", "X-Long: " + strings.Repeat("a", 60<<10) + "\r\n",
		strings.Repeat("X-Many: 1\r\n", 300), "Content-Encoding: gzip\r\n", "Content-Encoding: br\r\n", "Content-Encoding: x, y\r\n", "Date: yesterday\r\n",
		"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "Age: 5\r\nExpires: 0\r\nCache-Control: no-store\r\n", "Server: x/1\r\nX-Powered-By: y\r\n", "Via: 1.0 fred\r\n",
		"Location: /caf\xc3\xa9 b\r\n", "Refresh: 0; url=/b\r\n", "Link: </a>; rel=next, </b>; rel=prev\r\n", "Warning: 110 - \"stale\"\r\n", "Alt-Svc: clear\r\n",
		"Strict-Transport-Security: max-age=1\r\nContent-Security-Policy: default-src 'none'\r\n", "Accept-Ranges: bytes\r\nContent-Range: bytes 0-1/9\r\n",
		"ETag: W/\"a\"\r\nLast-Modified: never\r\nVary: *\r\n", "Proxy-Status: cache; hit\r\n", "Authentication-Info: x=1\r\nWWW-Authenticate: Digest realm=\"a, b\"\r\n",
		"Content-Disposition: attachment; filename=\"\xe4.txt\"\r\n", "Upgrade: h2c\r\n", "Trailer: X-None\r\n",
	} {
		name := strings.TrimSpace(fields)
		all = append(all, canned{name: fmt.Sprintf("fields %.40q", name), answer: ok(fields)})
	}
	return all
}

func allBytes() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}

// TestCannedAnswersByCurl: a program gets what it gets without the proxy, as curl reads it: the
// status, its words, the fields, the body and whether it has ended well.
func TestCannedAnswersByCurl(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("curl")
	if err != nil {
		t.Log(err)
		return
	}
	cases := cannedAnswers()
	t.Logf("%d cases", len(cases))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site := cannedSite(t, c.answer)
			flags := []string{"--include", "--max-time", "60"}
			if c.head {
				flags = []string{"--head", "--max-time", "60"}
			}
			direct := curlReads(t, path, append(flags, "--http0.9", site+"/odd")...)
			got := curlReads(t, path, append(flags, "--proxy", serveBase(t, ByProgram(Base()), nil), site+"/odd")...)
			if !strings.Contains(direct, "\ndate:") {
				got = date.ReplaceAllString(got, "") // RFC 9110, section 6.6.1: a recipient with a clock adds it
			}
			switch {
			case c.differs == "" && got != direct:
				t.Errorf("without a proxy:\n%s\nwith one:\n%s", direct, got)
			case c.differs != "" && !strings.HasPrefix(got, c.want) && !strings.HasSuffix(got, c.want):
				t.Errorf("want %s, since %s\n%s", c.want, c.differs, got)
			case c.differs != "" && got == direct:
				t.Error("it doesn't differ")
			}
		})
	}
}

// cannedSite answers as oddSite does, and hangs up.
func cannedSite(t *testing.T, answer string) (url string) {
	t.Helper()
	return rawSite(t, func(conn net.Conn) { fmt.Fprint(conn, answer) })
}

// Fields that belong to a connection, or that a proxy owes.
var hop = regexp.MustCompile(`(?i)^(connection|keep-alive|proxy-connection|transfer-encoding|trailer|upgrade): |^via: 1\.[01] politeness$`)

var date = regexp.MustCompile(`(?m)^date:.*\n`)

// curlReads returns what curl has read, in one form: fields sorted, without those of the connection.
func curlReads(t *testing.T, curl string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), curl, append([]string{"--disable", "--silent", "--noproxy", ""}, args...)...)
	cmd.Env = []string{}
	var out bytes.Buffer
	cmd.Stdout = &out
	_ = cmd.Run()
	text := out.String()
	var read strings.Builder
	for {
		head, rest, ok := strings.Cut(text, "\r\n\r\n")
		if !ok || !strings.HasPrefix(head, "HTTP/") {
			break
		}
		text = rest
		lines := strings.Split(head, "\r\n")
		_, status, _ := strings.Cut(lines[0], " ")
		fields := slices.DeleteFunc(lines[1:], hop.MatchString)
		for i, field := range fields {
			name, value, _ := strings.Cut(field, ":")
			fields[i] = strings.ToLower(name) + ":" + strings.TrimSpace(value)
		}
		slices.Sort(fields)
		fmt.Fprintln(&read, strings.Join(append([]string{strings.TrimSpace(status)}, fields...), "\n"))
	}
	if len(text) > 2000 {
		text = fmt.Sprintf("%d bytes: %.50q", len(text), text)
	}
	fmt.Fprintf(&read, "%q\nexit %d", text, cmd.ProcessState.ExitCode())
	return read.String()
}
