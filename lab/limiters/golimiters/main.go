// Golimiters serves a folder of pages behind one limiter of the Go module proxy:
//
//	golimiters LIMITER ADDRESS SITE LOG
//
// Each limiter is set up as its README shows. The pages and the log are ours. The log has one line
// for each request, in the form that package servers reads. The last field of a line is the number
// of seconds for which the limiter will refuse further requests, as stated in its response.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: golimiters LIMITER ADDRESS SITE LOG")
	}
	name := os.Args[1]
	address := os.Args[2]
	site := os.Args[3]
	file, err := os.OpenFile(os.Args[4], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	limiter, ok := limiters[name]
	if !ok {
		log.Fatalf("no limiter is called %s", name)
	}
	handler, err := limiter(pages(site))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: address, Handler: &logged{handler: handler, file: file}, ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}

// pages serves the files of a folder.
type pages string

func (dir pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, kind, err := dir.read(r.URL.Path)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text)
}

// read returns a page and its media type.
func (dir pages) read(path string) (text []byte, kind string, err error) {
	if path == "/" {
		path = "/index.html"
	}
	kind = "text/html; charset=utf-8"
	if strings.HasSuffix(path, ".txt") {
		kind = "text/plain; charset=utf-8"
	}
	text, err = os.ReadFile(filepath.Join(string(dir), filepath.FromSlash(path)))
	return text, kind, err
}

// logged writes a line for each answer of a handler.
type logged struct {
	handler http.Handler

	mu   sync.Mutex
	file *os.File
}

func (l *logged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	answer := &status{ResponseWriter: w, code: http.StatusOK}
	l.handler.ServeHTTP(answer, r)
	host, port, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		log.Print(err)
		return
	}
	left := "-"
	if answer.code >= http.StatusBadRequest {
		left = stated(w.Header())
	}
	took := time.Since(start)
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.file, "start:us:us %d %d %s %s %d %s %s %s\n",
		start.UnixMicro(), took.Microseconds(), host, port, answer.code, r.Method, r.URL.Path, left)
}

// A status is a ResponseWriter that keeps the status of the answer.
type status struct {
	http.ResponseWriter

	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the server's own.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// stated returns the seconds that a refusal states, in Retry-After or else in the time of a reset;
// "-": none.
func stated(h http.Header) string {
	text := h.Get("Retry-After")
	if text == "" {
		text = h.Get("X-Rate-Limit-Reset")
	}
	if text == "" {
		text = h.Get("X-RateLimit-Reset")
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if at, notDate := time.Parse(time.RFC1123, text); notDate == nil {
		seconds = time.Until(at).Seconds()
		err = nil
	}
	const year2001 = 1e9 // in seconds since 1970: no limiter here asks for as many
	if seconds > year2001 {
		seconds -= float64(time.Now().UnixMicro()) / 1e6
	}
	if err != nil || seconds <= 0 {
		return "-"
	}
	return strconv.FormatFloat(seconds, 'f', 3, 64)
}
