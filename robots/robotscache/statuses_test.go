package robotscache

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStatuses is the table of the package documentation.
func TestStatuses(t *testing.T) {
	type outcome int
	const (
		parsed outcome = iota
		allowAll
		denied
	)
	tests := []struct {
		status int
		header []string
		want   outcome
	}{
		{200, nil, parsed},
		{202, nil, denied},
		{204, nil, parsed},
		{206, nil, parsed},
		{299, nil, parsed},
		{300, nil, allowAll},
		{300, []string{"Location", "/other"}, allowAll},
		{301, nil, allowAll}, // no Location
		{302, []string{"Location", "ftp://example.com/robots.txt"}, allowAll},
		{302, []string{"Location", "https://"}, allowAll},
		{302, []string{"Location", "://"}, allowAll},
		{302, []string{"Location", "mailto:bot@example.com"}, allowAll},
		{302, []string{"Location", "/" + strings.Repeat("a", maxURL)}, allowAll},
		{304, nil, denied}, // to a request without validators
		{305, []string{"Location", "http://proxy.example/"}, allowAll},
		{400, nil, allowAll},
		{401, nil, allowAll},
		{403, nil, allowAll},
		{404, nil, allowAll},
		{410, nil, allowAll},
		{418, nil, allowAll},
		{429, nil, denied},
		{451, nil, allowAll},
		{499, nil, allowAll},
		{500, nil, denied},
		{502, nil, denied},
		{503, nil, denied},
		{520, nil, denied},
		{599, nil, denied},
		{101, nil, denied},
		{199, nil, denied},
		{600, nil, denied},
		{999, nil, denied},
		{0, nil, denied},
	}
	for _, tt := range tests {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Config{}, always(tt.status, private, tt.header...))
			e := r.get(t, site+"/private")
			if e.Rules == nil {
				t.Fatalf("%d: no rules", tt.status)
			}
			got := parsed
			switch {
			case e.Denied:
				got = denied
			case e.Rules.Test("/private").Allowed:
				got = allowAll
			}
			if got != tt.want {
				t.Errorf("status %d %q: outcome %d, want %d", tt.status, tt.header, got, tt.want)
			}
			ttl := time.Hour
			if tt.want == denied {
				ttl = 5 * time.Minute
				if e.Reason == "" || e.Rules.Test("/").Allowed {
					t.Errorf("status %d: reason %q, / allowed %v", tt.status, e.Reason, e.Rules.Test("/").Allowed)
				}
			}
			if got := time.Until(e.Expires); got != ttl {
				t.Errorf("status %d: kept for %v, want %v", tt.status, got, ttl)
			}
			if ev := r.event(t); ev.Status != tt.status || ev.TTL != ttl || !ev.Until.Equal(e.Expires) || ev.Unreachable != e.Denied {
				t.Errorf("status %d: event %+v", tt.status, ev)
			}
			if n := len(r.sent()); n != 1 {
				t.Errorf("status %d: %d requests", tt.status, n)
			}
		})
	}
}

func TestBodiesThatAreNoRules(t *testing.T) {
	for name, body := range map[string]string{
		"empty":  "",
		"HTML":   "<!DOCTYPE html><html><body>User-agent is * and Disallow is nothing here</body></html>",
		"binary": "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xfe\x00Disallow",
		"stars":  strings.Repeat("*", 1<<20),
		"NULs":   strings.Repeat("\x00", 1<<20),
	} {
		r := newRig(t, Config{}, always(200, body))
		if e := r.get(t, site); !allowed(e, "/any") {
			t.Errorf("%s: denied", name)
		}
	}
}

// TestGroupOfTheCrawler: rules are compiled for the crawler's own tokens.
func TestGroupOfTheCrawler(t *testing.T) {
	const body = "User-agent: examplebot\nDisallow: /a\n\nUser-agent: other\nDisallow: /b\n\nUser-agent: *\nDisallow: /c\n"
	for _, tt := range []struct {
		products []string
		denied   string
	}{
		{nil, "/a"},
		{[]string{"Other"}, "/b"},
		{[]string{"nobody"}, "/c"},
	} {
		r := &rig{answer: always(200, body)}
		c := newCache(t, Config{}, Client{UserAgent: userAgent, Products: tt.products, Transport: r})
		e, err := c.Get(t.Context(), parse(t, site))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/a", "/b", "/c"} {
			if e.Rules.Test(path).Allowed == (path == tt.denied) {
				t.Errorf("products %q, path %s: allowed %v", tt.products, path, path != tt.denied)
			}
		}
	}
}

