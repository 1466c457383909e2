package promises_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/hostlimit/hints"
	"github.com/go-politeness/politeness/robots"
)

// doorsOfText are where text of strangers comes in, but for pages and sitemaps, which package crawl and
// crawl/sitemap have tests of.
var doorsOfText = map[string]func(text string){
	"robots.txt":   func(s string) { robots.Parse([]byte(s)) },
	"X-Robots-Tag": func(s string) { robots.ParseTags([]string{s}, "bot") },
	"meta":         func(s string) { _, _ = robots.ReadMeta(strings.NewReader(`<meta name=robots content="`+s+`">`), "bot") },
	"Content-Usage": func(s string) {
		robots.HeaderPreferences(http.Header{"Content-Usage": {s}, "Content-Signal": {s}}, "bot")
	},
	"Retry-After": func(s string) { backoff.RetryAfter(s, s, time.Now()) },
	"RateLimit":   func(s string) { backoff.RateLimit(s) },
	"X-RateLimit": func(s string) { backoff.XRateLimit(s, s, s, time.Now()) },
	"hints": func(s string) {
		hints.Read(&http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{
			"Retry-After": {s}, "Ratelimit": {s}, "Set-Cookie": {s}, "Server": {s}, "Www-Authenticate": {s}, "Content-Type": {s},
		}})
	},
	"a URL in evidence": func(s string) { evidence.RedactURL("https://example.com/?" + s) },
	"a log of evidence": func(s string) { _, _ = audit.Check(strings.NewReader(s)) },
	"an access log": func(s string) {
		_, _ = accesslog.Compare(strings.NewReader(""), accesslog.Options{Host: "example.com", Agent: "bot"}, strings.NewReader(s))
	},
}

// pieces are what the texts are made of.
var pieces = map[string]string{
	"rules":      "User-agent: *\nDisallow: /*a*b$\nAllow: /\n",
	"agents":     "User-agent: bot\n",
	"wildcards":  "Disallow: /*********a\n",
	"directives": "bot: noindex, unavailable_after: 1 Jan, max-snippet: -1,",
	"colons":     "a:",
	"members":    `"a";r=0;t=1, `,
	"lists":      "a=(b c);d=?1, ",
	"open lists": "(((",
	"quotes":     `"\"`,
	"digits":     "9",
	"dates":      "Sat, 01 Jan 2000 00:00:00 GMT, ",
	"parameters": "a=b&c=https://d:e@f/%25%32%35?",
	"records":    `{"type":"fetched","url":"https://example.com/","host":"example.com","timestamp":"2000-01-01T00:00:00Z","seq":1}` + "\n",
	"nested":     `{"a":[{"b":`,
	"lines":      `192.0.2.7 - - [01/Jan/2000:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "bot"` + "\n",
	"brackets":   `[[[""`,
	"spaces":     " \t",
	"line ends":  "\r\n",
}

// TestEachDoorCostsByItsLength: 2 and 4 times the text are 2 and 4 times the cost at most, in
// allocations and in bytes, whatever the text is made of.
func TestEachDoorCostsByItsLength(t *testing.T) {
	for door, read := range doorsOfText {
		for name, piece := range pieces {
			cost := func(n int) (allocations, bytes uint64) {
				text := strings.Repeat(piece, n/len(piece))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				read(text)
				runtime.ReadMemStats(&after)
				return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
			}
			const n = 16 << 10
			cost(n)
			allocations, bytes := cost(n)
			for _, times := range []uint64{2, 4} {
				more, moreBytes := cost(int(times) * n)
				if more > 3*times*allocations/2+1000 || moreBytes > 3*times*bytes/2+512<<10 {
					t.Errorf("%s of %s: %d allocations of %d KB; for %d times the length %d of %d KB",
						door, name, allocations, bytes>>10, times, more, moreBytes>>10)
				}
			}
		}
	}
}
