package crawl_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// A walledSite has pages, all linked from /, behind a wall that stands for a while after each run of
// requests. Its text is on no page.
type walledSite struct {
	mu     sync.Mutex
	pages  int
	allow  int           // requests after which the wall stands, counted since it last fell
	stands time.Duration // how long
	again  bool          // it stands again after further requests
	wall   http.HandlerFunc

	served int
	until  time.Time
	falls  int
	into   int // requests into the wall that stands
	most   int // the largest of these
}

const wallText = "prove that you are a person"

// theWall answers with status and the text of a wall, which has an id of its own.
func theWall(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<title>%s</title><script>var id = %q</script><p>Request %d", wallText, req.URL, time.Now().UnixNano())
	}
}

func (s *walledSite) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case now.Before(s.until):
		s.into++
		s.most = max(s.most, s.into)
		s.wall(w, req)
		return
	case s.served == s.allow && (s.again || s.falls == 0):
		s.falls++
		s.served = 0
		s.until = now.Add(s.stands)
		s.into = 1
		s.most = max(s.most, 1)
		s.wall(w, req)
		return
	}
	s.served++
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>%s</title>", s.text(req.URL.Path))
	if req.URL.Path == "/" {
		for i := range s.pages - 1 {
			fmt.Fprintf(w, "<a href=/%d>page</a>", i)
		}
	}
}

// text returns what the page at path says: no two say the same.
func (s *walledSite) text(path string) string { return "page " + inLetters(path) }

// inLetters returns text without digits, which numbers may have.
func inLetters(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return 'a' + r - '0'
		}
		return r
	}, text)
}

// isPage reports whether the body is the page's.
func (s *walledSite) isPage(p *crawl.Page) bool {
	return strings.HasPrefix(string(p.Body), "<title>"+s.text(p.Response.Request.URL.Path)+"</title>")
}

// TestVisitCallsAPageARefusal: a captcha with status 200, which only Visit can tell from a page,
// blocks its host, and loses no page.
func TestVisitCallsAPageARefusal(t *testing.T) {
	configs := presets()
	for name, cfg := range configs {
		for _, first := range []int{0, 1, 30} {
			t.Run(fmt.Sprintf("%s, after %d", name, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const pages = 100
					s := &walledSite{pages: pages, allow: first, stands: time.Minute, wall: theWall(http.StatusOK)}
					r := newRig()
					cfg.Base = r.Web
					var log strings.Builder
					recorder, err := evidence.NewLog(&log, evidence.LogConfig{})
					if err != nil {
						t.Fatal(err)
					}
					cfg.Evidence = recorder
					r.politeness = cfg
					r.Site("https://example.com").Handle("/", s)
					r.crawl.Follow = crawl.SameHost
					had := make(map[string]bool)
					r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
						if strings.Contains(string(p.Body), wallText) {
							return fmt.Errorf("%w: a captcha", crawl.ErrRefused)
						}
						r.mu.Lock()
						defer r.mu.Unlock()
						had[p.URL] = s.isPage(p)
						return nil
					}
					sum := r.run(t.Context(), t, "https://example.com/")
					wantOutcomes(t, sum, map[crawl.Outcome]int{crawl.Visited: pages})
					if len(had) != pages {
						t.Errorf("%d pages had", len(had))
					}
					for url, is := range had {
						if !is {
							t.Errorf("%s has the text of another page", url)
						}
					}
					if s.most > 12 {
						t.Errorf("%d requests into the wall", s.most)
					}
					t.Logf("%s, after %d: %d requests into the wall of a minute, %v", name, first, s.most, sum)
					if err := recorder.Close(); err != nil {
						t.Fatal(err)
					}
					report, err := audit.Check(strings.NewReader(log.String()))
					if err != nil {
						t.Fatal(err)
					}
					if !strings.Contains(log.String(), `"late":true`) || !report.OK() {
						t.Errorf("the audit: %v", report)
					}
				})
			})
		}
	}
}

// wallOf answers with a status and a header field, as a limiter does whose words no list has.
func wallOf(status int, field ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(field); i += 2 {
			w.Header().Set(field[i], field[i+1])
		}
		w.WriteHeader(status)
	}
}

// redirectAll answers with a redirect whose target has the path.
func redirectAll(target string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Location", fmt.Sprintf(target, req.URL.Path))
		w.WriteHeader(http.StatusFound)
	}
}

