package crawl_test

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/internal/soak"
)

// someLetters returns a word that no other answer has.
func someLetters(rng *rand.Rand) string {
	word := make([]byte, 8)
	for i := range word {
		word[i] = byte('a' + rng.IntN(26))
	}
	return string(word)
}

// saysAnew answers with status 200 and a text, in which {} is another word each time, {path} the path
// in letters, and {time} the time.
func saysAnew(contentType string, texts ...string) http.HandlerFunc {
	rng := rand.New(rand.NewPCG(1, 2))
	n := 0
	return func(w http.ResponseWriter, req *http.Request) {
		text := texts[n%len(texts)]
		n++
		for strings.Contains(text, "{}") {
			text = strings.Replace(text, "{}", someLetters(rng), 1)
		}
		text = strings.ReplaceAll(text, "{path}", inLetters(req.URL.Path))
		text = strings.ReplaceAll(text, "{time}", time.Now().Format(time.RFC1123))
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, text)
	}
}

// atRandom answers as one of the walls.
func atRandom(walls ...http.HandlerFunc) http.HandlerFunc {
	rng := rand.New(rand.NewPCG(3, 4))
	return func(w http.ResponseWriter, req *http.Request) {
		walls[rng.IntN(len(walls))](w, req)
	}
}

// These are texts of walls, in the manner of those that the web has.
const (
	shortWall  = "<title>Just a moment</title><p>Prove that you are a person. Reference: {}"
	shopWall   = "<title>Robot Check</title><p>Sorry, we just need to make sure you are no robot. Your request for {path} at {time} has the number {}"
	blockWall  = "<h1>Access denied</h1><p>You have been blocked by our security service. If you think this is wrong, write to the owner. Ray ID {}, your address 192.0.2.7"
	scriptWall = "<html><body><script>var id = '{}';\nwindow.go = function () { check(id) }</script></body></html>"
	jsonWall   = `{"error": "captcha required", "id": "{}", "path": "{path}"}`
	busyWall   = "<h1>Too busy</h1><p>Our servers have much to do. Please come back later"
	loginWall  = "<h1>Log in</h1><form>Name Password Forgotten?</form><p>Members only"
	queueWall  = "<h1>You are in line</h1><p>Many people want to see this shop today. Your turn comes"
)

// manyWords returns words, which are the same for each seed.
func manyWords(seed uint64, n int) string {
	rng := rand.New(rand.NewPCG(seed, 0))
	var text strings.Builder
	for range n {
		text.WriteString(someLetters(rng))
		text.WriteByte(' ')
	}
	return text.String()
}

// TestWallsWhoseTextDiffers: a wall with status 200 whose text isn't twice the same, or is one of
// several, gets few requests after pages that were served. It is found at the fifth response of a row
// after the first of each text.
func TestWallsWhoseTextDiffers(t *testing.T) {
	const markup = "text/html"
	configs := presets()
	for _, tt := range []struct {
		name string
		wall func() http.HandlerFunc
		most int // requests into one wall; one less is the most pages that are lost
	}{
		{"a word", func() http.HandlerFunc { return saysAnew(markup, shortWall) }, 10},
		{"the path and the time", func() http.HandlerFunc { return saysAnew(markup, shopWall) }, 10},
		{"an id", func() http.HandlerFunc { return saysAnew(markup, blockWall) }, 10},
		{"a greeting", func() http.HandlerFunc { return saysAnew(markup, shopWall+" {} {} {}") }, 10},
		{"in a script", func() http.HandlerFunc { return saysAnew(markup, scriptWall) }, 10},
		{"JSON", func() http.HandlerFunc { return saysAnew("application/json", jsonWall) }, 10},
		{"a long text", func() http.HandlerFunc { return saysAnew(markup, "<p>"+manyWords(1, 300)+"{} {} {} {path}") }, 10},
		{"two texts in turn", func() http.HandlerFunc { return saysAnew(markup, busyWall, loginWall) }, 11},
		{"two texts with ids", func() http.HandlerFunc { return saysAnew(markup, shopWall, blockWall) }, 11},
		{"three texts in turn", func() http.HandlerFunc { return saysAnew(markup, busyWall, loginWall, queueWall) }, 12},
		{"five texts in turn", func() http.HandlerFunc {
			return saysAnew(markup, busyWall, shopWall, loginWall, blockWall, queueWall)
		}, 14},
		{"three texts at random", func() http.HandlerFunc {
			return atRandom(saysAnew(markup, busyWall), saysAnew(markup, shopWall), saysAnew(markup, loginWall))
		}, 30},
		{"now and then another", func() http.HandlerFunc {
			return saysAnew(markup, busyWall, busyWall, busyWall, shopWall)
		}, 20},
	} {
		for name, cfg := range configs {
			for _, again := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, again %v", tt.name, name, again), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						const pages = 200
						s := &walledSite{pages: pages, allow: 40, stands: 10 * time.Minute, again: again, wall: tt.wall()}
						r := newRig()
						cfg.Base = r.Web
						r.politeness = cfg
						r.Site("https://example.com").Handle("/", s)
						r.crawl.Follow = crawl.SameHost
						sum := r.run(t.Context(), t, "https://example.com/")
						had := 0
						for _, p := range r.visited {
							if s.isPage(p) {
								had++
							}
						}
						if pages-had >= tt.most {
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

// TestAWallAfterPagesOfATemplate: pages that are like each other were found to be real ones, so the
// row must be longer before it is doubted. That bounds what a wall gets the first time.
func TestAWallAfterPagesOfATemplate(t *testing.T) {
	for name, cfg := range presets() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 600
				s := &walledSite{
					pages: pages, allow: 200, stands: 10 * time.Minute, again: true, wall: saysAnew("text/html", shopWall, blockWall),
					rest: " is a village. This article is a stub. You can help by writing more",
				}
				r := newRig()
				cfg.Base = r.Web
				r.politeness = cfg
				r.Site("https://example.com").Handle("/", s)
				had := 0
				urls := append([]string{"https://example.com/"}, numbered("example.com", pages-1)...)
				sum := r.run(t.Context(), t, urls...)
				for _, p := range r.visited {
					if s.isPage(p) {
						had++
					}
				}
				if s.falls < 2 || s.most > 50 || pages-had > 50 {
					t.Errorf("%d of %d pages had, %d requests into one of %d walls: %v", had, pages, s.most, s.falls, sum)
				}
				t.Logf("%d pages had, at most %d requests into one of %d walls, %v", had, s.most, s.falls, sum)
			})
		})
	}
}

