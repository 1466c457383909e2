package politenesstest

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Text returns 200 with body. Its Content-Type is found from the body, as by net/http. Use it for
// pages without links.
func Text(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body) // fails when the client has gone
	})
}

// HTML returns 200 with body as text/html in UTF-8 for any body. By itself, net/http takes one that
// begins with <ul> or <meta> for plain text, in which a crawl finds no links. Use it for pages with
// links.
func HTML(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body) // fails when the client has gone
	})
}

// Status returns code with the given headers, which are names followed by their values, and with
// the code's text as body if one is allowed:
//
//	Status(429, "Retry-After", "3")
func Status(code int, headers ...string) http.Handler {
	if len(headers)%2 != 0 {
		panic(fmt.Sprintf("politenesstest: Status: header %q has no value", headers[len(headers)-1]))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Add(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, http.StatusText(code)) // fails if no body is allowed
	})
}

// Bytes returns 200 with a body of n bytes, which are made as they are read, so that a huge body
// costs no memory. Content-Length is n.
func Bytes(n int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		_, _ = io.CopyN(w, zeros{}, n)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Drip returns 200 with a body that comes in n pieces, one every interval and the first
// immediately. There is no Content-Length, so that the client sees the end only at the end. Use it
// to test a crawler against slow bodies.
func Drip(piece string, n int, interval time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range n {
			if i > 0 && sleep(r.Context(), interval) != nil {
				return
			}
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	})
}

// Slow waits for d, then calls h. [Site.Latency] does the same for a whole site.
func Slow(d time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sleep(r.Context(), d) == nil {
			h.ServeHTTP(w, r)
		}
	})
}

// InTurn lets each handler serve one request, in turn. The last one serves all further requests.
// Use it for a site that fails once and then works.
func InTurn(handlers ...http.Handler) http.Handler {
	if len(handlers) == 0 {
		panic("politenesstest: InTurn without handlers")
	}
	var served atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := min(served.Add(1), int64(len(handlers))) - 1
		handlers[i].ServeHTTP(w, r)
	})
}

// Drop drops the connection without a response, so that the client gets a network error. Your own
// handler can drop the connection too, even in the middle of a body. It calls
// panic(http.ErrAbortHandler). Use it to test a crawler against network errors.
func Drop() http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}
