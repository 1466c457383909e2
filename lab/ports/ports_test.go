package ports

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
)

var html = politenesstest.HTML

// linked are the pages of a host with links between them.
func linked(origin string, pages map[string]string) func(*politenesstest.Web) {
	return func(web *politenesstest.Web) {
		site := web.Site(origin)
		for path, body := range pages {
			site.Handle(path, html(body))
		}
	}
}

// echo answers with the target of the request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.RequestURI()) })

// typed answers with a Content-Type.
func typed(contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body)
	})
}

// ports are the programs, each with its web and a pattern of each thing that it has to print or to
// write to a file.
var ports = map[string]struct {
	main func()
	args []string
	web  func(*politenesstest.Web)
	want []string
}{
	"basic": {main: basic, web: linked("https://hackerspaces.org", map[string]string{
		"/": `<a href=/wiki>wiki</a><a href=https://elsewhere.example/>away</a>`, "/wiki": `<a href=/>home</a>`,
	}), want: []string{"Link found on https://hackerspaces.org/: https://hackerspaces.org/wiki", "2 visited"}},
	"max_depth": {main: maxDepth, web: linked("https://en.wikipedia.org", map[string]string{
		"/": `<a href=/a>a</a>`, "/a": `<a href=/b>b</a>`, "/b": `<a href=/c>c</a>`,
	}), want: []string{`/a\n`, `/b\n$`}},
	"parallel": {main: parallel, web: linked("https://en.wikipedia.org", map[string]string{
		"/": `<a href=/a>a</a>`, "/a": `<a href=/b>b</a>`, "/b": `<a href=/c>c</a>`, "/c": `<a href=/d>d</a>`,
	}), want: []string{`/b\n`, `/c\n$`}},
	"url_filter": {main: urlFilter, web: linked("http://httpbin.org", map[string]string{
		"/": `<a href=/html>h</a><a href=/ip>i</a>`, "/html": `<a href=/encoding>e</a>`, "/ip": `<a href=/lost>l</a>`, "/encoding": "",
	}), want: []string{"Link found on http://httpbin.org/html: http://httpbin.org/encoding"}},
	"error_handling": {main: errorHandling, web: func(*politenesstest.Web) {}, want: []string{
		"Request URL: https://definitely-not-a.website/ unreachable", "Error: .*no address for the name",
	}},
	"request_context": {main: requestContext, web: linked("https://en.wikipedia.org", map[string]string{
		"/": `<a href=/a>a</a>`, "/a": "",
	}), want: []string{"https://en.wikipedia.org/a from https://en.wikipedia.org/\n"}},
	"login": {main: login, web: func(web *politenesstest.Web) {
		web.Site("http://example.com").
			Handle("/login", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.SetCookie(w, &http.Cookie{Name: "user", Value: r.FormValue("username")})
			})).
			Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c, err := r.Cookie("user"); err != nil || c.Value != "admin" {
					w.WriteHeader(http.StatusForbidden)
				}
			}))
	}, want: []string{"response received 200"}},
	"cryptocoinmarketcap": {main: cryptocoinmarketcap, web: linked("https://coinmarketcap.com", map[string]string{
		"/all/views/all/": `<table><tbody><tr><td class=cmc-table__column-name>Coin<td class=cmc-table__cell--sort-by__symbol>C<td class=cmc-table__cell--sort-by__price>1</table>`,
	}), want: []string{"Coin,C,,1,,,,,"}},
	"hackernews_comments": {main: hackernewsComments, args: []string{"-id", "7"}, web: linked("https://news.ycombinator.com", map[string]string{
		"/item": `<table class=comment-tree>
			<tr class=athing><td class=ind><img width=0><td><a class=hnuser>ann</a><span class=age><a href=item?id=8>now</a></span><div class=comment>first reply</div>
			<tr class=athing><td class=ind><img width=40><td><a class=hnuser>bob</a><div class=comment>second reply</div></table>`,
	}), want: []string{`"Author": "ann"`, `"URL": "https://news.ycombinator.com/item\?id=8"`, `(?s)"Comment": "first".*"Replies": \[.*"Comment": "second"`}},
	"xkcd_store": {main: xkcdStore, web: linked("https://store.xkcd.com", map[string]string{
		"/collections/everything": `<div class=product-grid-item><a href=/p/1 title=Shirt></a><img src=//cdn.example/1.png><span>$5</span></div><div class=next><a href=/collections/more>next</a></div>`,
		"/collections/more":       `<div class=product-grid-item><a href=/p/2 title=Mug></a><span>$9</span></div>`,
	}), want: []string{`Shirt,\$5,https://store.xkcd.com/p/1,https://cdn.example/1.png`, `Mug,\$9`}},
	"factbase": {main: factbase, web: func(web *politenesstest.Web) {
		web.Site("https://factba.se").
			Handle("/json/json-transcript.php", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.FormValue("p") == "1" {
					fmt.Fprint(w, `{"data": [{"slug": "speech", "date": "2020-01-02"}]}`)
					return
				}
				fmt.Fprint(w, `{"data": []}`)
			})).
			Handle("/transcript/speech", html(`<div class=topic-media-row><b class=speaker-label>Ann</b><p class=transcript-text-block>words</p></div>`))
	}, want: []string{`2020-01-02_speech.json: (?s).*"Speaker": "Ann",\s*"Text": "words"`}},
	"google_groups": {main: googleGroups, web: func(web *politenesstest.Web) {
		web.Site("https://groups.google.com").Handle("/forum/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.FormValue("_escaped_fragment_"), "forum/") {
				html(`<table><tr><td><a href="https://groups.google.com/d/topic/hspbp/1">Thread</a><td>ann<td>now</table>`).ServeHTTP(w, r)
				return
			}
			html(`<h2>Thread</h2><table><tr><td><a href=/m>Title</a><td>ann<td>now<td>hello</table>`).ServeHTTP(w, r)
		}))
	}, want: []string{`(?s)"Thread": \[.*"Author": "ann".*"Message": "hello"`}},
	"reddit": {main: reddit, args: []string{"https://old.reddit.com/r/golang/"}, web: linked("https://old.reddit.com", map[string]string{
		"/r/golang/":  `<div class=top-matter><a data-event-action=title href=/story>Story</a></div><span class=next-button><a href=/r/golang/2>next</a></span>`,
		"/r/golang/2": `<div class=top-matter><a data-event-action=title href=/other>Other</a></div>`,
	}), want: []string{`/story https://old.reddit.com/r/golang/ `, "Other"}},
	"openedx_courses": {main: openedxCourses, web: linked("https://www.indonesiax.co.id", map[string]string{
		"/courses":   `<a href=/courses/1>one</a><a href=/about>about</a>`,
		"/courses/1": `<section id=course-info></section><input name=course_id value=c_7><span data-datetime>02 Jan, 2020</span><span data-datetime>03 Feb, 2020</span><h1 class=course-info__title>Go</h1>`,
	}), want: []string{`(?s)"Run": "7",\s*"Name": "Go".*"StartDate": "2020-01-02.*"EndDate": "2020-02-03.*"URL": "/courses/c_7/about"`}},
	"coursera_courses": {main: courseraCourses, web: linked("https://coursera.org", map[string]string{
		"/browse":   `<a href=/learn/go>go</a><a href="/browse?x=signup">no</a><a href=/about>about</a>`,
		"/learn/go": `<h1 class=banner-title>Go</h1><div class=AboutCourse><div class=ProductGlance><div><div><svg><title>Subtitle languages</title></svg></div><div><div>English</div></div></div></div></div>`,
	}), want: []string{`courses.json: (?s).*"Title": "Go".*"Language": "English"`}},
	"multipart": {main: postMultipart, web: func(web *politenesstest.Web) {
		web.Site("http://localhost:8080").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, header, err := r.FormFile("file")
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			fmt.Fprint(w, r.Method, r.FormValue("firstname"), header.Size)
		}))
	}, want: []string{"POSTone7"}},
	"queue": {main: queue, web: func(web *politenesstest.Web) { web.Site("https://httpbin.org").Handle("/delay/1", echo) }, want: []string{
		`visited https://httpbin.org/delay/1\?n=4\n`, `visited https://httpbin.org/delay/1\?n=4&x=1&x=1\n`,
	}},
	"random_delay": {main: randomDelay, web: func(web *politenesstest.Web) { web.Site("https://httpbin.org").Handle("/delay/2", echo) }, want: []string{
		`delay/2\n`, `n=3\n`,
	}},
	"rate_limit": {main: rateLimit, web: func(web *politenesstest.Web) { web.Site("https://httpbin.org").Handle("/delay/2", echo) }, want: []string{
		`n=0\n`, `n=4\n`,
	}},
	"shopify_sitemap": {main: shopifySitemap, web: func(web *politenesstest.Web) {
		web.Site("https://www.shopify.com").Robots("Sitemap: /maps/all.xml\n").Handle("/maps/all.xml", typed("application/xml",
			`<urlset><url><loc>https://www.shopify.com/1</loc></url><url><loc>https://www.shopify.com/2</loc></url></urlset>`))
	}, want: []string{"https://www.shopify.com/2", "Collected 2 URLs"}},
	"instagram": {main: instagram, args: []string{"ann"}, web: func(web *politenesstest.Web) {
		const media = `{"page_info": {"end_cursor": "c", "has_next_page": %v}, "edges": [{"node": {"display_url": "https://www.instagram.com/%s.jpg"}}, {"node": {"is_video": true}}]}`
		web.Site("https://instagram.com").Handle("/ann", http.RedirectHandler("https://www.instagram.com/ann", http.StatusMovedPermanently))
		web.Site("https://www.instagram.com").
			Handle("/ann", html(`<link as=script href=/all.js><body><script>window._data = {"rhx_gis": "g", "entry_data": {"ProfilePage": [{"graphql": {"user": {"id": "7", "edge_owner_to_timeline_media": `+
				fmt.Sprintf(media, true, "first")+`}}}]}};</script>`)).
			Handle("/all.js", typed("text/javascript", `queryId:"00000000000000000000000000000000" queryId:"11111111111111111111111111111111"`)).
			Handle("/graphql/query/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.FormValue("query_hash") != strings.Repeat("1", 32) || len(r.Header.Get("X-Instagram-GIS")) != 32 {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				typed("application/json", `{"data": {"user": {"edge_owner_to_timeline_media": `+fmt.Sprintf(media, false, "second")+`}}}`).ServeHTTP(w, r)
			})).
			Handle("/first.jpg", typed("image/jpeg", "one")).
			Handle("/second.jpg", typed("image/jpeg", "two"))
	}, want: []string{"instagram_ann/first.jpg: one", "instagram_ann/second.jpg: two"}},
	"scrapy_tutorial": {main: scrapyTutorial, args: []string{"life"}, web: linked("https://quotes.toscrape.com", map[string]string{
		"/tag/life/":        `<div class=quote><span class=text>words</span><small class=author>Ann</small><a href=/author/Ann/>about</a><div class=tags><a class=tag>life</a><a class=tag>go</a></div></div><li class=next><a href=/tag/life/page/2/>next</a>`,
		"/tag/life/page/2/": `<div class=quote><span class=text>more</span><small class=author>Ann</small><a href=/author/Ann/>about</a></div>`,
		"/author/Ann/":      `<h3 class=author-title>Ann</h3><span class=author-born-date>1970</span><div class=author-description>wrote</div>`,
	}), want: []string{`"Text":"words","Author":"Ann","Tags":\["life","go"\]`, `"Text":"more"`, `"Name":"Ann","Birthdate":"1970","Bio":"wrote"`}},
	"local_files": {main: localFiles, web: func(*politenesstest.Web) {}, want: []string{
		"http://files.invalid/ : Index", "http://files.invalid/child.html : Child",
	}},
}

