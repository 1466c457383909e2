package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// This file changes messages on their way through the proxy (RFC 9110, section 7.6). ReverseProxy
// takes out what belongs to one connection.

// forwarded are fields of the program that ReverseProxy takes out, because it is made to stand
// before a site. This proxy stands before programs.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request for the site.
func rewrite(r *httputil.ProxyRequest) {
	// The host is that of the URL, whatever the header says (RFC 9112, section 3.2.2).
	r.Out.Host = ""
	r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy would drop what it can't parse
	for _, name := range forwarded {
		if values, ok := r.In.Header[name]; ok && !ofConnection(r.In.Header, name) {
			r.Out.Header[name] = slices.Clone(values)
		}
	}
	if r.In.ContentLength < 0 {
		r.Out.Trailer = exchangeOf(r.In.Context()).trailer
	}
	r.Out.Header["Via"] = append(slices.Clone(r.In.Header["Via"]), via(r.In.ProtoMajor, r.In.ProtoMinor))
	onlyWebSocket(r.Out.Header)
}

// ofConnection reports whether the Connection field of h names the field.
func ofConnection(h http.Header, name string) bool {
	for _, value := range h["Connection"] {
		for option := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(textproto.TrimString(option), name) {
				return true
			}
		}
	}
	return false
}

// via returns the proxy's entry of a Via field for a message that came by the given version of
// HTTP.
func via(major, minor int) string {
	if major > 1 {
		return fmt.Sprintf("%d %s", major, self) // these have no minor version
	}
	return fmt.Sprintf("%d.%d %s", major, minor, self)
}

// mostVias is how often a message may have come through a proxy of this name. Some may stand in a
// row, and more is a circle.
const mostVias = 4

// errLoop is the refusal of a request that goes round.
var errLoop = errors.New("the request has come through this proxy several times already: it goes in a circle")

// goesRound reports whether the Via of a request names this proxy too often.
func goesRound(h http.Header) bool {
	times := 0
	for entry := range strings.SplitSeq(strings.Join(h["Via"], ","), ",") {
		fields := strings.Fields(entry)
		if len(fields) >= 2 && fields[1] == self {
			times++
		}
	}
	return times >= mostVias
}

// lastHop answers a TRACE or an OPTIONS that may go no further (Max-Forwards: 0), and counts down
// the others. It reports whether it has answered.
func lastHop(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodTrace && r.Method != http.MethodOptions {
		return false
	}
	left, err := strconv.ParseUint(r.Header.Get("Max-Forwards"), 10, 63)
	if err != nil {
		return false // none, or no number: a recipient may ignore it
	}
	if left > 0 {
		r.Header.Set("Max-Forwards", strconv.FormatUint(left-1, 10))
		return false
	}
	w.Header().Set("Proxy-Status", self)
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", allowed)
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	// The request as it came, without its credentials.
	w.Header().Set("Content-Type", "message/http")
	echo := r.Header.Clone()
	for _, secret := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
		echo.Del(secret)
	}
	fmt.Fprintf(w, "%s %s %s\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Proto, r.Host)
	_ = echo.Write(w)
	_, _ = io.WriteString(w, "\r\n")
	return true
}

// ofServer gives an OPTIONS without a path the target that asks the server as a whole (RFC 9112,
// section 3.2.4).
func ofServer(r *http.Request) {
	isWhole := r.URL.Path == "" && r.URL.RawQuery == "" && !r.URL.ForceQuery
	if r.Method == http.MethodOptions && isWhole {
		r.URL.Path = "*"
	}
}

// allowed are the methods that this proxy knows.
const allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE"

// onlyWebSocket leaves out the wish for another protocol than WebSocket. After a switch the proxy
// would neither judge nor pace what passes over the connection, and a server may ignore such a wish
// (RFC 9110, section 7.8). So a request with h2c, say, is answered in HTTP/1.1.
func onlyWebSocket(h http.Header) {
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") {
		h.Del("Upgrade")
		h.Del("Connection")
	}
}
