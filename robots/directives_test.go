package robots_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-politeness/politeness/internal/cputime"
	"github.com/go-politeness/politeness/robots"
)

func TestXRobotsTag(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, "all"},
		{[]string{""}, "all"},
		{[]string{"all"}, "all"},
		{[]string{"index, follow"}, "all"},
		{[]string{"noindex"}, "noindex"},
		{[]string{" NoIndex , NOFOLLOW "}, "noindex, nofollow"},
		{[]string{", noindex,, nofollow,"}, "noindex, nofollow"},
		{[]string{"noindex nofollow"}, "noindex, nofollow"},
		{[]string{"noindex; nofollow"}, "noindex, nofollow"},
		{[]string{"noindex;nofollow;, nosnippet;"}, "noindex, nofollow, nosnippet"},
		{[]string{"none"}, "noindex, nofollow"},
		{[]string{"nocache"}, "noarchive"},
		{[]string{"noarchive", "nosnippet", "notranslate, noimageindex"}, "noarchive, nosnippet, notranslate, noimageindex"},
		{[]string{"noai, noimageai, noml"}, "noai, noimageai, noml"},
		// Scopes.
		{[]string{"otherbot: noindex"}, "all"},
		{[]string{"foobot: noindex"}, "noindex"},
		{[]string{"FOOBOT:noindex, nofollow"}, "noindex, nofollow"},
		{[]string{"otherbot: noindex, nofollow"}, "all"},
		{[]string{"otherbot: noindex, foobot: nofollow"}, "nofollow"},
		{[]string{"nosnippet, otherbot: noindex"}, "nosnippet"},
		{[]string{"otherbot: noindex", "nofollow"}, "nofollow"},
		{[]string{"robots: noindex"}, "noindex"},
		{[]string{"foobot: otherbot: noindex"}, "all"},
		{[]string{"noindex:"}, "noindex"},
		{[]string{"none: , nosnippet"}, "noindex, nofollow, nosnippet"},
		{[]string{"nocache:, nofollow"}, "nofollow, noarchive"},
		{[]string{"360Spider: noindex, nofollow"}, "all"},
		// Values.
		{[]string{"max-snippet:20"}, "max-snippet:20"},
		{[]string{"max-snippet:20", "max-snippet: 10, max-snippet:-1"}, "max-snippet:10"},
		{[]string{"max-snippet:-1, max-video-preview:-1, max-image-preview:large"}, "max-image-preview:large"},
		{[]string{"max-image-preview:large, max-image-preview:none, max-image-preview:standard"}, "max-image-preview:none"},
		{[]string{"max-video-preview: 0"}, "max-video-preview:0"},
		{[]string{"max-unheard-of: 3, noindex"}, "noindex"},
		{[]string{"otherbot: max-snippet:5"}, "all"},
		{[]string{"max-crawler: noindex, nofollow"}, "all"},
		{[]string{"max-crawler:, noindex"}, "all"},
		{[]string{"max-crawler: 7days, noindex"}, "all"},
		{[]string{"max-snippet: x, max-unheard-of: -1, max-unheard-of: 3, noindex"}, "noindex"},
		// Dates.
		{[]string{"unavailable_after: 25 Jun 2010 15:00:00 PST"}, "unavailable_after: 2010-06-25T23:00:00Z"},
		{[]string{"unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, noindex"}, "noindex, unavailable_after: 2010-06-25T15:00:00Z"},
		{[]string{"foobot: unavailable_after: Friday, 25-Jun-10 15:00:00 UTC"}, "unavailable_after: 2010-06-25T15:00:00Z"},
		{[]string{"otherbot: unavailable_after: Friday, 25-Jun-10 15:00:00 UTC, noindex"}, "all"},
		{[]string{"unavailable_after: 2020-09-21"}, "unavailable_after: 2020-09-21T00:00:00Z"},
		{[]string{"unavailable_after: 2020-09-21T10:00:00+02:00, nofollow"}, "nofollow, unavailable_after: 2020-09-21T08:00:00Z"},
		{[]string{"unavailable_after: 2021-01-01", "unavailable_after: 2020-01-01"}, "unavailable_after: 2020-01-01T00:00:00Z"},
		{[]string{"unavailable_after: soon, noindex"}, "noindex"},
		{[]string{"unavailable_after: 2010, 25 Jun 2010, noindex"}, "noindex"},
		{[]string{"unavailable_after:, 25 Jun 2010, noindex"}, "noindex"},
		{[]string{"unavailable_after: Friday, 25-Foo-10T15:00:00, noindex"}, "noindex"},
		{[]string{"unavailable_after: Fri, 25 Foo 2010, 15:00:00, noindex"}, "noindex"},
		// Permission to index where embedded.
		{[]string{"noindex, indexifembedded"}, "noindex, indexifembedded"},
		{[]string{"indexifembedded", "noindex, indexifembedded"}, "noindex, indexifembedded"},
		{[]string{"noindex", "noindex, indexifembedded"}, "noindex"},
		{[]string{"foobot: noindex", "foobot: indexifembedded"}, "noindex, indexifembedded"}, // as Google has it since 2022-01-21
		{[]string{"foobot: indexifembedded", "foobot: noindex"}, "noindex, indexifembedded"},
		{[]string{"foobot: noindex", "otherbot: indexifembedded"}, "noindex"},
	} {
		if got := robots.ParseTags(c.values, "FooBot/1.0 (+https://example.com)").String(); got != c.want {
			t.Errorf("%q: got %s, want %s", c.values, got, c.want)
		}
	}
}