// TestPorts runs each program in virtual time over a web of its own.
func TestPorts(t *testing.T) {
	for name, p := range ports {
		t.Run(name, func(t *testing.T) {
			web := politenesstest.NewWeb()
			p.web(web)
			got := run(t, web, p.main, p.args...)
			for _, want := range p.want {
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("no %s in\n%s", want, got)
				}
			}
			web.Check(t, politenesstest.Rules{Concurrency: 2})
		})
	}
}

// run runs a program over base, and returns what it has printed and written to files.
func run(t *testing.T, base http.RoundTripper, program func(), args ...string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"gocolly.jpg": "picture", "html/index.html": "<h1>Index</h1><a href=child.html>child</a>", "html/child.html": "<h1>Child</h1>",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flag.CommandLine = flag.NewFlagSet(t.Name(), flag.PanicOnError)
	wasArgs, wasOut, wasBase := os.Args, os.Stdout, http.DefaultTransport
	defer func() { os.Args, os.Stdout, http.DefaultTransport = wasArgs, wasOut, wasBase }()
	os.Args = append([]string{"program"}, args...)
	http.DefaultTransport = base
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	out, err := os.Create("printed")
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = out
	if _, virtual := base.(*politenesstest.Web); virtual {
		synctest.Test(t, func(*testing.T) { program() })
	} else {
		program()
	}
	out.Close()
	return logged.String() + allFiles(t)
}

