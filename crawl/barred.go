package crawl

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/go-politeness/politeness"
)

// A host may have several origins: http and https, or several names, see Config.HostKey of the
// Transport. Each has a robots.txt of its own. So an origin whose robots.txt can't be fetched says
// nothing about the others: their URLs are fetched meanwhile.

// A barred origin is one whose robots.txt couldn't be fetched.
type barred struct {
	times  int       // in a row
	until  time.Time // when it may be asked for again
	isDead bool      // it didn't answer at all the last time, see endWaits
	why    string    // for readers
}

// mostBarred is how many origins of a host are remembered. A further one is given up at its first
// try.
const mostBarred = 256

// mostAsleep is how many requests may sleep, of all hosts. If there are as many, a host waits with
// its next request, and the Queue gets back one that it has lent too early.
const mostAsleep = 10_000

// mostAsleepOfSite is how many of them may be of barred origins of one site. So a site that has
// many links to such origins leaves room for the other sites.
const mostAsleepOfSite = 1_000

// originOf returns the scheme, the name and the port of a URL.
func originOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		return url
	}
	return url[:len(url)-len(rest)+end]
}

// bar notes that robots.txt of a URL's origin can't be fetched, with err, and isn't asked for
// before at. isOver is whether this has happened too often, so that the origin is given up.
func (h *host) bar(url string, at time.Time, err error, tries int) (isOver bool) {
	origin := originOf(url)
	b, isKnown := h.barred[origin]
	if !isKnown && len(h.barred) >= mostBarred {
		return true
	}
	if !at.Equal(b.until) { // else other pages have waited for this fetch
		b.times++
	}
	b.until = at
	b.why = reasonOf(err)
	if errors.Is(err, syscall.ECONNREFUSED) {
		// No server runs. A second try is for one that was restarted.
		b.isDead = true
		tries = min(tries, 2)
	} else {
		b.isDead = b.times > 1 && isSilent(err)
	}
	if h.barred == nil {
		h.barred = make(map[string]barred)
	}
	h.barred[origin] = b
	return b.times >= tries
}

// reach notes that robots.txt of a URL's origin was fetched.
func (h *host) reach(url string) {
	h.reached = originOf(url)
	delete(h.barred, h.reached)
}

// letOthersGo has the URL of fl come back at the given time, when its origin is asked again, if h
// has URLs of other origins meanwhile. It reports whether it does.
func (r *run) letOthersGo(fl *flight, at time.Time) bool {
	h := fl.h
	now := time.Now()
	isPage := !fl.good && !fl.again
	hasRoom := len(r.asleep) < mostAsleep && h.site.asleep < mostAsleepOfSite
	if !isPage || !hasRoom || h.isAlone(fl.request.URL, now) {
		return false
	}
	if earliest := now.Add(soon); at.Before(earliest) {
		at = earliest // a time that has passed would have it asked again and again
	}
	r.sleep(h, sleeper{at: at, request: fl.request, isBarred: true})
	r.settle(h)
	r.frontier.put(h)
	return true
}

// isAlone reports whether h has no URL of another origin than that of url which may be fetched now.
func (h *host) isAlone(url string, now time.Time) bool {
	own := originOf(url)
	isOther := func(origin string) bool { return origin != own && !h.barred[origin].until.After(now) }
	for i := range h.urls {
		if isOther(originOf(h.urls[i].URL)) {
			return false
		}
	}
	mayHaveOthers := h.more && h.reached != ""
	return !mayHaveOthers || !isOther(h.reached)
}

// isOfDead reports whether the origin of a request didn't answer at all the last time.
func (h *host) isOfDead(r *Request) bool { return h.barred[originOf(r.URL)].isDead }

// giveUpDead has the next URL of each dead origin given up.
func (h *host) giveUpDead(tries int) {
	for origin, b := range h.barred {
		if b.isDead {
			b.times = tries
			h.barred[origin] = b
		}
	}
}

// whyBarred returns why one of the origins can't be reached. It is empty if all can.
func (h *host) whyBarred() string {
	for _, b := range h.barred {
		return b.why
	}
	return ""
}

// isSilent reports whether err is that of the network, or of a server that takes too long.
func isSilent(err error) bool {
	var refused *politeness.Error
	var network net.Error
	return errors.As(err, &refused) && (errors.As(refused.Err, &network) || refused.Timeout())
}
