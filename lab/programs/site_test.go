package programs_test

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// What each host of the site asks for.
const (
	crawlDelay = 250 * time.Millisecond
	retryAfter = 2 * time.Second
	robotsTxt  = "User-agent: *\nDisallow: /private/\nCrawl-delay: 0.25\n"

	pages     = 60 // a host; their turns take longer than the timeouts of the programs
	slowPages = 3
	slowTime  = 1500 * time.Millisecond
	images    = 30
)

// A visit is a request as the site saw it.
type visit struct {
	path   string
	came   time.Time
	ended  time.Time // when the answer had been written
	status int
	lost   bool // the client left before the answer was written
	past   bool // the request came past politeness, in another name
}

// A host is one host of the site.
type host struct {
	url    string
	mu     sync.Mutex
	visits []visit
	busy   int // requests of /busy so far
	flaky  int // requests of /flaky so far
}

// A site is several hosts on loopback that link to each other.
type site struct {
	hosts  []*host
	stalls stalls
}

// newSite starts a site of n hosts: 127.0.0.1, 127.0.0.2 and so on.
func newSite(t *testing.T, n int) *site {
	t.Helper()
	s := &site{}
	s.stalls.watch(t)
	for i := range n {
		var config net.ListenConfig
		listener, err := config.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.%d:0", i+1))
		if err != nil {
			t.Fatal(err)
		}
		h := &host{url: "http://" + listener.Addr().String()}
		s.hosts = append(s.hosts, h)
		server := &http.Server{ //nolint:gosec // its clients are programs of this test
			Handler:  h.log(s.handler(i)),
			ErrorLog: log.New(t.Output(), "", 0),
		}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { server.Close() })
	}
	return s
}

// urls returns the front pages of the hosts.
func (s *site) urls() []string {
	var urls []string
	for _, h := range s.hosts {
		urls = append(urls, h.url)
	}
	return urls
}

// An answered keeps the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (h *host) log(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came := time.Now()
		a := &answered{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(a, r)
		left := r.Context().Err() != nil
		h.mu.Lock()
		defer h.mu.Unlock()
		past := !strings.HasPrefix(r.UserAgent(), "LabBot/")
		h.visits = append(h.visits, visit{r.URL.Path, came, time.Now(), a.status, left, past})
	})
}

// handler returns what the i-th host answers.
func (s *site) handler(i int) http.Handler {
	h := s.hosts[i]
	mux := http.NewServeMux()
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, body)
		}
	}
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, robotsTxt) })
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { text(s.index(h))(w, r) })
	mux.HandleFunc("/p/{n}", text("<html><head><title>page</title></head><body><p>A page of the site.</p></body></html>"))
	mux.HandleFunc("/landing", text("<html><head><title>landing</title></head><body><p>Where redirects land.</p></body></html>"))
	mux.HandleFunc("/private/", text("<html><body>not for crawlers</body></html>"))
	mux.HandleFunc("/slow/{n}", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(slowTime):
		case <-r.Context().Done():
		}
		text("<html><head><title>slow</title></head><body><p>A slow page.</p></body></html>")(w, r)
	})
	mux.Handle("/old", http.RedirectHandler("/private/new", http.StatusMovedPermanently))
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		next := s.hosts[(i+1)%len(s.hosts)]
		http.Redirect(w, r, next.url+"/landing", http.StatusFound)
	})
	mux.HandleFunc("/busy", func(w http.ResponseWriter, r *http.Request) {
		if h.count(&h.busy) == 1 {
			w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		text("<html><body>no longer busy</body></html>")(w, r)
	})
	mux.HandleFunc("/flaky", func(w http.ResponseWriter, r *http.Request) {
		if h.count(&h.flaky) <= 2 {
			http.Error(w, "broken", http.StatusServiceUnavailable)
			return
		}
		text("<html><body>no longer flaky</body></html>")(w, r)
	})
	mux.HandleFunc("/err", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "broken", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/gallery", func(w http.ResponseWriter, r *http.Request) { text(gallery())(w, r) })
	mux.HandleFunc("/img/{n}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		fmt.Fprint(w, "\x89PNG\r\n\x1a\n not quite an image")
	})
	mux.HandleFunc("/feed.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml")
		fmt.Fprint(w, h.feed())
	})
	mux.HandleFunc("/sitemap.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, h.sitemap())
	})
	mux.HandleFunc("/bucket/{key...}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		fmt.Fprint(w, "object")
	})
	return mux
}

