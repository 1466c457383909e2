// Package proxy is a forward proxy that hands each request to a polite transport, also requests
// through a tunnel (CONNECT). This always works for http, and for https if the proxy has an
// [Authority], which lets it respond in the name of sites.
//
// The proxy itself answers a request that is refused, with "Proxy-Status: politeness" (RFC 9209)
// and the reason, in the body too. If it helps to come back, the response has a Retry-After.
// Responses of the site are passed on unchanged, 429 included.
package proxy

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"mime"
	"net/http"
	"net/http/httputil"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/cmd/politeness/internal/hostname"
	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/publicnet"
)

// self is what the proxy calls itself in Via and Proxy-Status.
const self = "politeness"

// A Proxy answers programs. Make it with New; Serve serves it.
type Proxy struct {
	// Login is the name and password, "name:password", without which nobody is answered. Set it
	// before Serve where others can reach the proxy. Empty: everybody is.
	Login string
	// Status answers a person who looks at the proxy's own address with a browser, such as by a page
	// of package statuspage. Set it before Serve. Nil: a text that says what this is.
	Status http.Handler

	forward   *httputil.ReverseProxy // strips hop-by-hop headers, streams bodies in both directions
	hosts     hostlimit.Limiter      // of the transport
	authority *Authority             // nil: tunnels are for http alone
	tunnels   *tunnels
	programs  programs
	hall      *hall
	quiet     *silence // tunnels in which no request is under way
	wraps     wrapping // targets that net/http can't pass on
	stalled   time.Duration
	silent    int            // as maxSilent
	grace     time.Duration  // as endTimeout
	underWay  sync.WaitGroup // requests
}

// stalled is how long a program may take to read, or to send, the next piece of a body. A program
// that stops in the middle would hold a slot of the site.
const stalled = 2 * time.Minute

// New returns a proxy that sends its requests by transport. Without an authority it serves no https
// in tunnels.
func New(transport *politeness.Transport, authority *Authority) *Proxy {
	p := &Proxy{
		hosts:     transport.Limiter(),
		authority: authority,
		tunnels:   newTunnels(),
		quiet:     &silence{most: maxSilent},
		wraps:     newWrapping(),
		stalled:   stalled,
		silent:    maxSilent,
		grace:     endTimeout,
		hall:      newHall(),
	}
	hold := p.hosts.Config().WithDefaults().MaxWait
	p.forward = &httputil.ReverseProxy{
		Transport: &sender{transport, p.hall, hold},
		Rewrite:   rewrite,
		ModifyResponse: func(resp *http.Response) error {
			resp.Header.Add("Via", via(resp.ProtoMajor, resp.ProtoMinor))
			if ours(resp.Header) { // only the proxy answers in its own name
				resp.Header.Del("Proxy-Status")
			}
			if body, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
				p.underWay.Add(1)
				resp.Body = &switched{body, &p.underWay, sync.OnceFunc(p.underWay.Done)}
			}
			if err := refusedPage(resp); err != nil {
				return err
			}
			exchangeOf(resp.Request.Context()).endless = resp.ContentLength < 0
			return nil
		},
		BufferPool:    piecePool{},
		FlushInterval: -1, // pass on what comes, when it comes
		ErrorHandler:  p.refuse,
		ErrorLog:      log.New(io.Discard, "", 0), //nolint:forbidigo // Serve has another one
	}
	return p
}

// refusedPage returns the refusal of a page of which nothing may be passed on, such as one that is
// reserved by its own head: then the program gets the refusal in words, and no connection that
// breaks off. It waits for the first byte of a page, and for that of no other answer.
func refusedPage(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isXML := strings.HasSuffix(kind, "/xml") || strings.HasSuffix(kind, "+xml")
	isPage := kind == "text/html" || isXML
	if !isPage || resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	body := &begun{ReadCloser: resp.Body}
	err := body.begin()
	if errors.As(err, new(*politeness.Error)) {
		return err
	}
	resp.Body = body
	return nil
}

