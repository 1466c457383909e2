package hints_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit/hints"
)

// FuzzRead: whatever the fields of a response are, no wait is below zero or longer than is written,
// and the texts for the log are no longer than the fields.
func FuzzRead(f *testing.F) {
	f.Add(429, "Retry-After", "120", "Date", "Sat, 01 Jan 2000 00:00:00 GMT")
	f.Add(503, "Retry-After", "Sat, 01 Jan 2000 00:00:10 GMT", "Retry-After", "99999999999999999999")
	f.Add(200, "RateLimit", `"a";r=0;t=20`, "RateLimit-Policy", `"a";q=5`)
	f.Add(200, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "-1")
	f.Add(429, "X-Retry-After-Ms", "1e9", "X-Rate-Limit-Reset", "1735689600")
	f.Add(403, "cf-mitigated", "challenge", "X-Datadome", "protected")
	f.Fuzz(func(t *testing.T, status int, name, value, other, further string) {
		h := make(http.Header)
		h.Add(name, value)
		h.Add(other, further)
		read, o := hints.Read(&http.Response{StatusCode: status, Header: h})
		if o.RetryAfter < 0 || o.Reset < 0 || o.Status != status {
			t.Errorf("%v: %+v", h, o)
		}
		if read.RetryAfter == "" && o.RetryAfter > 0 || read.RateLimit == "" && o.Reset > 0 || (read.Refused == "") != (o.Refused == "") {
			t.Errorf("%v: %+v without its fields: %+v", h, o, read)
		}
		given := len(name) + len(value) + len(other) + len(further)
		if n := len(read.RetryAfter) + len(read.RateLimit) + len(read.Refused); n > 2*given+200 {
			t.Errorf("%v: %d bytes of text", h, n)
		}
		if !strings.ContainsAny(value+further, "0123456789") && o.RetryAfter+o.Reset > time.Hour {
			t.Errorf("%v: waits of no number: %+v", h, o)
		}
	})
}
