package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
)

// TestNewRefusesSecondsThatAreNanoseconds: who writes Timeout: 30 means half a minute.
func TestNewRefusesSecondsThatAreNanoseconds(t *testing.T) {
	_, err := crawl.New(crawl.Config{Timeout: 30, Grace: -1, Patience: 86400})
	for _, want := range []string{
		"crawl: Config.Timeout: 30ns are nanoseconds: did you mean 30s?", "crawl: Config.Grace: -1ns is negative",
		"crawl: Config.Patience: 86400ns are nanoseconds: did you mean 86400s?",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRefusedURLsComeBack: what was answered with 429 or 503 is asked for again, when the host may
// be asked again, five times at most, or Tries. Of a host that has served nothing the first quarter
// of an hour doesn't count.
func TestRefusedURLsComeBack(t *testing.T) {
	for _, tt := range []struct {
		name     string
		sequence []int
		header   string
		tries    int
		requests int
		outcome  crawl.Outcome
		least    time.Duration
	}{
		{"429", []int{429, 200}, "60", 0, 2, crawl.Visited, time.Minute},
		{"503 with Retry-After", []int{503, 503, 200}, "60", 0, 3, crawl.Visited, 2 * time.Minute},
		{"503 without", []int{503, 503, 200}, "", 0, 3, crawl.Visited, 11 * time.Second},
		{"429 for ever", []int{429}, "60", 0, 20, crawl.Refused, 19 * time.Minute},
		{"503 for ever", []int{503}, "", 0, 19, crawl.Refused, 90*time.Minute + 20*time.Second},
		{"one try", []int{429, 200}, "60", 1, 1, crawl.Refused, 0},
		{"one try, and one of Retry", []int{429, 200}, "60", 1, 2, crawl.Visited, time.Minute},
		{"two tries", []int{429, 503, 429, 503, 200}, "60", 2, 5, crawl.Visited, 4 * time.Minute},
		{"two tries for ever", []int{429, 503}, "60", 2, 17, crawl.Refused, 16 * time.Minute},
		{"many tries", []int{503}, "", 9, 23, crawl.Refused, 13*time.Hour + 30*time.Minute + 20*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				if r.crawl.Tries = tt.tries; tt.name != "one try" { // a crawl that repeats requests does so itself
					r.politeness.Retry.Max = 1
				}
				var asked atomic.Int32
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					n := int(asked.Add(1)) - 1
					if tt.header != "" {
						w.Header().Set("Retry-After", tt.header)
					}
					w.WriteHeader(tt.sequence[min(n, len(tt.sequence)-1)])
				}))
				s := r.run(t.Context(), t, "https://example.com/")
				wantOutcomes(t, s, map[crawl.Outcome]int{tt.outcome: 1})
				if int(asked.Load()) != tt.requests {
					t.Errorf("asked %d times, want %d", asked.Load(), tt.requests)
				}
				if len(r.visited) != 1 {
					t.Errorf("visited %d times, want once: the last answer", len(r.visited))
				}
				if s.Elapsed < tt.least || s.Elapsed > tt.least+10*time.Second {
					t.Errorf("took %v, want about %v", s.Elapsed, tt.least)
				}
			})
		})
	}
}

// TestDeadHosts: a name that doesn't exist is given up at once, a host that is down after five
// times, and neither holds up the rest.
func TestDeadHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://gone.example").Down(&net.DNSError{Err: "no such host", Name: "gone.example", IsNotFound: true})
		r.Site("https://down.example").Down(errors.New("connection refused"))
		r.Site("https://here.example").Page("/", "here")
		var urls []string
		for i := range 20 {
			urls = append(urls, fmt.Sprintf("https://gone.example/%d", i), fmt.Sprintf("https://down.example/%d", i))
		}
		s := r.run(t.Context(), t, append(urls, "https://here.example/")...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 1, crawl.Unreachable: 40})
		if s.Elapsed > 30*time.Minute {
			t.Errorf("took %v", s.Elapsed)
		}
		asked := map[string]int{}
		for _, req := range r.Requests() {
			asked[strings.TrimSuffix(req.URL, "/robots.txt")]++
		}
		if asked["https://gone.example"] != 1 || asked["https://down.example"] != 5 {
			t.Errorf("asked: %v", asked)
		}
	})
}