// A begun is a body whose first bytes have come.
type begun struct {
	io.ReadCloser
	held  *[]byte // of pieces; nil: all of it was read
	first []byte  // what was read of it
	err   error   // behind that
}

// begin waits for the first byte, and returns why none comes.
func (b *begun) begin() error {
	b.held, _ = pieces.Get().(*[]byte)
	for len(b.first) == 0 && b.err == nil {
		n, err := b.ReadCloser.Read(*b.held)
		b.first = (*b.held)[:n]
		b.err = err
	}
	if len(b.first) == 0 {
		return b.err
	}
	return nil
}

// Read implements io.Reader.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	b.giveBack()
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

func (b *begun) giveBack() {
	if b.held != nil {
		pieces.Put(b.held)
		b.held = nil
	}
}

// pieces are buffers by which bodies pass.
var pieces = sync.Pool{New: func() any {
	piece := make([]byte, 32<<10)
	return &piece
}}

// A piecePool is a httputil.BufferPool.
type piecePool struct{}

// Get implements httputil.BufferPool.
func (piecePool) Get() []byte {
	piece, _ := pieces.Get().(*[]byte)
	return *piece
}

// Put implements httputil.BufferPool.
func (piecePool) Put(piece []byte) { pieces.Put(&piece) }

// cipherSuites returns those of Go, and behind them those with RSA key exchange that curl and
// browsers still offer: some old sites speak no others.
func cipherSuites() []uint16 {
	var ids []uint16
	for _, suite := range tls.CipherSuites() {
		ids = append(ids, suite.ID)
	}
	return append(ids,
		tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_RSA_WITH_AES_128_CBC_SHA,
		tls.TLS_RSA_WITH_AES_256_CBC_SHA,
	)
}

// Base returns the transport to be used below that of a proxy: bodies pass as they are, headers are
// bounded, and the environment's http_proxy is ignored, since that is likely to be this one.
func Base() *http.Transport {
	base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // net/http documents it
	base.Proxy = nil
	base.DisableCompression = true
	base.MaxResponseHeaderBytes = 1 << 20
	base.TLSClientConfig = &tls.Config{CipherSuites: cipherSuites()}
	return base
}

// ServeHTTP answers what comes to the proxy itself: requests with an absolute URL, and CONNECT.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = speak(w, r)
	p.hurry(w, r)
	p.wraps.unwrap(r)
	switch {
	case r.Method != http.MethodConnect && !r.URL.IsAbs():
		p.own(w, r)
	case !p.admits(r.Header.Get("Proxy-Authorization")):
		w.Header().Set("Proxy-Authenticate", realm)
		answer(w, http.StatusProxyAuthRequired, "http_request_denied", wantsLogin)
	case r.Method == http.MethodConnect:
		p.connect(w, r)
	default:
		ofServer(r)
		p.pass(w, r)
	}
}

const (
	realm      = `Basic realm="politeness proxy"`
	wantsLogin = "this proxy wants a name and a password"
)

// own answers requests to the proxy itself, as if it were a site: with the page of its status, if
// it asks for that.
func (p *Proxy) own(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/" || p.Status == nil:
		answer(w, http.StatusBadRequest, "http_request_error", fmt.Sprintf(notAProxy, r.Host))
	case !p.admits(r.Header.Get("Authorization")):
		w.Header().Set("WWW-Authenticate", realm)
		answer(w, http.StatusUnauthorized, "http_request_denied", wantsLogin)
	default:
		w.Header().Set("Proxy-Status", self)
		p.Status.ServeHTTP(w, r)
	}
}

// admits reports whether the credentials given are the name and the password, if these are needed.
func (p *Proxy) admits(given string) bool {
	if p.Login == "" {
		return true
	}
	scheme, code, _ := strings.Cut(given, " ")
	said, err := base64.StdEncoding.DecodeString(strings.TrimSpace(code))
	isBasic := strings.EqualFold(scheme, "Basic") && err == nil
	return isBasic && subtle.ConstantTimeCompare(said, []byte(p.Login)) == 1
}

