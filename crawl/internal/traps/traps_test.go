package traps

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The cases are those of the design of the rule, by number. Those that are missing are about the
// URLs of a crawl, which are not kept here.

var unique uint32

// fresh returns a page with a line that no other page has.
func fresh() Page {
	unique++
	line := unique * 2654435761
	return Page{Lines: []uint32{1, line}, Text: uint64(line)}
}

// dry returns a page without a line of its own. Its text is another each time.
func dry() Page {
	unique++
	return Page{Lines: []uint32{1}, Text: uint64(unique) * factor}
}

// host returns a Host that has shown the line of dry pages.
func newHost() *Host {
	h := NewHost()
	h.lines.add([]uint32{1})
	return h
}

func (h *Host) wantLevel(t *testing.T, url string, want int) {
	t.Helper()
	if got := h.Standing(url).Level; got != want {
		t.Errorf("%s is at level %d, want %d: %s", url, got, want, h.Why(url))
	}
}

// TestCase1: facets that were never new have few turns, and one that wasn't tried has one of those.
func TestCase1(t *testing.T) {
	h := newHost()
	for i := range 5 {
		h.Learn(fmt.Sprintf("http://s/shop?color=%d", i), dry())
		h.Learn(fmt.Sprintf("http://s/shop?size=%d", i), dry())
	}
	r := &replay{host: h, seen: map[string]bool{}}
	for i := range 1000 {
		r.add(fmt.Sprintf("http://s/shop?color=%d", i+10), false)
		r.add(fmt.Sprintf("http://s/shop?size=%d", i+10), false)
		r.add(fmt.Sprintf("http://s/item/%d", i), false)
	}
	r.add("http://s/shop?brand=1", false)
	facets := 0
	isTried := false
	const requests = 640
	for range requests {
		w, _ := r.next()
		isFacet := strings.Contains(w.url, "?")
		isTried = isTried || strings.Contains(w.url, "brand")
		if isFacet {
			facets++
			h.Learn(w.url, dry())
		} else {
			h.Learn(w.url, fresh())
		}
	}
	if facets > requests/every {
		t.Errorf("%d of %d requests were for facets", facets, requests)
	}
	if !isTried {
		t.Error("the third facet wasn't tried")
	}
}

// TestCase2: what isn't new is the fault of the most suspect mark, not of all.
func TestCase2(t *testing.T) {
	h := newHost()
	for i := range 10 {
		h.Learn(fmt.Sprintf("http://s/index.php?title=A%d", i), fresh())
	}
	for i := range 6 {
		h.Learn(fmt.Sprintf("http://s/index.php?title=A%d&action=edit", i), dry())
	}
	h.wantLevel(t, "http://s/index.php?title=B1", 0)
	if h.Standing("http://s/index.php?title=B1&action=edit").Level == 0 {
		t.Error("the form is at level 0")
	}
	if why := h.Why("http://s/index.php?title=B1&action=edit"); !strings.Contains(why, "action") {
		t.Errorf("why: %s", why)
	}
}

// TestCase3: one new page lifts a mark from the last level to the first one.
func TestCase3(t *testing.T) {
	h := newHost()
	for i := range 30 {
		h.Learn(fmt.Sprintf("http://s/cal/%d/", i), dry())
	}
	const url = "http://s/cal/99/"
	was := h.Standing(url)
	if was.Level != Levels-1 {
		t.Fatalf("level %d", was.Level)
	}
	isNew, lifted := h.Learn("http://s/cal/31/", fresh())
	if !isNew || !slices.Contains(lifted, Standing{Level: 0, Mark: was.Mark}) {
		t.Errorf("new: %v, lifted: %v, want mark %d", isNew, lifted, was.Mark)
	}
	h.wantLevel(t, url, 0)
	if h.Why(url) != "" {
		t.Errorf("why: %s", h.Why(url))
	}
}

// TestCase4: a parameter that changes nothing makes copies; where it is the page's number it doesn't.
// TestSitesOfTheSimulation has what a whole forum costs.
func TestCase4(t *testing.T) {
	h := newHost()
	for i := range 4 {
		p := fresh()
		h.Learn(fmt.Sprintf("http://s/page%d?zen=%d", i, i), p)
		h.Learn(fmt.Sprintf("http://s/page%d?zen=%d", i, i+50), p)
	}
	h.wantLevel(t, "http://s/page3?zen=99", Levels-1)
	h.wantLevel(t, "http://s/page3", Levels-1)
	h.wantLevel(t, "http://s/page77?zen=99", 0)
	if why := h.Why("http://s/page3?zen=99"); !strings.Contains(why, "parameter zen, which changes nothing") {
		t.Errorf("why: %s", why)
	}

	h = newHost()
	for i := range 50 {
		h.Learn(fmt.Sprintf("http://s/show?zen=%d", i), fresh())
	}
	h.wantLevel(t, "http://s/show?zen=99", 0)
}

