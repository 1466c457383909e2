package recipes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

const (
	agent = "RecipesTest/1.0 (+https://example.com/bot; bot@example.com)"
	shop  = "https://shop.example"
	delay = 200 * time.Millisecond
)

// inShop runs a test on a shop in memory, in virtual time, and checks that the shop was asked politely.
func inShop(t *testing.T, test func(t *testing.T, site *politenesstest.Site, web *politenesstest.Web, transport *politeness.Transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site(shop).Robots("User-agent: *\nDisallow: /basket\n")
		for path, body := range map[string]string{
			"/{$}":     `<title>Shop</title><a href=/list/1>one</a> <a href=/list/2>two</a> <a href=/basket>basket</a>`,
			"/list/1":  `<title>One</title><a href=/item/11>11</a> <a href=/item/12>12</a>`,
			"/list/2":  `<title>Two</title><a href=/item/21>21</a> <a href=/gone>gone</a>`,
			"/item/11": `<title>Eleven</title>`,
			"/item/12": `<title>Twelve</title>`,
			"/item/21": `<title>Twenty-one</title>`,
		} {
			site.Handle(strings.TrimSuffix(path, "{$}"), politenesstest.HTML(body))
		}
		site.Handle("/gone", politenesstest.Status(http.StatusNotFound))
		transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: web})
		if err != nil {
			t.Fatal(err)
		}
		test(t, site, web, transport)
		web.Check(t, politenesstest.Rules{Delay: delay, Concurrency: 2})
	})
}

// A list keeps what visits see, which run beside each other.
type list struct {
	mu    sync.Mutex
	lines []string
}

func (l *list) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *list) visit(p *crawl.Page) { l.add(strings.TrimPrefix(p.FinalURL, shop)) }

func (l *list) want(t *testing.T, lines ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.lines)
	slices.Sort(lines)
	if !slices.Equal(l.lines, lines) {
		t.Errorf("got %q, not %q", l.lines, lines)
	}
}

// pages are those of the shop that are served.
var pages = []string{"/", "/list/1", "/list/2", "/item/11", "/item/12", "/item/21"}

func TestJSONLines(t *testing.T) {
	inShop(t, func(t *testing.T, _ *politenesstest.Site, _ *politenesstest.Web, transport *politeness.Transport) {
		var out strings.Builder
		if err := JSONLines(t.Context(), transport, &out, shop+"/"); err != nil {
			t.Fatal(err)
		}
		const want = `{"url":"https://shop.example/item/21","title":"Twenty-one","bytes":25}` + "\n"
		if lines := strings.Count(out.String(), "\n"); lines != len(pages) || !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	})
}

func TestCSV(t *testing.T) {
	inShop(t, func(t *testing.T, _ *politenesstest.Site, _ *politenesstest.Web, transport *politeness.Transport) {
		var out strings.Builder
		if err := CSV(t.Context(), transport, &out, shop+"/"); err != nil {
			t.Fatal(err)
		}
		const want = "https://shop.example/item/21,Twenty-one,25\n"
		if lines := strings.Count(out.String(), "\n"); lines != len(pages) || !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	})
}

func TestKinds(t *testing.T) {
	inShop(t, func(t *testing.T, _ *politenesstest.Site, _ *politenesstest.Web, transport *politeness.Transport) {
		var got list
		named := func(kind string) func(p *crawl.Page) error {
			return func(p *crawl.Page) error {
				got.add(kind + strings.TrimPrefix(p.FinalURL, shop))
				return nil
			}
		}
		err := Kinds(t.Context(), transport, map[string]func(*crawl.Page) error{
			"/list/{n}":             named("list "),
			"shop.example/item/{n}": named("item "),
		}, shop+"/")
		if err != nil {
			t.Fatal(err)
		}
		got.want(t, "list /list/1", "list /list/2", "item /item/11", "item /item/12", "item /item/21")
	})
}