// TestPlainRequest: each hop is a GET with the crawler's name and nothing else.
func TestPlainRequest(t *testing.T) {
	r := newRig(t, Config{}, nil)
	r.answer = func(req *http.Request) (*http.Response, error) {
		first := req.URL.Path == "/robots.txt"
		if Redirected(req.Context()) == first {
			t.Errorf("%s follows a redirect: %v", req.URL, first)
		}
		if first {
			return reply(302, "moved", "Location", "https://user:secret@cdn.example.com:443/r?x=1#part", "Set-Cookie", "session=1", "ETag", `"a"`), nil
		}
		return reply(200, private), nil
	}
	r.get(t, "https://user:secret@example.com/page?q")
	if Redirected(t.Context()) {
		t.Error("a request of somebody else follows a redirect")
	}
	want := []string{site + "/robots.txt", "https://cdn.example.com/r?x=1"}
	if got := r.sent(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("asked for %q, want %q", got, want)
	}
	for _, req := range r.requests {
		if req.Method != http.MethodGet || req.Body != nil || req.URL.User != nil {
			t.Errorf("request %+v", req)
		}
		if len(req.Header) != 1 || req.Header.Get("User-Agent") != userAgent {
			t.Errorf("header %v", req.Header)
		}
	}
}

func TestRedirectsBindTheFirstOrigin(t *testing.T) {
	r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
		switch req.URL.String() {
		case "http://example.com/robots.txt":
			return reply(301, "", "Location", "https://example.com/robots.txt"), nil
		case "https://example.com/robots.txt":
			return reply(308, "", "Location", "//www.example.com/robots.txt"), nil
		case "https://www.example.com/robots.txt":
			return reply(303, "", "Location", "../a/./robots"), nil
		}
		return reply(200, private), nil
	})
	if allowed(r.get(t, "http://example.com/"), "/private") {
		t.Error("the rules at the end of the redirects don't bind the first origin")
	}
	if ev := r.event(t); ev.Origin != "http://example.com" || ev.URL != "https://www.example.com/a/robots" || ev.Hops != 3 {
		t.Errorf("event %+v", ev)
	}
	for _, hop := range []string{"https://example.com/", "https://www.example.com/"} {
		if _, ok := r.Peek(parse(t, hop)); ok {
			t.Errorf("the rules bind %s, which was only passed", hop)
		}
	}
}

// TestRedirectsAreReadAsBrowsersDo: a server that writes one too many slashes has a robots.txt.
func TestRedirectsAreReadAsBrowsersDo(t *testing.T) {
	for location, want := range map[string]string{
		"https:///www.example.com/robots.txt":   "https://www.example.com/robots.txt",
		"///www.example.com/robots.txt":         "https://www.example.com/robots.txt",
		`https:\\www.example.com\robots.txt`:    "https://www.example.com/robots.txt",
		"https:/other.txt":                      "https://example.com/other.txt",
		"/50%.txt":                              "https://example.com/50%25.txt",
		"https://u:p@ex%41mple.com:0443/a\tb#c": "https://example.com/ab",
	} {
		r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
			if req.URL.String() == "https://example.com/robots.txt" {
				return reply(301, "", "Location", location), nil
			}
			return reply(200, private), nil
		})
		if allowed(r.get(t, "https://example.com/"), "/private") {
			t.Errorf("%q: no rules", location)
		}
		if ev := r.event(t); ev.URL != want || ev.Hops != 1 {
			t.Errorf("%q: event %+v, want %s", location, ev, want)
		}
	}
}