// inTurn answers as each of the walls, one after the other.
func inTurn(walls ...http.HandlerFunc) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, req *http.Request) {
		n++
		walls[n%len(walls)](w, req)
	}
}

// longWall answers with a status and a body that is too long to wait.
func longWall(status int) http.HandlerFunc {
	body := strings.Repeat("please wait ", 10_000)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// TestWallsInAnyWords: a site that refuses in words that no list has loses no page, and gets few
// requests while it refuses. A text with status 200 that is new costs the four pages that came before
// it was doubted, and a new target of redirects one, which is said in docs/429-reference.md.
func TestWallsInAnyWords(t *testing.T) {
	configs := presets()
	for _, tt := range []struct {
		name string
		wall http.HandlerFunc
		lost int // at most
		most int // requests into one wall
	}{
		{"202", theWall(202), 0, 10},
		{"AWS WAF", wallOf(202, "X-Amzn-Waf-Action", "challenge"), 0, 13},
		{"203", theWall(203), 0, 10},
		{"204", wallOf(204), 0, 10},
		{"400", wallOf(400), 0, 10},
		{"403", wallOf(403), 0, 10},
		{"405", wallOf(405), 0, 10},
		{"406", wallOf(406), 0, 10},
		{"420", wallOf(420), 0, 10},
		{"421", wallOf(421), 0, 10},
		{"422", wallOf(422), 0, 10},
		{"430", wallOf(430), 0, 10},
		{"999", wallOf(999), 0, 10},
		{"302 to a page of its own", wallOf(302, "Location", "/sorry?id=7"), 1, 10},
		{"302 to another host", wallOf(302, "Location", "https://login.example/sorry"), 1, 10},
		{"303 without a target", wallOf(303), 0, 10},
		{"302 to another target for each page", redirectAll("/sorry%s"), 1, 10},
		{"302 of each page to itself", redirectAll("%s"), 1, 10},
		{"302 to another host for each page", redirectAll("https://login.example/from%s"), 1, 10},
		{"304 that nobody has asked for", wallOf(304), 0, 10},
		{"206", theWall(206), 0, 10},
		{"statuses in turn", inTurn(theWall(202), wallOf(203), wallOf(304), wallOf(422)), 0, 10},
		{"redirects in turn", inTurn(wallOf(302, "Location", "/sorry"), wallOf(303), redirectAll("/login%s")), 1, 10},
		{"404", theWall(404), 4, 10},
		{"410", wallOf(410), 4, 10},
		{"404 and 410 in turn", inTurn(wallOf(410), theWall(404)), 4, 10},
		{"200, longer than is kept", page("<p>" + wallText + strings.Repeat("<script>go()</script>", 5000)), 8, 10},
		{"202, longer than is kept", longWall(202), 8, 10},
		{"200", theWall(200), 4, 10},
		{"200 by a script", page("<html><script src=/challenge.js></script>"), 4, 10},
	} {
		for name, cfg := range configs {
			for _, again := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, again %v", tt.name, name, again), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						const pages = 200
						s := &walledSite{pages: pages, allow: 40, stands: 10 * time.Minute, again: again, wall: tt.wall}
						r := newRig()
						cfg.Base = r.Web
						r.politeness = cfg
						r.Site("https://example.com").Handle("/", s)
						r.Site("https://login.example").Handle("/", page("log in"))
						r.crawl.Follow = crawl.SameHost
						sum := r.run(t.Context(), t, "https://example.com/")
						had := 0
						for _, p := range r.visited {
							if s.isPage(p) {
								had++
							}
						}
						if pages-had > tt.lost {
							t.Errorf("%d of %d pages had: %v", had, pages, sum)
						}
						if s.falls == 0 || s.most > tt.most {
							t.Errorf("%d requests into one of %d walls, want %d at most", s.most, s.falls, tt.most)
						}
						t.Logf("%d pages had, at most %d requests into one of %d walls, %v", had, s.most, s.falls, sum)
					})
				})
			}
		}
	}
}

