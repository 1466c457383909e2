package revisit

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
)

// Stage is the stage of the *politeness.Error with which a Transport refuses a request.
const Stage politeness.Stage = "revisit"

// ErrFresh means that the page was fetched before, and that it is too early to fetch it again.
// [politeness.Error.RetryAt] is when it may be asked for. Skip the page then.
var ErrFresh = errors.New("it is too early to ask for this page again")

// A Transport is a RoundTripper that adds conditions to GET requests. If the page is unchanged, the
// site answers with a 304 without a body, and your program gets this 304. If a GET comes too early,
// the Transport returns an error. That is before Schedule.Min is over, or while the site calls its
// last response fresh. The error is a *politeness.Error with the reason ErrFresh. Only a 200, a 203
// or a 304 starts this waiting time.
//
// The Transport stores no pages, so your program keeps them. If your program has lost a page, call
// Forget. The next request then loads the whole page.
//
// Put it around the polite Transport. Then each hop of a redirect is a separate page, and a retry
// of politeness.Config.Retry isn't an early request. A request whose Cache-Control is no-cache is
// sent immediately, with its conditions. Requests of other methods, and those with a Range or
// conditions of their own, are passed on as they are, and nothing is learned from them.
//
// http.Client adds a Referer to a request that follows a redirect. The Transport removes it.
//
// A page is remembered once its body was read to the end, so a program that dies before that gets
// all of it again. Requests for one URL that differ in Accept, Accept-Language, Authorization or
// Cookie are for different pages.
//
// Set the fields before the first request, and don't change them afterwards. A Transport is safe
// for concurrent use. It has no goroutine, and needs no Close.
type Transport struct {
	// Base sends the requests. It is a *politeness.Transport, or leads to one. It must be set.
	Base http.RoundTripper
	// Schedule decides when a page may be fetched again. Its Min must be set.
	Schedule Schedule
	// Store remembers pages. The default remembers the last 10,000 in memory.
	Store Store
	// Failed is called with errors of the Store. The request continues. A page that can't be loaded
	// is fetched as a new one. If it is nil, the error isn't reported.
	Failed func(error)

	once   sync.Once
	faulty error   // of the fields
	memory *memory // in place of a nil Store

	mu      sync.Mutex
	pending *simplelru.LRU[string, time.Time] // when pages were asked for that aren't remembered yet
}

// mostPending is how many pages may be on their way at once without being forgotten.
const mostPending = 10_000

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.ready(); err != nil {
		closeBody(req)
		return nil, err
	}
	if !isPlain(req) {
		return t.Base.RoundTrip(req)
	}
	v := &visit{t: t, key: keyOf(req), ctx: req.Context()}
	forced := hasDirective(req.Header, "no-cache")
	returned := false
	defer func() {
		if !returned { // Base or the Store has panicked
			v.end()
			closeBody(req)
		}
	}()
	if earliest := t.reserve(v, forced); !earliest.IsZero() {
		returned = true
		closeBody(req)
		return nil, tooEarly(req, earliest)
	}
	now := v.asked
	ctx := req.Context()
	if due := v.page.Earliest; t.promises(req, forced) && !due.After(now) {
		ctx = hostlimit.WithDue(ctx, due)
	}
	sent := req.Clone(ctx)
	if sent.Header == nil {
		sent.Header = http.Header{}
	}
	dropReferer(sent)
	v.conditional = v.page.Conditions(sent.Header, now)
	resp, err := t.Base.RoundTrip(sent)
	returned = true
	if err != nil || resp == nil {
		v.end()
		return resp, err
	}
	if resp.Request == sent {
		resp.Request = req
	}
	v.answered(resp)
	return resp, nil
}

// ready checks the fields once.
func (t *Transport) ready() error {
	t.once.Do(func() {
		t.pending, _ = simplelru.NewLRU[string, time.Time](mostPending, nil) // an error is for 0 and less
		if t.Store == nil {
			t.memory = newMemory()
		}
		switch {
		case t.Base == nil:
			t.faulty = errors.New("revisit: Transport.Base isn't set: give it a *politeness.Transport")
		case t.Schedule.Min == 0:
			t.faulty = errors.New("revisit: Transport.Schedule.Min isn't set: say how often a page may be asked for")
		default:
			t.faulty = t.Schedule.Validate()
		}
	})
	return t.faulty
}