func TestFiveRedirects(t *testing.T) {
	for redirects, denied := range map[int]bool{5: true, 6: false} {
		r := newRig(t, Config{}, nil)
		r.answer = func(*http.Request) (*http.Response, error) {
			if len(r.sent()) <= redirects {
				return reply(307, "", "Location", "/again"), nil
			}
			return reply(200, private), nil
		}
		e := r.get(t, site)
		if allowed(e, "/private") == denied {
			t.Errorf("%d redirects: allowed %v", redirects, !denied)
		}
		if n := len(r.sent()); n != 6 {
			t.Errorf("%d redirects: %d requests, want 6", redirects, n)
		}
		if ev := r.event(t); ev.Hops != 5 || ev.Unreachable {
			t.Errorf("%d redirects: event %+v", redirects, ev)
		}
	}
}

// TestRedirectToUnreachable: the origin of the first hop is unreachable then.
func TestRedirectToUnreachable(t *testing.T) {
	r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "example.com" {
			return reply(302, "", "Location", "https://down.example/robots.txt"), nil
		}
		return nil, errNetwork
	})
	if e := r.get(t, site); !e.Denied || !strings.Contains(e.Reason, "connection refused") {
		t.Errorf("entry %+v", e)
	}
	if ev := r.event(t); ev.Status != 0 || ev.Hops != 1 || ev.URL != "https://down.example/robots.txt" {
		t.Errorf("event %+v", ev)
	}
}

// A TTL that is set is an upper bound, whatever Cache-Control says.
func TestTTLMovedByCacheControl(t *testing.T) {
	for _, c := range []struct {
		set     time.Duration
		control string
		ttl     time.Duration
	}{
		{0, "", time.Hour},
		{0, "max-age=7200", 2 * time.Hour},
		{0, "max-age=1", 5 * time.Minute},
		{0, "max-age=9999999", 24 * time.Hour},
		{time.Hour, "max-age=9999999", time.Hour},
		{time.Hour, "max-age=600", 10 * time.Minute},
		{time.Minute, "max-age=1", time.Minute},
		{2 * time.Hour, "", 2 * time.Hour},
	} {
		for _, status := range []int{200, 404} {
			bubble(t, func(t *testing.T) {
				r := newRig(t, Config{TTL: c.set}, always(status, "", "Cache-Control", c.control))
				r.get(t, site)
				if ev := r.event(t); ev.TTL != c.ttl {
					t.Errorf("TTL %v, %d %s: event %+v", c.set, status, c.control, ev)
				}
				time.Sleep(c.ttl - 1)
				r.get(t, site)
				if len(r.sent()) != 1 {
					t.Errorf("TTL %v, %d %s: asked again before %v", c.set, status, c.control, c.ttl)
				}
				time.Sleep(time.Nanosecond)
				r.get(t, site)
				if len(r.sent()) != 2 {
					t.Errorf("TTL %v, %d %s: not asked again after %v", c.set, status, c.control, c.ttl)
				}
			})
		}
	}
}

func TestRevalidation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{RecordText: true}, always(200, private, "ETag", `W/"1"`, "Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT", "Cache-Control", "max-age=7200"))
		r.get(t, site)
		first := r.event(t)
		if first.SHA256 != sum(private) || first.Text != private || first.Bytes != int64(len(private)) || first.Revalidated {
			t.Errorf("event %+v", first)
		}

		time.Sleep(2 * time.Hour)
		r.answer = always(304, "", "ETag", `W/"2"`)
		e := r.get(t, site)
		if allowed(e, "/private") || len(e.Sitemaps()) != 1 || !allowed(e, "/") {
			t.Error("a 304 changed the rules")
		}
		h := r.last().Header
		if h.Get("If-None-Match") != `W/"1"` || h.Get("If-Modified-Since") != "Sat, 21 Nov 2026 00:00:00 GMT" {
			t.Errorf("conditional request: %v", h)
		}
		ev := r.event(t)
		if !ev.Revalidated || ev.SHA256 != first.SHA256 || ev.Bytes != first.Bytes || ev.TTL != 2*time.Hour || ev.Text != "" {
			t.Errorf("event %+v", ev)
		}

		time.Sleep(2 * time.Hour)
		r.answer = always(200, "User-agent: *\nDisallow: /\n")
		if allowed(r.get(t, site), "/") {
			t.Error("a 200 after a 304 changed nothing")
		}
		if got := r.last().Header.Get("If-None-Match"); got != `W/"2"` {
			t.Errorf("If-None-Match %s: the 304 gave a new one", got)
		}
		time.Sleep(time.Hour)
		r.get(t, site)
		if h := r.last().Header; len(h) != 1 {
			t.Errorf("conditional request without a validator: %v", h)
		}
		if got := counts(r.Cache); got != (Stats{Origins: 1, Fetched: 3, Revalidated: 1}) {
			t.Errorf("snapshot %+v", got)
		}
	})
}