// TestPagesThatWaitForOneRobotsFetch: several pages of a host may wait for its robots.txt, as it is
// slow to fail. That is one try of five.
func TestPagesThatWaitForOneRobotsFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts.Concurrency = 4
		r.Site("https://example.com").RobotsStatus(http.StatusServiceUnavailable).Latency(3 * time.Second)
		wantOutcomes(t, r.run(t.Context(), t, numbered("example.com", 20)...), map[crawl.Outcome]int{crawl.Unreachable: 20})
		if n := len(r.Requests()); n != 5 {
			t.Errorf("robots.txt was asked for %d times", n)
		}
	})
}

// TestTriesOfADeadHost: with one try, a host that is down is given up when it is first met.
func TestTriesOfADeadHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Tries = 1
		r.Site("https://down.example").Down(errors.New("connection refused"))
		s := r.run(t.Context(), t, "https://down.example/1", "https://down.example/2")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Unreachable: 2})
		if s.Elapsed > time.Minute {
			t.Errorf("took %v", s.Elapsed)
		}
	})
}

// TestVisitStopsOnePage: errors, panics and ends of the goroutine are this page's alone.
func TestVisitStopsOnePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page("a page"))
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			switch p.URL {
			case "https://example.com/error":
				return errors.New("no")
			case "https://example.com/panic":
				panic("no")
			case "https://example.com/goexit":
				runtime.Goexit()
			}
			return nil
		}
		s := r.run(t.Context(), t, "https://example.com/error", "https://example.com/panic", "https://example.com/goexit", "https://example.com/fine")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 1, crawl.VisitFailed: 3})
	})
}

// TestTimeout: a page that isn't answered in time is asked for again or, with one try, has failed,
// and then its host goes on with as many requests at once as ever.
func TestTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		tries int
		want  map[crawl.Outcome]int
		took  time.Duration // at most
	}{
		"it comes back": {0, map[crawl.Outcome]int{crawl.Visited: 6}, time.Hour},
		"one try":       {1, map[crawl.Outcome]int{crawl.Failed: 6}, 35 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.politeness.Hosts.Concurrency = 2
				r.crawl.Tries, r.crawl.Timeout = tt.tries, 10*time.Second
				silent := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
				site := r.Site("https://example.com")
				for i := range 6 {
					site.Handle(fmt.Sprintf("/%d", i), politenesstest.InTurn(silent, page("")))
				}
				s := r.run(t.Context(), t, numbered("example.com", 6)...)
				if wantOutcomes(t, s, tt.want); s.Elapsed > tt.took {
					t.Errorf("took %v", s.Elapsed)
				}
			})
		})
	}
}

// TestWaitingRequestsAreLeft when the crawl ends, also those that are with the Transport already.
func TestWaitingRequestsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page(""))
		r.politeness.Hosts.Delay.Min = time.Minute
		hosts, err := memory.New(r.politeness.Hosts)
		if err != nil {
			t.Fatal(err)
		}
		r.politeness.Hosts, r.politeness.Limiter = hostlimit.Config{}, nextIsNow{hosts}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		wantOutcomes(t, r.run(ctx, t, numbered("example.com", 5)...), map[crawl.Outcome]int{crawl.Visited: 1, crawl.Left: 4})
	})
}

// nextIsNow has a turn for everybody, who then has to wait for it.
type nextIsNow struct{ hostlimit.Limiter }

func (nextIsNow) Next(context.Context, string, time.Duration) (time.Time, error) {
	return time.Now(), nil
}

// TestLongURLs: those above 2,048 bytes are left out.
func TestLongURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page(""))
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.Depth == 0 {
				longest := p.URL + strings.Repeat("x", 2048-len(p.URL))
				p.Add(longest, longest+"x")
			}
			return nil
		}
		wantOutcomes(t, r.run(t.Context(), t, "https://example.com/"), map[crawl.Outcome]int{crawl.Visited: 2, crawl.TooLong: 1})
	})
}