func TestNameThatLooksLikeADirectiveIsAName(t *testing.T) {
	for _, name := range []string{"Max-Crawler", "360Spider", "1a", "1z", "_bot", "-"} {
		got := robots.ParseTags([]string{name + ": noindex"}, name+"/1.0")
		if got.String() != "noindex" {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestUnavailableAfterIsReadInEveryUsualFormat(t *testing.T) {
	for date, want := range map[string]string{
		"2020-09-21T15:04":              "2020-09-21T15:04:00Z",
		"2020-09-21T15:04+02:00":        "2020-09-21T13:04:00Z",
		"2020-09-21T15:04:05":           "2020-09-21T15:04:05Z",
		"2020-09-21T15:04:05.25Z":       "2020-09-21T15:04:05Z",
		"2020-09-21T15:04:05+02":        "2020-09-21T13:04:05Z",
		"2020-09-21T15:04:05+0200":      "2020-09-21T13:04:05Z",
		"20200921":                      "2020-09-21T00:00:00Z",
		"20200921T150405":               "2020-09-21T15:04:05Z",
		"20200921T150405Z":              "2020-09-21T15:04:05Z",
		"20200921T150405+0200":          "2020-09-21T13:04:05Z",
		"2020-09-21 15:04:05+00:00":     "2020-09-21T15:04:05Z",
		"2020-09-21 15:04:05Z":          "2020-09-21T15:04:05Z",
		"2020-09-21 15:04:05 +02:00":    "2020-09-21T13:04:05Z",
		"2020-09-21 15:04:05 +0200":     "2020-09-21T13:04:05Z",
		"2020-09-21 15:04 EST":          "2020-09-21T20:04:00Z",
		"Fri 25 Jun 2010 15:00:00 GMT":  "2010-06-25T15:00:00Z",
		"Fri, 25 Jun 2010 15:00:00 GMT": "2010-06-25T15:00:00Z",
		"Fri Jun 25 15:00:00 2010":      "2010-06-25T15:00:00Z",
		"25 June 2010":                  "2010-06-25T00:00:00Z",
	} {
		got := robots.ParseTags([]string{"unavailable_after: " + date + ", nofollow"}).String()
		want = "nofollow, unavailable_after: " + want
		if got != want {
			t.Errorf("%s: got %s, want %s", date, got, want)
		}
	}
}

func TestNoIndexAt(t *testing.T) {
	d := robots.ParseTags([]string{"unavailable_after: 2020-09-21"})
	at := time.Date(2020, 9, 21, 0, 0, 0, 0, time.UTC)
	if d.NoIndexAt(at) || !d.NoIndexAt(at.Add(1)) {
		t.Error("noindex must begin after the date")
	}
	if (robots.Directives{}).NoIndexAt(at) || !(robots.Directives{NoIndex: true}).NoIndexAt(at) {
		t.Error("without a date NoIndex decides")
	}
}

var metaCases = []struct {
	page string
	want string
	done bool // whether the head is over
}{
	{``, "all", false},
	{`<meta name="robots" content="noindex">`, "noindex", false},
	{`<META NAME=ROBOTS CONTENT=NOINDEX,NOFOLLOW>`, "noindex, nofollow", false},
	{`<html><head><meta name="robots" content="noindex"/></head><body>`, "noindex", true},
	{`<meta content="nofollow" name=" robots ">`, "nofollow", false},
	{`<meta name="foobot" content="nosnippet"><meta name="otherbot" content="noindex">`, "nosnippet", false},
	{`<meta name="robots" content="noindex"><meta name="foobot" content="all">`, "noindex", false},
	{`<meta name="robots&#13;" content="noindex">`, "noindex", false},
	{`<meta name="description" content="noindex">`, "all", false},
	{`<a name="robots" content="noindex"><meta>`, "all", false},
	{`<meta name="robots">`, "all", false},
	{`<head></HEAD ><meta name="robots" content="noindex">`, "all", true},
	{`<!-- <meta name="robots" content="noindex"> --></head>`, "all", true},
	{`<script>"<meta name=robots content=noindex></head>"</script><meta name=robots content=nofollow></head>`, "nofollow", true},
	{`<title>A long title</title><script>"</head>"</script></head>`, "all", true},
	{`<title><meta name=robots content=noindex></title>`, "all", false},
	{`<noscript><meta name="robots" content="noindex"></noscript></head>`, "noindex", true},
	{`<meta name="robots" content="unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, noai">`, "noai, unavailable_after: 2010-06-25T15:00:00Z", false},
	{`<meta name="robots" content="no&#105;ndex">`, "noindex", false},
	{`<meta name="robots" content="noindex"`, "all", false},
	// Whom it is for, its name says; a colon in its content doesn't.
	{`<meta name="robots" content="rating: general, noindex">`, "noindex", false},
	{`<meta name="robots" content="otherbot: nosnippet, noindex">`, "noindex", false},
	{`<meta name="robots" content="noindex:">`, "noindex", false},
}

// A date may be padded with blanks, up to 256 bytes.
func TestUnavailableAfterOfUpTo256Bytes(t *testing.T) {
	const day, clock = "2020-09-21", "15:04:05Z"
	for length, want := range map[int]string{256: "unavailable_after: 2020-09-21T15:04:05Z", 257: "all"} {
		date := day + strings.Repeat(" ", length-len(day)-len(clock)) + clock
		if got := robots.ParseTags([]string{"unavailable_after: " + date}); got.String() != want {
			t.Errorf("of %d bytes: %v, want %s", length, got, want)
		}
	}
}

func TestMeta(t *testing.T) {
	for _, c := range metaCases {
		d, err := robots.ReadMeta(strings.NewReader(c.page), "FooBot")
		if err != nil || d.String() != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.page, d, err, c.want)
		}
		// Byte by byte it is the same, and Done as soon as it can be.
		s := robots.NewMetaScanner("FooBot")
		if _, err := io.Copy(s, iotest.OneByteReader(strings.NewReader(c.page))); err != nil {
			t.Fatal(err)
		}
		if s.Directives().String() != c.want || s.Done() != c.done {
			t.Errorf("%s: a scanner has %v, done %v, want %s, %v", c.page, s.Directives(), s.Done(), c.want, c.done)
		}
	}
}

// Of a page no more than 64 KB are looked at.
func TestMetaStopsAt64KB(t *testing.T) {
	const tag = `<meta name="robots" content="noindex">`
	for _, c := range []struct {
		before int
		want   bool
	}{{64<<10 - len(tag), true}, {64<<10 - len(tag) + 1, false}, {1 << 20, false}} {
		page := strings.NewReader(strings.Repeat(" ", c.before) + tag + strings.Repeat(" ", 1<<20))
		d, err := robots.ReadMeta(page, "FooBot")
		if err != nil || d.NoIndex != c.want {
			t.Errorf("after %d bytes: got %v, %v", c.before, d, err)
		}
		if page.Len() < 1<<20-8<<10 && c.before < 1<<20 {
			t.Errorf("read on to the page's end: %d bytes left", page.Len())
		}
	}
}

// False ends of the head, as many as there may be, don't make a scanner read the page over and
// over.
func TestMetaScannerIsLinear(t *testing.T) {
	s := robots.NewMetaScanner("FooBot")
	script := []byte("<script>")
	end := []byte("</head>")
	allocs := testing.AllocsPerRun(1, func() {
		_, _ = s.Write(script)
		for range 4000 {
			_, _ = s.Write(end)
		}
	})
	if allocs > 1000 {
		t.Errorf("%v allocations: tokenized too often", allocs)
	}
	_, _ = s.Write(end[:1]) // so that none of these ends at 64 KB
	for range 64 << 10 / len(end) {
		_, _ = s.Write(end)
	}
	if !s.Done() {
		t.Error("not done after more than 64 KB")
	}
}

func TestMetaReturnsTheReadersError(t *testing.T) {
	broken := errors.New("connection reset")
	page := io.MultiReader(strings.NewReader(`<meta name="robots" content="noindex">`), iotest.ErrReader(broken))
	if d, err := robots.ReadMeta(page); !d.NoIndex || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", d, err)
	}
}