func TestHeaders(t *testing.T) {
	inShop(t, func(t *testing.T, site *politenesstest.Site, web *politenesstest.Web, transport *politeness.Transport) {
		site.Handle("/item/21", http.RedirectHandler("/item/22", http.StatusFound))
		site.Handle("/item/22", politenesstest.HTML(""))
		if err := Headers(t.Context(), transport, func(*crawl.Page) {}, shop+"/"); err != nil {
			t.Fatal(err)
		}
		for _, request := range web.Requests() {
			want := map[string]string{"/list/1": shop + "/", "/item/11": shop + "/list/1"}
			path := strings.TrimPrefix(request.URL, shop)
			if path == "/robots.txt" {
				continue
			}
			if language := request.Header.Get("Accept-Language"); language != "de, en;q=0.5" {
				t.Errorf("%s was asked for in %q", path, language)
			}
			if referer, ok := want[path]; ok && request.Header.Get("Referer") != referer {
				t.Errorf("%s has the Referer %q, not %q", path, request.Header.Get("Referer"), referer)
			}
			if referer := request.Header.Get("Referer"); path == "/" && referer != "" {
				t.Errorf("the start page has a Referer: %q", referer)
			}
		}
	})
}

// session answers with the session that the request has.
func session(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	cookie, err := r.Cookie("session")
	if err != nil {
		cookie = &http.Cookie{Value: fmt.Sprint(time.Now().UnixNano())}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: cookie.Value, Path: "/"})
	}
	fmt.Fprintf(w, "<title>%s</title><a href=/mine>mine</a>", cookie.Value)
}

func TestLogin(t *testing.T) {
	inShop(t, func(t *testing.T, site *politenesstest.Site, web *politenesstest.Web, transport *politeness.Transport) {
		site.Handle("/login", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.PostFormValue("password") != "secret" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "mine", Path: "/"})
		}))
		site.Handle("/account", http.HandlerFunc(session))
		site.Handle("/mine", http.HandlerFunc(session))
		var got list
		visit := func(p *crawl.Page) { got.add(string(title.FindSubmatch(p.Body)[1])) }
		wrong := url.Values{"password": {"wrong"}}
		if err := Login(t.Context(), transport, shop+"/login", wrong, visit, shop+"/account"); err == nil {
			t.Error("a wrong password is no error")
		}
		right := url.Values{"password": {"secret"}}
		if err := Login(t.Context(), transport, shop+"/login", right, visit, shop+"/account"); err != nil {
			t.Fatal(err)
		}
		got.want(t, "mine", "mine")
		for _, request := range web.Requests() {
			if strings.HasSuffix(request.URL, "/robots.txt") && request.Header.Get("Cookie") != "" {
				t.Error("robots.txt was asked for with a cookie")
			}
		}
	})
}

func TestSessions(t *testing.T) {
	inShop(t, func(t *testing.T, site *politenesstest.Site, _ *politenesstest.Web, transport *politeness.Transport) {
		site.Handle("/account", http.HandlerFunc(session))
		site.Handle("/mine", http.HandlerFunc(session))
		var mu sync.Mutex
		seen := make(map[string]map[string]bool) // cookies, by session
		err := Sessions(t.Context(), transport, []string{"a", "b"}, func(name string, p *crawl.Page) {
			mu.Lock()
			defer mu.Unlock()
			if seen[name] == nil {
				seen[name] = make(map[string]bool)
			}
			seen[name][string(title.FindSubmatch(p.Body)[1])] = true
		}, shop+"/account")
		if err != nil {
			t.Fatal(err)
		}
		if len(seen["a"]) != 1 || len(seen["b"]) != 1 || fmt.Sprint(seen["a"]) == fmt.Sprint(seen["b"]) {
			t.Errorf("the sessions had the cookies %v", seen)
		}
	})
}

func TestDownload(t *testing.T) {
	inShop(t, func(t *testing.T, site *politenesstest.Site, _ *politenesstest.Web, transport *politeness.Transport) {
		const length = 20 << 20 // longer than MaxBody
		site.Handle("/film", politenesstest.Bytes(length))
		to := filepath.Join(t.TempDir(), "film")
		sum, err := Download(t.Context(), transport, shop+"/film", to)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		if want := sha256.Sum256(file); len(file) != length || sum != hex.EncodeToString(want[:]) {
			t.Errorf("a file of %d bytes with the sum %s", len(file), sum)
		}
		if _, err := Download(t.Context(), transport, shop+"/gone", to); err == nil {
			t.Error("a page of 404 was downloaded")
		}
	})
}