// TestDuplicatesAndNoRoom are told apart.
func TestDuplicatesAndNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page(""))
		r.crawl.MaxURLs = 2
		s := r.run(t.Context(), t, append(append(numbered("example.com", 2), numbered("example.com", 2)...), "https://example.com/2")...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 2, crawl.Duplicate: 2, crawl.NoRoom: 1})
	})
}

// TestRedirects: each hop waits for its own host, and the page knows what was asked first.
func TestRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Follow = crawl.SameHost
		r.Site("http://example.com").Handle("/", http.RedirectHandler("https://www.example.com/home", http.StatusMovedPermanently))
		r.Site("https://www.example.com").
			Handle("/home", page(`<a href="/away">away</a> <a href="/loop">loop</a>`)).
			Handle("/away", http.RedirectHandler("https://other.example/", http.StatusFound)).
			Handle("/loop", http.RedirectHandler("/loop", http.StatusFound)).
			Handle("/chain/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
			}))
		s := r.run(t.Context(), t, "http://example.com", "https://www.example.com/chain/")
		wantOutcomes(t, s, map[crawl.Outcome]int{
			crawl.Visited: 1, crawl.Redirected: 1 + 2 + 11, crawl.TooDeep: 1, crawl.Duplicate: 1,
		})
		if p := r.visited[0]; p.URL != "http://example.com/" || p.FinalURL != "https://www.example.com/home" || p.Depth != 0 {
			t.Errorf("visited %s as %s, at depth %d", p.URL, p.FinalURL, p.Depth)
		}
	})
}

// TestNofollowAndCanonical: both are obeyed, or not, by choice. A page that one link may be followed to is
// visited, whatever the others say.
func TestNofollowAndCanonical(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit func(*crawl.Config)
		want  string
	}{
		{"by default", func(*crawl.Config) {}, "/ /canon /copy /header /meta /plain"},
		{"nofollow ignored", func(c *crawl.Config) { c.IgnoreNofollow = true }, "/ /canon /copy /header /marked /meta /of-header /of-meta /plain"},
		{"canonical obeyed", func(c *crawl.Config) { c.Canonical = true }, "/ /canon /header /meta /plain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.crawl.Follow = crawl.SameHost
				tt.limit(&r.crawl)
				r.Site("https://example.com").
					Handle("/", page(`<a rel=nofollow href=/plain>0</a><a href=/plain>1</a><a rel=nofollow href=/plain>1</a><a rel="external NOFOLLOW" href=/marked>2</a><a href=/meta>3</a><a href=/header>4</a><a href=/copy>5</a><a href=/canon>6</a>`)).
					Handle("/plain", page("")).Handle("/marked", page("")).Handle("/of-meta", page("")).Handle("/of-header", page("")).
					Handle("/meta", page(`<meta name=robots content=nofollow><a href=/of-meta>`)).
					Handle("/header", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
						w.Header().Set("X-Robots-Tag", "crawltest: nofollow")
						page("<a href=/of-header>")(w, req)
					})).
					Handle("/copy", page(`<link rel=canonical href=/canon>`)).
					Handle("/canon", page(`<link rel=canonical href=/copy>`)) // each names the other: one is visited
				s := r.run(t.Context(), t, "https://example.com/")
				got := strings.ReplaceAll(r.urls(), "https://example.com", "")
				if r.crawl.Canonical {
					got = strings.Replace(got, "/copy", "/canon", 1) // which of the two is a matter of their order
				}
				if got != tt.want {
					t.Errorf("visited %s, want %s (%v)", got, tt.want, s)
				}
			})
		})
	}
}

// TestKnownPages: a page that hasn't changed isn't sent again.
func TestKnownPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if req.Header.Get("If-None-Match") == `"1"` && req.Header.Get("If-Modified-Since") == "Mon, 02 Nov 2026 00:00:00 GMT" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			page("anew")(w, req)
		}))
		r.crawl.Known = func(_ context.Context, url string) (crawl.Validators, error) {
			if url == "https://example.com/new" {
				return crawl.Validators{}, nil
			}
			return crawl.Validators{ETag: `"1"`, LastModified: "Mon, 02 Nov 2026 00:00:00 GMT"}, nil
		}
		r.run(t.Context(), t, "https://example.com/old", "https://example.com/new")
		status := map[string]int{}
		for _, p := range r.visited {
			status[p.URL] = p.Response.StatusCode
		}
		if status["https://example.com/old"] != 304 || status["https://example.com/new"] != 200 {
			t.Errorf("statuses: %v", status)
		}
	})
}