// TestAlikePagesCostLittle: a site that has the same page at many URLs, or redirects many to one, is
// asked again for a page that it served before 5, 10, 20 and more pages apart, and loses none.
func TestAlikePagesCostLittle(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		most   int // further requests
	}{
		"one text":     {page("nothing found"), 10},
		"one redirect": {wallOf(302, "Location", "https://login.example/"), 27},
		"one status":   {wallOf(422), 28}, // with the trial of a limit
		"redirects":    {redirectAll("https://login.example%s"), 27},
		"no pages":     {wallOf(404), 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 1000
				r := newRig()
				asked := 0
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					asked++
					switch req.URL.Path {
					case "/0":
						page("home")(w, req)
					case "/1":
						page("about")(w, req)
					default:
						tt.answer(w, req)
					}
				}))
				r.Site("https://login.example").Handle("/", page("log in"))
				sum := r.run(t.Context(), t, numbered("example.com", pages)...)
				if n := sum.Visited() + sum.Outcomes[crawl.Redirected]; n < pages || sum.Outcomes[crawl.Refused] > 0 {
					t.Errorf("%v", sum)
				}
				if asked-pages > tt.most {
					t.Errorf("%d further requests, want %d at most", asked-pages, tt.most)
				}
				t.Logf("%d further requests, %v", asked-pages, sum)
			})
		})
	}
}

// TestASiteWithAStatusOfItsOwn: a site that serves each page with a status that few sites use loses
// no page, and is asked for none once more.
func TestASiteWithAStatusOfItsOwn(t *testing.T) {
	for _, status := range []int{201, 203, 206, 207, 226, 299} {
		for _, text := range []string{"", "a leaf"} {
			t.Run(fmt.Sprintf("%d %s", status, text), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const pages = 300
					r := newRig()
					asked := 0
					r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
						asked++
						w.WriteHeader(status)
						fmt.Fprint(w, cmp.Or(text, inLetters(req.URL.Path)))
					}))
					sum := r.run(t.Context(), t, numbered("example.com", pages)...)
					if sum.Visited() != pages || asked > pages {
						t.Errorf("%d requests, %v", asked, sum)
					}
				})
			})
		}
	}
}

// TestASingle403BesidePagesWithOneText: pages that wait as they are alike don't make a 403 beside them
// the fifth in a row. It is asked for again, as a limit may have answered it.
func TestASingle403BesidePagesWithOneText(t *testing.T) {
	for refused := 4; refused < 40; refused += 5 {
		synctest.Test(t, func(t *testing.T) {
			const pages = 60
			r := newRig()
			requests := 0
			was := map[string]int{}
			r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				requests++
				was[req.URL.Path]++
				switch {
				case requests == refused:
					w.WriteHeader(http.StatusForbidden)
				case req.URL.Path == "/0":
					page("home")(w, req)
				default:
					page("a leaf")(w, req)
				}
			}))
			sum := r.run(t.Context(), t, numbered("example.com", pages)...)
			for _, p := range r.visited {
				if p.Response.StatusCode != http.StatusOK {
					t.Errorf("request %d: %s was visited with status %d after %d requests",
						refused, p.URL, p.Response.StatusCode, was["/"+path.Base(p.URL)])
				}
			}
			if sum.Visited() != pages {
				t.Errorf("request %d: %v", refused, sum)
			}
		})
	}
}

// TestBrokenPagesBesidePagesWithOneText: pages that wait as they are alike are served pages all the
// same. A broken page among them costs no request more than elsewhere.
func TestBrokenPagesBesidePagesWithOneText(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 500
				r := newRig()
				asked := map[string]int{}
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					switch {
					case req.URL.Path == "/0":
						page("home")(w, req)
					case strings.HasSuffix(req.URL.Path, "0"): // each tenth
						asked[req.URL.Path]++
						w.WriteHeader(status)
					default:
						page("a leaf")(w, req)
					}
				}))
				sum := r.run(t.Context(), t, numbered("example.com", pages)...)
				requests := 0
				for _, n := range asked {
					requests += n
				}
				most := 2*len(asked) + 3 // the first few are asked for once more
				if sum.Visited() != pages || requests > most {
					t.Errorf("%d requests for %d broken pages, want %d at most: %v", requests, len(asked), most, sum)
				}
			})
		})
	}
}

