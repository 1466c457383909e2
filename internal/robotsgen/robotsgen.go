// Package robotsgen makes robots.txt files shaped like real ones, for benchmarks: the same
// ones on every machine.
package robotsgen

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A Shape is the recipe of a file.
type Shape struct {
	Name  string
	Rules int // Allow and Disallow lines for every crawler
	Wild  int // of a hundred of them, those with a star within
	Deep  int // of a hundred of those, the ones that begin with a directory's name rather than a star
	Width int // about how many bytes a rule's path has
}

// Shapes are those of real files at the median, the 95th and the 99th percentile of length,
// one of the second with as many wildcards as shops have, and one of the longest.
var Shapes = []Shape{
	{Name: "small", Rules: 24, Wild: 45, Deep: 10, Width: 25},
	{Name: "medium", Rules: 400, Wild: 15, Deep: 95, Width: 23},
	{Name: "medium-w", Rules: 1034, Wild: 50, Deep: 90, Width: 17},
	{Name: "large", Rules: 12936, Wild: 25, Deep: 20, Width: 21},
}

var words = strings.Fields(`account admin ajax api app archive article assets author basket blog brand
	cache calendar cart catalog category cgi-bin checkout collection comment compare component config
	content contact core cron customer data date detail docs download edit en error event export feed
	file filter forum gallery group help history home image include index info install item job js json
	label lang language layout library link list live local login logout mail map media member menu
	message mobile module my news node order page panel partner password payment people photo plugin
	policy popup post preview price print private product profile promo public query rating receipt
	redirect region register report request result review rss sale sample save script search section
	secure send service session setting share shipping shop sitemap sku small sort stats status store
	style submit support system tag team template term test theme thumb ticket tmp token tool topic
	track trackback upload user vendor video view vote voucher web widget wishlist wp-admin wp-content
	wp-includes xml year zone`)

type generator struct{ *rand.Rand }

func (g generator) word() string {
	w := words[g.IntN(len(words))]
	switch g.IntN(8) {
	case 0:
		return fmt.Sprint(w, g.IntN(1000))
	case 1:
		return w + "-" + words[g.IntN(len(words))]
	case 2:
		return w + "_" + words[g.IntN(len(words))]
	}
	return w
}

// path returns a path of about width bytes.
func (g generator) path(width int) string {
	var b strings.Builder
	width += g.IntN(width+1) - width/2
	for {
		b.WriteByte('/')
		b.WriteString(g.word())
		if b.Len() >= width-4 {
			break
		}
	}
	switch g.IntN(6) {
	case 0:
		b.WriteString([]string{".html", ".php", ".aspx", ".pdf"}[g.IntN(4)])
	case 1, 2, 3:
		b.WriteByte('/')
	}
	return b.String()
}

// wild returns a pattern with a star within, behind a directory's name if it is deep.
func (g generator) wild(width int, deep bool) string {
	if deep {
		start := "/" + g.word()
		switch g.IntN(4) {
		case 0:
			return start + "/*/" + g.word()
		case 1:
			return start + "/*?" + g.word() + "="
		case 2:
			return g.path(width-6) + "*." + []string{"html", "php", "jpg", "pdf"}[g.IntN(4)] + "$"
		default:
			return start + "*&" + g.word() + "=*"
		}
	}
	switch g.IntN(4) {
	case 0:
		return "/*" + g.path(width-2)
	case 1:
		return "/*?" + g.word() + "=*" + g.word()
	case 2:
		return "/*?*" + g.word() + "="
	default:
		return "*" + g.path(width-1) + "$"
	}
}

// File makes a file of the shape.
func File(s Shape) []byte {
	g := generator{rand.New(rand.NewPCG(uint64(s.Rules), uint64(s.Wild)))}
	var b bytes.Buffer
	b.WriteString("# robots.txt\nUser-agent: *\nCrawl-delay: 10\n")
	for range s.Rules {
		p := g.path(s.Width)
		if g.IntN(100) < s.Wild {
			p = g.wild(s.Width, g.IntN(100) < s.Deep)
		}
		key := "Disallow"
		if g.IntN(8) == 0 {
			key = "Allow"
		}
		fmt.Fprintf(&b, "%s: %s\n", key, p)
	}
	b.WriteString("\nUser-agent: BadBot\nDisallow: /\n\nSitemap: https://www.example.com/sitemap.xml\n")
	return b.Bytes()
}

// Paths makes n paths to ask of a file: a third of them stopped by one of its rules or
// nearly so, the others like those of any site, some with a query.
func Paths(body []byte, n int) []string {
	g := generator{rand.New(rand.NewPCG(uint64(len(body)), uint64(n)))}
	var rules []string
	for line := range strings.Lines(string(body)) {
		if _, path, ok := strings.Cut(line, "llow: "); ok {
			rules = append(rules, strings.TrimSpace(path))
		}
	}
	paths := make([]string, n)
	for i := range paths {
		p := g.path(30)
		if g.IntN(3) == 0 {
			p = strings.ReplaceAll(strings.TrimSuffix(rules[g.IntN(len(rules))], "$"), "*", g.word())
			if !strings.HasPrefix(p, "/") {
				p = "/" + p
			}
			if g.IntN(2) == 0 {
				p += g.word()
			}
		}
		if g.IntN(4) == 0 {
			p += "?" + g.word() + "=" + g.word() + "&" + g.word() + "=1"
		}
		paths[i] = p
	}
	return paths
}
