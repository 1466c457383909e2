package politeness

import (
	"fmt"
	"hash/maphash"
	"net/http"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/go-politeness/politeness/evidence"
)

// deadEnds are the requests whose responses led to a final refusal, such as a redirect to a page
// that robots.txt disallows. A retry loop above takes each error for an error of the network, and
// would send the request again.
type deadEnds struct {
	seed   maphash.Seed
	known  *lru.Cache[uint64, deadEnd]
	latest atomic.Int64 // end of the youngest dead end, in Unix nanoseconds; 0: there was none
}

// A deadEnd is the refusal that ended a request.
type deadEnd struct {
	refusal *Error
	since   time.Time
}

const (
	deadEndLife = time.Minute // retry loops give up within half of it
	maxDeadEnds = 1024
)

func newDeadEnds() *deadEnds {
	known, err := lru.New[uint64, deadEnd](maxDeadEnds)
	if err != nil { // for a size that isn't positive
		panic(err)
	}
	return &deadEnds{seed: maphash.MakeSeed(), known: known}
}

// remember stores the refusal of req for the requests that the site has answered on the way to it:
// those whose redirects led to req, and req itself if its own answer was refused.
func (d *deadEnds) remember(req *http.Request, refusal *Error) {
	if !refusal.final() {
		return
	}
	now := time.Now()
	if refusal.Stage == StageResponse || refusal.Stage == StageBody {
		d.add(req, refusal, now)
	}
	for r := req.Response; r != nil && r.Request != nil; r = r.Request.Response {
		d.add(r.Request, refusal, now)
	}
}

func (d *deadEnds) add(req *http.Request, refusal *Error, now time.Time) {
	if !isPlainGet(req) {
		return
	}
	key := d.key(req)
	// The refusal of a repeated request doesn't begin another minute.
	if end, ok := d.known.Peek(key); ok && now.Sub(end.since) < deadEndLife {
		return
	}
	d.known.Add(key, deadEnd{refusal: refusal, since: now})
	d.latest.Store(now.Add(deadEndLife).UnixNano())
}

// find returns the dead end of a request that was made within the last minute.
func (d *deadEnds) find(req *http.Request) (end deadEnd, ok bool) {
	latest := d.latest.Load()
	if latest == 0 { // nearly every request of nearly every crawl
		return end, false
	}
	now := time.Now()
	if now.UnixNano() >= latest || !isPlainGet(req) {
		return end, false
	}
	end, ok = d.known.Get(d.key(req))
	return end, ok && now.Sub(end.since) < deadEndLife
}

// isPlainGet reports whether two requests of the same URL and headers are the same request.
func isPlainGet(req *http.Request) bool {
	isSafe := req.Method == "" || req.Method == http.MethodGet || req.Method == http.MethodHead
	return isSafe && (req.Body == nil || req.Body == http.NoBody)
}

// selecting are the headers by which a server chooses a response for a URL: credentials (RFC 9110,
// section 11.6; RFC 6265), representation (section 12.5), condition and range (sections 13.1,
// 14.2). A difference in another header, such as the number of a try or of a trace, doesn't count.
var selecting = []string{
	"Authorization", "Cookie",
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language",
	"Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range",
}

// key returns a hash of the request. It keeps no credentials.
func (d *deadEnds) key(req *http.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(d.seed)
	write := func(text string) {
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	if req.Method == http.MethodHead {
		write(req.Method)
	}
	write(req.URL.Scheme)
	write(req.URL.Host)
	write(req.URL.RequestURI())
	if req.URL.User != nil {
		write(req.URL.User.String())
	}
	for _, name := range selecting {
		for _, value := range req.Header[name] {
			write(name)
			write(value)
		}
	}
	return h.Sum64()
}

// isRepeated refuses a request that ended in a refusal a moment ago, after the site had answered
// it.
func (trip *trip) isRepeated() error {
	s := &trip.subject
	if s.kind != kindPage {
		return nil
	}
	end, ok := trip.t.deadEnds.find(trip.original)
	if !ok {
		return nil
	}
	ago := time.Since(end.since).Round(time.Millisecond)
	err := fmt.Errorf("asked for %v ago, and led to %s: %w", ago, end.refusal.URL, end.refusal.Err)
	s.report(evidence.BlockedByRule, func(d *evidence.Decision) { d.Reason = err.Error() })
	return s.fail(end.refusal.Stage, end.refusal.RetryAt, err)
}

// remember stores the refusal of the request.
func (s *subject) remember(refusal *Error) {
	if s.deadEnds == nil { // it isn't the caller's
		return
	}
	refusal.redirects = s.redirects
	s.deadEnds.remember(s.origin, refusal)
}