// TestHTTPSIsNoLessCanonicalThanHTTP: many sites name http:// URLs, from before their move, and
// redirect these to https://.
func TestHTTPSIsNoLessCanonicalThanHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Canonical, r.crawl.Follow = true, crawl.SameHost
		r.Site("https://example.com").Handle("/", page(`<link rel=canonical href="http://example.com/"><a href="/a">`)).
			Handle("/a", page(`<link rel=canonical href="http://example.com/">`))
		r.Site("http://example.com").Handle("/", http.RedirectHandler("https://example.com/", http.StatusMovedPermanently))
		s := r.run(t.Context(), t, "https://example.com/")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 1, crawl.NotCanonical: 1, crawl.Redirected: 1, crawl.Duplicate: 1})
	})
}

// TestDiscover: each host is discovered once, and what it leads to is crawled.
func TestDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var calls []string
		for _, site := range []string{"https://a.example", "https://b.example"} {
			r.Site(site).Robots("User-agent: *\nSitemap: "+site+"/sitemap.xml\n").Handle("/", page(""))
		}
		r.crawl.Discover = listed(func(ctx context.Context, url string) (found []crawl.Request) {
			sitemaps, err := r.crawl.Transport.Sitemaps(ctx, url)
			if err != nil {
				t.Error(err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			calls = append(calls, sitemaps...)
			for i := range 3 {
				found = append(found, crawl.Request{URL: strings.TrimSuffix(sitemaps[0], "sitemap.xml") + fmt.Sprint(i)})
			}
			return append(found, crawl.Request{URL: "no URL"})
		})
		s := r.run(t.Context(), t, "https://a.example/", "https://b.example/", "https://b.example/x")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 9, crawl.Invalid: 2})
		if len(calls) != 2 {
			t.Errorf("discovered %v", calls)
		}
	})
}

// TestFollowDecidesOnRedirectsOfDiscoveredURLs: only a start URL may lead anywhere. Follow isn't asked
// for the URLs themselves, nor does MaxDepth leave them out, or what they redirect to.
func TestFollowDecidesOnRedirectsOfDiscoveredURLs(t *testing.T) {
	for _, maxDepth := range []int{-1, 0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.crawl.Follow, r.crawl.MaxDepth = crawl.SameHost, maxDepth
			away := http.RedirectHandler("https://other.example/", http.StatusFound)
			r.Site("https://start.example").Handle("/", http.RedirectHandler("https://a.example/", http.StatusFound))
			r.Site("https://a.example").Handle("/", page("")).Handle("/away", away).
				Handle("/near", http.RedirectHandler("/here", http.StatusFound)).Handle("/here", page(`<a href="/linked">`)).Handle("/linked", page(""))
			r.Site("https://other.example").Handle("/", page(""))
			r.crawl.Discover = listed(func(_ context.Context, url string) []crawl.Request {
				if !strings.HasPrefix(url, "https://a.") {
					return nil
				}
				return []crawl.Request{{URL: "https://a.example/away"}, {URL: "https://a.example/near"}}
			})
			r.run(t.Context(), t, "https://start.example/")
			want := "https://a.example/ https://a.example/here"
			if maxDepth == 0 || maxDepth == 2 {
				want += " https://a.example/linked"
			}
			if got := r.urls(); got != want {
				t.Errorf("MaxDepth %d: visited %s, want %s", maxDepth, got, want)
			}
		})
	}
}

