package sitemap

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

const (
	site = "https://example.com"
	day2 = 24*time.Hour + time.Minute // runs of cron aren't equally long
)

// A polled is a site whose sitemaps are read each day by a new process.
type polled struct {
	t     *testing.T
	web   *politenesstest.Web
	store revisit.Store

	mu     sync.Mutex
	files  map[string]string // texts by path
	same   int               // Unchanged of the last poll
	log    []string          // of the server: "path status"
	robots string            // its robots.txt
	bare   bool              // the site sends Last-Modified, and no ETag
	dates  map[string]time.Time
	delay  time.Duration // between requests
}

func newPolled(t *testing.T) *polled {
	p := &polled{
		t:     t,
		web:   politenesstest.NewWeb(),
		store: revisit.Dir(t.TempDir()),
		files: make(map[string]string),
		dates: make(map[string]time.Time),
		delay: time.Second,
	}
	p.web.Site(site).Handle("/", http.HandlerFunc(p.serve))
	return p
}

// serve answers as net/http's file server does.
func (p *polled) serve(w http.ResponseWriter, req *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rec := httptest.NewRecorder()
	text, ok := p.files[req.URL.Path]
	to, isRedirect := strings.CutPrefix(text, "to ")
	switch {
	case !ok:
		http.NotFound(rec, req)
	case isRedirect:
		http.Redirect(rec, req, to, http.StatusFound)
	default:
		rec.Header().Set("Content-Type", "text/xml")
		if !p.bare {
			rec.Header().Set("Etag", fmt.Sprintf(`"%x"`, text))
		}
		http.ServeContent(rec, req, "", p.dates[req.URL.Path], strings.NewReader(text))
	}
	p.log = append(p.log, fmt.Sprint(req.URL.Path, " ", rec.Code))
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// A poll is what a process does with the pages.
type poll struct {
	asRead bool
	most   int  // pages that it takes before it ends; 0: all
	lost   bool // it ends before it has stored the pages
}

// find reads the sitemaps in a new process. It returns the pages, and what the server has logged.
func (p *polled) find(how poll) (pages string, log string) {
	p.t.Helper()
	p.log = nil
	p.web.Site(site).Robots(p.robots)
	seen := &Seen{Store: p.store}
	f := Finder{Transport: slowCrawler(p.t, p.web, robotscache.Deny, p.delay), Seen: seen, AsRead: how.asRead}
	var found []string
	for e, err := range f.Pages(p.t.Context(), site) {
		if err != nil {
			found = append(found, "error")
			p.t.Logf("%v", err)
			continue
		}
		found = append(found, strings.TrimPrefix(e.Loc, site))
		if len(found) == how.most {
			break
		}
	}
	p.same = seen.Unchanged()
	if !how.lost {
		if err := seen.Save(p.t.Context()); err != nil {
			p.t.Error(err)
		}
	}
	return strings.Join(found, " "), strings.Join(p.log, ", ")
}

// wants polls, and compares the pages and the server's log.
func (p *polled) wants(why string, how poll, pages, log string) {
	p.t.Helper()
	gotPages, gotLog := p.find(how)
	if gotPages != pages || gotLog != log {
		p.t.Errorf("%s:\npages %q, want %q\nserver's log %q, want %q", why, gotPages, pages, gotLog, log)
	}
}

func (p *polled) wantsUnchanged(want int) {
	p.t.Helper()
	if p.same != want {
		p.t.Errorf("%d sitemaps are unchanged, want %d", p.same, want)
	}
}

func dated(loc string, at string) string {
	return fmt.Sprintf("<sitemapindex><sitemap><loc>%s</loc><lastmod>%s</lastmod></sitemap></sitemapindex>", loc, at)
}

// TestADaysPollCostsAFew304s, and a usual place without a sitemap isn't asked for each time.
func TestADaysPollCostsAFew304s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolled(t)
		p.files["/sitemap.xml"] = urls(site+"/1", site+"/2")
		p.wants("first", poll{}, "/1 /2", "/sitemap.xml 200, /sitemap_index.xml 404")
		p.wantsUnchanged(0)
		time.Sleep(day2)
		p.wants("second day", poll{}, "", "/sitemap.xml 304, /sitemap_index.xml 404")
		for day := range 2 {
			time.Sleep(day2)
			p.wants(fmt.Sprint("a later day ", day), poll{}, "", "/sitemap.xml 304")
			p.wantsUnchanged(1) // a place without a sitemap is none
		}
		p.files["/sitemap.xml"] = urls(site+"/1", site+"/3")
		time.Sleep(day2)
		p.wants("edited", poll{}, "/1 /3", "/sitemap.xml 200, /sitemap_index.xml 404")
		// For a month the other place is asked for, rarely, and then each month.
		asked := 0
		for range 100 {
			time.Sleep(day2)
			_, log := p.find(poll{})
			asked += strings.Count(log, "/sitemap_index.xml")
		}
		if asked < 3 || asked > 5 {
			t.Errorf("the place without a sitemap was asked for %d times in 100 days", asked)
		}
		p.files["/sitemap_index.xml"] = index(site + "/b.xml")
		p.files["/b.xml"] = urls(site + "/4")
		found := ""
		for range 31 {
			time.Sleep(day2)
			pages, _ := p.find(poll{})
			found += pages
		}
		if found != "/4" {
			t.Errorf("of the new place %q was found", found)
		}
	})
}

