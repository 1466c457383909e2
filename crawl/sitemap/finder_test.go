package sitemap

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

const agent = "SitemapTest/1.0 (+https://example.com/bot; bot@example.com)"

// crawler returns a Transport over web that waits a second between two requests.
func crawler(t *testing.T, web *politenesstest.Web, unreachable robotscache.Unreachable) *politeness.Transport {
	t.Helper()
	return slowCrawler(t, web, unreachable, time.Second)
}

// slowCrawler is crawler with a delay between requests.
func slowCrawler(
	t *testing.T, web *politenesstest.Web, unreachable robotscache.Unreachable, delay time.Duration,
) *politeness.Transport {
	t.Helper()
	transport, err := politeness.New(politeness.Config{
		UserAgent: agent, Base: web,
		Robots: robotscache.Config{OnUnreachable: unreachable},
		Hosts:  hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: delay, Max: delay}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// find returns the pages of a site, and the errors.
func find(t *testing.T, web *politenesstest.Web, f Finder, site string) (pages []string, errs []error) {
	t.Helper()
	if f.Transport == nil {
		f.Transport = crawler(t, web, robotscache.Deny)
	}
	for e, err := range f.Pages(t.Context(), site) {
		if err != nil {
			errs = append(errs, err)
		} else {
			pages = append(pages, e.Loc)
		}
	}
	web.Check(t, politenesstest.Rules{Delay: time.Second, Concurrency: 1})
	return pages, errs
}

func urls(locs ...string) string {
	return "<urlset><url><loc>" + strings.Join(locs, "</loc></url><url><loc>") + "</loc></url></urlset>"
}

func index(locs ...string) string {
	return "<sitemapindex><sitemap><loc>" + strings.Join(locs, "</loc></sitemap><sitemap><loc>") + "</loc></sitemap></sitemapindex>"
}

func TestPagesOfASite(t *testing.T) {
	const site = "https://example.com"
	type sites map[string]string // by URL, the text at it
	for name, test := range map[string]struct {
		web    sites
		pages  []string
		errors []string
	}{
		"none": {web: sites{}},
		"named by robots.txt": {
			web:   sites{site + "/robots.txt": "Sitemap: " + site + "/a.xml\n", site + "/a.xml": urls(site + "/1"), site + "/sitemap.xml": urls(site + "/no")},
			pages: []string{site + "/1"},
		},
		"in the usual places": {
			web:   sites{site + "/sitemap.xml": urls(site + "/1"), site + "/sitemap_index.xml": index(site + "/a.txt"), site + "/a.txt": site + "/2"},
			pages: []string{site + "/1", site + "/2"},
		},
		"named and not there": {
			web:    sites{site + "/robots.txt": "Sitemap: " + site + "/a.xml\nSitemap: " + site + "/b.xml\n", site + "/b.xml": urls(site + "/1")},
			pages:  []string{site + "/1"},
			errors: []string{site + "/a.xml: 404 Not Found"},
		},
		"named by a path": {
			web:   sites{site + "/robots.txt": "Sitemap: /a.xml\nSitemap: b.xml\nSitemap: https:/c.xml\n", site + "/a.xml": urls(site + "/1"), site + "/b.xml": urls(site + "/2"), site + "/c.xml": urls(site + "/3")},
			pages: []string{site + "/1", site + "/2", site + "/3"},
		},
		"named as browsers read it": {
			web:   sites{site + "/robots.txt": "Sitemap: https:///example.com\\50%-off.xml\n", site + "/50%25-off.xml": urls(site + "/1")},
			pages: []string{site + "/1"},
		},
		"named by nothing that is a URL": {
			web: sites{
				site + "/robots.txt": "Sitemap: https://[::1/a.xml\nSitemap:\nSitemap: ftp://example.com/b.xml\n", site + "/sitemap.xml": urls(site + "/1"),
			},
			pages: []string{site + "/1"},
			errors: []string{
				"https://[::1/a.xml: the robots.txt of example.com names it: missing ']' in host",
				`ftp://example.com/b.xml: the robots.txt of example.com names it: scheme "ftp" is neither http nor https`,
			},
		},
		"pages as browsers read them": {
			web:   sites{site + "/sitemap.xml": urls(site+"/50%-off", "https:///example.com/a", `https:\\example.com\b`, site+"/c\n/d", "/relative")},
			pages: []string{site + "/50%25-off", site + "/a", site + "/b", site + "/c/d", site + "/relative"},
		},
		"sitemaps of an index as browsers read them": {
			web:   sites{site + "/sitemap.xml": index("https:///example.com/50%.xml", "a.xml"), site + "/50%25.xml": urls(site + "/1"), site + "/a.xml": urls(site + "/2")},
			pages: []string{site + "/1", site + "/2"},
		},
		"another host's robots.txt names it by a path": {
			web: sites{
				site + "/sitemap.xml": urls("https://friend.example/1"), "https://friend.example/robots.txt": "Sitemap: //example.com/sitemap.xml\n",
			},
			pages: []string{"https://friend.example/1"},
		},
		"an index of itself": {
			web:   sites{site + "/sitemap.xml": index(site+"/sitemap.xml", site+"/sitemap.xml#1", site+"/a.xml", site+"/a.xml"), site + "/a.xml": urls(site + "/1")},
			pages: []string{site + "/1"},
		},
		"indexes without end": {
			web: sites{
				site + "/sitemap.xml": index(site + "/1.xml"), site + "/1.xml": index(site + "/2.xml"), site + "/2.xml": index(site + "/3.xml"),
				site + "/3.xml": index(site + "/4.xml"), site + "/4.xml": index(site + "/5.xml"), site + "/5.xml": urls(site + "/no"),
			},
			errors: []string{site + "/4.xml: leads to further sitemaps, which aren't read: it is an index in an index, 5 deep"},
		},
		"disallowed": {
			web:    sites{site + "/robots.txt": "Sitemap: " + site + "/x/a.xml\nUser-agent: *\nDisallow: /x\n", site + "/x/a.xml": urls(site + "/1")},
			errors: []string{"disallowed"},
		},
		"other hosts": {
			web: sites{
				site + "/sitemap.xml":                 urls(site+"/1", "http://example.com/2", "https://other.example/1", "https://friend.example/1", "https://other.example/2", site+":8443/1"),
				"https://other.example/robots.txt":    "Sitemap: https://other.example/sitemap.xml\n",
				"https://friend.example/robots.txt":   "Sitemap: " + site + "/sitemap.xml\n",
				"https://example.com:8443/robots.txt": "",
			},
			pages: []string{site + "/1", "http://example.com/2", "https://friend.example/1"},
			errors: []string{
				site + "/sitemap.xml lists 1 page of example.com:8443, left out",
				site + "/sitemap.xml lists 2 pages of other.example, left out: robots.txt there doesn't name this sitemap",
			},
		},
		"another host's robots.txt names the index": {
			web: sites{
				site + "/sitemap.xml": index(site + "/friends.xml"), site + "/friends.xml": urls("https://friend.example/1"),
				"https://friend.example/robots.txt": "Sitemap: " + site + "/sitemap.xml\n",
			},
			pages: []string{"https://friend.example/1"},
		},
		"on another host, by robots.txt": {
			web:   sites{site + "/robots.txt": "Sitemap: https://cdn.example/a.xml\n", "https://cdn.example/a.xml": index("https://cdn.example/b.xml"), "https://cdn.example/b.xml": urls(site+"/1", "https://cdn.example/1")},
			pages: []string{site + "/1", "https://cdn.example/1"},
		},
		"www and apex": {
			web:    sites{site + "/sitemap.xml": urls(site+"/1", "https://www.example.com/1"), "https://www.example.com/robots.txt": ""},
			pages:  []string{site + "/1"},
			errors: []string{"lists 1 page of www.example.com, left out: robots.txt there doesn't name this sitemap (if they are one site, ask for the pages of https://www.example.com/1 as well)"},
		},
		"another host that can't be reached": {
			web:    sites{site + "/sitemap.xml": urls("https://away.example/")},
			errors: []string{"lists 1 page of away.example, left out"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := politenesstest.NewWeb()
				web.Site(site)
				for at, text := range test.web {
					origin, path := at, "/"
					if i := strings.Index(at[8:], "/"); i >= 0 {
						origin, path = at[:8+i], at[8+i:]
					}
					if path == "/robots.txt" {
						web.Site(origin).Robots(text)
					} else {
						web.Site(origin).Page(path, text)
					}
				}
				pages, errs := find(t, web, Finder{}, site+"/some/page")
				if !slices.Equal(pages, test.pages) {
					t.Errorf("pages %q, want %q", pages, test.pages)
				}
				if len(errs) != len(test.errors) {
					t.Errorf("errors %v, want %q", errs, test.errors)
				}
				for i, want := range test.errors {
					if i < len(errs) && !strings.Contains(errs[i].Error(), want) {
						t.Errorf("error %v, want %q", errs[i], want)
					}
				}
			})
		})
	}
}