// allFiles returns the names and contents of the files in this directory.
func allFiles(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(".", func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "gocolly.jpg" {
			return err
		}
		text, err := os.ReadFile(name)
		fmt.Fprintf(&all, "\n%s: %s", name, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestProxySwitcher: each host goes through its proxy, robots.txt too.
func TestProxySwitcher(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "proxied ", r.RequestURI)
	}))
	defer proxy.Close()
	var dialled []string
	base := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return new(net.Dialer).DialContext(ctx, network, proxy.Listener.Addr().String())
	}}
	got := run(t, base, proxySwitcher)
	for _, want := range []string{"proxied http://httpbin.org/ip", "proxied http://httpbingo.org/ip"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	for _, address := range dialled {
		if address != "127.0.0.1:1337" && address != "127.0.0.1:1338" {
			t.Errorf("%s was asked beside the proxies", address)
		}
	}
}

var _ = scraperServer // it never returns: TestScraperServer asks what it serves

// TestScraperServer: a crawl for each request.
func TestScraperServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://a.example").Handle("/", html(`<a href=/b>b</a>`))
		transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: web})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		scraper{transport}.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?url=https://a.example/", nil))
		body, _ := io.ReadAll(w.Result().Body)
		if !strings.Contains(string(body), `"StatusCode":200,"Links":[{"URL":"https://a.example/b"`) {
			t.Errorf("%s", body)
		}
	})
}

