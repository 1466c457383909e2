package politenesstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/go-politeness/politeness/robots"
)

const (
	maxHops     = 5                   // redirects of a robots.txt that crawlers follow (RFC 9309, section 2.3.1.2)
	defaultAge  = 24 * time.Hour      // for which a copy holds (section 2.4)
	maxStaleAge = 30 * 24 * time.Hour // for which it may while the site is unreachable (section 2.3.1.4)
)

// A robotsLog holds, for each origin, the responses that the crawler got for its robots.txt.
type robotsLog struct {
	web     *Web
	answers map[string][]robotsAnswer // by origin, in the order in which they came
	fetches map[*exchange]bool        // all requests that belong to a fetch of a robots.txt

	files    map[string]*robots.File // by text
	compiled map[compiledKey]*robots.Rules
}

type compiledKey struct{ text, agent string }

// A robotsAnswer is what a crawler knows of an origin's robots.txt after one fetch.
type robotsAnswer struct {
	fetch       *exchange // its first request
	at          instant
	unreachable string // why; empty if the site gave a response

	// The last answer that the site gave.
	file  bool // whether there is a robots.txt
	text  string
	since time.Time
}

// readRobots reads the web's log for fetches of robots.txt. It needs web.mu.
func (w *Web) readRobots() *robotsLog {
	l := &robotsLog{
		web:      w,
		answers:  make(map[string][]robotsAnswer),
		fetches:  make(map[*exchange]bool),
		files:    make(map[string]*robots.File),
		compiled: make(map[compiledKey]*robots.Rules),
	}
	byURL := make(map[string][]*exchange)
	for _, x := range w.log {
		if x.isRobots {
			byURL[targetOf(x.url)] = append(byURL[targetOf(x.url)], x)
		}
	}
	type fetch struct {
		first, last *exchange
		dropped     bool
	}
	var fetches []fetch
	for _, x := range w.log {
		if x.isRobots && x.url.RequestURI() == robotsPath {
			last, dropped := l.follow(x, byURL)
			if last.ended != 0 && last.conclusive() {
				fetches = append(fetches, fetch{x, last, dropped})
			}
		}
	}
	slices.SortFunc(fetches, func(a, b fetch) int { return int(a.last.ended - b.last.ended) })
	for _, f := range fetches {
		l.add(f.first, f.last, f.dropped)
	}
	return l
}

// follow marks the redirects of a fetch and returns its last request. The fetch is dropped if that
// was redirected to where the crawler didn't ask; no crawler needs to go round in a circle.
func (l *robotsLog) follow(x *exchange, byURL map[string][]*exchange) (last *exchange, dropped bool) {
	l.fetches[x] = true
	been := []string{targetOf(x.url)}
	for range maxHops {
		location := x.location()
		if location == "" {
			return x, false
		}
		next := slices.IndexFunc(byURL[location], func(y *exchange) bool { return y.started > x.answered })
		if next < 0 {
			return x, !slices.Contains(been, location)
		}
		x = byURL[location][next]
		l.fetches[x] = true
		been = append(been, location)
	}
	return x, false
}

// conclusive reports whether a crawler knows the robots.txt by x's answer. It doesn't by a part of
// the file, nor by HEAD.
func (x *exchange) conclusive() bool {
	r := x.record
	switch {
	case r.Method != http.MethodGet:
		return false
	case r.Err != nil || r.Status < 200 || r.Status >= 300:
		return true
	case r.Status == http.StatusPartialContent:
		return false
	}
	isAll := r.Response.Get("Content-Length") == strconv.Itoa(len(x.robots))
	return x.whole || isAll || len(x.robots) >= maxRobots || r.Status == http.StatusNoContent
}

// location is where x's answer redirects to, empty if it doesn't.
func (x *exchange) location() string {
	switch x.record.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return ""
	}
	field := x.record.Response.Get("Location")
	to, err := x.url.Parse(field)
	if field == "" || err != nil || !isWeb(to) {
		return ""
	}
	return targetOf(to)
}

