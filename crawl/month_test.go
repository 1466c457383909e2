package crawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sort"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/revisit"
)

// A changing page is one of a month's web. Times are hours since the crawl began.
type changing struct {
	changes []float64 // sorted, also before the crawl
	dated   bool      // it has a Last-Modified
	tagged  bool      // it has an ETag
	maxAge  float64   // declared freshness
	lastmod lastmod   // what its sitemap says of it

	mu     sync.Mutex
	visits []float64 // by the server
}

// A lastmod is how a sitemap dates its pages.
type lastmod int

const (
	undated  lastmod = iota // no sitemap, or one without dates
	bySecond                // by the last change
	byDay                   // by its day
	untrue                  // always by the present time
)

const (
	monthBegins = -90 * 24.0
	monthEnds   = 30 * 24.0
)

// version returns the number of changes until t.
func (p *changing) version(t float64) int {
	return sort.SearchFloat64s(p.changes, math.Nextafter(t, math.MaxFloat64))
}

// lastChange returns the time of the last change until t.
func (p *changing) lastChange(t float64) float64 {
	if v := p.version(t); v > 0 {
		return p.changes[v-1]
	}
	return monthBegins
}

// listed returns when the page was last modified by its sitemap, as that is at t; never if it says
// nothing.
func (p *changing) listed(t float64) float64 {
	switch p.lastmod {
	case bySecond:
		return p.lastChange(t)
	case byDay:
		return 24 * math.Floor(p.lastChange(t)/24)
	case untrue:
		return t
	}
	return monthBegins
}

// moves reports whether the page changes in the month.
func (p *changing) moves() bool { return p.version(monthEnds) > p.version(0) }

// newChanging returns a page of one of the kinds of the web: most never change, or at rates that differ
// by orders of magnitude; few are fronts, some are dailies and weeklies.
func newChanging(r *rand.Rand) *changing {
	p := &changing{}
	pick := func(weights ...float64) int {
		x := r.Float64()
		for i, w := range weights {
			x -= w
			if x < 0 {
				return i
			}
		}
		return len(weights) - 1
	}
	every := func(mean float64) {
		for t := monthBegins + mean*r.ExpFloat64(); t < monthEnds; t += mean * r.ExpFloat64() {
			p.changes = append(p.changes, t)
		}
	}
	switch pick(.46, .42, .03, .06, .03) {
	case 1:
		every(max(25*24*math.Exp(1.9*r.NormFloat64()), .25))
	case 2:
		every((5 + 55*r.Float64()) / 60)
	case 3:
		for t := monthBegins + 24*r.Float64(); t < monthEnds; t += 24 {
			p.changes = append(p.changes, t)
		}
	case 4:
		for t := monthBegins + 168*r.Float64(); t < monthEnds; t += 168 {
			p.changes = append(p.changes, t)
		}
	}
	validators := pick(.5, .15, .35)
	p.tagged = validators == 0
	p.dated = validators <= 1
	p.maxAge = []float64{0, 1. / 12, 1, 24, 168}[pick(.72, .09, .09, .06, .04)]
	return p
}

// word spells a number in letters: digits of a text don't bring a page back sooner.
func word(n int) string {
	text := ""
	for ; n > 0; n /= 26 {
		text += string(rune('a' + n%26))
	}
	return text
}

// serve answers as servers of files do.
func (p *changing) serve(began time.Time) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		now := time.Since(began).Hours()
		p.mu.Lock()
		p.visits = append(p.visits, now)
		p.mu.Unlock()
		version := p.version(now)
		modified := began.Add(time.Duration(p.lastChange(now) * float64(time.Hour))).UTC().Truncate(time.Second)
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		if p.maxAge > 0 {
			w.Header().Set("Cache-Control", fmt.Sprintf("max-age=%d", int(p.maxAge*3600)))
		}
		same := false
		if p.dated {
			w.Header().Set("Last-Modified", modified.Format(http.TimeFormat))
			same = req.Header.Get("If-Modified-Since") == modified.Format(http.TimeFormat)
		}
		if p.tagged {
			etag := fmt.Sprintf(`"v%d"`, version)
			w.Header().Set("Etag", etag)
			same = req.Header.Get("If-None-Match") == etag
		}
		if same {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		const text = "<title>%s of %s</title><p>The text of this page is %s. <script>var token = %d</script>"
		name := word(int(crc32.ChecksumIEEE([]byte(req.Host + req.URL.Path)))) // pages alike look like a wall
		fmt.Fprintf(w, text, name, req.Host, word(version+1), time.Now().UnixNano())
	}
}