// TestAlikePagesOfAHostThatLimits: a host that limits gets no request more for pages that have one
// text, but for the few checks. Other pages stand between them, so that most rows end short.
func TestAlikePagesOfAHostThatLimits(t *testing.T) {
	for name, cfg := range presets() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 300
				r := newRig()
				cfg.Base = r.Web
				r.politeness = cfg
				served := map[string]int{}
				next := time.Now()
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					now := time.Now()
					if now.Before(next) {
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					next = now.Add(time.Second)
					served[req.URL.Path]++
					text := "a leaf"
					if strings.HasSuffix(req.URL.Path, "0") { // each tenth
						text = "page " + inLetters(req.URL.Path)
					}
					page(text)(w, req)
				}))
				sum := r.run(t.Context(), t, numbered("example.com", pages)...)
				again := -pages
				for _, n := range served {
					again += n
				}
				if sum.Visited() != pages || again > 10 {
					t.Errorf("%d pages were served again, want 10 at most: %v", again, sum)
				}
			})
		})
	}
}

// breakingOff answers with a body that ends before its length. Its connection ends too.
func breakingOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "5000")
	fmt.Fprint(w, "<html>the beginning")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// TestBodiesThatBreakOff: a host that breaks off each body while it refuses gets few requests, and
// loses no page. A single page whose body breaks off costs two requests and a check.
func TestBodiesThatBreakOff(t *testing.T) {
	for name, cfg := range presets() {
		t.Run("wall, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 200
				s := &walledSite{pages: pages, allow: 40, stands: 10 * time.Minute, again: true, wall: breakingOff}
				r := newRig()
				cfg.Base = r.Web
				r.politeness = cfg
				r.Site("https://example.com").Handle("/", s)
				r.crawl.Follow = crawl.SameHost
				sum := r.run(t.Context(), t, "https://example.com/")
				wantOutcomes(t, sum, map[crawl.Outcome]int{crawl.Visited: pages})
				if s.falls < 2 || s.most > 10 {
					t.Errorf("%d requests into one of %d walls: %v", s.most, s.falls, sum)
				}
			})
		})
		t.Run("pages, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 200
				r := newRig()
				cfg.Base = r.Web
				r.politeness = cfg
				asked := 0
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					asked++
					if strings.HasSuffix(req.URL.Path, "5") { // each tenth
						breakingOff(w, req)
					}
					page("page "+inLetters(req.URL.Path))(w, req)
				}))
				began := time.Now()
				sum := r.run(t.Context(), t, numbered("example.com", pages)...)
				wantOutcomes(t, sum, map[crawl.Outcome]int{crawl.Visited: pages - pages/10, crawl.Failed: pages / 10})
				if most := pages + 2*pages/10 + 3; asked > most {
					t.Errorf("%d requests, want %d at most: %v", asked, most, sum)
				}
				t.Logf("%d requests in %v", asked, time.Since(began))
			})
		})
	}
}

// TestBodiesThatBreakOffAfterOtherRefusals: the page that was served before is asked for as a check of
// a 503 or a 403, and breaks off. The host is blocked then too, and gets few requests.
func TestBodiesThatBreakOffAfterOtherRefusals(t *testing.T) {
	const served = 5
	for _, tt := range []struct{ status, times int }{{http.StatusServiceUnavailable, 3}, {http.StatusForbidden, 5}, {http.StatusAccepted, 5}} {
		t.Run(strconv.Itoa(tt.status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
				defer cancel()
				r := newRig()
				asked := 0
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					asked++
					switch {
					case asked <= served:
						page("page "+inLetters(req.URL.Path))(w, req)
					case asked <= served+tt.times:
						w.WriteHeader(tt.status)
					default:
						breakingOff(w, req)
					}
				}))
				sum := r.run(ctx, t, numbered("example.com", 40)...)
				if asked > 60 {
					t.Errorf("%d requests: %v", asked, sum)
				}
				t.Logf("%d requests", asked)
			})
		})
	}
}

// TestAHostThatBreaksOffEachBody: nothing is served that a page might be checked by, so no page is asked
// for twice.
func TestAHostThatBreaksOffEachBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = 50
		r := newRig()
		asked := 0
		r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			asked++
			breakingOff(w, req)
		}))
		sum := r.run(t.Context(), t, numbered("example.com", pages)...)
		wantOutcomes(t, sum, map[crawl.Outcome]int{crawl.Failed: pages})
		if asked > pages {
			t.Errorf("%d requests: %v", asked, sum)
		}
	})
}
