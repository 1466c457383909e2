package programs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// env asks for the crawls. Its value is 1, or the folder of another checkout of politeness to
// compare with.
const env = "POLITENESS_PROGRAMS"

// crawled are the paths that a program fetches that follows the links of a front page.
func crawled(more ...string) []string {
	allowed := slices.DeleteFunc(linked(), func(path string) bool { return strings.HasPrefix(path, "/private/") })
	return append(append(allowed, "/robots.txt"), more...)
}

// numbered returns n paths.
func numbered(prefix string, n int, suffix string) []string {
	var paths []string
	for i := range n {
		paths = append(paths, fmt.Sprint(prefix, i, suffix))
	}
	return paths
}

// each returns the paths of each host as URLs, one a line, the hosts in turn.
func (r *run) each(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		for _, url := range r.site.urls() {
			b.WriteString(url + path + "\n")
		}
	}
	return b.String()
}

var programs = []program{
	{
		name:   "colly", // as hakrawler uses it, whose own module the proxy doesn't serve
		module: "github.com/gocolly/colly/v2", version: "v2.1.1-0.20220308084714-a61109486557",
		sum:    "h1:0wk1KQlglWfBwzqQj2O1tBzi5VlsupMQi8V/wksXV9Q=",
		wanted: crawled("/"),
		run:    func(r *run) { r.start(r.urls()) },
	},
	{
		name:   "cariddi",
		module: "github.com/edoardottt/cariddi", version: "v1.4.6",
		sum:  "h1:NBMCN/51zSjz9OTLZDPzV9mMYftmdRYYyB6QeZ5HlaY=",
		main: "cmd/cariddi", hook: "pkg/crawler",
		patches: []patch{{
			file: "pkg/crawler/colly.go",
			line: "\t} else {\n\t\tc.WithTransport(&http.Transport{\n\t\t\tTLSClientConfig: &tls.Config{InsecureSkipVerify: true},\n\t\t})\n",
			with: "\t} else {\n\t\tc.WithTransport(politely())\n",
		}},
		wanted: crawled("/"),
		run:    func(r *run) { r.start(r.urls(), "-c", "100", "-plain") },
	},
	{
		name:   "geziyor",
		module: "github.com/geziyor/geziyor", version: "v0.0.0-20240812061556-229b8ca83ac1",
		sum:    "h1:oYT8DpEDwrouX3Ov76aIbi1tJqRk/ii4M2OdAqFQ4j0=",
		wanted: crawled("/"),
		run:    func(r *run) { r.start(r.each([]string{"/"})) },
	},
	{
		name:   "gocrawl",
		module: "github.com/PuerkitoBio/gocrawl", version: "v1.0.1",
		sum:      "h1:Im3avgJ+ZcNtbRPkm5xoIANtwHBZf2Z5QPptJsk7Y48=",
		requires: []string{"github.com/PuerkitoBio/goquery@v1.8.1", "github.com/temoto/robotstxt@v1.1.2"},
		wanted:   crawled("/"),
		says:     "/p/0", // it asks for no disallowed page by itself
		run:      func(r *run) { r.start(r.urls()) },
	},
	{
		name:   "fetchbot",
		short:  true,
		module: "github.com/PuerkitoBio/fetchbot", version: "v1.4.0",
		sum:    "h1:qJlV4thWwM/Lo4bFQGwd0rasrKSm0IRGvqieEn4/hTk=",
		wanted: crawled(),
		run:    func(r *run) { r.start(r.each(linked())) },
	},
	{
		name:   "htmltest",
		module: "github.com/wjdp/htmltest", version: "v0.17.0",
		sum:  "h1:q9LtT/tnQT2X5ex+rRQjEtRBXqCgnI7cW9T4/cz65Ac=",
		main: ".", hook: "htmltest",
		patches: []patch{{
			file: "htmltest/htmltest.go",
			line: "\t// If enabled (unit tests only) patch in govcr",
			with: "\thT.httpClient.Transport = politely()\n\t// If enabled (unit tests only) patch in govcr",
		}},
		wanted: crawled(),
		run: func(r *run) {
			for i, h := range r.site.hosts {
				r.file(fmt.Sprintf("site/%d.html", i), "<!DOCTYPE html>\n"+r.site.index(h))
			}
			r.file("conf.yml", "DirectoryPath: site\nIgnoreURLs: []\nCheckDoctype: false\nCheckExternal: true\nIgnoreSSLVerify: true\n")
			r.start("", "-c", "conf.yml")
		},
	},
	{
		name:   "obelisk",
		short:  true,
		module: "github.com/go-shiori/obelisk", version: "v0.0.0-20230316095823-42f6a2f99d9d",
		sum:    "h1:LQ2q0hNiWx8XrR+6qWYFS4mk+qVzmpSprhoO2V/DM/I=",
		wanted: append([]string{"/robots.txt", "/gallery", "/err"}, numbered("/img/", images, ".png")...),
		says:   fmt.Sprint(images, " images, <nil>"),
		run:    func(r *run) { r.start("", strings.Fields(r.each([]string{"/gallery"}))...) },
	},
	{
		name:   "katana",
		module: "github.com/projectdiscovery/katana", version: "v1.1.0",
		sum:  "h1:J4EdSss0eoLKs5LRTJn8/BbHZSyJtHY7AW0/YNcWRfk=",
		main: "cmd/katana", hook: "pkg/engine/common",
		patches: []patch{{
			file: "pkg/engine/common/http.go",
			line: "\tclient.CheckRetry = retryablehttp.HostSprayRetryPolicy()\n",
			with: "\tclient.CheckRetry = retryablehttp.HostSprayRetryPolicy()\n\tclient.HTTPClient.Transport = politely()\n",
		}},
		wanted: crawled("/"),
		run: func(r *run) {
			r.start(r.urls(), "-silent", "-disable-update-check", "-concurrency", "100", "-depth", "2", "-retry", "0")
		},
	},
	{
		name:   "miniflux",
		module: "miniflux.app/v2", version: "v2.3.5",
		sum:  "h1:Ani/5wcX3WMSGiAD6oLHzV0Ns8CoAXfTCMIZz3D7PrU=",
		main: "cmd/lab", hook: "internal/reader/fetcher",
		patches: []patch{{
			file: "internal/reader/fetcher/request_builder.go",
			line: "\tclient.Transport = transport\n", with: "\tclient.Transport = politely()\n",
		}},
		wanted: append(crawled(), "/feed.xml"),
		run:    func(r *run) { r.start(r.each(append(linked(), "/feed.xml"))) },
	},
	{
		name:   "feeds",
		module: "github.com/mmcdole/gofeed", version: "v1.3.0",
		sum:      "h1:5yn+HeqlcvjMeAI4gu6T+crm7d0anY85+M+v6fIFNG4=",
		requires: []string{"github.com/oxffaa/gopher-parse-sitemap@v0.0.0-20191021113419-005d2eb1def4"},
		wanted:   append([]string{"/robots.txt", "/feed.xml", "/sitemap.xml"}, numbered("/p/", pages, "")...),
		run:      func(r *run) { r.start(r.urls()) },
	},
	{
		name:   "s3",
		module: "github.com/aws/aws-sdk-go-v2/service/s3", version: "v1.114.10",
		sum:      "h1:WBJb2VxRzzKnuN94YWqZPiu5a5zc3IleFqgZnmVCyvU=",
		requires: []string{"github.com/aws/aws-sdk-go-v2@v1.48.0", "github.com/aws/aws-sdk-go-v2/credentials@v1.19.0"},
		wanted:   append([]string{"/robots.txt", "/bucket/new"}, numbered("/bucket/", 20, "")...),
		run:      func(r *run) { r.start(r.urls()) },
	},
	{
		name:   "failsafe",
		short:  true,
		module: "github.com/failsafe-go/failsafe-go", version: "v0.9.8",
		sum:    "h1:NzahTEc+vg6FqCJV0Sy9mgwcaCemB81c8iSHWTF/urU=",
		wanted: append(crawled(), "/flaky"),
		run:    func(r *run) { r.start(r.each(append([]string{"/flaky"}, linked()...))) },
	},
	{
		name:   "req",
		module: "github.com/imroc/req/v3", version: "v3.50.0",
		sum:    "h1:n3BVnZiTRpvkN5T1IB79LC/THhFU9iXksNRMH4ZNVaY=",
		wanted: crawled(),
		run:    func(r *run) { r.start(r.each(linked())) },
	},
	{
		name:   "fasthttp", // as muffet uses it, whose own module the proxy doesn't serve
		module: "github.com/valyala/fasthttp", version: "v1.78.0",
		sum:    "h1:tKfLdx7cD8HZOTP1wc2OpbQMbgO1HP12J0y/XMdyW6Q=",
		wanted: crawled(),
		run: func(r *run) {
			r.throughProxy(func(address string) { r.start(r.each(linked()), address) })
		},
	},
}