// expected are the visits of the page by the rule, as a simulation of a few lines has it: after the root
// of (least × the time unchanged), and earlier where its sitemap, which is read each least, calls it
// modified, until two such visits in a row were in vain.
func (p *changing) expected(least, longest float64) (visits []float64) {
	changed := 0.0
	before := -1
	lies := 0
	isHinted := false
	for t := 0.0; t < monthEnds; {
		version := p.version(t)
		switch {
		case p.dated:
			changed = p.lastChange(t)
		case before < 0:
			changed = t - 7*24
		case version != before:
			changed = t - (t-visits[len(visits)-1])/2
		}
		switch {
		case version != before:
			lies = 0
		case isHinted:
			lies++
		}
		before = version
		visits = append(visits, t)
		interval := math.Sqrt(least * max(t-changed, 0))
		earliest := t + max(least, p.maxAge)
		due := max(t+min(max(interval, least), longest), earliest)
		hinted, ok := p.hint(t, due, least)
		hinted = max(hinted, earliest)
		isHinted = ok && lies < 2 && hinted < due
		if isHinted {
			due = hinted
		}
		t = due
	}
	return visits
}

// hint returns when a sitemap that is read each least first says, between two times, that the page was
// modified after the first.
func (p *changing) hint(after, before, least float64) (at float64, ok bool) {
	for at = least * (math.Floor(after/least) + 1); at < before; at += least {
		if p.listed(at) > after {
			return at, true
		}
	}
	return 0, false
}

// fresh returns the share of the month for which a copy is the page that was made at these visits.
func (p *changing) fresh(visits []float64) float64 {
	sum := 0.0
	for i, t := range visits {
		until := monthEnds
		if i+1 < len(visits) {
			until = visits[i+1]
		}
		if v := p.version(t); v < len(p.changes) {
			until = min(until, p.changes[v])
		}
		sum += max(0, until-t)
	}
	return sum / (monthEnds - visits[0])
}

// TestAMonthOfRevisits: 500 pages for 30 days through the whole crawl need the requests that the rule
// needs in a simulation of it alone, and are as fresh. No page is asked for within Min, nor while it
// is fresh by its site's word. Half of the hosts of the second crawl have sitemaps with dates, of
// which some are wrong. The judge proves its log, and finds each of twelve lies in it.
func TestAMonthOfRevisits(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	for name, dates := range map[string][10]lastmod{
		"without sitemaps": {},
		"with sitemaps":    {bySecond, bySecond, byDay, byDay, untrue},
	} {
		t.Run(name, func(t *testing.T) {
			m := &month{least: 12 * time.Hour}
			synctest.Test(t, func(t *testing.T) {
				m.crawl(t, dates)
				m.compare(t)
			})
			report, err := audit.Check(bytes.NewReader(m.log.Bytes()))
			if err != nil || !report.OK() {
				t.Fatalf("the log isn't proved: %v\n%v", err, report)
			}
			due := report.Promise(dueKept)
			if want := m.requests - len(m.pages); due.Proved != want {
				t.Errorf("%+v, want %d proved", due, want)
			}
			m.lie(t)
		})
	}
}

const dueKept = "pages asked again only when due"

// A month is a crawl for 30 days.
type month struct {
	least    time.Duration
	began    time.Time
	pages    []*changing
	urls     []string
	log      bytes.Buffer
	requests int // for pages
}