// promises reports whether the log may say since when the page of req is due. It names the page by
// its URL, so requests that depend on more aren't promised. Nor are those that pass over a rule.
func (t *Transport) promises(req *http.Request, forced bool) bool {
	return !forced && !t.Schedule.IgnoreFresh && !strings.Contains(keyOf(req), " ")
}

// store returns the Store in use.
func (t *Transport) store() Store {
	if t.Store != nil {
		return t.Store
	}
	return t.memory
}

// Forget makes the next request like req load the whole page, immediately. Call it if the program
// has lost its copy. You can pass resp.Request of the page's response. If the Store fails, Forget
// returns its error.
func (t *Transport) Forget(req *http.Request) error {
	if err := t.ready(); err != nil {
		return err
	}
	key := keyOf(req)
	t.mu.Lock()
	t.pending.Remove(key)
	t.mu.Unlock()
	return t.store().Save(req.Context(), key, Page{})
}

// load returns the memory of a page, or the zero Page.
func (t *Transport) load(ctx context.Context, key string) (p Page, err error) {
	p, ok, err := t.store().Load(ctx, key)
	if err != nil {
		err = fmt.Errorf("revisit: loading %s: %w", key, err)
	}
	if !ok {
		return Page{}, err
	}
	return p, err
}

// save remembers a page.
func (t *Transport) save(ctx context.Context, key string, p Page) {
	// The program has the response, even if its context has ended.
	if err := t.store().Save(context.WithoutCancel(ctx), key, p); err != nil {
		t.failed(fmt.Errorf("revisit: saving %s: %w", key, err))
	}
}

func (t *Transport) failed(err error) {
	if t.Failed != nil {
		t.Failed(err)
	}
}

// reserve loads the page of v and notes that it is fetched now. If it is too early, reserve returns
// the earliest time, and otherwise zero. Before its response has come, a page counts from its
// request.
func (t *Transport) reserve(v *visit, forced bool) (earliest time.Time) {
	var err error
	v.page, err = t.load(v.ctx, v.key)
	if err != nil {
		t.failed(err)
	}
	if earliest := v.earliest(forced); !earliest.IsZero() {
		return earliest
	}
	if earliest := t.hold(v, forced); !earliest.IsZero() {
		return earliest
	}
	// Another visit may have ended while this one loaded the page. None can end from here on.
	v.page, _ = t.load(v.ctx, v.key) // its error is the one above
	earliest = v.earliest(forced)
	if !earliest.IsZero() {
		v.end()
	}
	return earliest
}

// hold notes that v is on its way. If another visit is, hold returns when the page may be asked
// for.
func (t *Transport) hold(v *visit, forced bool) (earliest time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if asked, ok := t.pending.Peek(v.key); ok && !forced {
		earliest = asked.Add(t.Schedule.Min)
		if earliest.After(now) {
			return earliest
		}
	}
	v.asked = now
	t.pending.Add(v.key, now)
	return time.Time{}
}

// tooEarly is the refusal of req until earliest.
func tooEarly(req *http.Request, earliest time.Time) error {
	return &politeness.Error{
		Stage:   Stage,
		Host:    politeness.ByHost(req),
		URL:     withoutUser(req),
		RetryAt: earliest,
		Err:     ErrFresh,
	}
}

// withoutUser returns the URL of req without userinfo.
func withoutUser(req *http.Request) string {
	u := *req.URL
	u.User = nil
	return u.String()
}

// closeBody closes the body of a request that isn't sent.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// isPlain reports whether req asks for a whole page, without a condition of its own.
func isPlain(req *http.Request) bool {
	if req.URL == nil || req.Method != http.MethodGet && req.Method != "" {
		return false
	}
	for name := range req.Header {
		canonical := http.CanonicalHeaderKey(name)
		if canonical == "Range" || strings.HasPrefix(canonical, "If-") {
			return false
		}
	}
	return true
}

// dropReferer removes the Referer that http.Client adds to a request that follows a redirect: no
// page has led there, and owners of feeds take such a field for an advertisement.
func dropReferer(req *http.Request) {
	if req.Response == nil || req.Response.Request == nil {
		return
	}
	if req.Header.Get("Referer") == withoutUser(req.Response.Request) {
		req.Header.Del("Referer")
	}
}

// hasDirective reports whether a request's Cache-Control has a directive.
func hasDirective(h http.Header, name string) bool {
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), name) {
				return true
			}
		}
	}
	return false
}

