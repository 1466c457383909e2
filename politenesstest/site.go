package politenesstest

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Site is one origin of a [Web]. Its methods script its responses and return the Site, so that
// they can be chained. They may be called at any time, from any goroutine. A change applies from
// the next response on.
type Site struct {
	web    *Web
	origin string // as key of Web.sites

	// Under web.mu.
	robots    []robotsVersion // oldest first
	handlers  map[string]http.Handler
	sequences map[string]http.Handler
	latency   time.Duration
	down      error
	storm     time.Time // until when everything is answered 429
	pool      pool
}

// A robotsVersion is what a site says under /robots.txt from some time on.
type robotsVersion struct {
	since  time.Time
	status int
	text   string
}

// Robots makes the site serve /robots.txt with text. A site without one answers 404. Responses have
// ETag and Last-Modified. A request with these gets 304. Use it to test rules and delays.
func (s *Site) Robots(text string) *Site {
	return s.setRobots(robotsVersion{status: http.StatusOK, text: text})
}

// RobotsStatus makes the site serve /robots.txt with a status and no rules, until Robots is called
// again. Use it to test a robots.txt that fails.
func (s *Site) RobotsStatus(status int) *Site {
	return s.setRobots(robotsVersion{status: status})
}

func (s *Site) setRobots(v robotsVersion) *Site {
	return s.set(func() {
		v.since = time.Now()
		s.robots = append(s.robots, v)
	})
}

// Page makes the site serve exactly path with 200 and body, as [Text] does.
func (s *Site) Page(path, body string) *Site { return s.Handle(path, page{Text(body)}) }

// A page answers for its path alone, even if that ends in a slash.
type page struct{ http.Handler }

// Handle makes h serve path. It is a path as in a URL, with its query if only that query is meant.
// A path that ends in a slash also serves the paths below it that have nothing closer, as in an
// http.ServeMux. So "/" serves the whole site except for /robots.txt. A path without a handler
// returns 404.
func (s *Site) Handle(path string, h http.Handler) *Site {
	mustBePath(path)
	return s.set(func() { s.handlers[path] = h })
}

// Sequence makes the site serve path with the statuses one after the other, the last one for ever.
// A 200 has the body that Page, Handle or Robots have set for the path, if any. If there is no
// status, Sequence removes an earlier Sequence of the path.
func (s *Site) Sequence(path string, status ...int) *Site {
	mustBePath(path)
	if len(status) == 0 {
		return s.set(func() { delete(s.sequences, path) })
	}
	turns := make([]http.Handler, len(status))
	for i, code := range status {
		turns[i] = Status(code)
		if code == http.StatusOK {
			turns[i] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h := s.answer(r.URL)
				if h == nil {
					h = Status(http.StatusOK)
				}
				h.ServeHTTP(w, r)
			})
		}
	}
	return s.set(func() { s.sequences[path] = InTurn(turns...) })
}

// Latency makes the site wait for d before each response. A request whose context is done meanwhile
// ends immediately. For single paths there is [Slow]. Use it to test a slow site.
func (s *Site) Latency(d time.Duration) *Site {
	return s.set(func() { s.latency = d })
}

// Down makes every request to the site fail with err, as if there were no connection, for example
// syscall.ECONNREFUSED. With nil the site is up again. For single paths there is [Drop]. Use it to
// test an outage.
func (s *Site) Down(err error) *Site {
	return s.set(func() { s.down = err })
}

// Storm makes the site return 429 for everything, robots.txt included, for d from now. Retry-After
// is the rest of it, in seconds, rounded up. To have one break out during the crawl, use
// time.AfterFunc.
func (s *Site) Storm(d time.Duration) *Site {
	return s.set(func() { s.storm = time.Now().Add(d) })
}

func (s *Site) set(f func()) *Site {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	f()
	return s
}

func mustBePath(path string) {
	if !strings.HasPrefix(path, "/") {
		panic(fmt.Sprintf("politenesstest: path %q does not begin with a slash", path))
	}
}

// handler returns what answers a request for u now, or the error of a site that is down.
func (s *Site) handler(u *url.URL) (http.Handler, error) {
	s.web.mu.Lock()
	now := time.Now()
	down := s.down
	storm := s.storm
	sequence := find(s.sequences, u)
	s.web.mu.Unlock()
	switch {
	case down != nil:
		return nil, down
	case now.Before(storm):
		left := (storm.Sub(now) + time.Second - 1) / time.Second
		return Status(http.StatusTooManyRequests, "Retry-After", strconv.FormatInt(int64(left), 10)), nil
	case sequence != nil:
		return sequence, nil
	}
	h := s.answer(u)
	if h == nil {
		h = http.NotFoundHandler()
	}
	return h, nil
}

func (s *Site) currentLatency() time.Duration {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	return s.latency
}

// answer returns what Page, Handle or Robots have said for u, nil if nothing.
func (s *Site) answer(u *url.URL) http.Handler {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	exact := find(s.handlers, u)
	if exact != nil {
		return exact
	}
	path := u.EscapedPath()
	if path == robotsPath {
		if len(s.robots) == 0 {
			return nil
		}
		return s.robots[len(s.robots)-1]
	}
	// The handler of the longest directory that the path lies in; a page is only itself.
	for i := strings.LastIndexByte(path, '/'); i >= 0; i = strings.LastIndexByte(path[:i], '/') {
		h := s.handlers[path[:i+1]]
		_, alone := h.(page)
		if h != nil && !alone {
			return h
		}
	}
	return nil
}

// find returns the handler of exactly u: with its query, without, or with its path decoded.
func find(handlers map[string]http.Handler, u *url.URL) http.Handler {
	for _, path := range []string{u.RequestURI(), u.EscapedPath(), u.Path} {
		h := handlers[path]
		if h != nil {
			return h
		}
	}
	return nil
}

const robotsPath = "/robots.txt"

func (v robotsVersion) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if v.status != http.StatusOK {
		Status(v.status).ServeHTTP(w, r)
		return
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(v.text))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sum.Sum64()))
	http.ServeContent(w, r, robotsPath, v.since, strings.NewReader(v.text))
}