// crawl crawls the pages of ten hosts, whose sitemaps have these dates.
func (m *month) crawl(t *testing.T, dates [10]lastmod) {
	r := newRig()
	r.politeness.Hosts.Delay = hostlimit.Delay{Min: 50 * time.Millisecond}
	random := rand.New(rand.NewPCG(1, 42))
	m.began = time.Now()
	for h, dated := range dates {
		host := fmt.Sprintf("https://h%d.example", h)
		site := r.Site(host)
		from := len(m.pages)
		for i := range 50 {
			p := newChanging(random)
			p.lastmod = dated
			path := fmt.Sprintf("/%d", i)
			site.Handle(path, p.serve(m.began))
			m.pages = append(m.pages, p)
			m.urls = append(m.urls, host+path)
		}
		if dated != undated {
			site.Handle("/sitemap.xml", m.sitemap(from))
		}
	}
	r.crawl = crawl.Config{
		Revisit: revisit.Schedule{Min: m.least},
		Watch:   30 * 24 * time.Hour,
		Visit:   func(context.Context, *crawl.Page) error { return nil },
		Discover: func(ctx context.Context, url string) iter.Seq[crawl.Request] {
			return func(yield func(crawl.Request) bool) {
				for e, err := range (sitemap.Finder{Transport: r.crawl.Transport}).Pages(ctx, url) {
					if err != nil {
						t.Error(err)
						continue
					}
					if !yield(crawl.Request{URL: e.Loc, Modified: e.LastMod}) {
						return
					}
				}
			}
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*24*time.Hour)
	defer cancel()
	sink, err := evidence.NewLog(&m.log, evidence.LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r.politeness.Evidence = sink
	s := r.run(ctx, t, m.urls...)
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log(s)
}

// sitemap serves the sitemap of a host, whose pages are those from an index on.
func (m *month) sitemap(from int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		now := time.Since(m.began).Hours()
		fmt.Fprint(w, "<urlset>")
		for i := from; i < from+50; i++ {
			p := m.pages[i]
			modified := m.began.Add(time.Duration(p.listed(now) * float64(time.Hour))).UTC()
			form := time.RFC3339
			if p.lastmod == byDay {
				form = time.DateOnly
			}
			fmt.Fprintf(w, "<url><loc>%s</loc><lastmod>%s</lastmod></url>", m.urls[i], modified.Format(form))
		}
		fmt.Fprint(w, "</urlset>")
	}
}

// compare compares the requests with those of the simulation.
func (m *month) compare(t *testing.T) {
	var got, want monthly
	for i, p := range m.pages {
		p.mu.Lock()
		visits := slices.Clone(p.visits)
		p.mu.Unlock()
		for j := 1; j < len(visits); j++ {
			if gap := visits[j] - visits[j-1]; gap < max(m.least.Hours(), p.maxAge)-1e-3 {
				t.Errorf("%s is asked for again after %.2f h, and is fresh for %.2f", m.urls[i], gap, p.maxAge)
			}
		}
		got.add(p, visits)
		want.add(p, p.expected(m.least.Hours(), 30*24))
	}
	m.requests = got.requests
	t.Logf("crawl: %v; simulation: %v", got, want)
	if off := float64(got.requests)/float64(want.requests) - 1; math.Abs(off) > .1 {
		t.Errorf("%d requests, and %d in the simulation", got.requests, want.requests)
	}
	if off := got.mean() - want.mean(); math.Abs(off) > .02 {
		t.Errorf("pages that change are fresh for %.3f of the time, and for %.3f in the simulation", got.mean(), want.mean())
	}
}

// lie makes twelve logs of the month with a lie in each, about pages that are spread over it.
func (m *month) lie(t *testing.T) {
	lies := []struct {
		name string
		lie  func(ds []evidence.Decision, answer, start int)
	}{
		{"asked before it was due", func(ds []evidence.Decision, _, start int) {
			ds[start].Due = ds[start].Start.Add(time.Hour)
		}},
		{"asked while it was fresh", func(ds []evidence.Decision, answer, start int) {
			ds[answer].Fresh = ds[start].Start.Sub(ds[answer].Time) + time.Hour
		}},
		{"asked for all of it", func(ds []evidence.Decision, _, start int) {
			ds[start].Conditional = false
		}},
	}
	var ds []evidence.Decision
	for _, line := range bytes.Split(bytes.TrimSpace(m.log.Bytes()), []byte("\n")) {
		var l evidence.LogLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		ds = append(ds, l.Decision)
	}
	for i := range 12 {
		answer, start := again(ds, (i+1)*len(ds)/14)
		if start == 0 {
			t.Fatal("no page was asked for again with conditions")
		}
		forged := slices.Clone(ds)
		lie := lies[i%len(lies)]
		lie.lie(forged, answer, start)
		var out bytes.Buffer
		sink, err := evidence.NewLog(&out, evidence.LogConfig{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range forged {
			sink.Record(t.Context(), d)
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		report, err := audit.Check(&out)
		if err != nil {
			t.Fatal(err)
		}
		if due := report.Promise(dueKept); due.Broken != 1 {
			t.Errorf("%s was %s: %+v", ds[start].URL, lie.name, due)
		}
	}
}

// again returns the indexes of the first record after an index of a page that is asked for again with
// conditions, and of its answer before.
func again(ds []evidence.Decision, from int) (answer, start int) {
	last := map[string]int{}
	for i, d := range ds {
		at, ok := last[d.URL]
		switch {
		case d.Type == evidence.Fetched:
			last[d.URL] = i
		case ok && i >= from && d.Type == evidence.Started && !d.Due.IsZero() && d.Conditional:
			return at, i
		}
	}
	return 0, 0
}

// A monthly is what a month costs and brings.
type monthly struct {
	requests int
	fresh    float64 // sum over pages that change
	moving   int
}

func (m *monthly) add(p *changing, visits []float64) {
	m.requests += len(visits)
	if p.moves() {
		m.moving++
		m.fresh += p.fresh(visits)
	}
}

func (m monthly) mean() float64 { return m.fresh / float64(m.moving) }

// String returns the figures.
func (m monthly) String() string {
	return fmt.Sprintf("%d requests, %d pages that change are fresh for %.1f %% of the time", m.requests, m.moving, 100*m.mean())
}
