package robotscache

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// led answers each robots.txt that has a line in to with a redirect, and any other by texts; a URL
// that has neither is a 404.
func led(to, texts map[string]string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		if location := to[req.URL.String()]; location != "" {
			return reply(302, "", "Location", location), nil
		}
		if text, ok := texts[req.URL.String()]; ok {
			return reply(200, text), nil
		}
		return reply(404, ""), nil
	}
}

// A robots.txt that redirects to another site costs that site only what its own robots.txt allows.
func TestARedirectToAnotherSiteKeepsItsRules(t *testing.T) {
	const start = "https://example.com/robots.txt"
	for _, c := range []struct {
		to, rules string // where start redirects, and robots.txt of that host
		sent      string // after start
		denied    bool
	}{
		{"https://victim.test/rules", "", "https://victim.test/robots.txt https://victim.test/rules", false},
		{"https://victim.test/costly", "User-agent: *\nDisallow: /costly\n", "https://victim.test/robots.txt", true},
		{"https://victim.test/a/%2e%2e/costly", "User-agent: *\nDisallow: /costly\n", "https://victim.test/robots.txt", true},
		{"https://victim.test/x?costly", "User-agent: *\nDisallow: /*costly\n", "https://victim.test/robots.txt", true},
		{"http://93.184.216.34/x", "User-agent: *\nDisallow: /\n", "http://93.184.216.34/robots.txt", true},
		{"https://victim.test/robots.txt", private, "https://victim.test/robots.txt https://victim.test/robots.txt", false},
		// One site has one owner, who leads to the file.
		{"https://www.example.com/costly", "User-agent: *\nDisallow: /\n", "https://www.example.com/costly", false},
		{"http://example.com:8080/costly", "User-agent: *\nDisallow: /\n", "http://example.com:8080/costly", false},
	} {
		to := parse(t, c.to)
		own := to.Scheme + "://" + to.Host
		texts := map[string]string{c.to: private}
		texts[own+"/robots.txt"] = c.rules
		r := newRig(t, Config{}, led(map[string]string{start: c.to}, texts))
		e := r.get(t, site)
		if got := strings.Join(r.sent()[1:], " "); got != c.sent {
			t.Errorf("%s: sent %s, want %s", c.to, got, c.sent)
		}
		if e.Denied != c.denied || allowed(e, "/private") {
			t.Errorf("%s: entry %+v", c.to, e)
		}
		if c.denied && (!strings.Contains(e.Reason, "not sent: ") || !strings.Contains(e.Reason, own)) {
			t.Errorf("%s: reason %q", c.to, e.Reason)
		}
	}
}

// However many names redirect to a site, what it forbids is asked for never, and its robots.txt once.
func TestManyNamesThatRedirectToOneSite(t *testing.T) {
	to := make(map[string]string)
	for i := range 100 {
		to[fmt.Sprintf("https://n%d.example/robots.txt", i)] = fmt.Sprintf("https://victim.test/costly?%d", i)
	}
	texts := map[string]string{"https://victim.test/robots.txt": "User-agent: *\nDisallow: /costly\n"}
	r := newRig(t, Config{}, led(to, texts))
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if e := r.get(t, fmt.Sprintf("https://n%d.example/", i)); !e.Denied {
				t.Errorf("%d: %+v", i, e)
			}
		})
	}
	all.Wait()
	asked := 0
	for _, url := range r.sent() {
		if strings.HasPrefix(url, "https://victim.test/") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("the site was asked %d times", asked)
	}
}