// TestCancelLosesNothing ends crawls at random instants: what was answered is visited, what was
// added is done or given back, and nothing is asked for once the crawl has ended.
func TestCancelLosesNothing(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			answered := make(map[string]bool)
			r := newRig()
			r.crawl.Follow, r.crawl.Workers = crawl.Everywhere, 2
			r.crawl.Visit = func(context.Context, *crawl.Page) error {
				time.Sleep(time.Duration(seed%3) * 20 * time.Millisecond)
				return nil
			}
			r.politeness.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				r.mu.Lock()
				latency, host, path := time.Duration(rnd.IntN(700))*time.Millisecond, rnd.IntN(9), rnd.IntN(100)
				r.mu.Unlock()
				select {
				case <-time.After(latency):
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
				w := httptest.NewRecorder()
				if req.URL.Path != "/robots.txt" {
					page(fmt.Sprintf(`<a href="%s0">a</a><a href="http://h%d.example/%d">b</a>`, req.URL.Path, host, path))(w, req)
					r.mu.Lock()
					answered[req.URL.String()] = true
					r.mu.Unlock()
				}
				return w.Result(), nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(time.Duration(rnd.IntN(5000))*time.Millisecond, cancel).Stop()
			q := newStore()
			r.crawl.Queue = q
			s := r.run(ctx, t, "http://h0.example/", "http://h1.example/", "http://h2.example/")
			visited := make(map[string]bool)
			for _, p := range r.visited {
				visited[p.FinalURL] = true
			}
			if !maps.Equal(answered, visited) {
				t.Errorf("seed %d: %d answered, %d visited (%v)", seed, len(answered), len(visited), s)
			}
			for url, state := range q.states {
				if want := visited[url]; want != (state == done) || state == lent {
					t.Errorf("seed %d: %s visited %v, and %v in the Queue", seed, url, want, state)
				}
			}
		})
	}
}

// TestNewNamesEveryProblem: in one error.
func TestNewNamesEveryProblem(t *testing.T) {
	_, err := crawl.New(crawl.Config{Workers: -1, MaxBody: -1})
	for _, field := range []string{"Transport", "Visit", "Workers", "MaxBody"} {
		if err == nil || !strings.Contains(err.Error(), "crawl: Config."+field) {
			t.Errorf("the error doesn't name %s: %v", field, err)
		}
	}
}

// TestDisallowedCostsNoTime: a URL that is never sent doesn't hold up the next one of its host.
func TestDisallowedCostsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Robots("User-agent: *\nDisallow: /no/\n").Handle("/", page(""))
		var urls []string
		for i := range 1000 {
			urls = append(urls, fmt.Sprintf("https://example.com/no/%d", i))
		}
		s := r.run(t.Context(), t, append(urls, "https://example.com/yes")...)
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 1, crawl.Disallowed: 1000})
		if s.Elapsed > time.Second {
			t.Errorf("took %v", s.Elapsed)
		}
	})
}

// TestPreferences: a page knows what its site states of its use.
func TestPreferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Response.CheckIndexing = true
		r.Site("https://example.com").Robots("User-agent: *\nContent-Signal: ai-train=no\nAllow: /\n").Handle("/", page(""))
		r.run(t.Context(), t, "https://example.com/")
		if got := r.visited[0].Preferences.Train; got.Preference != robots.Refused {
			t.Errorf("training: %+v", got)
		}
	})
}

// TestNothingStartsAfterTheEnd: not even a further try of a request that is under way.
func TestNothingStartsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}))
		r.Site("https://example.org").Handle("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(3 * time.Second) }))
		r.politeness.Retry.Max = 5
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Millisecond)
		defer cancel()
		began := time.Now()
		summary := r.run(ctx, t, "https://example.com/", "https://example.org/")
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 1, crawl.Left: 1})
		for _, req := range r.Requests() {
			if at := req.Start.Sub(began); at > time.Second+time.Millisecond {
				t.Errorf("%s: sent %v after the beginning of a crawl that was ended after a second", req.URL, at)
			}
		}
	})
}

// TestHugePriorities, such as times in nanoseconds, are kept as the greatest.
func TestHugePriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page(""))
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.Depth == 0 {
				p.AddPriority("/last", math.MinInt)
				p.AddPriority("/second", 1)
				p.AddPriority("/first", math.MaxInt)
			}
			return nil
		}
		r.run(t.Context(), t, "https://example.com/")
		for i, want := range []string{"https://example.com/", "https://example.com/first", "https://example.com/second", "https://example.com/last"} {
			if r.visited[i].URL != want {
				t.Errorf("number %d is %s, want %s", i, r.visited[i].URL, want)
			}
		}
	})
}