// TestCase5: a parameter that changes nothing on lists, and everything on pages, is a difference of
// pages.
func TestCase5(t *testing.T) {
	h := newHost()
	for i := range 6 {
		list := fresh()
		h.Learn(fmt.Sprintf("http://s/list/%d?v=1", i), list)
		h.Learn(fmt.Sprintf("http://s/list/%d?v=2", i), list)
		h.Learn(fmt.Sprintf("http://s/item.php?id=%d&v=1", i), fresh())
		h.Learn(fmt.Sprintf("http://s/item.php?id=%d&v=2", i), fresh())
	}
	h.wantLevel(t, "http://s/list/5?v=3", Levels-1)
	h.wantLevel(t, "http://s/item.php?id=5&v=3", 0)
}

// TestCase7: where all pages are alike, and all URLs have the same marks, the order is that of a
// crawl without the rule.
func TestCase7(t *testing.T) {
	r := &replay{host: newHost(), seen: map[string]bool{}}
	for i := range 500 {
		r.add(fmt.Sprintf("http://s/part/%d", i), false)
	}
	for i := range 500 {
		w, _ := r.next()
		if w.seq != i+1 {
			t.Fatalf("%s is request %d", w.url, i+1)
		}
		_, lifted := r.host.Learn(w.url, dry())
		r.lift(lifted)
	}
}

// TestCase8: a site that has an end is crawled to it, whatever its URLs look like; and where each URL
// is a page, in the order of a crawl without the rule.
func TestCase8(t *testing.T) {
	odd := &site{start: "/", real: map[string]bool{}, get: func(path string, q []kv) page {
		p := page{lines: []string{path + fmt.Sprint(q)}}
		if len(path) < 30 && len(q) == 0 {
			p.links = []string{path + "a/", path + "a/a/", path + "www.example.com/", path + "?sid=1", path + "?PHPSESSID=b", path + "?a=1&a=2", path + "?a=2&a=1", path + "?;", path + "?%C3%B6"}
		}
		return p
	}}
	for _, s := range []*site{odd, hugo(), byID(1), template(1), versions(1), sphinx(), relative2()} {
		got := (&replay{}).crawl(s, math.MaxInt, true).requests
		want := (&replay{fifo: true}).crawl(s, math.MaxInt, true).requests
		if got != want {
			t.Errorf("%s: %d requests, want %d", s.name, got, want)
		}
	}
}

// relative2 is a site with an end, whose pages answer with and without a final slash.
func relative2() *site {
	return &site{name: "slashes", start: "/0", get: func(path string, _ []kv) page {
		n := number(strings.Trim(path, "/"))
		p := page{lines: text(fmt.Sprint("slashes", n), 3)}
		if n < 60 {
			p.links = []string{fmt.Sprintf("/%d", n+1), fmt.Sprintf("/%d/", n+1), fmt.Sprintf("/%d", 60+n)}
		}
		return p
	}}
}

// TestCase10: a page that says itself that it brings nothing new isn't new, whatever its text.
// Error pages are no proof that a difference changes nothing.
func TestCase10(t *testing.T) {
	h := newHost()
	missing := Page{Lines: []uint32{77}, Text: 77, NotNew: true, Failed: true}
	for i := range 10 {
		isNew, lifted := h.Learn(fmt.Sprintf("http://s/gone?n=%d", i), missing)
		if isNew || lifted != nil {
			t.Fatalf("new: %v, lifted: %v", isNew, lifted)
		}
	}
	if h.Standing("http://s/gone?n=99").Level == 0 {
		t.Error("a URL like missing ones is at level 0")
	}
	if h.tallies.size() > 0 {
		t.Error("missing pages were compared")
	}
}

// TestCase11: with more lines than are kept, the share of new pages stays the true one.
func TestCase11(t *testing.T) {
	for _, lines := range []int{10_000, 60_000} {
		h := newHost()
		const own = 20
		fresh, dry := 0, 0
		pages := lines / own
		var page []uint32
		for i := range pages {
			page = page[:0]
			for line := range own {
				page = append(page, lineHash(fmt.Sprint(i, " ", line)))
			}
			if isNew, _ := h.Learn(fmt.Sprintf("http://s/%d", i), Page{Lines: page}); isNew {
				fresh++
			}
			if isNew, _ := h.Learn(fmt.Sprintf("http://s/%d?again", i), Page{Lines: page}); !isNew {
				dry++
			}
			if h.lines.size() > maxLines {
				t.Fatalf("%d lines are kept", h.lines.size())
			}
		}
		if fresh < pages*9/10 || dry < pages {
			t.Errorf("%d lines: of %d pages %d were new; of as many copies %d were not", lines, pages, fresh, dry)
		}
	}
}

