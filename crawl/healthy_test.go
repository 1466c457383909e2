package crawl_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// layout is what the pages of a site share: most of their words.
const layout = "<nav>Home News Sport Weather Culture Travel Shop Contact Imprint Privacy Help Login Search Archive Topics</nav>" +
	"<footer>Published by the society for village life, made with care in the country since ages ago</footer>"

// thinPage is a page that has few words of its own.
func thinPage(path string) http.HandlerFunc {
	name := inLetters(path)
	return page(layout + "<title>" + name + "</title><p>" + name + " is an article")
}

// TestAHealthySiteIsNoWall: all pages of a site are made from one layout, and one page, or all of them,
// say something else later. No page is lost, and none is asked for often.
func TestAHealthySiteIsNoWall(t *testing.T) {
	const pages = 300
	home := page("<h1>Welcome</h1> to this place of ours, friends")
	// The first page becomes something else.
	moves := func(to http.HandlerFunc) func(int, string) http.HandlerFunc {
		return func(asked int, path string) http.HandlerFunc {
			switch {
			case path != "/0":
				return thinPage(path)
			case asked == 1:
				return home
			}
			return to
		}
	}
	// The first few answers are something else.
	begins := func(number int, by http.HandlerFunc) func(int, string) http.HandlerFunc {
		return func(asked int, path string) http.HandlerFunc {
			if asked <= number {
				return by
			}
			return thinPage(path)
		}
	}
	for name, answer := range map[string]func(asked int, path string) http.HandlerFunc{
		"its first page redirects":       moves(http.RedirectHandler("https://example.com/1", http.StatusFound).ServeHTTP),
		"its first page wants a login":   moves(status(http.StatusUnauthorized)),
		"its first page is forbidden":    moves(status(http.StatusForbidden)),
		"its first page is gone":         moves(status(http.StatusGone)),
		"its first page fails":           moves(status(http.StatusInternalServerError)),
		"its first page breaks off":      moves(breakingOff),
		"an error comes with status 200": begins(1, page("<h1>Error</h1> Could not connect to the database, sorry for that")),
		"it begins with a maintenance":   begins(4, page("<h1>Maintenance</h1> We will be back in some minutes")),
		"it gets a new design": func(asked int, path string) http.HandlerFunc {
			if asked <= 100 {
				return page("<nav>Start Themen Leute Orte Bilder Suche Kontakt</nav><p>" + inLetters(path) + " ist ein Artikel")
			}
			return thinPage(path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				asked := 0
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					asked++
					answer(asked, req.URL.Path)(w, req)
				}))
				began := time.Now()
				sum := r.run(t.Context(), t, numbered("example.com", pages)...)
				took := time.Since(began)
				if sum.Visited() != pages || asked > pages+10 || took > 15*time.Minute {
					t.Errorf("%d requests in %v: %v", asked, took, sum)
				}
			})
		})
	}
}

// TestAWallInTheSitesLayout: a wall says the same words each time, in the layout of the pages that it
// stands before.
func TestAWallInTheSitesLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Patience = time.Hour
		asked := 0
		r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			asked++
			if asked <= 100 {
				thinPage(req.URL.Path)(w, req)
				return
			}
			page(layout+"<p>Please prove that you are human")(w, req)
		}))
		sum := r.run(t.Context(), t, numbered("example.com", 300)...)
		if sum.Visited() > 110 || asked > 130 {
			t.Errorf("%d requests: %v", asked, sum)
		}
		if sum.Outcomes[crawl.Refused] < 190 {
			t.Errorf("%v", sum.Outcomes)
		}
	})
}