func TestStopAfter(t *testing.T) {
	inShop(t, func(t *testing.T, _ *politenesstest.Site, _ *politenesstest.Web, transport *politeness.Transport) {
		item := regexp.MustCompile(`/item/`)
		wanted := func(p *crawl.Page) bool { return item.MatchString(p.FinalURL) }
		summary, err := StopAfter(t.Context(), transport, 1, wanted, shop+"/")
		if err != nil {
			t.Fatal(err)
		}
		if summary.Stopped == nil || !strings.Contains(summary.Stopped.Error(), errEnough.Error()) {
			t.Errorf("it stopped because of: %v", summary.Stopped)
		}
		if visited := summary.Outcomes[crawl.Visited]; visited >= len(pages) {
			t.Errorf("%d pages were visited: it didn't stop", visited)
		}
	})
}

func TestDepthFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site(shop)
		// A tree, three links a page: breadth first asks for all nine pages of the second level first.
		for _, path := range []string{"/", "/1", "/2", "/3"} {
			body := ""
			for n := 1; n <= 3; n++ {
				body += fmt.Sprintf("<a href=%s%d>%[2]d</a>", path, n)
			}
			site.Handle(path, politenesstest.HTML(body))
		}
		for _, path := range []string{"/11", "/12", "/13", "/21", "/22", "/23", "/31", "/32", "/33"} {
			site.Handle(path, politenesstest.HTML(""))
		}
		transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: web})
		if err != nil {
			t.Fatal(err)
		}
		if err := DepthFirst(t.Context(), transport, func(*crawl.Page) {}, shop+"/"); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, request := range web.Requests()[1:] { // without robots.txt
			order = append(order, strings.TrimPrefix(request.URL, shop))
		}
		if third := slices.Index(order, "/11"); third != 2 {
			t.Errorf("asked in the order %v", order)
		}
	})
}

func TestDisk(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html":  `<a href=page.html>page</a> <a href=secret.html>secret</a>`,
		"page.html":   `<a href=./>home</a>`,
		"secret.html": `hidden`,
		"robots.txt":  "User-agent: *\nDisallow: /secret\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var got list
		if err := Disk(t.Context(), politeness.Config{UserAgent: agent}, dir, got.visit); err != nil {
			t.Fatal(err)
		}
		got.want(t, "http://localhost/", "http://localhost/page.html")
	})
}

func TestRecord(t *testing.T) {
	inShop(t, func(t *testing.T, site *politenesstest.Site, web *politenesstest.Web, transport *politeness.Transport) {
		site.Handle("/item/11", http.RedirectHandler("/moved", http.StatusFound))
		site.Handle("/moved", politenesstest.HTML(""))
		site.Sequence("/item/12", http.StatusServiceUnavailable, http.StatusOK)
		record := Record{Over: transport, Dir: t.TempDir()}
		asked := make([]int, 2)
		for round := range asked {
			var got list
			_, err := run(t.Context(), crawl.Config{
				Transport: transport,
				Client:    &http.Client{Transport: record},
				Follow:    crawl.SameHost,
				Visit: func(_ context.Context, p *crawl.Page) error {
					if p.StatusErr() == nil {
						got.visit(p)
					}
					return nil
				},
			}, shop+"/")
			if err != nil {
				t.Fatal(err)
			}
			got.want(t, "/", "/list/1", "/list/2", "/moved", "/item/12", "/item/21")
			asked[round] = len(web.Requests())
		}
		if asked[1] != asked[0] {
			t.Errorf("the second crawl made requests: %v", web.Requests()[asked[0]:])
		}
	})
}

// A proxy is asked for the page, and for its robots.txt.
func TestProxies(t *testing.T) {
	for name, config := range map[string]func(proxy *url.URL) (*politeness.Transport, error){
		"one": func(proxy *url.URL) (*politeness.Transport, error) {
			return Proxy(politeness.Config{UserAgent: agent}, proxy)
		},
		"by host": func(proxy *url.URL) (*politeness.Transport, error) {
			return ProxyByHost(politeness.Config{UserAgent: agent}, map[string]*url.URL{"a.example": proxy})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got list
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got.add(r.URL.String())
				fmt.Fprint(w, "User-agent: *\nAllow: /\n")
			}))
			defer server.Close()
			proxy, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			transport, err := config(proxy)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := (&http.Client{Transport: transport}).Get("http://a.example/page")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			got.want(t, "http://a.example/page", "http://a.example/robots.txt")
		})
	}
}