// keyOf returns the key of the page that req is for: its URL without fragment and userinfo, and a
// hash of the other parts of the request on which a response depends.
func keyOf(req *http.Request) string {
	u := *req.URL
	u.User = nil
	u.Fragment = ""
	u.RawFragment = ""
	key := u.String()
	hash := fnv.New64a()
	varies := req.URL.User != nil || req.Host != "" && !strings.EqualFold(req.Host, u.Host)
	if varies {
		fmt.Fprintf(hash, "%s\n%s\n", req.URL.User, req.Host)
	}
	for _, name := range [...]string{"Accept", "Accept-Language", "Authorization", "Cookie"} {
		for _, value := range req.Header[name] {
			varies = true
			fmt.Fprintf(hash, "%s: %s\n", name, value)
		}
	}
	if varies {
		key += fmt.Sprintf(" %016x", hash.Sum64())
	}
	return key
}

// A visit is a request for a page.
type visit struct {
	t           *Transport
	ctx         context.Context
	key         string
	page        Page // as it was before
	conditional bool
	asked       time.Time
	answer      Answer
}

// earliest returns when the page may be asked for, and zero if it may be now.
func (v *visit) earliest(forced bool) time.Time {
	now := time.Now()
	earliest := v.page.EarliestBy(now)
	if forced || !earliest.After(now) {
		return time.Time{}
	}
	return earliest
}

// answered takes the headers of the response.
func (v *visit) answered(resp *http.Response) {
	v.answer = Answer{
		Time:        time.Now(),
		Status:      resp.StatusCode,
		Header:      resp.Header.Clone(), // the program may change its own
		Conditional: v.conditional,
	}
	hasBody := resp.Body != nil && resp.Body != http.NoBody
	if !isWhole(resp.StatusCode) || !hasBody || resp.ContentLength == 0 {
		v.learn(0)
		return
	}
	resp.Body = &body{ReadCloser: resp.Body, visit: v}
}

// learn remembers the response, whose body has the hash text.
func (v *visit) learn(text uint32) {
	defer v.end()
	a := v.answer
	a.Text = text
	a.Words = text
	next, _, _ := v.t.Schedule.Next(v.page, a)
	if !a.isVersion() {
		next.Earliest = v.page.Earliest // a refusal, an error or a redirect starts no distance
	}
	v.t.save(v.ctx, v.key, next)
}

// end ends the visit: from here on only the Store says when the page may be asked for.
func (v *visit) end() {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	// A later visit of this page may be running, by no-cache.
	if asked, ok := v.t.pending.Peek(v.key); ok && asked.Equal(v.asked) {
		v.t.pending.Remove(v.key)
	}
}

// mostRest is how many bytes Close reads in order to see the end of a body: readers of XML and JSON
// stop at the end of the document, just before that.
const mostRest = 4 << 10

// longestRest is how long Close waits for these bytes: the site may never send them.
const longestRest = time.Second

// A body is that of a page. The page is remembered at its end.
type body struct {
	io.ReadCloser
	visit *visit

	mu   sync.Mutex // held by Read
	hash uint32     // CRC-32 of the bytes read
	over bool       // the visit has ended
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read(p)
}

func (b *body) read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if b.over {
		return n, err
	}
	b.hash = crc32.Update(b.hash, crc32.IEEETable, p[:n])
	switch {
	case err == io.EOF:
		b.over = true
		b.visit.learn(b.hash)
	case err != nil:
		b.over = true
		b.visit.end()
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	if b.mu.TryLock() { // else another goroutine reads, and its Read ends with an error
		b.finish()
		b.mu.Unlock()
	}
	return b.ReadCloser.Close()
}

// finish looks whether the body has ended, and ends the visit.
func (b *body) finish() {
	if !b.over && b.visit.answer.isKeepable() {
		defer time.AfterFunc(longestRest, b.leave).Stop()
		var rest [mostRest]byte
		for read := 0; read < len(rest) && !b.over; {
			n, err := b.read(rest[read:])
			if n == 0 && err == nil {
				break
			}
			read += n
		}
	}
	if !b.over {
		b.over = true
		b.visit.end()
	}
}

// leave ends a read whose site stalls. The caller's Close follows, and has the error or the panic.
func (b *body) leave() {
	defer func() { _ = recover() }()
	b.ReadCloser.Close()
}

// isKeepable reports whether there is anything to gain from remembering the response. A stream has
// neither validators nor a lifetime, and its end isn't waited for.
func (a *Answer) isKeepable() bool {
	return first(a.Header, "Etag") != "" || first(a.Header, "Last-Modified") != "" || lifetime(a.Header) > 0
}
