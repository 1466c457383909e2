package robots

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Directives are the wishes of one page to crawlers that have fetched it, by X-Robots-Tag headers
// and <meta name="robots">. The zero value asks for nothing. They come from ParseTags, ReadMeta or
// a MetaScanner. Merge joins those of header and page.
type Directives struct {
	NoIndex         bool // noindex or none, the page must not be in an index
	NoFollow        bool // nofollow or none, its links must not be followed
	NoArchive       bool // noarchive or nocache, no copy of it may be shown
	NoSnippet       bool // nosnippet, no text of it may be shown
	NoTranslate     bool // notranslate, no translation of it may be offered
	NoImageIndex    bool // noimageindex, its images must not be in an index
	NoAI            bool // noai, the page must not be used with generative models
	NoImageAI       bool // noimageai, its images must not be used with generative models
	NoML            bool // noml, the page must not be used to train models
	IndexIfEmbedded bool // indexifembedded, NoIndex doesn't apply if another page embeds the page

	// UnavailableAfter is the time from which NoIndex applies, or zero. See NoIndexAt. A date of
	// more than 256 bytes isn't read.
	UnavailableAfter time.Time

	MaxSnippet      Limit   // max-snippet, most characters of text that may be shown
	MaxVideoPreview Limit   // max-video-preview, most seconds of a video that may be shown
	MaxImagePreview Preview // max-image-preview, size of an image that may be shown
}

// A Limit is a number that may not be exceeded. The zero Limit limits nothing.
type Limit struct {
	Set bool
	Max int
}

// A Preview is how large an image may be shown.
type Preview int8

// The previews, from the least restrictive on.
const (
	PreviewAny Preview = iota
	PreviewLarge
	PreviewStandard
	PreviewNone
)

var previewNames = map[Preview]string{PreviewLarge: "large", PreviewStandard: "standard", PreviewNone: "none"}

// String returns the value of max-image-preview, "" for PreviewAny.
func (p Preview) String() string { return previewNames[p] }

// NoIndexAt reports whether the page may not be found in an index at t. Use it before you add the
// page to an index.
func (d Directives) NoIndexAt(t time.Time) bool {
	expired := !d.UnavailableAfter.IsZero() && t.After(d.UnavailableAfter)
	return d.NoIndex || expired
}

// A flag is a directive without a value.
type flag struct {
	name string
	set  *bool
}

// flags lists the directives without a value, and where d has them.
func (d *Directives) flags() [10]flag {
	return [...]flag{
		{"noindex", &d.NoIndex},
		{"nofollow", &d.NoFollow},
		{"noarchive", &d.NoArchive},
		{"nosnippet", &d.NoSnippet},
		{"notranslate", &d.NoTranslate},
		{"noimageindex", &d.NoImageIndex},
		{"noai", &d.NoAI},
		{"noimageai", &d.NoImageAI},
		{"noml", &d.NoML},
		{"indexifembedded", &d.IndexIfEmbedded},
	}
}

// Merge returns the most restrictive of both, for each thing that can be asked.
func (d Directives) Merge(o Directives) Directives {
	m := Directives{
		UnavailableAfter: earliest(d.UnavailableAfter, o.UnavailableAfter),
		MaxSnippet:       d.MaxSnippet.merge(o.MaxSnippet),
		MaxVideoPreview:  d.MaxVideoPreview.merge(o.MaxVideoPreview),
		MaxImagePreview:  max(d.MaxImagePreview, o.MaxImagePreview),
	}
	ours := d.flags()
	theirs := o.flags()
	for i, merged := range m.flags() {
		*merged.set = *ours[i].set || *theirs[i].set
	}
	// IndexIfEmbedded is the one flag that permits. If both forbid indexing, both have to permit it
	// for a page that is embedded.
	if d.NoIndex && o.NoIndex {
		m.IndexIfEmbedded = d.IndexIfEmbedded && o.IndexIfEmbedded
	}
	return m
}