// TestCodingsOfSitemaps: the transport undoes gzip alone.
func TestCodingsOfSitemaps(t *testing.T) {
	const site = "https://example.com"
	var deflated bytes.Buffer
	packer := zlib.NewWriter(&deflated)
	_, _ = packer.Write([]byte(urls(site + "/1")))
	_ = packer.Close()
	for coding, test := range map[string]struct {
		body  string
		pages int
		err   string
	}{
		"deflate": {deflated.String(), 1, ""},
		"x-gzip":  {string(pack(t, []byte(urls(site+"/1")))), 1, ""},
		"none":    {urls(site + "/1"), 1, ""},
		"br":      {"\x0b\x02", 0, `content coding "br" was not asked for`},
	} {
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site(site).Handle("/sitemap.xml", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", coding)
				_, _ = io.WriteString(w, test.body)
			}))
			pages, errs := find(t, web, Finder{}, site)
			isRight := len(pages) == test.pages && (test.err == "") == (len(errs) == 0)
			if !isRight || test.err != "" && !strings.Contains(errs[0].Error(), test.err) {
				t.Errorf("%s: %q, %v", coding, pages, errs)
			}
		})
	}
}

func TestARedirectedSitemapSpeaksForWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Handle("/sitemap.xml", http.RedirectHandler("https://www.example.com/sitemap.xml", http.StatusMovedPermanently))
		web.Site("https://www.example.com").Page("/sitemap.xml", urls("https://www.example.com/1", "https://example.com/2"))
		pages, errs := find(t, web, Finder{}, "https://example.com")
		if !slices.Equal(pages, []string{"https://www.example.com/1", "https://example.com/2"}) || errs != nil {
			t.Errorf("%q, %v", pages, errs)
		}
	})
}