// Another site whose robots.txt can't be had is asked for nothing else, and an outage of it is no
// longer one of the origin than DenyTTL.
func TestARedirectToASiteWithoutKnownRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		r := newRig(t, Config{}, nil)
		r.answer = func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Host == "example.com":
				return reply(302, "", "Location", "https://victim.test/rules"), nil
			case down && req.URL.Path == "/robots.txt":
				return reply(503, ""), nil
			case req.URL.Path == "/robots.txt":
				return reply(404, ""), nil
			}
			return reply(200, private), nil
		}
		for range 3 {
			if e := r.get(t, site); !e.Denied || !strings.Contains(e.Reason, "status 503") {
				t.Errorf("%+v", e)
			}
		}
		if n := len(r.sent()); n != 2 {
			t.Errorf("sent %q", r.sent())
		}
		down = false
		time.Sleep(5*time.Minute + time.Second)
		if e := r.get(t, site); e.Denied || allowed(e, "/private") {
			t.Errorf("%+v", e)
		}
	})
}

// Sites that lead to each other wait for each other never.
func TestRedirectsInACircleEnd(t *testing.T) {
	for _, sites := range []int{1, 2, 3, 7} {
		synctest.Test(t, func(t *testing.T) {
			to := make(map[string]string)
			for i := range sites {
				to[fmt.Sprintf("https://s%d.example/robots.txt", i)] = fmt.Sprintf("https://s%d.test/robots.txt", (i+1)%sites)
				to[fmt.Sprintf("https://s%d.test/robots.txt", i)] = fmt.Sprintf("https://s%d.example/x", (i+1)%sites)
			}
			answer := led(to, nil)
			r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
				time.Sleep(time.Millisecond) // so that all of them are under way
				return answer(req)
			})
			began := time.Now()
			var all sync.WaitGroup
			for i := range sites {
				for _, end := range []string{"example", "test"} {
					all.Go(func() { r.get(t, fmt.Sprintf("https://s%d.%s/", i, end)) })
				}
			}
			all.Wait()
			if took := time.Since(began); took > time.Second {
				t.Errorf("%d sites: %v", sites, took)
			}
			if n := len(r.sent()); n > 12*sites {
				t.Errorf("%d sites: %d requests", sites, n)
			}
		})
	}
}

// A robots.txt that leads to new sites without end costs a bounded number of requests.
func TestRedirectsToNewSitesWithoutEnd(t *testing.T) {
	n := 0
	r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
		n++
		return reply(302, "", "Location", fmt.Sprintf("https://next%d.example/x", n)), nil
	})
	if e := r.get(t, site); !e.Denied {
		t.Errorf("%+v", e)
	}
	if n > 10 {
		t.Errorf("%d requests", n)
	}
}

// Without a turn at the other site nothing is known of the origin, and nothing is kept.
func TestNoTurnAtTheOtherSite(t *testing.T) {
	full := errors.New("no turn")
	refuse := true
	r := newRig(t, Config{}, nil)
	r.answer = func(req *http.Request) (*http.Response, error) {
		switch {
		case req.URL.Host == "example.com":
			return reply(302, "", "Location", "https://victim.test/robots.txt"), nil
		case refuse:
			return nil, &RefusedError{Err: full}
		}
		return reply(200, private), nil
	}
	if _, err := r.Get(t.Context(), parse(t, site)); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	refuse = false
	if e := r.get(t, site); e.Denied || allowed(e, "/private") {
		t.Errorf("%+v", e)
	}
}

// Each fetch has its own number, those that redirects to other sites need as well.
func TestEachFetchHasANumber(t *testing.T) {
	to := map[string]string{"https://example.com/robots.txt": "https://other.test/rules"}
	answer := led(to, map[string]string{"https://other.test/rules": private})
	seen := make(map[string]uint64)
	r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
		number := LatestHop(req.Context())
		seen[req.URL.String()] = number.Load()
		number.Store(uint64(len(seen)))
		return answer(req)
	})
	r.get(t, site)
	for url, before := range map[string]uint64{
		"https://example.com/robots.txt": 0, "https://other.test/robots.txt": 0, "https://other.test/rules": 1,
	} {
		if got, asked := seen[url]; !asked || got != before {
			t.Errorf("%s: %d, want %d", url, got, before)
		}
	}
	if LatestHop(t.Context()) != nil {
		t.Error("a context that is of no fetch")
	}
}