// inside answers what comes through a tunnel: requests to the site that the tunnel was opened to.
func (p *Proxy) inside(w http.ResponseWriter, r *http.Request) {
	w = speak(w, r)
	p.hurry(w, r)
	p.wraps.unwrap(r)
	target := targetOf(r.Context())
	authority := target.authority()
	host := r.Host
	scheme := target.scheme
	if r.URL.IsAbs() {
		host = r.URL.Host
		scheme = r.URL.Scheme
	}
	switch {
	case r.Method == http.MethodConnect:
		answer(w, http.StatusMethodNotAllowed, "http_request_denied", "a tunnel can't contain another tunnel")
	case scheme != target.scheme || hostname.Authority(scheme, host) != authority:
		// The tunnel's certificate is for another site, so the program has chosen the wrong tunnel.
		answer(w, http.StatusMisdirectedRequest, "http_request_denied",
			fmt.Sprintf("this tunnel leads to %s://%s and not to %s://%s: open another one",
				target.scheme, authority, scheme, host))
	default:
		r.URL.Scheme = target.scheme
		r.URL.Host = authority
		p.pass(w, r)
	}
}

// hurry bounds how long the server waits for a body that nobody reads: it wants to get rid of it
// before it answers.
func (p *Proxy) hurry(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.stalled))
	}
}

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	if lastHop(w, r) {
		return
	}
	p.underWay.Add(1)
	defer p.underWay.Done()
	control := http.NewResponseController(w)
	// A copy, since the server looks at the body of its own request: whether it was asked for
	// (Expect).
	under := &exchange{trailer: make(http.Header), answer: spokenOf(w)}
	for name := range r.Trailer {
		under.trailer[name] = nil
	}
	received := r
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, under))
	r.Body = &upload{r.Body, control, p.stalled, received, under.trailer}
	// The site may answer before the program has sent all of its body.
	_ = control.EnableFullDuplex()
	down := &download{ResponseWriter: w, control: control, under: under, stalled: p.stalled}
	defer p.recovered(down, r, under)
	p.forward.ServeHTTP(down, r)
	_ = control.SetWriteDeadline(time.Now().Add(p.stalled)) // for the end, which the server writes
}

// recovered is deferred by pass. It ends the exchange, that of a panic too: whatever a site sends,
// its slot comes back. A program that has no answer yet gets one.
func (p *Proxy) recovered(w *download, r *http.Request, under *exchange) {
	thrown := recover()
	under.end()
	switch {
	case thrown == nil:
	case thrown == http.ErrAbortHandler || w.begun: //nolint:errorlint // net/http compares it so, too
		panic(http.ErrAbortHandler) // the connection breaks off, and so the program knows
	default:
		//nolint:forbidigo // the messages of Serve
		p.forward.ErrorLog.Printf("%s %s: %v\n%s", r.Method, r.URL.Redacted(), thrown, debug.Stack())
		clear(w.Header())
		answer(w, http.StatusInternalServerError, "proxy_internal_error",
			"this is a fault of the proxy, and its messages have the details")
	}
}

// A switched is a connection to a site that was switched to another protocol. ReverseProxy closes
// it in the background.
type switched struct {
	io.ReadWriteCloser
	underWay *sync.WaitGroup
	ended    func()
}

func (s *switched) Read(p []byte) (int, error) {
	s.underWay.Add(1) // an error ends the request
	defer s.underWay.Done()
	return s.ReadWriteCloser.Read(p)
}

func (s *switched) Close() error {
	defer s.ended()
	return s.ReadWriteCloser.Close()
}