// A loop over a site's pages that fetches each of them gets its turns, also where the host gives
// one at a time.
func TestPagesCanBeFetchedAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site("https://example.com").Page("/sitemap.xml", urls("https://example.com/1", "https://example.com/2"))
		site.Page("/1", "one").Page("/2", "two")
		transport := crawler(t, web, robotscache.Deny)
		client := &http.Client{Transport: transport}
		begin := time.Now()
		for e, err := range (Finder{Transport: transport}).Pages(t.Context(), "https://example.com/") {
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Get(e.Loc)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if took := time.Since(begin); took != 4*time.Second { // robots.txt, two sitemaps, two pages
			t.Errorf("it took %v", took)
		}
	})
}

func TestASiteThatListsWithoutEndIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var list []string
			for i := range 100 {
				list = append(list, fmt.Sprintf("https://example.com%s/%d", r.URL.Path, i))
			}
			_, _ = io.WriteString(w, index(list...))
		}))
		pages, errs := find(t, web, Finder{MaxFiles: 7}, "https://example.com")
		if len(web.Requests()) != 8 || pages != nil || len(errs) != 1 || !strings.Contains(errs[0].Error(), "MaxFiles is 7") {
			t.Errorf("%d requests, pages %q, errors %v", len(web.Requests()), pages, errs)
		}
	})
}