// add adds the response that ends a fetch.
func (l *robotsLog) add(first, last *exchange, dropped bool) {
	var now robotsAnswer // what the crawler knew before holds until the site says something else
	before := l.answers[first.origin]
	if len(before) > 0 {
		now = before[len(before)-1]
	}
	now.fetch = first
	now.at = last.ended
	now.unreachable = ""
	r := last.record
	switch {
	case errors.Is(r.Err, context.Canceled):
		return // the crawler's own end, and no response of the site
	case r.Err != nil:
		now.unreachable = r.Err.Error()
	case dropped:
		now.unreachable = fmt.Sprintf("%d to %s, which was never asked for", r.Status, last.location())
	case isUnreachable(r.Status):
		now.unreachable = fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status))
	case last.isAboutCondition():
		return // it says nothing about the file
	case r.Status == http.StatusNotModified && len(l.answers[first.origin]) == 0:
		return // it holds a copy that we haven't seen
	case r.Status == http.StatusNotModified:
		now.since = r.End
	case r.Status < 300:
		now.file = true
		now.text = string(last.robots)
		now.since = r.End
	default: // no such file, or too many redirects
		now.file = false
		now.text = ""
		now.since = r.End
	}
	l.answers[first.origin] = append(l.answers[first.origin], now)
}

// isUnreachable reports whether a response of that status leaves it open what robots.txt says. 202
// says that there is no response yet.
func isUnreachable(status int) bool {
	return status == http.StatusAccepted || status == http.StatusTooManyRequests || status >= 500
}

// isAboutCondition reports whether x is answered by an error that may be about the condition of its
// request: a condition that fails leads to a 304.
func (x *exchange) isAboutCondition() bool {
	r := x.record
	conditional := r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since") != ""
	isGone := r.Status == http.StatusNotFound || r.Status == http.StatusGone
	return conditional && r.Status >= 400 && !isGone && !isUnreachable(r.Status)
}

// A regime is what an origin's robots.txt allows a crawler at some time.
type regime struct {
	log    *robotsLog
	fetch  *exchange // by which the crawler knows; nil if it never asked
	denied bool      // nothing is allowed
	reason string    // why
	text   string    // of robots.txt
}

// inForce is the regime under which x started.
func (l *robotsLog) inForce(x *exchange, r Rules) regime { return l.inForceAt(x.origin, x, r) }

// inForceAt is the regime of an origin when x started.
func (l *robotsLog) inForceAt(origin string, x *exchange, r Rules) regime {
	answers := l.answers[origin]
	n := sort.Search(len(answers), func(i int) bool { return answers[i].at > x.started })
	if n == 0 {
		return l.asServed(origin, x.record.Start, r)
	}
	known := answers[n-1]
	age := x.record.Start.Sub(known.since)
	maxAge := r.RobotsMaxAge
	if maxAge == 0 {
		maxAge = defaultAge
	}
	now := regime{log: l, fetch: known.fetch, text: known.text}
	switch {
	case known.unreachable != "" && r.AllowUnreachable:
		now.text = ""
	case known.unreachable != "" && !(known.file && age <= maxStaleAge):
		now.denied = true
		now.reason = "robots.txt is unreachable: " + known.unreachable
	case known.unreachable == "" && age > maxAge:
		present := l.asServed(origin, x.record.Start, r)
		present.fetch = known.fetch
		return present
	}
	return now
}

// asServed is the regime for a crawler that would ask at a given time.
func (l *robotsLog) asServed(origin string, at time.Time, r Rules) regime {
	now := regime{log: l}
	site := l.web.sites[origin]
	if site == nil || site.handlers[robotsPath] != nil || site.sequences[robotsPath] != nil {
		return now
	}
	n := sort.Search(len(site.robots), func(i int) bool { return site.robots[i].since.After(at) })
	if n == 0 {
		return now
	}
	v := site.robots[n-1]
	switch {
	case v.status < 300 && !isUnreachable(v.status):
		now.text = v.text
	case isUnreachable(v.status):
		now.denied = !r.AllowUnreachable
		now.reason = fmt.Sprintf("robots.txt is unreachable: %d %s", v.status, http.StatusText(v.status))
	}
	return now
}

// rules are those of the regime for one agent.
func (g regime) rules(agent string) *robots.Rules {
	key := compiledKey{g.text, agent}
	rules := g.log.compiled[key]
	if rules == nil {
		file := g.log.files[g.text]
		if file == nil {
			file = robots.Parse([]byte(g.text))
			g.log.files[g.text] = file
		}
		product := robots.ProductToken(agent)
		if product != "" {
			rules = file.Agent(product)
		} else {
			rules = file.Agent()
		}
		g.log.compiled[key] = rules
	}
	return rules
}

// floor is the gap between two starts that the regime asks one agent for.
func (g regime) floor(agent string, at time.Time) time.Duration {
	return g.rules(agent).Floor(at)
}
