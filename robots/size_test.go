package robots_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/robotsgen"
	"github.com/go-politeness/politeness/robots"
)

// large makes a file of 500,000 bytes of lines for FooBot, other ones for each seed.
func large(seed int, line func(i int) string) []byte {
	var b strings.Builder
	b.WriteString("User-agent: FooBot\n")
	for i := seed * 100_000; b.Len() < 500_000; i++ {
		b.WriteString(line(i))
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// two returns two bytes for a number, as many different ones as a line can have.
func two(i int) string {
	const from, of = '0', 250 - '0'
	return string([]byte{byte(from + i%of), byte(from + i/of%of)})
}

// costly are files whose rules take much room.
var costly = []struct {
	name string
	line func(i int) string
}{
	{"shortest rules", func(i int) string { return "allow:/" + two(i) }},
	{"three bytes", func(i int) string { return "allow:/" + two(i) + string(rune('a'+i/40_000%26)) }},
	{"not to be found by three bytes", func(i int) string { return "allow:*" + two(i) + string(rune('a'+i/40_000%26)) + "$" }},
	{"the same rule", func(int) string { return "allow:" }},
	{"never matches", func(i int) string { return "allow:" + two(i) }},
	{"all bytes beyond ASCII", func(i int) string { return "Disallow: /" + strings.Repeat("é", i%300) + two(i) }},
	{"tails beyond ASCII", func(i int) string { return "Disallow: *" + strings.Repeat("é", i%300) + two(i) }},
	{"short rules", func(i int) string { return fmt.Sprintf("allow:/%05x", i) }},
	{"short Disallow", func(i int) string { return fmt.Sprintf("Disallow: /%05x", i) }},
	{"shortest wildcards", func(i int) string { return "allow:*" + two(i) }},
	{"short wildcards", func(i int) string { return fmt.Sprintf("allow:*%05x", i) }},
	{"wildcards", func(i int) string { return fmt.Sprintf("Disallow: /*?id=%d", i) }},
	{"deep wildcards", func(i int) string { return fmt.Sprintf("Disallow: /%x*/%x", i, i) }},
	{"wildcards in groups", func(i int) string { return fmt.Sprintf("allow:/%x*%d", i/9, i) }},
	{"stars", func(i int) string { return fmt.Sprintf("allow:*%x*%x", i, i/7) }},
	{"ends", func(i int) string { return fmt.Sprintf("allow:/%x$", i) }},
	{"escapes", func(i int) string { return fmt.Sprintf("allow:/%%d0%%%02x%x", i%256, i) }},
	{"bytes beyond ASCII", func(i int) string { return fmt.Sprintf("Disallow: /категория/%d", i) }},
	{"index.html", func(i int) string { return fmt.Sprintf("allow:/%x/index.htm", i) }},
	{"spaces", func(i int) string {
		return fmt.Sprintf("allow%s:%s/%x", strings.Repeat(" ", i%50), strings.Repeat(" ", i/50%50), i)
	}},
	{"many spellings", func(i int) string { return fmt.Sprintf("allow%x:/%x", i, i) }},
	{"nested", func(i int) string { return "allow:/" + strings.Repeat("a", i%900) + fmt.Sprint(i/900%10) }},
	{"long", func(i int) string { return "Disallow: /" + strings.Repeat(fmt.Sprint(i), 600) }},
	{"blank lines", func(i int) string { return "allow:/" + two(i) + "\n\n\n\n\n" }},
	{"comments", func(i int) string { return fmt.Sprintf("allow:/%x # a comment", i) }},
	{"other agents", func(i int) string { return fmt.Sprintf("user-agent:%x", i) }},
	{"groups", func(i int) string { return fmt.Sprintf("user-agent:%x\nallow:/%x", i, i) }},
	{"own groups", func(i int) string { return fmt.Sprintf("user-agent:foobot\nallow:/%x", i) }},
	{"sitemaps", func(i int) string { return fmt.Sprintf("sitemap:%x", i) }},
	{"Clean-param", func(i int) string { return fmt.Sprintf("Clean-param: %x", i) }},
	{"unknown lines", func(i int) string { return fmt.Sprintf("x:%x", i) }},
	{"HTML", func(i int) string { return fmt.Sprintf(`<p><a href="/%x">%x</a></p>`, i, i) }},
	{"Crawl-delay", func(i int) string { return fmt.Sprintf("crawl-delay:%d", i) }},
	{"Request-rate", func(i int) string { return fmt.Sprintf("request-rate:1/%d", i) }},
	{"Visit-time", func(i int) string { return fmt.Sprintf("visit-time:%04d-2400", i%24*100+i%60) }},
	{"Content-Signal", func(i int) string { return "content-signal:search=no" }},
	{"Content-Usage", func(i int) string { return fmt.Sprintf("content-usage:/%x search=n", i) }},
	{"License", func(i int) string { return fmt.Sprintf("license:%x", i) }},
	{"all of it", func(i int) string {
		return []string{
			"allow:/" + two(i), fmt.Sprintf("Disallow: /*%x", i), fmt.Sprintf("license:%x", i), fmt.Sprintf("request-rate:1/%d", i),
			fmt.Sprintf("content-usage:/%x search=n", i), fmt.Sprintf("visit-time:%04d-2400", i%24*100+i%60), fmt.Sprintf("allow:/%x/index.html", i),
		}[i%7]
	}},
}

// Rules take at most three times the file's length, whatever it holds, and Size reports how much.
func TestRulesOfLargeFilesAreSmall(t *testing.T) {
	for _, c := range some(costly) {
		seed := 0
		length := 0
		size := 0
		got := keptOf(2, func() any {
			seed++
			body := large(seed, c.line)
			rules := robots.Parse(body).Agent("FooBot")
			length, size = len(body), rules.Size()
			return rules
		})
		t.Logf("%s: %.2f times the text, %.2f by Size", c.name, float64(got)/float64(length), float64(size)/float64(length))
		if got > int64(3*length) {
			t.Errorf("%s: %.2f times the text", c.name, float64(got)/float64(length))
		}
		if ratio := float64(size) / float64(got); got > 64<<10 && (ratio < 0.9 || ratio > 1.1) {
			t.Errorf("%s: %d bytes by Size, %d there are", c.name, size, got)
		}
	}
}

// some returns every sixth of all, and all of them with POLITENESS_LONG=1 (make test).
func some[T any](all []T) (few []T) {
	if os.Getenv("POLITENESS_LONG") != "" {
		return all
	}
	for i := 0; i < len(all); i += 6 {
		few = append(few, all[i])
	}
	return few
}

// TestCostlyFilesAllocateNothing when they are asked.
func TestCostlyFilesAllocateNothing(t *testing.T) {
	for _, c := range some(costly) {
		body := large(0, c.line)
		rules := robots.Parse(body).Agent("FooBot")
		for _, target := range robotsgen.Paths(append(body, "\nDisallow: /a\n"...), 20) {
			if n := testing.AllocsPerRun(1, func() { rules.Test(target) }); n > 0 {
				t.Fatalf("%s: %.40q: %v allocations", c.name, target, n)
			}
		}
	}
}