// TestWhatWasntTakenComesAgain: a process that died, or has left the loop, had no page of the file.
func TestWhatWasntTakenComesAgain(t *testing.T) {
	for _, asRead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPolled(t)
			p.robots = "Sitemap: /a.xml\nSitemap: /b.xml\n"
			p.files["/a.xml"] = urls(site+"/1", site+"/2")
			p.files["/b.xml"] = urls(site+"/3", site+"/4")
			all := poll{asRead: asRead}
			p.wants("killed", poll{asRead: asRead, lost: true}, "/1 /2 /3 /4", "/a.xml 200, /b.xml 200")
			p.wants("left in the second file", poll{asRead: asRead, most: 3}, "/1 /2 /3", "/a.xml 200, /b.xml 200")
			p.wants("the first file was taken whole", all, "/3 /4", "/a.xml 304, /b.xml 200")
			p.wants("left at the last page of a file", poll{asRead: asRead, most: 2}, "", "/a.xml 304, /b.xml 304")
			p.files["/a.xml"] = urls(site+"/5", site+"/6")
			p.wants("the loop may have failed at the last page", poll{asRead: asRead, most: 2}, "/5 /6", "/a.xml 200")
			p.wants("so the file comes again", all, "/5 /6", "/a.xml 200, /b.xml 304")
		})
	}
}

// TestAnIndexIsReadWhole: its 304 would hide the files that it leads to.
func TestAnIndexIsReadWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolled(t)
		p.robots = "Sitemap: /all.xml\n"
		p.files["/all.xml"] = index(site + "/a.xml")
		p.files["/a.xml"] = urls(site + "/1")
		p.wants("first", poll{}, "/1", "/all.xml 200, /a.xml 200")
		time.Sleep(day2)
		p.wants("unchanged", poll{}, "", "/all.xml 200, /a.xml 304")
		p.files["/a.xml"] = urls(site+"/1", site+"/2")
		time.Sleep(day2)
		p.wants("the file was edited", poll{}, "/1 /2", "/all.xml 200, /a.xml 200")
		p.files["/a.xml"] = index(site + "/b.xml")
		p.files["/b.xml"] = urls(site + "/3")
		time.Sleep(day2)
		p.wants("the file is an index now", poll{}, "/3", "/all.xml 200, /a.xml 200, /b.xml 200")
		time.Sleep(day2)
		p.wants("and stays one", poll{}, "", "/all.xml 200, /a.xml 200, /b.xml 304")
	})
}

// TestALastmodInAnIndexSparesRequests, for a day at most.
func TestALastmodInAnIndexSparesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolled(t)
		hour := func(h int) string { return time.Now().Add(time.Duration(h) * time.Hour).Format(time.RFC3339) }
		p.robots = "Sitemap: /all.xml\n"
		p.files["/a.xml"] = urls(site + "/1")
		p.files["/all.xml"] = dated(site+"/a.xml", hour(-5))
		p.wants("first", poll{}, "/1", "/all.xml 200, /a.xml 200")
		time.Sleep(time.Hour)
		p.wants("not modified since", poll{}, "", "/all.xml 200")
		p.wantsUnchanged(1)
		p.files["/a.xml"] = urls(site + "/2")
		time.Sleep(day2)
		p.wants("a day later the site may be wrong", poll{}, "/2", "/all.xml 200, /a.xml 200")
		time.Sleep(time.Hour)
		p.files["/a.xml"] = urls(site + "/3")
		p.files["/all.xml"] = dated(site+"/a.xml", hour(0))
		time.Sleep(time.Minute)
		p.wants("modified since", poll{}, "/3", "/all.xml 200, /a.xml 200")
		p.files["/all.xml"] = dated(site+"/a.xml", time.Now().Format(time.DateOnly))
		time.Sleep(time.Hour)
		p.wants("modified on a day that isn't over", poll{}, "", "/all.xml 200, /a.xml 304")
		p.files["/all.xml"] = index(site + "/a.xml")
		time.Sleep(time.Hour)
		p.wants("without a date", poll{}, "", "/all.xml 200, /a.xml 304")
	})
}

// TestARedirectedSitemapIsReadWhole: the conditions would be sent to another file.
func TestARedirectedSitemapIsReadWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolled(t)
		p.bare = true
		now := time.Now()
		p.robots = "Sitemap: /s.xml\n"
		p.files["/s.xml"] = urls(site + "/1")
		p.files["/other.xml"] = urls(site + "/2")
		p.dates["/s.xml"] = now.Add(-48 * time.Hour)
		p.dates["/other.xml"] = now.Add(-96 * time.Hour)
		p.wants("first", poll{}, "/1", "/s.xml 200")
		time.Sleep(day2)
		p.wants("unchanged", poll{}, "", "/s.xml 304")
		p.files["/s.xml"] = "to /other.xml"
		time.Sleep(day2)
		p.wants("an older file", poll{}, "/2", "/s.xml 302, /other.xml 304, /s.xml 302, /other.xml 200")
		time.Sleep(day2)
		p.wants("as long as it redirects", poll{}, "/2", "/s.xml 302, /other.xml 200")
	})
}