// What MaxFiles leaves out is named, however the files come to an end; a file that is listed twice
// takes one place.
func TestFilesBeyondMaxFilesAreNamed(t *testing.T) {
	const site = "https://example.com"
	for name, test := range map[string]struct {
		robots []string
		index  []string // what /index.xml lists
		most   int
		pages  string
		err    string // empty: none is wanted
	}{
		"an index":   {[]string{"/index.xml"}, []string{"/a", "/b", "/c", "/d"}, 3, "/a/1 /b/1", site + "/c: not read: MaxFiles is 3; sitemaps left out: 2"},
		"robots.txt": {[]string{"/a", "/b", "/c"}, nil, 2, "/a/1 /b/1", site + "/c: not read: MaxFiles is 2; sitemaps left out: 1"},
		"enough":     {[]string{"/index.xml"}, []string{"/a", "/b", "/c", "/d"}, 5, "/a/1 /b/1 /c/1 /d/1", ""},
		"twice":      {[]string{"/index.xml"}, []string{"/a", "/a", "/b", "/b", "/c", "/c", "/d", "/d"}, 5, "/a/1 /b/1 /c/1 /d/1", ""},
		"guesses":    {nil, nil, 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := politenesstest.NewWeb()
				var list []string
				for _, path := range test.index {
					list = append(list, site+path)
				}
				s := web.Site(site).Page("/index.xml", index(list...))
				if test.robots != nil {
					s.Robots("Sitemap: " + site + strings.Join(test.robots, "\nSitemap: "+site) + "\n")
				}
				for _, p := range []string{"/a", "/b", "/c", "/d"} {
					s.Page(p, urls(site+p+"/1"))
				}
				pages, errs := find(t, web, Finder{MaxFiles: test.most}, site)
				if got := strings.ReplaceAll(strings.Join(pages, " "), site, ""); got != test.pages {
					t.Errorf("pages %s, want %s", got, test.pages)
				}
				if got := errors.Join(errs...); got == nil && test.err != "" || got != nil && got.Error() != test.err {
					t.Errorf("errors %v, want %s", got, test.err)
				}
			})
		})
	}
}

// A file that drips, or never comes, ends two minutes after its answer, or two minutes after the
// longest wait for a turn.
func TestAFileThatTakesTooLongIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		file   http.Handler
		within time.Duration
	}{
		"drips": {politenesstest.Drip(" ", 100_000, 10*time.Second), 3 * time.Minute},
		"never": {http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Hour + 3*time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := politenesstest.NewWeb()
				web.Site("https://example.com").Robots("Crawl-delay: 300\nSitemap: https://example.com/a.xml\nSitemap: https://example.com/b.xml\n").
					Handle("/a.xml", test.file).Page("/b.xml", urls("https://example.com/1"))
				began := time.Now()
				pages, errs := find(t, web, Finder{}, "https://example.com")
				file := new(FileError)
				if len(errs) != 1 || !errors.As(errs[0], &file) || file.URL != "https://example.com/a.xml" || !strings.Contains(errs[0].Error(), "2m0s") {
					t.Errorf("errors %v", errs)
				}
				if took := time.Since(began) - 600*time.Second; !slices.Equal(pages, []string{"https://example.com/1"}) || took > test.within {
					t.Errorf("pages %q, after %v", pages, took)
				}
			})
		})
	}
}

// The error of a page whose host's robots.txt wasn't asked doesn't say what that names.
// TestASitemapHasTheWholeWaitOfItsHost, and two minutes from its turn on: of a host with a long
// crawl-delay, by default and with a MaxWait without end.
func TestASitemapHasTheWholeWaitOfItsHost(t *testing.T) {
	for _, longest := range []time.Duration{0, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			site := web.Site("https://example.com")
			site.Robots("User-agent: *\nCrawl-delay: 600\nSitemap: https://example.com/list.xml")
			site.Page("/list.xml", urls("https://example.com/a"))
			transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: web, Hosts: hostlimit.Config{MaxWait: longest}})
			if err != nil {
				t.Fatal(err)
			}
			pages, errs := find(t, web, Finder{Transport: transport}, "https://example.com/")
			if len(pages) != 1 || len(errs) != 0 {
				t.Errorf("MaxWait %v: pages %q, errors %v", longest, pages, errs)
			}
		})
	}
}

func TestErrorsOfHostsThatWerentAskedSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		s := web.Site("https://example.com").Robots("Sitemap: https://example.com/a.xml\nSitemap: https://example.com/b.xml\n")
		var list []string
		for i := range maxHosts {
			list = append(list, fmt.Sprintf("https://%d.example/", i))
		}
		s.Page("/a.xml", urls(list...)).Page("/b.xml", urls("https://unasked.example/"))
		_, errs := find(t, web, Finder{}, "https://example.com")
		for i, err := range errs {
			if asked := strings.HasSuffix(err.Error(), "left out: robots.txt there doesn't name this sitemap"); asked != (i < maxHosts) {
				t.Errorf("error %d: %v", i, err)
			}
		}
		if len(errs) != maxHosts+1 {
			t.Errorf("%d errors", len(errs))
		}
	})
}

// Thousands of strangers' hosts in a sitemap neither get a request each nor a line each.
func TestASitemapOfStrangersAsksFewOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		var list []string
		for i := range 5000 {
			list = append(list, fmt.Sprintf("https://%d.example/", i))
		}
		web.Site("https://example.com").Page("/sitemap.xml", urls(list...))
		pages, errs := find(t, web, Finder{}, "https://example.com")
		asked := 0
		for _, r := range web.Requests() {
			if !strings.HasPrefix(r.URL, "https://example.com/") {
				asked++
			}
		}
		last := new(ForeignError)
		if pages != nil || asked > maxHosts || len(errs) != maxHosts+1 || !errors.As(errs[len(errs)-1], &last) || last.Pages != 5000-maxHosts {
			t.Errorf("%d pages, %d requests, %d errors, the last: %v", len(pages), asked, len(errs), errs[len(errs)-1])
		}
	})
}

func TestPagesWithoutRobots(t *testing.T) {
	for unreachable, want := range map[robotscache.Unreachable]int{robotscache.Deny: 0, robotscache.Allow: 1} {
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site("https://example.com").RobotsStatus(503).Page("/sitemap.xml", urls("https://example.com/1"))
			f := Finder{Transport: crawler(t, web, unreachable)}
			var pages int
			var errs []error
			for _, err := range f.Pages(t.Context(), "https://example.com") {
				if err != nil {
					errs = append(errs, err)
				} else {
					pages++
				}
			}
			if pages != want || len(errs) != 1 || !errors.Is(errs[0], politeness.ErrUnreachable) {
				t.Errorf("%v: %d pages, errors %v", unreachable, pages, errs)
			}
		})
	}
}

func TestPagesEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Page("/sitemap.xml", index("https://example.com/a.xml", "https://example.com/b.xml")).
			Page("/a.xml", urls("https://example.com/1"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		n := 0
		for _, err := range (Finder{Transport: crawler(t, web, robotscache.Deny)}).Pages(ctx, "https://example.com") {
			n++
			last = err
			cancel() // at the first page
		}
		if n != 2 || !errors.Is(last, context.Canceled) {
			t.Errorf("%d pairs, the last error %v", n, last)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		web.Site("https://slow.example").Robots("Sitemap: https://slow.example/a.xml\n").
			Handle("/a.xml", politenesstest.Drip(" ", 1000, time.Second))
		last = nil
		for _, last = range (Finder{Transport: crawler(t, web, robotscache.Deny)}).Pages(ctx, "https://slow.example") {
			continue
		}
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("in the last file: %v", last)
		}
		for _, err := range (Finder{Transport: crawler(t, web, robotscache.Deny)}).Pages(t.Context(), "ht tp://") {
			if err == nil {
				t.Error("a URL that can't be parsed is no error")
			}
		}
	})
}

func TestErrorsHaveNoControlCharacters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Page("/sitemap.xml", index("https://example.com/\u202ea.xml")+"<url>\x1b[2J").
			Page("/sitemap_index.xml", urls("https://a\u202eb.example/\u202e"))
		_, errs := find(t, web, Finder{}, "https://example.com")
		if len(errs) != 3 {
			t.Errorf("errors: %v", errs)
		}
		for _, err := range errs {
			if strings.ContainsAny(err.Error(), "\x1b\u202e\n") {
				t.Errorf("%q", err)
			}
		}
	})
}