// CloseWrite ends what the program sends.
func (s *switched) CloseWrite() error {
	if w, ok := s.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// A download is a response whose reader must keep reading.
type download struct {
	http.ResponseWriter
	control *http.ResponseController
	under   *exchange
	stalled time.Duration
	begun   bool // the answer, with its last status
}

// WriteHeader implements http.ResponseWriter.
func (d *download) WriteHeader(status int) {
	if h := d.Header(); h["Content-Type"] == nil {
		h["Content-Type"] = nil // or the server would guess one
	}
	d.ResponseWriter.WriteHeader(status)
	d.begun = d.begun || status >= http.StatusOK || status == http.StatusSwitchingProtocols
	if d.under.endless && status >= http.StatusOK {
		_ = d.control.Flush() // or the server would state the length of an empty body
	}
}

func (d *download) Write(p []byte) (int, error) {
	d.begun = true
	_ = d.control.SetWriteDeadline(time.Now().Add(d.stalled))
	return d.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (d *download) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// An upload is a request's body whose sender must keep sending.
type upload struct {
	io.ReadCloser
	control  *http.ResponseController
	stalled  time.Duration
	received *http.Request // whose Trailer the server sets at the end
	trailer  http.Header   // that goes on
}

func (u *upload) Read(p []byte) (int, error) {
	_ = u.control.SetReadDeadline(time.Now().Add(u.stalled))
	n, err := u.ReadCloser.Read(p)
	if err == io.EOF {
		maps.Copy(u.trailer, u.received.Trailer)
	}
	if err != nil { // from here on the server itself reads, to learn when the program leaves
		_ = u.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

const (
	noConnect = "this proxy opens no tunnels for https, " +
		"because inside of one it could see neither robots.txt nor a 429. " +
		"Start it with -ca DIR so that it can handle https, or send it the https URL without a tunnel " +
		"(GET https://host/path HTTP/1.1; curl --request-target https://host/path http://host/path), " +
		"or use package politeness in your program"
	notAProxy = "this is a proxy and no web site: set http_proxy=http://%s"
)

// forbidden are refusals that another try meets again.
var forbidden = []error{
	politeness.ErrDisallowed, politeness.ErrReserved, politeness.ErrBudget, politeness.ErrTooLarge,
	politeness.ErrContentType,
}

// refuse answers for politeness.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refused *politeness.Error
	isRefusal := errors.As(err, &refused)
	isForbidden := slices.ContainsFunc(forbidden, func(reason error) bool { return errors.Is(err, reason) })
	switch {
	case errors.Is(err, publicnet.ErrPrivate):
		answer(w, http.StatusForbidden, "destination_ip_prohibited", err.Error())
	case errors.Is(err, errStatus):
		answer(w, http.StatusBadGateway, "http_protocol_error", err.Error())
	case errors.Is(err, errUpgrade):
		answer(w, http.StatusBadGateway, "http_upgrade_failed", err.Error())
	case errors.Is(err, errLoop):
		answer(w, http.StatusBadGateway, "proxy_loop_detected", err.Error())
	case errors.Is(err, errFull):
		p.comeBack(w, r, exchangeOf(r.Context()).host, time.Now().Add(p.hosts.Config().WithDefaults().MaxWait))
		answer(w, http.StatusServiceUnavailable, "http_request_denied", self+": "+err.Error())
	case !isRefusal:
		unreachable(w, err, time.Time{})
	case isDead(err):
		unreachable(w, err, refused.RetryAt)
	case !refused.RetryAt.IsZero():
		p.comeBack(w, r, refused.Host, refused.RetryAt)
		spokenOf(w).say(http.StatusServiceUnavailable, "Not yet")
		answer(w, http.StatusServiceUnavailable, "http_request_denied", p.later(r.Context(), refused))
	case isForbidden:
		spokenOf(w).say(http.StatusForbidden, whyForbidden(refused))
		answer(w, http.StatusForbidden, "http_request_denied", err.Error())
	case refused.Stage == politeness.StageRequest:
		answer(w, http.StatusBadRequest, "http_request_error", err.Error())
	case errors.Is(err, politeness.ErrBusy):
		answer(w, http.StatusServiceUnavailable, "http_request_denied", err.Error())
	default:
		unreachable(w, err, time.Time{})
	}
}

// whyForbidden returns the words behind a 403, which many programs show and nothing else.
func whyForbidden(refused *politeness.Error) string {
	switch {
	case errors.Is(refused, politeness.ErrReserved):
		return "Reserved by the site"
	case errors.Is(refused, politeness.ErrBudget):
		return "Budget spent"
	case refused.Stage == politeness.StageRobots:
		return "Disallowed by robots.txt"
	case errors.Is(refused, politeness.ErrDisallowed):
		return "Refused by a rule of the proxy"
	}
	return "Refused by the proxy"
}

// unreachable responds for a site that can't be reached. No request goes there before again, if
// that time is known.
func unreachable(w http.ResponseWriter, err error, again time.Time) {
	f := faultOf(err)
	if f.words == "" {
		answer(w, http.StatusBadGateway, "", err.Error())
		return
	}
	said := self + ": " + f.words
	spokenOf(w).say(f.status, http.StatusText(f.status)+", "+f.words)
	if !again.IsZero() {
		said += ", and no request goes there before " + again.Format(time.TimeOnly)
	}
	answer(w, f.status, f.kind, said+" ("+err.Error()+")")
}

// comeBack tells a program when to come back: at from, or later if others were told so before.
func (p *Proxy) comeBack(w http.ResponseWriter, r *http.Request, host string, from time.Time) {
	gap := shortestGap
	if state, err := p.hosts.State(r.Context(), host); err == nil {
		gap = max(gap, state.Delay)
	}
	e := exchangeOf(r.Context())
	at := p.hall.put(e.request, host, e.ticket, from, gap)
	seconds := (time.Until(at) + time.Second - 1) / time.Second // never too early
	w.Header().Set("Retry-After", strconv.Itoa(max(int(seconds), 1)))
}

// shortestGap is the least time between two programs that are told to come back to a host.
const shortestGap = 200 * time.Millisecond

// later returns why a request was refused that may be asked for again later, in the words of the
// command line.
func (p *Proxy) later(ctx context.Context, refused *politeness.Error) string {
	blocked := errors.Is(refused, politeness.ErrBlocked)
	busy := errors.Is(refused, politeness.ErrBusy)
	ofTurn := refused.Stage == politeness.StageTurn && (blocked || busy)
	if !ofTurn {
		return refused.Error()
	}
	said := "no start"
	if blocked {
		said = "blocked"
		if state, err := p.hosts.State(ctx, refused.Host); err == nil && state.BlockedBy != "" {
			said = "blocked (" + printable.Text(state.BlockedBy) + ")"
		}
	}
	said = printable.Text(refused.Host) + ": " + said + " until " + refused.RetryAt.Format(time.TimeOnly)
	longest := p.hosts.Config().MaxWait
	if time.Until(refused.RetryAt) > longest {
		said += fmt.Sprintf(", longer than -max-wait (%v)", longest)
	}
	return self + ": " + said
}

// ours reports whether the proxy answered itself, or somebody may seem to have in its name: as a
// Token or a String of RFC 8941, in any place of the list.
func ours(header http.Header) bool {
	return strings.Contains(strings.Join(header["Proxy-Status"], ","), self)
}

// answer answers in the proxy's own name, with an error type of RFC 9209, section 2.3.
func answer(w http.ResponseWriter, status int, kind, reason string) {
	reason = printable.Text(reason) // a site may have had a hand in it
	value := self
	if kind != "" {
		value += "; error=" + kind
	}
	w.Header().Set("Proxy-Status", value+"; details="+quote(reason))
	writeReason(w, status, reason)
}

// quote makes s a String of RFC 8941, section 3.3.3, which is printable ASCII.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r > '~':
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
