package robots_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/robotsgen"
	"github.com/go-politeness/politeness/robots"
)

// A check allocates nothing, whether or not its target has to be normalised.
func TestCheckAllocatesNothing(t *testing.T) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		for _, o := range []robots.Options{{}, {GoogleExact: true}} {
			rules := robots.ParseWith(body, o).Agent("FooBot")
			for _, target := range append(robotsgen.Paths(body, 20), "/robots.txt", "/%7Ejoe/é*$", "/a#b", "/"+strings.Repeat("é", 1000), "/"+strings.Repeat("ab", 5000)) {
				if n := testing.AllocsPerRun(10, func() { rules.Test(target) }); n > 0 {
					t.Errorf("%s: %.40q: %v allocations", s.Name, target, n)
				}
			}
		}
	}
}

// Patterns with escapes and bytes beyond ASCII, however long, are compared without a stretch of the
// heap.
func TestCheckOfEscapedPatternsAllocatesNothing(t *testing.T) {
	for _, length := range []int{1, 250, 300, 3000, 16_000} {
		for _, pattern := range []string{"/a%7e" + strings.Repeat("*", length) + "é", "/a*" + strings.Repeat("é", length/2)} {
			rules := robots.Parse([]byte("User-agent: *\nDisallow: /a%7e*é\nDisallow: " + pattern)).Agent("FooBot")
			const target = "/a~b%C3%A9"
			if rules.Test(target).Allowed {
				t.Errorf("%d bytes: allowed", length)
			}
			if n := testing.AllocsPerRun(10, func() { rules.Test(target) }); n > 0 {
				t.Errorf("%d bytes: %v allocations", length, n)
			}
		}
	}
}

// To parse a file and to compile its rules takes some allocations, none for each rule.
func TestParsingAllocatesLittle(t *testing.T) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		n := testing.AllocsPerRun(1, func() { robots.Parse(body).Agent("FooBot") })
		t.Logf("%s: %v", s.Name, n)
		if n > 40 {
			t.Errorf("%s: %v allocations", s.Name, n)
		}
	}
}

// The rules of an agent take at most three times the room of its group's text, and 100 bytes.
func TestRulesAreSmall(t *testing.T) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		group := body[:bytes.Index(body, []byte("\nUser-agent: BadBot"))]
		if got := retained(body); got > int64(3*len(group))+100 {
			t.Errorf("%s: %.2f times the text", s.Name, float64(got)/float64(len(group)))
		}
	}
}

// Rules keep nothing of the body or the File, however little of these they need.
func TestRulesPinNothing(t *testing.T) {
	body := []byte("User-agent: FooBot\nDisallow: /a\nDisallow: /b*c\nDisallow: /%7e\nCrawl-delay: 1\nRequest-rate: 1/5\nContent-Usage: /a train-ai=n\nLicense: https://example.com/license\n\nUser-agent: *\n" +
		strings.Repeat("Disallow: /some/other/path\n", 20000) + "Sitemap: https://example.com/s.xml\n")
	if got := retained(body); got > 4<<10 {
		t.Errorf("a small group of a large file keeps %d bytes", got)
	}
	if got := kept(func() any { return robots.Parse(body).Sitemaps() }); got > 1<<10 {
		t.Errorf("the sitemaps keep %d bytes", got)
	}
}

// retained returns how many bytes of the heap the rules of one agent keep.
func retained(body []byte) int64 {
	return kept(func() any { return robots.Parse(body).Agent("FooBot") })
}

// kept returns how many bytes of the heap what make returns keeps.
func kept(build func() any) int64 { return keptOf(16, build) }

// keptOf is kept, measured over n of them.
func keptOf(n int, build func() any) int64 {
	var before, after runtime.MemStats
	all := make([]any, n)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		all[i] = build()
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(all)
	return (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(n)
}
