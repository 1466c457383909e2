package robots

import (
	"iter"
	"slices"
	"strings"
)

// A File is a parsed robots.txt. It is immutable and safe for concurrent use. It keeps its own copy
// of the text, so you may reuse the body. If you need only the rules of one crawler, keep its
// Rules. They don't keep the File in memory.
type File struct {
	text   string
	opt    Options
	agents []agentLine
	groups []group
	maps   []Line // the Sitemap lines
}

// An agentLine is a User-agent line.
type agentLine struct {
	value string
	group int
}

// A group is a run of User-agent lines and all lines behind it, up to the next group.
type group struct {
	start int // where in the text
	line  int // number of the line before it
	end   int
	rules int // how many there are
}

// Parse reads a robots.txt as RFC 9309 and Google do. It always succeeds. It skips lines that it
// doesn't know, as all crawlers do. File.Lint lists them. It reads all of body, up to 16 MiB. The
// fetcher applies the limit of RFC 9309, at least 500 KiB.
func Parse(body []byte) *File { return ParseWith(body, Options{}) }

// maxBody keeps line numbers within the three bytes that compiled rules have for them.
const maxBody = 1<<24 - 1

// ParseWith is Parse with Options. Use it for a crawler with other rules than Google's.
func ParseWith(body []byte, o Options) *File {
	if !o.GoogleExact {
		body = fromUTF16(body) // Google's parser finds no rule in a file of UTF-16
	}
	file := &File{text: string(body[:min(len(body), maxBody)]), opt: o}
	x := lex(file.text, bom(file.text), 0)
	ended := true // whether a rule has ended the list of agents; the first agent begins a group
	var l line
	for x.next(&l) {
		switch l.kind {
		case kindUserAgent:
			if ended {
				file.beginGroup(&l)
				ended = false
			}
			file.agents = append(file.agents, agentLine{value: l.value, group: len(file.groups) - 1})
		case kindAllow, kindDisallow:
			// Nothing else ends a list: an agent without rules shares those of the next one.
			ended = true
			// A rule before all groups holds for no crawler.
			if len(file.groups) > 0 {
				file.groups[len(file.groups)-1].rules++
			}
		case kindSitemap:
			file.maps = append(file.maps, Line{Number: l.num, Key: l.key, Value: l.value})
		}
	}
	// A File may be kept for long.
	file.agents = slices.Clip(file.agents)
	file.groups = slices.Clip(file.groups)
	file.maps = slices.Clip(file.maps)
	return file
}

// beginGroup ends the last group, and begins another with a User-agent line.
func (f *File) beginGroup(l *line) {
	if len(f.groups) > 0 {
		f.groups[len(f.groups)-1].end = l.start
	}
	f.groups = append(f.groups, group{start: l.start, line: l.num - 1, end: len(f.text)})
}

// A Line is a line of the file that isn't a rule.
type Line struct {
	Number int // from 1
	Key    string
	Value  string
}

// Sitemaps returns the values of all Sitemap lines, which belong to no group, in the file's
// order and as written. Use it to find the pages of a site.
func (f *File) Sitemaps() []string {
	var urls []string
	for _, m := range f.maps {
		urls = append(urls, strings.Clone(m.Value)) // a part of the text would keep all of it
	}
	return urls
}

// SitemapLines is Sitemaps with line numbers. Use it for messages about the file.
func (f *File) SitemapLines() []Line {
	lines := slices.Clone(f.maps)
	for i := range lines {
		lines[i] = lines[i].clone()
	}
	return lines
}

// clone returns l without a hold on the file's text.
func (l Line) clone() Line {
	return Line{Number: l.Number, Key: strings.Clone(l.Key), Value: strings.Clone(l.Value)}
}

// Host returns the value of the first Host line. The line has the name that the site prefers among
// its mirrors. Yandex once read it. It belongs to no group. If there is no Host line, Host returns
// "".
func (f *File) Host() string {
	for l := range others(f.text) {
		if fieldOf(l.key) == fieldHost {
			return strings.Clone(l.value)
		}
	}
	return ""
}

// License returns the addresses of the licenses that the file states by License lines (RSL 1.0)
// before any group. They apply to crawlers whose own groups state no other. See Rules.License.
func (f *File) License() []string {
	var urls []string
	for l := range f.preamble() {
		if fieldOf(l.key) == fieldLicense {
			urls = append(urls, strings.Clone(l.value))
		}
	}
	return urls
}

// preamble yields the lines before any group that have a key, but none of Google's.
func (f *File) preamble() iter.Seq[*line] {
	before := len(f.text) // without a group, all lines are before one
	if len(f.groups) > 0 {
		before = f.groups[0].start
	}
	return others(f.text[:before])
}

// Lines returns the lines of the file with the given key, such as "Crawl-delay". Use it to show a
// site's own words, for any crawler. Every spelling of the key that this package knows counts. The
// lines are in the file's order.
func (f *File) Lines(key string) []Line {
	var lines []Line
	x := lex(f.text, bom(f.text), 0)
	var l line
	for x.next(&l) {
		if l.key != "" && sameKey(l.key, key) {
			lines = append(lines, Line{Number: l.num, Key: l.key, Value: l.value}.clone())
		}
	}
	return lines
}

// sameKey reports whether a and b are spellings of one key.
func sameKey(a, b string) bool {
	if equalFold(a, b) {
		return true
	}
	// Google's keys count by prefix, and with the typos that its parser knows.
	kind := kindOf(a)
	if kind != kindOther {
		return kind == kindOf(b)
	}
	known := fieldOf(a)
	return known != fieldUnknown && known == fieldOf(b)
}

// UnknownLines returns the lines with a key that this package doesn't know, in the file's order.
// Use it to read your own extensions.
func (f *File) UnknownLines() []Line {
	var lines []Line
	for l := range others(f.text) {
		if fieldOf(l.key) == fieldUnknown {
			lines = append(lines, Line{Number: l.num, Key: l.key, Value: l.value}.clone())
		}
	}
	return lines
}

// others yields the lines of a text that have a key, but none of Google's.
func others(text string) iter.Seq[*line] {
	return func(yield func(*line) bool) {
		x := lex(text, bom(text), 0)
		var l line
		for x.next(&l) {
			if l.kind == kindOther && !yield(&l) {
				return
			}
		}
	}
}

// A field is a key that this package knows and Google's matcher doesn't.
type field uint8

const (
	fieldUnknown field = iota
	fieldCrawlDelay
	fieldRequestRate
	fieldVisitTime
	fieldHost
	fieldContentSignal
	fieldContentUsage
	fieldLicense
)

// fieldOf returns the field of a key, which is compared whole but for ASCII case.
func fieldOf(key string) field {
	for _, f := range fields {
		if equalFold(key, f.key) {
			return f.field
		}
	}
	return fieldUnknown
}

var fields = []struct {
	key   string
	field field
}{
	{"crawl-delay", fieldCrawlDelay},
	{"crawl delay", fieldCrawlDelay},
	{"crawldelay", fieldCrawlDelay},
	{"request-rate", fieldRequestRate},
	{"visit-time", fieldVisitTime},
	{"host", fieldHost},
	{"content-signal", fieldContentSignal},
	{"content-usage", fieldContentUsage},
	{"license", fieldLicense},
}