// earliest returns the earlier of two times, of which a zero one is none.
func earliest(t, u time.Time) time.Time {
	if t.IsZero() || (!u.IsZero() && u.Before(t)) {
		return u
	}
	return t
}

func (l Limit) merge(o Limit) Limit {
	if l.Set && (!o.Set || l.Max < o.Max) {
		return l
	}
	return o
}

// String returns the directives as a header would have them, "all" for none.
func (d Directives) String() string {
	var list []string
	for _, f := range d.flags() {
		if *f.set {
			list = append(list, f.name)
		}
	}
	if !d.UnavailableAfter.IsZero() {
		list = append(list, "unavailable_after: "+d.UnavailableAfter.UTC().Format(time.RFC3339))
	}
	if d.MaxSnippet.Set {
		list = append(list, fmt.Sprint("max-snippet:", d.MaxSnippet.Max))
	}
	if d.MaxVideoPreview.Set {
		list = append(list, fmt.Sprint("max-video-preview:", d.MaxVideoPreview.Max))
	}
	if d.MaxImagePreview != PreviewAny {
		list = append(list, "max-image-preview:"+d.MaxImagePreview.String())
	}
	if list == nil {
		return "all"
	}
	return strings.Join(list, ", ")
}

// ParseTags reads the values of a response's X-Robots-Tag headers, one for each header line, for
// the crawler of these product tokens (or User-Agent headers). Directives behind the name of
// another crawler don't count. Those without a name count for every crawler. The most restrictive
// wins. Use it for the headers of a page, and Merge with the result of ReadMeta.
func ParseTags(values []string, product ...string) Directives {
	names := tokens(product)
	var d Directives
	for _, v := range values {
		// A name in front holds up to the end of its header line.
		d = d.Merge(parseDirectives(v, names, true))
	}
	return d
}

// tokens returns the names of a crawler in directives: its product tokens, and the names that stand
// for all crawlers.
func tokens(product []string) []string {
	names := []string{"robots", "*"}
	for _, p := range product {
		token := ProductToken(p)
		if token != "" {
			names = append(names, token)
		}
	}
	return names
}

func isOneOf(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return equalFold(n, name) })
}

// parseDirectives reads a list of directives. In a scoped one what follows a name, "otherbot:
// noindex", up to the next one, counts only if the name is one of names.
func parseDirectives(list string, names []string, scoped bool) Directives {
	var asked Directives
	counts := true
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		if item == "" {
			continue
		}
		key, value, valued := strings.Cut(item, ":")
		// Of several names the last one counts: "botA: botB: noindex" is for botB.
		for scoped && valued && isName(key, value) {
			counts = isOneOf(trim(key), names)
			key, value, valued = strings.Cut(value, ":")
		}
		key = strings.ToLower(trim(key))
		var next Directives
		if key == "unavailable_after" {
			// Most formats of a date have a comma, which isn't the list's.
			next.UnavailableAfter, list = cutDate(trim(value), list)
		} else {
			next = parseDirective(key, trim(value))
		}
		if counts {
			asked = asked.Merge(next)
		}
	}
	return asked
}

// isName reports whether key, which stands before a colon and value, is a crawler's name, not a
// directive, with a value or without, nor a piece of a date that couldn't be read.
func isName(key, value string) bool {
	key = strings.ToLower(trim(key))
	// A colon may stand behind a directive as well, as in "noindex:, nofollow".
	switch key {
	case "unavailable_after", "max-snippet", "max-video-preview", "max-image-preview", "none", "nocache":
		return false
	}
	for _, f := range new(Directives).flags() {
		if f.name == key {
			return false
		}
	}
	if strings.HasPrefix(key, "max-") && isNumber(value) { // a limit that we don't know
		return false
	}
	// A name may begin with digits ("360Spider"); a date continues with no letter.
	rest := strings.TrimLeft(key, "0123456789")
	if len(rest) < len(key) && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
		return false
	}
	return !strings.ContainsAny(key, " \t;")
}