// TestOneValidatorIsEnough for a conditional request, ETag or Last-Modified.
func TestOneValidatorIsEnough(t *testing.T) {
	for _, validator := range [][]string{{"ETag", `"1"`}, {"Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT"}} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Config{}, always(200, private, validator...))
			if e := r.get(t, site); e.SHA256() != sum(private) {
				t.Errorf("%v: the rules are of %q", validator, e.SHA256())
			}
			time.Sleep(time.Hour)
			r.answer = always(304, "")
			if e := r.get(t, site); e.Denied || allowed(e, "/private") || e.SHA256() != sum(private) {
				t.Errorf("%v: after a 304 %+v", validator, e)
			}
			time.Sleep(time.Hour)
			r.answer = always(404, "")
			if e := r.get(t, site); e.SHA256() != "" || e.Copy() != "" {
				t.Errorf("%v: after a 404 the rules are of %q, %q", validator, e.SHA256(), e.Copy())
			}
		})
	}
}

// TestValidatorsThatCantBeSent are ignored.
func TestValidatorsThatCantBeSent(t *testing.T) {
	for _, tag := range []string{"\x7f", "\x1f", "é", strings.Repeat("a", maxValidator+1)} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Config{}, always(200, private, "ETag", tag, "Last-Modified", tag))
			r.get(t, site)
			time.Sleep(time.Hour)
			r.get(t, site)
			if h := r.last().Header; len(h) != 1 {
				t.Errorf("%.20q: %v", tag, h)
			}
		})
	}
}

// TestRevalidationAtTheEndOfRedirects: a validator goes to the URL that gave it.
func TestRevalidationAtTheEndOfRedirects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Host == "example.com" && req.Header.Get("If-None-Match") == "":
				return reply(302, "", "Location", "https://cdn.example/robots.txt"), nil
			case req.URL.Host == "cdn.example" && req.Header.Get("If-None-Match") == `"1"`:
				return reply(304, ""), nil
			}
			return reply(200, private, "ETag", `"1"`), nil
		})
		r.get(t, site)
		time.Sleep(time.Hour)
		if allowed(r.get(t, site), "/private") {
			t.Error("rules lost")
		}
		if ev := r.event(t); !ev.Revalidated || ev.Hops != 1 {
			t.Errorf("event %+v", ev)
		}
	})
}

// TestRemovedByTheSite: a 4xx ends the copy, too.
func TestRemovedByTheSite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{ServeStale: true}, always(200, private, "ETag", `"1"`))
		r.get(t, site)
		time.Sleep(time.Hour)
		r.answer = always(410, "")
		if !allowed(r.get(t, site), "/private") {
			t.Error("rules hold that the site took down")
		}
		time.Sleep(time.Hour)
		r.answer = always(503, "")
		if e := r.get(t, site); !e.Denied || e.Stale {
			t.Errorf("a copy that was taken down came back: %+v", e)
		}
		if h := r.last().Header; h.Get("If-None-Match") != "" {
			t.Errorf("asked whether a copy holds that was taken down: %v", h)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		status int
		header []string
		want   time.Duration
	}{
		{429, []string{"Retry-After", "60"}, 5 * time.Minute},
		{429, []string{"Retry-After", "1200"}, 20 * time.Minute},
		{503, []string{"Retry-After", "1200"}, 20 * time.Minute},
		{503, []string{"Retry-After", "Sat, 21 Nov 2026 02:00:00 GMT", "Date", "Sat, 21 Nov 2026 01:00:00 GMT"}, time.Hour},
		{503, []string{"Retry-After", "99999999999999999999"}, 24 * time.Hour},
		{503, []string{"Retry-After", "1.5"}, 5 * time.Minute},
		{503, []string{"Retry-After", "0", "Retry-After", "1200"}, 20 * time.Minute},
		{404, []string{"Retry-After", "1200"}, time.Hour},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Config{}, always(tt.status, "", tt.header...))
			if got := time.Until(r.get(t, site).Expires); got != tt.want {
				t.Errorf("%d %q: asked again after %v, want %v", tt.status, tt.header, got, tt.want)
			}
		})
	}
}

func TestDenyTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{DenyTTL: time.Minute}, broken)
		e := r.get(t, site)
		if !e.Denied || e.Reason != "network: connection refused" || r.event(t).Reason != e.Reason {
			t.Errorf("entry %+v", e)
		}
		time.Sleep(time.Minute - 1)
		if !r.get(t, site).Denied || len(r.sent()) != 1 {
			t.Error("asked again within DenyTTL")
		}
		time.Sleep(time.Nanosecond)
		r.answer = always(200, private)
		if e := r.get(t, site); e.Denied || e.Reason != "" || !allowed(e, "/") {
			t.Errorf("back, but %+v", e)
		}
	})
}

// TestUnreachableDeniesDespiteACopy: without ServeStale an outage stops the crawl,
// and a 304 afterwards revives the copy.
func TestUnreachableDeniesDespiteACopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, always(200, private, "ETag", `"1"`))
		r.get(t, site)
		time.Sleep(time.Hour)
		r.answer = always(500, "")
		if e := r.get(t, site); !e.Denied || e.Stale || e.Sitemaps() != nil {
			t.Errorf("entry %+v", e)
		}
		time.Sleep(5 * time.Minute)
		r.answer = always(304, "")
		if e := r.get(t, site); e.Denied || allowed(e, "/private") || !allowed(e, "/") {
			t.Errorf("after the 304: %+v", e)
		}
	})
}

func TestOnUnreachableAllow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{OnUnreachable: Allow}, always(503, ""))
		e := r.get(t, site)
		if !allowed(e, "/private") || e.Confidence != "low" || e.Reason != "status 503" {
			t.Errorf("entry %+v", e)
		}
		if time.Until(e.Expires) != 5*time.Minute {
			t.Errorf("asked again after %v", time.Until(e.Expires))
		}
	})
}

// TestServeStale walks through an outage of 31 days.
func TestServeStale(t *testing.T) {
	for onUnreachable, name := range map[Unreachable]string{Deny: "Deny", Allow: "Allow"} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Config{ServeStale: true, OnUnreachable: onUnreachable, DenyTTL: time.Hour}, always(200, private))
			r.get(t, site)
			begin := time.Now()
			r.answer = always(503, "")
			for time.Since(begin) < maxStale-time.Hour {
				time.Sleep(time.Hour)
				e := r.get(t, site)
				if e.Denied || !e.Stale || e.Reason != "status 503" || allowed(e, "/private") || !allowed(e, "/") || len(e.Sitemaps()) != 1 {
					t.Fatalf("%s: after %v: %+v", name, time.Since(begin), e)
				}
			}
			if ev := r.event(t); !ev.Stale || !ev.Unreachable || ev.SHA256 != sum(private) {
				t.Errorf("event %+v", ev)
			}
			time.Sleep(time.Hour)
			e := r.get(t, site)
			if e.Stale || e.Denied != (onUnreachable == Deny) || (e.Confidence == "low") != (onUnreachable == Allow) {
				t.Errorf("%s: after 30 days: %+v", name, e)
			}
			if ev := r.event(t); ev.Stale || ev.SHA256 != "" {
				t.Errorf("event %+v", ev)
			}
		})
	}
}