// TestOneLine crawls the site with each program.
func TestOneLine(t *testing.T) {
	root := os.Getenv(env)
	if root == "" {
		t.Logf("programs are built and run with %s=1 only", env)
		return
	}
	if root == "1" {
		root = "../.."
	}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if testing.Short() && !p.short {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			binary := p.build(t, root)
			// The crawls begin when all programs are built, on a machine that is quiet by then.
			t.Parallel()
			r := &run{T: t, root: root, dir: t.TempDir(), binary: binary, site: newSite(t, 3)}
			p.run(r)
			r.judge(p)
		})
	}
}

// judge fails the test if the crawl broke a promise or lost a page.
func (r *run) judge(p program) {
	v := r.site.judge(p.wanted)
	r.Logf("| %s %s | %d of %d | %d | %v | %d | %d | %d | %d | %d | %d | %s |", p.name, p.version,
		v.got, v.wanted, v.short, v.shortest.Round(time.Millisecond), v.disallowed, v.inRetryAfter, v.repeated, v.atOnce,
		v.requests, v.past, r.took.Round(100*time.Millisecond))
	says := p.says
	if says == "" {
		says = "disallowed"
	}
	for problem, found := range map[string]bool{
		fmt.Sprintf("%d of %d pages are missing: %s", len(v.missing), v.wanted, some(v.missing)): len(v.missing) > 0,
		fmt.Sprintf("%d gaps are short: %s", v.short, some(v.shorts)):                            v.short > 0,
		fmt.Sprintf("%d requests of disallowed pages", v.disallowed):                             v.disallowed > 0,
		fmt.Sprintf("%d requests inside a Retry-After", v.inRetryAfter):                          v.inRetryAfter > 0,
		fmt.Sprintf("pages before a refused redirect were asked for %d times more", v.repeated):  v.repeated > 0,
		fmt.Sprintf("the program doesn't print %q", says):                                        !strings.Contains(r.output.String(), says),
	} {
		if found {
			r.Error(problem)
		}
	}
	if r.Failed() {
		text := r.output.String()
		r.Logf("%v; it printed:\n%s", r.err, text[max(0, len(text)-4000):])
	}
}

// some returns the first of the URLs.
func some(urls []string) string {
	const most = 5
	if len(urls) > most {
		return strings.Join(urls[:most], " ") + " ..."
	}
	return strings.Join(urls, " ")
}