// TestPortsAreAsShortAsTheOriginals counts the lines of code in both, without blanks and comments,
// and holds the table in RESULTS.md.
func TestPortsAreAsShortAsTheOriginals(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/gocolly/colly/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	results, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	originals, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "_examples", "*", "*.go"))
	if err != nil || len(originals) != 24 {
		t.Fatalf("%d originals, %v", len(originals), err)
	}
	theirs, ours := 0, 0
	for _, original := range originals {
		name := filepath.Base(filepath.Dir(original))
		port := strings.ReplaceAll(name, ".", "") + ".go"
		a, b := linesOf(t, original), linesOf(t, port)
		theirs += a
		ours += b
		row := fmt.Sprintf("| %s | %d | %d |", name, a, b)
		if !strings.Contains(string(results), row+"\n") {
			t.Errorf("RESULTS.md lacks %s", row)
		}
	}
	row := fmt.Sprintf("| all | %d | %d |", theirs, ours)
	if !strings.Contains(string(results), row+"\n") {
		t.Errorf("RESULTS.md lacks %s", row)
	}
	if ours > theirs {
		t.Errorf("%d lines, and the originals have %d", ours, theirs)
	}
}

// linesOf returns the number of lines in a file that have code.
func linesOf(t *testing.T, name string) (n int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