// FuzzMeta holds that a page says the same however it arrives, that its end adds nothing to
// what a scanner that is done has found, and that what a tag says can be read back.
func FuzzMeta(f *testing.F) {
	for _, c := range metaCases {
		f.Add(c.page, uint16(len(c.page)/2))
	}
	f.Fuzz(func(t *testing.T, page string, cut uint16) {
		whole, err := robots.ReadMeta(strings.NewReader(page), "FooBot")
		if err != nil {
			t.Fatal(err)
		}
		s := robots.NewMetaScanner("FooBot")
		at := min(int(cut), len(page))
		_, _ = io.WriteString(s, page[:at])
		done := s.Done()
		found := s.Directives()
		_, _ = io.WriteString(s, page[at:])
		if got := s.Directives(); got.String() != whole.String() || done && got.String() != found.String() {
			t.Errorf("%q cut at %d: %v, then %v; whole: %v", page, at, found, got, whole)
		}
		if again := robots.ParseTags([]string{whole.String()}); again.String() != whole.String() {
			t.Errorf("%v read back is %v", whole, again)
		}
	})
}

// TestLongHeadersCostLittle: a header may have megabytes, and is read for each page that has one.
// Before colons were counted by the byte, one of 256 KB took half a minute.
func TestLongHeadersCostLittle(t *testing.T) {
	for _, part := range []string{":", "a:b:", "max-x:", "a: ", "foobot:", "unavailable_after:", "noindex:", "1:"} {
		line := strings.Repeat(part, 256<<10/len(part))
		took := cputime.Of(func() {
			robots.ParseTags([]string{line}, "FooBot")
			robots.ParseTags([]string{line + strings.Repeat(" ", 256<<10)}, "FooBot")
		})
		if took > 5*time.Second {
			t.Errorf("%q: %v", part, took)
		}
	}
}