// TestPagesOfATemplateCostLittle: a site whose pages have most of their words in common loses no page,
// and is asked for few pages again. Each page has an own text.
func TestPagesOfATemplateCostLittle(t *testing.T) {
	for name, text := range map[string]string{
		"stubs":        "<title>Village {path}</title><p>{path} is a village. This article is a stub. You can help by writing more",
		"dictionary":   "<title>{path} in the dictionary</title><h1>{path}</h1><p>noun, plural {path}s. See also {} and {}<p>All words A to Z",
		"images":       "<title>{path}</title><nav>Home Gallery About</nav><img src={path}.jpg><p>Photo by the owner",
		"products":     "<p>" + manyWords(2, 80) + "<h1>{path}</h1><p>{} {} {} {} {}",
		"large":        "<p>" + manyWords(2, 400) + "<h1>{path}</h1><p>" + strings.Repeat("{} ", 30),
		"five layouts": "",
	} {
		texts := []string{text}
		if text == "" {
			texts = nil
			for i := range 5 {
				texts = append(texts, "<p>"+manyWords(uint64(i+10), 20)+"{path}")
			}
		}
		for _, pages := range []int{140, 1000} {
			t.Run(fmt.Sprintf("%s, %d", name, pages), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig()
					asked := 0
					answer := saysAnew("text/html", texts...)
					r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
						asked++
						switch req.URL.Path {
						case "/0":
							page("home")(w, req)
						case "/1":
							page("about")(w, req)
						default:
							answer(w, req)
						}
					}))
					sum := r.run(t.Context(), t, numbered("example.com", pages)...)
					if sum.Visited() != pages {
						t.Errorf("%v", sum)
					}
					most := 5
					if pages > 140 {
						most = 27
					}
					if asked-pages > most {
						t.Errorf("%d further requests, want %d at most", asked-pages, most)
					}
					t.Logf("%d further requests, %v", asked-pages, sum)
				})
			})
		}
	}
}

// TestTemplatesAreNoWalls: sites whose pages share any part of their words, in any number of layouts,
// and of which a part is new with each response. No page is lost, no host is taken for one that has
// banned the crawl, and few pages are asked for again.
func TestTemplatesAreNoWalls(t *testing.T) {
	const pages = 300
	for seed := range soak.Seeds(t, 15, 150) {
		rng := rand.New(rand.NewPCG(seed, 7))
		layouts := make([]http.HandlerFunc, 1+rng.IntN(7))
		for i := range layouts {
			common := manyWords(rng.Uint64(), rng.IntN(1<<rng.IntN(9)))
			own := ownWords("{path}", rng.IntN(1<<rng.IntN(7)))
			layouts[i] = saysAnew("text/html", common+own+strings.Repeat("{} ", rng.IntN(1<<rng.IntN(6))))
		}
		isByPath := rng.IntN(2) == 0
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			asked := 0
			r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				asked++
				layout := 0
				if isByPath {
					layout = int(crc32.ChecksumIEEE([]byte(req.URL.Path))) % len(layouts)
				} else if n, err := strconv.Atoi(path.Base(req.URL.Path)); err == nil {
					layout = n * len(layouts) / pages
				}
				layouts[layout](w, req)
			}))
			began := time.Now()
			sum := r.run(t.Context(), t, numbered("example.com", pages)...)
			if took := time.Since(began); sum.Visited() != pages || asked > pages+10 || took > time.Minute {
				t.Errorf("%d further requests in %v: %v", asked-pages, took, sum)
			}
		})
	}
}

// ownWords returns n words that begin as word.
func ownWords(word string, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%s%s ", word, inLetters(strconv.Itoa(i)))
	}
	return text.String()
}