// TestTheSecondRequestToARedirectHasTheSameTime: the wait for a turn counts, and the host's delay is
// longer than the time for a file.
func TestTheSecondRequestToARedirectHasTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolled(t)
		p.bare = true
		p.delay = maxTime + time.Minute
		p.robots = "Sitemap: /s.xml\n"
		p.files["/s.xml"] = urls(site + "/1")
		p.files["/other.xml"] = urls(site + "/2")
		now := time.Now()
		p.dates["/s.xml"] = now.Add(-48 * time.Hour)
		p.dates["/other.xml"] = now.Add(-96 * time.Hour)
		p.wants("first", poll{}, "/1", "/s.xml 200")
		p.files["/s.xml"] = "to /other.xml"
		time.Sleep(day2)
		p.wants("an older file", poll{}, "/2", "/s.xml 302, /other.xml 304, /s.xml 302, /other.xml 200")
	})
}

// TestASitemapWithAnErrorIsReadWhole: it may list more once it is mended.
func TestASitemapWithAnErrorIsReadWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolled(t)
		p.web.Site("https://www.example.com")
		p.robots = "Sitemap: /foreign.xml\nSitemap: /half.xml\nSitemap: /gone.xml\n"
		p.files["/foreign.xml"] = urls(site+"/1", "https://www.example.com/2")
		p.files["/half.xml"] = "<urlset><url><loc>" + site + "/3</loc></url><url><loc>"
		p.files["/gone.xml"] = urls(site + "/4")
		p.wants("first", poll{}, "/1 error /3 error /4", "/foreign.xml 200, /half.xml 200, /gone.xml 200")
		delete(p.files, "/gone.xml")
		time.Sleep(day2)
		p.wants("again", poll{}, "/1 error /3 error error", "/foreign.xml 200, /half.xml 200, /gone.xml 404")
		p.files["/gone.xml"] = urls(site + "/4")
		time.Sleep(day2)
		p.wants("what was gone is back", poll{}, "/1 error /3 error /4", "/foreign.xml 200, /half.xml 200, /gone.xml 200")
	})
}

// TestAServerThatSays304ForEver is asked for the whole file after 90 days.
func TestAServerThatSays304ForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolled(t)
		p.robots = "Sitemap: /a.xml\n"
		p.files["/a.xml"] = urls(site + "/1")
		days := 0
		var whole []int
		for ; days < 200; days++ {
			if _, log := p.find(poll{}); log == "/a.xml 200" {
				whole = append(whole, days)
			}
			time.Sleep(24 * time.Hour)
		}
		if !slices.Equal(whole, []int{0, 90, 180}) {
			t.Errorf("it was read on the days %v", whole)
		}
	})
}

// TestAClockThatWasSetBackHidesNothing: what was visited in the future may have changed since.
func TestAClockThatWasSetBackHidesNothing(t *testing.T) {
	now := time.Now()
	place := file{guessed: true}
	listed := file{entry: Entry{LastMod: now.Add(-48 * time.Hour)}}
	for _, after := range []time.Duration{-time.Hour, time.Hour} {
		visited := now.Add(after)
		isPast := after < 0
		gone := revisit.Page{Visited: visited, Gone: 1, Due: visited.Add(day)}
		if got := spares(place, gone, now); got != isPast {
			t.Errorf("a place that was gone at %v is spared: %t", after, got)
		}
		whole := revisit.Page{Visited: visited, Whole: visited}
		if got := spares(listed, whole, now); got != isPast {
			t.Errorf("a sitemap that was read at %v is spared: %t", after, got)
		}
	}
}

// A failing Store can't be read nor written.
type failing struct{}

func (failing) Load(context.Context, string) (revisit.Page, bool, error) {
	return revisit.Page{}, false, errBroken
}

func (failing) Save(context.Context, string, revisit.Page) error { return errBroken }

var errBroken = errors.New("the disk is full")

// TestSaveTellsOfTheStore: pages are found all the same.
func TestSaveTellsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolled(t)
		p.files["/sitemap.xml"] = urls(site + "/1")
		for name, store := range map[string]revisit.Store{"it fails": failing{}, "there is none": nil} {
			seen := &Seen{Store: store}
			f := Finder{Transport: crawler(t, p.web, robotscache.Deny), Seen: seen}
			pages := 0
			for _, err := range f.Pages(t.Context(), site) {
				if err != nil {
					t.Error(err)
				}
				pages++
			}
			err := seen.Save(t.Context())
			isTold := err != nil && (store == nil || errors.Is(err, errBroken))
			if pages != 1 || !isTold {
				t.Errorf("%s: %d pages, Save says %v", name, pages, err)
			}
		}
	})
}
