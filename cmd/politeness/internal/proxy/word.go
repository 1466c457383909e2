package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

// net/http's server writes the usual words behind a status, and answers some requests itself. Many
// a program shows those words and no header. So a requestConn writes the proxy's or the site's own
// words, and says whose answer it is.

// A statusLine is what the next answer with a status says behind it.
type statusLine struct {
	status int
	words  string
}

// Write implements net.Conn.
func (c *requestConn) Write(p []byte) (int, error) {
	line := c.says.Load()
	isAnswer := c.answering.Load() // without words of its own it passes as it is
	if isAnswer && line == nil || !bytes.HasPrefix(p, []byte("HTTP/1.")) {
		return c.Conn.Write(p)
	}
	head, rest, isLine := bytes.Cut(p, []byte("\r\n"))
	if !isLine {
		return c.Conn.Write(p)
	}
	const version = "HTTP/1.1 "
	isFinal := !bytes.HasPrefix(head, []byte(version+"1"))
	if isFinal {
		c.says.Store(nil) // what follows is no head, whatever it looks like
	}
	switch {
	case !isAnswer:
		// No handler has begun: it is the server's own answer.
		text := head[min(len(version), len(head)):]
		head = fmt.Appendf(head[:len(head):len(head)], "\r\nProxy-Status: %s; error=http_request_error; details=%s",
			self, quote(string(text)))
	case isFinal && bytes.HasPrefix(head, fmt.Appendf(nil, "%s%d ", version, line.status)):
		head = fmt.Appendf(nil, "%s%d %s", version, line.status, line.words)
	default:
		return c.Conn.Write(p)
	}
	whole := append(append(bytes.Clone(head), "\r\n"...), rest...)
	if n, err := c.Conn.Write(whole); err != nil {
		return max(0, n-len(whole)+len(p)), err
	}
	return len(p), nil
}

// A spoken is the answer to a request that can have words of its own behind its status.
type spoken struct {
	http.ResponseWriter
	request *http.Request
	conn    *requestConn // nil: the server has another connection, and writes the usual words
}

// Unwrap is for http.ResponseController.
func (s *spoken) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// speak begins the answer to r.
func speak(w http.ResponseWriter, r *http.Request) *spoken {
	s := &spoken{ResponseWriter: w, request: r}
	if joined, ok := r.Context().Value(programKey{}).(*program); ok {
		s.conn, _ = joined.conn.(*requestConn)
	}
	if s.conn != nil {
		s.conn.answering.Store(true)
	}
	return s
}

// spokenOf returns the spoken that w is around; nil: there is none.
func spokenOf(w http.ResponseWriter) *spoken {
	for {
		if s, ok := w.(*spoken); ok {
			return s
		}
		around, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = around.Unwrap()
	}
}

// say sets the words behind the status of an answer. A reason phrase is printable text in one line.
func (s *spoken) say(status int, words string) {
	isPrintable := !strings.ContainsFunc(words, func(r rune) bool { return r < ' ' || r > '~' })
	if s == nil || s.conn == nil || words == "" || len(words) > 200 || !isPrintable {
		return
	}
	s.conn.says.Store(&statusLine{status, words})
}

// writeReason writes the body of an answer of the proxy's own: a page for a browser, JSON if that
// is asked for, and otherwise text.
func writeReason(w http.ResponseWriter, status int, reason string) {
	accept := ""
	isHead := false
	if s := spokenOf(w); s != nil {
		accept = strings.ToLower(strings.Join(s.request.Header["Accept"], ","))
		isHead = s.request.Method == http.MethodHead
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	about := refusalPage{
		By:         self,
		Status:     status,
		Text:       http.StatusText(status),
		Reason:     reason,
		RetryAfter: h.Get("Retry-After"),
	}
	var body bytes.Buffer
	switch {
	case strings.Contains(accept, "text/html"):
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_ = refusalHTML.Execute(&body, about)
	case strings.Contains(accept, "application/json"):
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(&body).Encode(about)
	default:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(&body, reason)
	}
	w.WriteHeader(status)
	if !isHead {
		_, _ = body.WriteTo(w)
	}
}

// A refusalPage is the content of the proxy's own response.
type refusalPage struct {
	By         string `json:"by"`
	Status     int    `json:"status"`
	Text       string `json:"-"`
	Reason     string `json:"reason"`
	RetryAfter string `json:"retryAfter,omitempty"` // seconds
}

var refusalHTML = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Status}} {{.Text}}: {{.By}}</title>
<style>
:root { --page: #fff; --ink: #1b2026; }
@media (prefers-color-scheme: dark) { :root { --page: #12151a; --ink: #e7ebef; } }
body { background: var(--page); color: var(--ink); font: 1rem/1.5 sans-serif; overflow-wrap: anywhere; }
main { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; }
</style>
</head>
<body>
<main>
<h1>{{.Status}} {{.Text}}</h1>
<p>This response is from the proxy <b>{{.By}}</b>, and not from the site.</p>
<p>{{.Reason}}</p>
{{with .RetryAfter}}<p>Try again in {{.}} seconds.</p>{{else}}<p>To try again doesn't help by itself.</p>{{end}}
</main>
</body>
</html>
`))

// wordsOf returns the words behind the status of a site's answer, if they aren't the usual ones.
func wordsOf(resp *http.Response) string {
	_, words, _ := strings.Cut(resp.Status, " ")
	if words == http.StatusText(resp.StatusCode) {
		return ""
	}
	return words
}