func (h *host) count(n *int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
	return *n
}

// linked returns the paths that a front page links to.
func linked() []string {
	paths := []string{"/old", "/away", "/busy", "/err", "/private/a"}
	for i := range pages {
		paths = append(paths, "/p/"+strconv.Itoa(i))
		if i < slowPages {
			paths = append(paths, "/slow/"+strconv.Itoa(i))
		}
	}
	return paths
}

func (s *site) index(h *host) string {
	var b strings.Builder
	b.WriteString("<html><head><title>front page</title></head><body>\n")
	for _, path := range linked() {
		fmt.Fprintf(&b, "<p><a href=\"%s%s\">%s</a></p>\n", h.url, path, path)
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

func gallery() string {
	var b strings.Builder
	b.WriteString("<html><head><title>gallery</title></head><body>\n")
	b.WriteString("<img src=\"/err\"><img src=\"/private/x.png\">\n")
	for i := range images {
		fmt.Fprintf(&b, "<img src=\"/img/%d.png\">\n", i)
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

func (h *host) feed() string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><rss version="2.0"><channel><title>news</title><link>` + h.url + `/</link><description>d</description>`)
	for i := range pages {
		fmt.Fprintf(&b, "<item><title>%d</title><link>%s/p/%d</link></item>", i, h.url, i)
	}
	b.WriteString("</channel></rss>")
	return b.String()
}

func (h *host) sitemap() string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for i := range pages {
		fmt.Fprintf(&b, "<url><loc>%s/p/%d</loc></url>", h.url, i)
	}
	b.WriteString("</urlset>")
	return b.String()
}

// stalls are the times at which this process didn't run, as on a busy machine: requests that came
// meanwhile are logged at the end, one on top of the other.
type stalls struct {
	mu   sync.Mutex
	seen [][2]time.Time // the last sign of life before each, and the first one after it
}

const (
	heartbeat = 10 * time.Millisecond
	stalled   = 60 * time.Millisecond // a heart that beats that late has stood still
)

// watch watches until the test ends.
func (s *stalls) watch(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(heartbeat)
	done := make(chan struct{})
	t.Cleanup(func() { ticker.Stop(); close(done) })
	go func() {
		last := time.Now()
		for {
			select {
			case <-ticker.C:
			case <-done:
				return
			}
			now := time.Now()
			if now.Sub(last) > stalled {
				s.mu.Lock()
				s.seen = append(s.seen, [2]time.Time{last, now})
				s.mu.Unlock()
			}
			last = now
		}
	}()
}

// hide reports whether a request that came at the given time may have come earlier.
func (s *stalls) hide(came time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.seen, func(stall [2]time.Time) bool {
		return came.After(stall[0]) && came.Before(stall[1].Add(heartbeat))
	})
}

// A verdict is what the site has to say about a crawl.
type verdict struct {
	requests     int
	wanted       int      // pages that the program is to fetch, over all hosts
	got          int      // of those: answered, and read to their end
	missing      []string // the others
	short        int      // gaps that are shorter than the crawl-delay
	shortest     time.Duration
	shorts       []string // the two requests of each
	disallowed   int
	inRetryAfter int
	repeated     int // requests for a page before a refused redirect beyond the first
	atOnce       int // most requests of a host at the same time
	past         int // requests that the program sends past the line; nothing else is said of them
}

// transit is by how much a busy machine may bring two requests closer together, or hold up an
// answer, on the way between the program and the site's log.
const transit = 150 * time.Millisecond

// judge judges a crawl that was to fetch the wanted paths of each host.
func (s *site) judge(wanted []string) verdict {
	v := verdict{shortest: time.Hour}
	for _, h := range s.hosts {
		h.mu.Lock()
		all := slices.Clone(h.visits)
		h.mu.Unlock()
		visits := slices.DeleteFunc(slices.Clone(all), func(seen visit) bool { return seen.past })
		v.past += len(all) - len(visits)
		slices.SortFunc(visits, func(a, b visit) int { return a.came.Compare(b.came) })
		s.add(&v, visits)
		for _, path := range wanted {
			v.wanted++
			if slices.ContainsFunc(visits, func(seen visit) bool { return seen.path == path && !seen.lost }) {
				v.got++
			} else {
				v.missing = append(v.missing, h.url+path)
			}
		}
	}
	return v
}

// add adds the visits of one host to the verdict, in their order.
func (s *site) add(v *verdict, visits []visit) {
	olds := 0
	for i, seen := range visits {
		v.requests++
		if strings.HasPrefix(seen.path, "/private/") {
			v.disallowed++
		}
		if seen.path == "/old" {
			olds++
		}
		if i > 0 {
			gap := seen.came.Sub(visits[i-1].came)
			v.shortest = min(v.shortest, gap)
			if gap < crawlDelay-transit && !s.stalls.hide(visits[i-1].came) {
				v.short++
				v.shorts = append(v.shorts, fmt.Sprintf("%s and %v later %s", visits[i-1].path, gap, seen.path))
			}
		}
		if slices.ContainsFunc(visits[:i], seen.isInside) {
			v.inRetryAfter++
		}
		atOnce := 1
		for _, before := range visits[:i] {
			if before.ended.After(seen.came) {
				atOnce++
			}
		}
		v.atOnce = max(v.atOnce, atOnce)
	}
	v.repeated += max(olds-1, 0)
}

// isInside reports whether the visit came while the answer to another one asked to be left alone.
func (seen visit) isInside(busy visit) bool {
	return busy.status == http.StatusTooManyRequests &&
		seen.came.After(busy.ended.Add(transit)) && seen.came.Before(busy.ended.Add(retryAfter-transit))
}

// TestJudgeSeesARudeCrawl: each fault of a crawl shows.
func TestJudgeSeesARudeCrawl(t *testing.T) {
	began := time.Now()
	seen := func(path string, status int, came, ended time.Duration) visit {
		return visit{path: path, status: status, came: began.Add(came), ended: began.Add(ended)}
	}
	cut := seen("/slow/0", 200, 3*time.Second, 4*time.Second)
	cut.lost = true
	h := &host{visits: []visit{
		seen("/", 200, 0, time.Millisecond),
		seen("/busy", 429, 250*time.Millisecond, 260*time.Millisecond),
		seen("/p/0", 200, 500*time.Millisecond, 510*time.Millisecond), // inside
		seen("/old", 301, 2400*time.Millisecond, 2500*time.Millisecond),
		seen("/private/new", 200, 2401*time.Millisecond, 2500*time.Millisecond), // short, disallowed, two at once
		seen("/old", 301, 2700*time.Millisecond, 2701*time.Millisecond),         // repeated
		cut,
		{path: "/robots.txt", came: cut.came, past: true},
	}}
	s := &site{hosts: []*host{h}}
	v := s.judge([]string{"/", "/p/0", "/p/1", "/slow/0"})
	want := verdict{
		requests: 7, wanted: 4, got: 2, missing: []string{"/p/1", "/slow/0"}, short: 1, shortest: time.Millisecond,
		shorts:     []string{"/old and 1ms later /private/new"},
		disallowed: 1, inRetryAfter: 1, repeated: 1, atOnce: 2, past: 1,
	}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("got  %+v\nwant %+v", v, want)
	}
	s.stalls.seen = [][2]time.Time{{began.Add(2 * time.Second), began.Add(2400 * time.Millisecond)}}
	if v := s.judge(nil); v.short != 0 {
		t.Errorf("a request that was logged late makes a gap short: %v", v.shorts)
	}
}