// isNumber reports whether value is a number. It stops at the first byte that decides: in a list of
// many colons each value is the whole rest of the list.
func isNumber(value string) bool {
	const space = " \t\n\v\f\r"
	value = strings.TrimLeft(value, space)
	// A limit of -1 is common: no limit.
	if value != "" && (value[0] == '-' || value[0] == '+') {
		value = value[1:]
	}
	behind := strings.TrimLeft(value, "0123456789")
	return len(behind) < len(value) && strings.TrimLeft(behind, space) == ""
}

// parseDirective reads one directive, or several that are separated by spaces or semicolons instead
// of commas.
func parseDirective(key, value string) Directives {
	var asked Directives
	switch key {
	case "max-snippet":
		asked.MaxSnippet = parseLimit(value)
	case "max-video-preview":
		asked.MaxVideoPreview = parseLimit(value)
	case "max-image-preview":
		for p := PreviewLarge; p <= PreviewNone; p++ {
			if equalFold(value, p.String()) {
				asked.MaxImagePreview = p
			}
		}
	}
	flags := asked.flags()
	for _, word := range strings.FieldsFunc(key, isBetweenWords) {
		switch word {
		case "none":
			asked.NoIndex = true
			asked.NoFollow = true
		case "nocache":
			asked.NoArchive = true
		}
		for _, f := range flags {
			if f.name == word {
				*f.set = true
			}
		}
	}
	return asked
}

func isBetweenWords(r rune) bool { return r == ';' || unicode.IsSpace(r) }

// parseLimit reads a limit; one that is negative or can't be read limits nothing.
func parseLimit(s string) Limit {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return Limit{}
	}
	return Limit{Set: true, Max: n}
}

// cutDate reads the date that value begins with, which may hold a comma and so go on in rest,
// and returns the remainder of rest. The zero time is no date.
func cutDate(value, rest string) (time.Time, string) {
	at := parseDate(value)
	if !at.IsZero() {
		return at, rest
	}
	more, behind, _ := strings.Cut(rest, ",")
	at = parseDate(value + "," + more)
	if !at.IsZero() {
		return at, behind
	}
	// Without a date the rest is read as directives, since one of them may forbid something.
	return time.Time{}, rest
}

// maxDate is longer than any date that isn't padded.
const maxDate = 256

// parseDate reads a date in one of the usual formats: RFC 822, 850 and 1123, ISO 8601, with or
// without day of the week, time and zone. Without a zone it is UTC.
func parseDate(s string) time.Time {
	if len(s) > maxDate {
		return time.Time{}
	}
	s = strings.Join(strings.Fields(s), " ")
	if dayOfWeek, rest, ok := strings.Cut(s, ","); ok {
		// The day is passed over, also one that is wrong or in another language.
		if len(dayOfWeek) < 3 || strings.ContainsAny(dayOfWeek, "0123456789") {
			return time.Time{}
		}
		s = trim(rest)
	}
	// time.Parse knows the offsets of no abbreviations but UTC's.
	last := strings.LastIndexByte(s, ' ') + 1
	if offset, ok := zones[strings.ToUpper(s[last:])]; ok {
		s = s[:last] + offset
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}

// zones are the abbreviations of RFC 822 section 5.1.
var zones = map[string]string{
	"UT": "+0000", "UTC": "+0000", "GMT": "+0000", "Z": "+0000",
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500",
	"MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

var dateLayouts = func() []string {
	var all []string
	dates := []string{"2 Jan 2006", "2 Jan 06", "2-Jan-2006", "2-Jan-06", "2 January 2006", "2006-01-02"}
	for _, date := range dates {
		for _, clock := range []string{"", " 15:04:05 -0700", " 15:04:05 MST", " 15:04:05", " 15:04 -0700", " 15:04"} {
			all = append(all, date+clock)
		}
	}
	clocks := []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "20060102T150405"}
	for _, clock := range clocks {
		for _, zone := range []string{"", "Z07:00", "Z0700", "Z07", " -07:00"} {
			all = append(all, clock+zone)
		}
	}
	return append(all, "20060102", "Mon 2 Jan 2006 15:04:05 -0700", "Mon Jan 2 15:04:05 2006")
}()
