package robotscache

import (
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/weblink"
)

// maxRedirects is how many redirects are followed (RFC 9309, section 2.3.1.2).
const maxRedirects = 5

// Longer ones aren't used, so that a server can't fill the memory with them.
const (
	maxURL       = 8 << 10 // that a redirect leads to
	maxValidator = 1 << 10
)

// An answer is the result of one fetch: the last hop's response, or why there is none.
type answer struct {
	url         string
	hops        int // redirects followed
	status      int // 0: no response
	header      http.Header
	body        []byte // of a 2xx
	conditional bool   // the last hop asked whether the last good copy still holds
	miscoded    bool   // the transport couldn't undo the coding of the body that it asked for
	err         error  // nil: the response is complete
	start       time.Time
	took        time.Duration
}

// A way is how a robots.txt is asked for.
type way struct {
	prev     *state // its copy is asked to be confirmed; nil: no condition
	identity bool   // without a content coding
}

// again returns another way to fetch robots.txt if the response a to the way w may be about the
// headers that we added, and not about the file.
func (w way) again(a *answer) (way, bool) {
	switch {
	case a.refusesCondition():
		w.prev = nil
		return w, true
	case a.miscoded && !w.identity:
		w.identity = true
		return w, true
	}
	return w, false
}

// download requests f's robots.txt, hop by hop, until ctx is done. prev is the state before, nil if
// there was none. The error is a refusal of the transport: there was no fetch.
func (c *Cache) download(ctx context.Context, f *fetch, prev *state) (answer, error) {
	target := f.origin.robotsURL()
	asked := way{prev: prev}
	var result answer
	for ; ; result.hops++ {
		result.url = target.String()
		// Status and header of the hop before aren't those of a hop that gets no response.
		result.status = 0
		result.header = nil
		result.miscoded = false
		f.stopwatch.redirects = result.hops
		next, err := c.follow(ctx, f, target, asked, &result)
		cause := context.Cause(ctx)
		var refused *RefusedError
		if errors.As(err, &refused) && refused.Final == "" {
			return answer{}, cmp.Or(cause, refused.Err) // the cause may be why there was no turn
		}
		// At most two ways differ from the first, each once: from the beginning, as another one may
		// lead elsewhere.
		if other, ok := asked.again(&result); ok && cause == nil {
			asked = other
			target = f.origin.robotsURL()
			f.latestHop.Store(0)
			result.hops = -1
			continue
		}
		// A final answer is complete, even if the time ran out at its end. The hop after a redirect
		// would be refused for the cause.
		if err != nil || next != nil {
			result.err = cmp.Or(cause, err)
		}
		if result.err != nil || next == nil || result.hops == maxRedirects {
			break
		}
		target = next
	}
	result.start, result.took = f.stopwatch.stop()
	return result, nil
}

// isCodingError reports whether err says that a body isn't gzip, or not to its end.
func isCodingError(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &corrupt)
}

// refusesCondition reports whether a may be about the condition of its request. A condition that
// fails is a 304 (RFC 9110, section 13.1), so a status such as 412, 400 or 403 says nothing about
// robots.txt then. 404 and 410 do, and 429 is about our rate.
func (a *answer) refusesCondition() bool {
	if !a.conditional || a.status/100 != 4 {
		return false
	}
	return a.status != http.StatusNotFound && a.status != http.StatusGone && a.status != http.StatusTooManyRequests
}

// follow is hop, unless target is that of a redirect that isn't followed.
func (c *Cache) follow(
	ctx context.Context, f *fetch, target *url.URL, asked way, result *answer,
) (*url.URL, error) {
	if result.hops > 0 {
		if err := c.mayFollow(ctx, f, target); err != nil {
			return nil, err
		}
	}
	return c.hop(ctx, f, target, asked, result)
}

// hop sends one GET and writes its response into result. It returns where a redirect leads, nil if
// the response is final.
func (c *Cache) hop(
	ctx context.Context, f *fetch, target *url.URL, asked way, result *answer,
) (*url.URL, error) {
	req := (&http.Request{
		Method: http.MethodGet,
		URL:    target,
		Host:   target.Host,

		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,

		// The transport adds Accept-Encoding, and decodes the coding that it asked for.
		Header: http.Header{"User-Agent": {c.client.UserAgent}},
	}).WithContext(ctx)
	if asked.identity {
		req.Header["Accept-Encoding"] = []string{"identity"}
	}
	prev := asked.prev
	result.conditional = prev != nil && prev.copy != nil && prev.copy.validators.addTo(req, result.hops)

	f.stopwatch.nextHop()
	resp, err := c.client.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	// A transport of the user's may break http.RoundTripper's contract.
	if resp == nil {
		return nil, errors.New("the transport returned neither a response nor an error")
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	defer resp.Body.Close()
	result.status = resp.StatusCode
	result.header = resp.Header

	if resp.StatusCode/100 == 2 {
		result.body, err = readBody(ctx, resp)
		result.miscoded = resp.Uncompressed && isCodingError(err)
		return nil, err
	}
	// A short body is read to its end, so that its connection can be used again.
	_, _ = io.CopyN(io.Discard, &rawBody{ctx: ctx, r: resp.Body}, maxDrain)
	// A 300 leaves the choice to a human reader, and 305 names a proxy.
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return redirect(target, resp.Header.Get("Location")), nil
	}
	return nil, nil
}

// redirect resolves a Location as browsers do. It returns nil if that isn't a URL that robots.txt
// can be fetched from. Userinfo, which would be sent as a credential, and the fragment are dropped.
func redirect(from *url.URL, location string) *url.URL {
	// An empty Location would be this URL again. A path doesn't begin with a colon.
	if location == "" || location[0] == ':' {
		return nil
	}
	read, err := weblink.Redirect(from, location)
	if err != nil {
		return nil
	}
	to, err := url.Parse(read.String())
	if err != nil {
		return nil
	}
	o, err := originOf(to)
	if err != nil {
		return nil
	}
	to.Scheme = o.scheme()
	to.Host = o.host
	// By its length with all escapes, which is how it is sent and recorded.
	if len(to.String()) > maxURL {
		return nil
	}
	return to
}

// addTo makes req conditional (RFC 9110, section 13.1) and reports true, if v is for the URL of
// req, after so many hops, and not empty.
func (v *validators) addTo(req *http.Request, hops int) bool {
	// An ETag is that of one URL (RFC 9110, section 8.8.3). The copy's is empty if no redirect led
	// to it.
	target := ""
	if hops > 0 {
		target = req.URL.String()
	}
	if v.url != target {
		return false
	}
	if v.etag != "" {
		req.Header["If-None-Match"] = []string{v.etag}
	}
	if v.lastModified != "" {
		req.Header["If-Modified-Since"] = []string{v.lastModified}
	}
	return v.etag != "" || v.lastModified != ""
}

// validator returns a header's value if it can be sent back, else "".
func validator(value string) string {
	if len(value) > maxValidator {
		return ""
	}
	// net/http would refuse to send a control character, and so to fetch robots.txt at all.
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return ""
	}
	return strings.Clone(value) // a part of the response's buffer would keep all of it
}
