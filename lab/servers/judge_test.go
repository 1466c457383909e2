package servers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/lab/servers"
)

// TestReadLog reads a line of each server.
func TestReadLog(t *testing.T) {
	const log = `start:us:ms 1795403039492283 7 127.0.1.1 33589 -1 GET /drop.html -
start:us:us 1795403039692283 1500 127.0.1.1 33590 500 GET /apache.html -
end:s:s 1795403039.500 0.100 127.0.1.1 40000 503 GET /nginx.html 60
start:us:us 1795403039592283 800 127.0.1.2 33590 200 GET /other.html -
end:s:s 1795403039.500 0.000 127.0.1.1 40000 400 - - -
start:s:s 1795403041 0 127.0.1.1 40000 200 HEAD / -
`
	at := func(us int64) time.Time { return time.UnixMicro(1795403039000000 + us) }
	want := []servers.Line{
		{Start: at(400_000), End: at(500_000), Client: "127.0.1.1", Port: "40000", Status: 503, Method: "GET", Path: "/nginx.html", RetryAfter: time.Minute},
		{Start: at(492_283), End: at(499_283), Client: "127.0.1.1", Port: "33589", Method: "GET", Path: "/drop.html"},
		{Start: at(692_283), End: at(693_783), Client: "127.0.1.1", Port: "33590", Status: 500, Method: "GET", Path: "/apache.html"},
		{Start: at(2_000_000), End: at(2_000_000), Client: "127.0.1.1", Port: "40000", Status: 200, Method: "HEAD", Path: "/"},
	}
	got, err := servers.ReadLog(strings.NewReader(log), "127.0.1.1")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	for _, bad := range []string{
		"end:s:s 1795403039.500 0.100 127.0.1.1 40000 503 GET /nginx.html",
		"end:s 1795403039.500 0.100 127.0.1.1 40000 503 GET /nginx.html 60",
		"late:s:s 1795403039.500 0.100 127.0.1.1 40000 503 GET /nginx.html 60",
		"end:h:s 1795403039.500 0.100 127.0.1.1 40000 503 GET /nginx.html 60",
		"end:s:s now 0.100 127.0.1.1 40000 503 GET /nginx.html 60",
		"end:s:s 1795403039.500 0.x 127.0.1.1 40000 503 GET /nginx.html 60",
	} {
		if _, err := servers.ReadLog(strings.NewReader(bad), "127.0.1.1"); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// A request is a Line in a test: its start, its length, its status and its path.
func request(start, took time.Duration, status int, path string) servers.Line {
	begin := time.Unix(1795403039, 0).Add(start)
	return servers.Line{Start: begin, End: begin.Add(took), Client: "127.0.1.1", Port: "1", Status: status, Method: "GET", Path: path}
}

func TestJudge(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	asking := func(l servers.Line, after time.Duration) servers.Line {
		l.RetryAfter = after
		return l
	}
	var refused []servers.Line
	for i := range 10 {
		refused = append(refused, request(time.Duration(i)*s, 0, 403, "/"))
	}
	for _, tt := range []struct {
		name  string
		lines []servers.Line
		own   time.Duration // the crawler's delay
		delay int           // the site's
		want  servers.Cell
	}{
		{name: "nothing"},
		{
			name: "pages",
			lines: []servers.Line{
				request(0, 0, 200, "/robots.txt"), request(2*s, 0, 200, "/"), request(3*s, 0, 200, "/s000.html"),
				request(5*s, 0, 304, "/"), request(7*s, 0, 404, "/s001.html"), request(9*s, 0, 200, "/private/p000.html"),
			},
			want: servers.Cell{Requests: 6, Pages: 2, Served: 3, Disallowed: 1, MinGap: s},
		},
		{
			name: "refusals",
			lines: []servers.Line{
				request(0, 0, 403, "/"), request(s, 0, 429, "/"), request(2*s, 0, 500, "/"), request(3*s, 0, 503, "/"),
				request(4*s, 0, 0, "/"), request(5*s, 0, 404, "/"), request(6*s, 0, 301, "/"),
			},
			want: servers.Cell{Requests: 7, Refusals: 5, Repeated: 4, Foreseeable: 4, MinGap: s},
		},
		{
			name:  "ban",
			lines: refused,
			want:  servers.Cell{Requests: 10, Refusals: 10, Repeated: 9, Foreseeable: 9, InBan: 3, MinGap: s},
		},
		{
			name:  "no ban",
			lines: slices.Insert(slices.Clone(refused), 5, request(4500*ms, 0, 200, "/")),
			want:  servers.Cell{Requests: 11, Refusals: 10, Repeated: 8, Foreseeable: 9, Pages: 1, Served: 1, MinGap: 500 * ms},
		},
		{
			name: "Retry-After",
			lines: []servers.Line{
				asking(request(0, 100*ms, 429, "/"), 5*s), request(200*ms, 0, 200, "/s000.html"), // in flight
				request(400*ms, 0, 429, "/"), request(4990*ms, 0, 429, "/"), request(5*s, 0, 200, "/"), // the second and third are inside
			},
			want: servers.Cell{Requests: 5, Refusals: 3, Repeated: 1, Pages: 2, Served: 2, InRetryAfter: 2, Foreseeable: 1, MinGap: 10 * ms},
		},
		{
			name: "at once",
			lines: []servers.Line{
				request(0, 2*s, 200, "/"), request(s, 2*s, 200, "/s000.html"), request(1100*ms, 10*ms, 200, "/s001.html"),
				request(1900*ms, s, 200, "/s002.html"), // in transit as the first ends
			},
			want: servers.Cell{Requests: 4, Pages: 4, Served: 4, AtOnce: 2, MinGap: 100 * ms},
		},
		{
			name:  "crawl-delay kept",
			delay: 2,
			lines: []servers.Line{
				request(0, 0, 200, "/robots.txt"), request(200*ms, 0, 200, "/"), request(2200*ms, 0, 200, "/s000.html"),
				request(10*s, 0, 200, "/s001.html"), request(10500*ms, 0, 200, "/robots.txt"), request(12*s, 0, 200, "/s002.html"),
			},
			want: servers.Cell{Requests: 6, Pages: 4, Served: 4, MinGap: 200 * ms},
		},
		{
			name:  "crawl-delay broken", // after a long pause, which excuses nothing
			delay: 2,
			lines: []servers.Line{
				request(0, 0, 200, "/"), request(60*s, 0, 200, "/s000.html"), request(61*s, 0, 200, "/s001.html"), request(62500*ms, 0, 200, "/s002.html"),
			},
			want: servers.Cell{Requests: 4, Pages: 4, Served: 4, Early: 1500 * ms, MinGap: s},
		},
		{
			name:  "a delay of its own",
			own:   500 * ms,
			lines: []servers.Line{request(0, 0, 200, "/robots.txt"), request(0, 0, 200, "/"), request(400*ms, 0, 200, "/s000.html")},
			want:  servers.Cell{Requests: 3, Pages: 2, Served: 2, Early: 100 * ms},
		},
	} {
		tt.want.Transit = 250 * ms
		if n := len(tt.lines); n > 0 {
			tt.want.First, tt.want.Last, tt.want.Connections = tt.lines[0].Start, tt.lines[n-1].Start, 1
		}
		if got := servers.Judge(tt.lines, servers.Site{Sections: 3, CrawlDelay: tt.delay}, tt.own, 250*ms); got != tt.want {
			t.Errorf("%s: got %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

// TestGoals shows where each goal of a share begins; TestRudeCrawlers has the others.
func TestGoals(t *testing.T) {
	server := func(name string) *servers.Server {
		i := slices.IndexFunc(servers.Servers, func(s *servers.Server) bool { return s.Name == name })
		return servers.Servers[i]
	}
	crawler := func(name string) *servers.Crawler {
		i := slices.IndexFunc(servers.Crawlers, func(c *servers.Crawler) bool { return c.Name == name })
		return servers.Crawlers[i]
	}
	const day = 1000 * time.Second
	for _, tt := range []struct {
		server, crawler string
		length          time.Duration
		least           int // pages
		refusals        int
	}{
		{"plain", "Bulk", day, 4250, 0},
		{"plain", "Bulk", 3 * time.Minute, 0, 0}, // too short to tell
		{"crawl-delay", "Bulk", day, 425, 0},
		{"nginx-maintenance", "Responsive", day, 799, 1},
		{"nginx-503", "zero value", day, 700, 30},
		{"nginx-conn", "Responsive", day, 350, 0},
		{"nginx-503-burst", "zero value", day, 700, 80},
		{"nginx-503-burst", "Bulk", day, 600, 80},
		{"nginx-10rm", "Conservative", day, 117, 0},
		{"nginx-10rm", "Conservative", day, 0, 1}, // it stays away
		{"haproxy-ban", "zero value", day, 1400, 12},
		{"haproxy-ban", "zero value", 5 * time.Minute, 0, 12}, // too short to tell
		{"broken-1-503", "zero value", day, 2546, 5000},
		{"broken-5-503", "zero value", day, 2172, 5000},
		{"broken-10-500", "zero value", day, 1800, 5000},
		{"broken-10-500", "Bulk", day, 2475, 5000},
		{"broken-10-500", "8 workers", day, 0, 5000}, // it never asks again
	} {
		r := servers.Result{Server: server(tt.server), Crawler: crawler(tt.crawler), Site: servers.Site{Sections: 3}, Length: tt.length}
		r.Requests, r.Refusals, r.Pages = 5000, tt.refusals, tt.least
		if got := names(servers.Goals(&r)); len(got) > 0 {
			t.Errorf("%s on %s misses %q with %d pages", tt.crawler, tt.server, got, tt.least)
		}
		if r.Pages--; tt.least > 0 && !slices.Equal(names(servers.Goals(&r)), []string{"share"}) {
			t.Errorf("%s on %s misses %q with %d pages, want the share", tt.crawler, tt.server, names(servers.Goals(&r)), r.Pages)
		}
	}
}

// TestSite counts the pages that a site writes, and those that a server never serves.
func TestSite(t *testing.T) {
	site := servers.Site{Sections: 3}
	paths := site.Paths()
	if len(paths) != site.Pages() || site.Pages() != 91 || slices.ContainsFunc(paths, func(p string) bool { return !site.IsPage(p) }) {
		t.Errorf("%d paths, %d pages", len(paths), site.Pages())
	}
	if site.IsPage("/robots.txt") || site.IsPage("/private/p000.html") {
		t.Error("robots.txt or a private page counts as a page")
	}
}