// TestConfirmedCopyIsYoung: the 30 days begin anew with a 304.
func TestConfirmedCopyIsYoung(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{ServeStale: true}, always(200, private, "ETag", `"1"`))
		r.get(t, site)
		time.Sleep(20 * 24 * time.Hour)
		r.answer = always(304, "")
		r.get(t, site)
		time.Sleep(29 * 24 * time.Hour)
		r.answer = broken
		if e := r.get(t, site); !e.Stale || allowed(e, "/private") {
			t.Errorf("%+v", e)
		}
	})
}

// TestStaleCopyEndsOnTime: a long Retry-After doesn't stretch the 30 days.
func TestStaleCopyEndsOnTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{ServeStale: true}, always(200, private))
		r.get(t, site)
		time.Sleep(maxStale - time.Hour)
		r.answer = always(503, "", "Retry-After", "86400")
		if e := r.get(t, site); !e.Stale || time.Until(e.Expires) != time.Hour {
			t.Errorf("a copy of %v holds for %v more", maxStale-time.Hour, time.Until(e.Expires))
		}
	})
}

// TestPeekStaleKeepsTheCrawlDelay of the last good copy while nothing may be fetched.
func TestPeekStaleKeepsTheCrawlDelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, always(200, "User-agent: *\nCrawl-delay: 600\n"))
		r.get(t, site)
		time.Sleep(2 * time.Hour)
		r.answer = always(503, "")
		if e := r.get(t, site); !e.Denied || allowed(e, "/") {
			t.Errorf("%+v", e)
		}
		if e, ok := r.PeekStale(parse(t, site)); !ok || !e.Denied || e.Rules.Floor(time.Now()) != 10*time.Minute {
			t.Errorf("%+v, %v", e, ok)
		}
		if e, ok := r.Peek(parse(t, site)); !ok || allowed(e, "/") {
			t.Errorf("Peek allows what is denied: %+v, %v", e, ok)
		}
	})
}

// TestOthersUseTheOldCopy: the caller that finds it out of date fetches, the others use it until it is
// a day old.
func TestOthersUseTheOldCopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, always(200, private, "ETag", `"1"`))
		old := r.get(t, site)
		if e, ok := r.Peek(parse(t, site)); !ok || e != old {
			t.Error("Peek doesn't know what is fresh")
		}
		defer time.AfterFunc(time.Hour, func() {
			if e, ok := r.Peek(parse(t, site)); ok {
				t.Errorf("Peek returned what is out of date: %+v", e)
			}
			if e, ok := r.PeekStale(parse(t, site)); !ok || e != old {
				t.Errorf("PeekStale returned %+v, %v, not the old copy", e, ok)
			}
		}).Stop()
		for _, age := range []time.Duration{time.Hour, maxTTL - 1, maxTTL} {
			time.Sleep(time.Until(old.Expires.Add(age - time.Hour)))
			r.answer = after(time.Second, 200, "User-agent: *\nDisallow: /\n")
			begin := time.Now()
			asked := len(r.sent())
			left := make(chan struct{})
			found, cancel := context.WithCancel(t.Context())
			go func() {
				defer close(left)
				_, _ = r.Get(found, parse(t, site))
			}()
			synctest.Wait()
			e := r.get(t, site)
			waited := time.Since(begin)
			if age < maxTTL && (e != old || waited != 0) {
				t.Errorf("at %v another waited %v for %+v", age, waited, e)
			}
			if age == maxTTL && (e == old || waited != time.Second) {
				t.Errorf("at %v another got a copy of a day", age)
			}
			if n := len(r.sent()) - asked; n != 1 {
				t.Errorf("at %v: %d requests", age, n)
			}
			cancel()
			<-left
		}
	})
}

// TestDeniedIsNoCopy: when DenyTTL is over, all wait for the new answer.
func TestDeniedIsNoCopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, broken)
		r.get(t, site)
		time.Sleep(5 * time.Minute)
		r.answer = after(time.Second, 200, private)
		for range 3 {
			go func() { _, _ = r.Get(t.Context(), parse(t, site)) }()
		}
		synctest.Wait()
		if e := r.get(t, site); e.Denied || len(r.sent()) != 2 {
			t.Errorf("%d requests, entry %+v", len(r.sent()), e)
		}
	})
}