// TestEveryBoundHolds: whatever the URLs are, what is kept has a bound.
func TestEveryBoundHolds(t *testing.T) {
	h := NewHost()
	fill(h)
	for name, kept := range map[string][2]int{
		"marks":   {h.marks.size(), maxMarks},
		"answers": {h.answers.size(), maxAnswers},
		"asked":   {h.asked.size(), maxAsked},
		"tallies": {h.tallies.size(), maxTallies},
		"lines":   {h.lines.size(), maxLines},
		"names":   {len(h.names), maxNames},
	} {
		if kept[0] > kept[1] || kept[0] < kept[1]/3 {
			t.Errorf("%d %s are kept, want at most %d, and not much fewer", kept[0], name, kept[1])
		}
	}
}

// fill teaches h more than it can keep: marks and lines, parameters that make copies, and sessions.
func fill(h *Host) {
	for i := range 10_000 {
		h.Learn(fmt.Sprintf("http://s/a%s/b%s?p%s=x%dy&q%s=w:%s", word(i), word(i/3), word(i/2), i, word(i/7), word(i)), fresh())
	}
	for i := range maxTallies {
		p := fresh()
		for value := range 3 {
			h.Learn(fmt.Sprintf("http://s/%s.php?%s=%d", word(i), word(i), value), p)
		}
	}
	h.Learn("http://s/topic?sid=x1", fresh()) // the parameters that are compared are those that were met first
	for i := range maxAsked + 1000 {
		p := Page{Lines: []uint32{1}, Text: uint64(i) * factor}
		h.Learn(fmt.Sprintf("http://s/topic?id=%d&sid=%d", i, i), p)
		if i < 10 {
			h.Learn(fmt.Sprintf("http://s/topic?id=%d&sid=%d", i, i+1000), p)
		}
	}
}

// word returns a word for a number.
func word(n int) string {
	var b strings.Builder
	for ; n > 0; n /= 20 {
		b.WriteByte('a' + byte(n%20))
	}
	return b.String()
}

// TestURLsDiffer: URLs whose parameters are nearly alike are told apart, and those with their
// parameters in another order are not.
func TestURLsDiffer(t *testing.T) {
	identity := func(url string) uint32 {
		a := parse(url)
		id := identityOf(&a)
		return id.without(0)
	}
	seen := map[uint32]string{}
	for i := range 200 {
		for j := range 200 {
			url := fmt.Sprintf("http://s/item?id=%d&v=%d", i, j)
			if other, ok := seen[identity(url)]; ok {
				t.Fatalf("%s is taken for %s", url, other)
			}
			seen[identity(url)] = url
		}
	}
	if identity("http://s/?a=1&b=2") != identity("http://s/?b=2&a=1") {
		t.Error("the order of parameters makes a difference")
	}
	if identity("http://s/?a=1&a=2") == identity("http://s/?a=2&a=1") {
		t.Error("the order of parameters of one name makes none")
	}
}

// TestHashesAreFolded: hashes with one extension make one form of path, so that patches of commits are
// told from the commits.
func TestHashesAreFolded(t *testing.T) {
	const one, other = "1c8d7832e9", "05e4f0ab77"
	for _, path := range []string{"/commit/%s", "/commit/%s.patch", "/archive/%s.tar.gz", "/tree/%s/docs"} {
		if formOf(fmt.Sprintf(path, one)) != formOf(fmt.Sprintf(path, other)) {
			t.Errorf("%s of two hashes has two forms", path)
		}
	}
	if formOf("/commit/"+one) == formOf("/commit/"+one+".patch") {
		t.Error("a commit and its patch have one form")
	}
	if formOf("/feed/facade.php") == formOf("/feed/1c8d783.php") {
		t.Error("a program is taken for a hash")
	}
}

// TestLongURLsHaveFewMarks: the work for a URL grows with its length alone.
func TestLongURLsHaveFewMarks(t *testing.T) {
	h := NewHost()
	for _, url := range []string{
		"http://s/" + strings.Repeat("a/", 1000),
		"http://s/?" + strings.Repeat("a=b&", 1000),
		"http://s/?" + strings.Repeat("a[1]=b:c;", 1000),
		"http://s/?" + strings.Repeat("[", 2000),
		"http://s/?" + strings.Repeat("%", 2000),
	} {
		a := parse(url)
		if n := len(h.marksOf(&a, nil)); n > 1+maxSegments+4*maxParameters {
			t.Errorf("%.20s: %d marks", url, n)
		}
		id := identityOf(&a)
		if n := len(id.differences()); n > maxParameters+3 {
			t.Errorf("%.20s: %d differences", url, n)
		}
	}
}

