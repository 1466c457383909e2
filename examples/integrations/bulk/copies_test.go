package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestALongRetryAfterIsLeftToTheCrawl, however long it is, and by the server's clock.
func TestALongRetryAfterIsLeftToTheCrawl(t *testing.T) {
	for value, left := range map[string]bool{
		"": false, "soon": false, "60": false, "61": true, "9999999999": true, "99999999999999999999": true,
		"Wed, 01 Jan 2020 00:00:59 GMT": false, "Wed, 01 Jan 2020 00:01:01 GMT": true,
	} {
		c := &copies{longest: time.Minute, next: roundTripper(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Date", "Wed, 01 Jan 2020 00:00:00 GMT")
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
			return w.Result(), nil
		})}
		resp, err := c.ask(httptest.NewRequest(http.MethodGet, "https://example.com/", nil))
		if (err == nil) != left {
			t.Errorf("Retry-After %q: %v", value, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
