package politeness

import (
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// kin has the caches of robots.txt of the Transports that share one limiter. It lives as long as
// the limiter, even if a program makes a Transport for each request.
type kin struct {
	self      weak.Pointer[kin]
	hasWarned atomic.Bool            // of the limiter, see rivals.go
	warning   atomic.Pointer[string] // text of it; nil: none

	mu     sync.Mutex
	caches map[kinKey]*robotscache.Cache // at most maxCaches; none refers to a Transport
}

// maxCaches bounds the caches of a kin. A program that makes a Transport for each request may make
// a Store for each, too.
const maxCaches = 16

func newKin() *kin {
	k := &kin{caches: make(map[kinKey]*robotscache.Cache)}
	k.self = weak.Make(k)
	return k
}

// warned returns the text of the warning about the limiter; empty: there was none.
func (k *kin) warned() string {
	text := k.warning.Load()
	if text == nil {
		return ""
	}
	return *text
}

// A kinKey has the settings that Transports must have in common to share copies of robots.txt.
type kinKey struct {
	robots  robotscache.Config
	product string
}

// allKin has the *kin of each limiter of the process, by a weak pointer to it. It keeps no limiter
// alive: a cleanup of the limiter removes the entry.
var allKin sync.Map

// kinOf returns the kin of l. It returns nil if l isn't a pointer, because the end of its use can't
// be noticed then.
func kinOf(l hostlimit.Limiter) *kin {
	value := reflect.ValueOf(l)
	if value.Kind() != reflect.Pointer || value.Type().Elem().Size() == 0 {
		return nil
	}
	first := (*byte)(value.UnsafePointer())
	key := weak.Make(first)
	found, known := allKin.LoadOrStore(key, newKin())
	if !known {
		runtime.AddCleanup(first, func(key weak.Pointer[byte]) { allKin.Delete(key) }, key)
	}
	return found.(*kin) //nolint:forcetypeassert // nothing else is stored
}

// newCache returns the cache of robots.txt of t. It is a share of its kin's cache, if there is one
// with the Config.Robots and product token of t.
func (t *Transport) newCache() (*robotscache.Cache, error) {
	own := robotscache.Client{
		UserAgent: t.cfg.UserAgent,
		Products:  []string{t.product},
		Transport: robotsTransport{t},
		Observe:   t.recordRobots,
	}
	cfg := t.cfg.Robots
	k := t.kin
	// Stores that can't be compared may be different ones.
	if k == nil || cfg.Store != nil && !reflect.ValueOf(cfg.Store).Comparable() {
		return robotscache.New(cfg, own)
	}
	common, err := k.cache(kinKey{cfg, t.product}, t.cfg.UserAgent)
	if err != nil {
		return nil, err
	}
	if common == nil {
		return robotscache.New(cfg, own)
	}
	return common.Share(own)
}

// floor returns the longest crawl-delay that a robots.txt of u's origin asks for, as far as one of
// k knows. k may be nil.
func (k *kin) floor(u *url.URL) time.Duration {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	longest := time.Duration(0)
	for _, c := range k.caches {
		if entry, ok := c.PeekStale(u); ok {
			longest = max(longest, entry.Rules.Floor(time.Now()))
		}
	}
	return longest
}

// cache returns the cache of key, which sends nothing itself. It returns nil if k has maxCaches.
func (k *kin) cache(key kinKey, userAgent string) (*robotscache.Cache, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.caches[key]; c != nil {
		return c, nil
	}
	if len(k.caches) == maxCaches {
		return nil, nil
	}
	c, err := robotscache.New(key.robots, robotscache.Client{
		UserAgent: userAgent,
		Products:  []string{key.product},
		Transport: sendsNothing{},
	})
	if err != nil {
		return nil, err
	}
	k.caches[key] = c
	return c, nil
}

// sendsNothing is the transport of a cache of which only shares are used.
type sendsNothing struct{}

func (sendsNothing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("politeness: the cache of no Transport is asked")
}