func TestTurns(t *testing.T) {
	var turns Turns
	counts := [Levels]int{}
	const n = every * every * every
	for range 3 * n {
		level, ok := turns.Next([Levels]bool{true, true, false, true})
		if !ok {
			t.Fatal("no turn")
		}
		counts[level]++
	}
	want := [Levels]int{3 * (n - n/every), 3 * (n/every - n/every/every), 0, 3 * n / every / every}
	if counts != want {
		t.Errorf("%v, want %v", counts, want)
	}
	if _, ok := turns.Next([Levels]bool{}); ok {
		t.Error("a turn without URLs")
	}
}

// FuzzHost: any URL has a level, and a reason if it isn't the first one.
func FuzzHost(f *testing.F) {
	f.Add("http://s/a/b.php?c=d&e[1]=f:g;h", "http://s/A/?c=d", uint64(1))
	f.Add("?", "http://s?&&;=%", uint64(0))
	f.Add("//%zz/%", "http://s/%%?%[(", uint64(3))
	f.Fuzz(func(t *testing.T, one, other string, text uint64) {
		h := NewHost()
		for i := range 12 {
			h.Learn(one, Page{Lines: []uint32{1}, Text: text})
			h.Learn(fmt.Sprint(other, i), Page{Lines: []uint32{1}, Text: text})
		}
		for _, url := range []string{one, other, one + "&x=1", other + "/"} {
			s := h.Standing(url)
			if s.Level < 0 || s.Level >= Levels || (s.Level == 0) != (h.Why(url) == "") {
				t.Errorf("%q: %+v, %q", url, s, h.Why(url))
			}
		}
	})
}

// TestALinkCostsNoAllocation: the rule looks at each link when it is found, and again when it is
// taken.
func TestALinkCostsNoAllocation(t *testing.T) {
	h := NewHost()
	h.Learn("http://s/news/2024/05/title?page=1&sort=date", fresh())
	h.Learn("http://s/news/2024/05/title?page=2&sort=date", dry())
	n := testing.AllocsPerRun(100, func() { h.Standing("http://s/news/2024/06/other?sort=date&page=7") })
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkPage is what the rule costs for a page: its URL is looked at when it is found and when it
// is taken, and its 150 lines are learned.
func BenchmarkPage(b *testing.B) {
	h := NewHost()
	page := Page{Lines: make([]uint32, 150)}
	for i := range page.Lines {
		page.Lines[i] = uint32(i) * 2654435761
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		url := fmt.Sprintf("https://www.example.com/shop/page/%d/?orderby=price&filter_color=%d&sid=%x", n%40, n%7, n*7919)
		h.Standing(url)
		h.Standing(url)
		for i := range 10 {
			page.Lines[i] = uint32(n*10+i) * 2654435761
		}
		page.Text = uint64(n / 3)
		h.Learn(url, page)
	}
}

// BenchmarkHost has the memory of a host that has reached all bounds, and of one with a few pages.
func BenchmarkHost(b *testing.B) {
	var full, usual runtime.MemStats
	var before runtime.MemStats
	kept := make([]*Host, 0, 101)
	b.ResetTimer()
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept = append(kept, NewHost())
	fill(kept[0])
	runtime.GC()
	runtime.ReadMemStats(&full)
	for i := range 100 {
		h := NewHost()
		for page := range 10 {
			h.Learn(fmt.Sprintf("http://s/news/%d/%d", i, page), fresh())
		}
		kept = append(kept, h)
	}
	runtime.GC()
	runtime.ReadMemStats(&usual)
	b.ReportMetric(float64(full.HeapAlloc-before.HeapAlloc), "B/full-host")
	b.ReportMetric(float64(usual.HeapAlloc-full.HeapAlloc)/100, "B/host-of-10-pages")
	runtime.KeepAlive(kept)
}

// BenchmarkLink is what it costs to look at the URL of a link.
func BenchmarkLink(b *testing.B) {
	h := NewHost()
	h.Learn("https://www.example.com/news/2024/05/some-title-of-it/", fresh())
	b.ReportAllocs()
	for b.Loop() {
		h.Standing("https://www.example.com/news/2024/05/another-title-of-it/")
	}
}
