package robots_test

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/go-politeness/politeness/robots"
)

const file = `User-agent: *
Disallow: /private
Allow: /private/press/
Crawl-delay: 2

User-agent: BadBot
Disallow: /

Sitemap: https://example.com/sitemap.xml
`

func Example() {
	f := robots.Parse([]byte(file))
	rules := f.Agent("FooBot/1.0 (+https://example.com/bot)") // keep this

	for _, target := range []string{"/", "/private/a?b=c", "/private/press/2026"} {
		v := rules.Test(target)
		fmt.Printf("%v: %q in line %d\n", v.Allowed, v.Rule, v.Line)
	}
	delay, _ := rules.CrawlDelay()
	fmt.Println(delay, f.Sitemaps())
	// Output:
	// true: "" in line 0
	// false: "Disallow: /private" in line 2
	// true: "Allow: /private/press/" in line 3
	// 2s [https://example.com/sitemap.xml]
}

// Test wants what is sent, path and query, which is a URL's RequestURI.
func ExampleRules_Test() {
	rules := robots.Parse([]byte("User-agent: *\nDisallow: /a%2Fb\n")).Agent("FooBot")
	u, _ := url.Parse("https://example.com/a%2fb?page=1")
	fmt.Println(rules.Test(u.RequestURI()).Allowed)
	// Output: false
}

// It is a mistake to ask for a URL's Path: it is decoded, so that it may be another one's,
// and it lacks the query.
func ExampleRules_Test_incorrect() {
	rules := robots.Parse([]byte("User-agent: *\nDisallow: /a%2Fb\nDisallow: /*?page=\n")).Agent("FooBot")
	u, _ := url.Parse("https://example.com/a%2Fb?page=1")
	fmt.Println(rules.Test(u.Path).Allowed)
	// Output: true
}

func ExampleProductToken() {
	fmt.Println(robots.ProductToken("AEO-Audit/1.0 (+https://example.com/bot)"))
	fmt.Println(robots.ProductToken("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"))
	// Output:
	// AEO-Audit
	// Googlebot
}

func ExampleFile_Lint() {
	f := robots.Parse([]byte("Disallow: /a\nUser-agent: *\nDisallow: private/\nNoindex: /b\n"))
	for _, finding := range f.Lint() {
		fmt.Println(finding)
	}
	// Output:
	// line 1: rule-before-agent: no agent stands before this rule, so it applies to no crawler
	// line 3: never-matches: no path begins like "private/"
	// line 4: unknown-key: no crawler is known to read "Noindex"
}

func ExampleRules_Floor() {
	rules := robots.Parse([]byte("User-agent: *\nCrawl-delay: 2\nRequest-rate: 1/10 0800-1800\nDisallow: /x\n")).Agent("FooBot")
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	fmt.Println(rules.Floor(noon), rules.Floor(noon.Add(8*time.Hour)))
	// Output: 10s 2s
}

func ExampleReadMeta() {
	header := robots.ParseTags([]string{"otherbot: noindex", "max-snippet: 20"}, "FooBot")
	page, err := robots.ReadMeta(strings.NewReader(`<html><head><meta name="robots" content="noindex, nofollow">`), "FooBot")
	fmt.Println(header.Merge(page), err)
	// Output: noindex, nofollow, max-snippet:20 <nil>
}

// A MetaScanner looks at a page while somebody else reads it.
func ExampleMetaScanner() {
	body := strings.NewReader(`<html><head><meta name="foobot" content="noarchive"></head><body>...`)
	s := robots.NewMetaScanner("FooBot")
	page, _ := io.ReadAll(io.TeeReader(body, s))
	fmt.Println(len(page), s.Done(), s.Directives())
	// Output: 68 true noarchive
}

// What a site states about the use of a page is brought together from robots.txt, the headers and
// the page itself.
func ExampleRules_Preferences() {
	rules := robots.Parse([]byte("User-agent: *\nContent-Signal: search=yes, ai-train=no\n")).Agent("FooBot")
	header := map[string][]string{"Tdm-Reservation": {"1"}} // an http.Header

	stated := rules.Preferences("/article").Merge(robots.HeaderPreferences(header, "FooBot"))
	for _, purpose := range []robots.Purpose{robots.Train, robots.Ground, robots.Search} {
		answer := stated.For(purpose)
		fmt.Printf("%s: %s by %s\n", purpose, answer.Preference, answer.Source)
	}
	// Output:
	// train: refused by Content-Signal, line 2
	// ground: refused by tdm-reservation header
	// search: granted by Content-Signal, line 2
}
