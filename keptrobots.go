package politeness

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// keptRobots returns the response to a request for robots.txt itself from the copy by which it was
// judged, see Config.AnswerRobots. It returns nil if the request is to be sent.
func (trip *trip) keptRobots() *http.Response {
	req := trip.req
	entry := trip.page.entry
	if !trip.t.cfg.AnswerRobots || entry == nil {
		return nil
	}
	isGet := req.Method == http.MethodGet || req.Method == ""
	isRobots := req.URL.Path == "/robots.txt" && req.URL.RawQuery == "" && req.URL.Opaque == ""
	if !isGet || !isRobots {
		return nil
	}
	status, body, ok := entry.Answer()
	if !ok {
		return nil
	}
	return &http.Response{
		Status:        strconv.Itoa(status) + " " + http.StatusText(status),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       trip.original,
	}
}