func TestNewTellsAllProblems(t *testing.T) {
	_, err := New(Config{TTL: 25 * time.Hour, DenyTTL: -1, OnUnreachable: 7, Timeout: -1, MaxBytes: -1},
		Client{UserAgent: "\n", Products: []string{""}})
	for _, field := range []string{"Config.TTL", "Config.DenyTTL", "Config.OnUnreachable", "Config.Timeout", "Config.MaxBytes", "Client.UserAgent", "Client.Products"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no word of %s in %v", field, err)
		}
	}
	for _, cfg := range []Config{{}, {TTL: 24 * time.Hour}} {
		if _, err := New(cfg, Client{UserAgent: userAgent}); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestA4xxToAConditionSaysNothing: a status such as 412 to If-None-Match is about the condition that we
// added. robots.txt is asked for once more without it, and the copy is kept.
func TestA4xxToAConditionSaysNothing(t *testing.T) {
	for _, status := range []int{400, 403, 405, 412, 416, 418, 428, 451, 499} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
				if req.Header.Get("If-None-Match") != "" {
					return reply(status, ""), nil
				}
				return reply(200, private, "ETag", `"1"`), nil
			})
			for hour := range 24 {
				if e := r.get(t, site); e.Denied || allowed(e, "/private") {
					t.Fatalf("%d, hour %d: %+v", status, hour, e)
				}
				time.Sleep(time.Hour)
			}
			if n := len(r.sent()); n != 1+2*23 {
				t.Errorf("%d: %d requests", status, n)
			}
			for _, ev := range r.events {
				if ev.Status != 200 || ev.Hops != 0 {
					t.Errorf("%d: event %+v", status, ev)
				}
			}
		})
	}
}

// TestTheFileMayBeGone: what says so without a condition, or with one, is believed, and costs no
// second request.
func TestTheFileMayBeGone(t *testing.T) {
	for _, c := range []struct{ conditional, plain, requests int }{{404, 404, 2}, {410, 410, 2}, {412, 404, 3}, {403, 403, 3}} {
		bubble(t, func(t *testing.T) {
			first := true
			r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
				switch {
				case first:
					first = false
					return reply(200, private, "ETag", `"1"`), nil
				case req.Header.Get("If-None-Match") != "":
					return reply(c.conditional, ""), nil
				}
				return reply(c.plain, ""), nil
			})
			r.get(t, site)
			time.Sleep(time.Hour)
			if e := r.get(t, site); e.Denied || !allowed(e, "/private") || len(r.sent()) != c.requests {
				t.Errorf("%+v: %+v after %d requests", c, e, len(r.sent()))
			}
		})
	}
}

// TestTheCopyOutlivesACondition: if the second request has no answer, the copy holds as in any outage.
func TestTheCopyOutlivesACondition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		isDown := false
		r := newRig(t, Config{ServeStale: true}, func(req *http.Request) (*http.Response, error) {
			switch {
			case req.Header.Get("If-None-Match") != "":
				isDown = true
				return reply(412, ""), nil
			case isDown:
				return reply(503, ""), nil
			}
			return reply(200, private, "ETag", `"1"`), nil
		})
		r.get(t, site)
		time.Sleep(time.Hour)
		if e := r.get(t, site); !e.Stale || allowed(e, "/private") || !allowed(e, "/") {
			t.Errorf("%+v", e)
		}
	})
}

// TestAConditionRefusedBehindARedirect: the second fetch follows redirects from the beginning.
func TestAConditionRefusedBehindARedirect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Path == "/robots.txt":
				return reply(301, "", "Location", "/rules"), nil
			case req.Header.Get("If-None-Match") != "":
				return reply(412, ""), nil
			}
			return reply(200, private, "ETag", `"1"`), nil
		})
		r.get(t, site)
		time.Sleep(time.Hour)
		if e := r.get(t, site); e.Denied || allowed(e, "/private") || len(r.sent()) != 6 {
			t.Errorf("%+v, %q", e, r.sent())
		}
		if ev := r.events[1]; ev.Hops != 1 || ev.Status != 200 {
			t.Errorf("event %+v", ev)
		}
	})
}
