package crawl_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
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

	mu     sync.Mutex
	visits []float64 // by the server
}

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
// of (least × the time unchanged).
func (p *changing) expected(least, longest float64) (visits []float64) {
	changed := 0.0
	before := -1
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
		before = version
		visits = append(visits, t)
		interval := math.Sqrt(least * max(t-changed, 0))
		t += max(min(max(interval, least), longest), p.maxAge)
	}
	return visits
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
// is fresh by its site's word.
func TestAMonthOfRevisits(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	synctest.Test(t, func(t *testing.T) {
		const least = 12 * time.Hour
		r := newRig()
		r.politeness.Hosts.Delay = hostlimit.Delay{Min: 50 * time.Millisecond}
		random := rand.New(rand.NewPCG(1, 42))
		began := time.Now()
		var pages []*changing
		var urls []string
		for h := range 10 {
			host := fmt.Sprintf("https://h%d.example", h)
			site := r.Site(host)
			for i := range 50 {
				p := newChanging(random)
				pages = append(pages, p)
				path := fmt.Sprintf("/%d", i)
				site.Handle(path, p.serve(began))
				urls = append(urls, host+path)
			}
		}
		r.crawl = crawl.Config{
			Revisit: revisit.Schedule{Min: least},
			Watch:   30 * 24 * time.Hour,
			Visit:   func(context.Context, *crawl.Page) error { return nil },
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*24*time.Hour)
		defer cancel()
		var log bytes.Buffer
		sink, err := evidence.NewLog(&log, evidence.LogConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r.politeness.Evidence = sink
		s := r.run(ctx, t, urls...)
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		var got, want monthly
		for i, p := range pages {
			p.mu.Lock()
			visits := slices.Clone(p.visits)
			p.mu.Unlock()
			for j := 1; j < len(visits); j++ {
				if gap := visits[j] - visits[j-1]; gap < max(least.Hours(), p.maxAge)-1e-3 {
					t.Errorf("%s is asked for again after %.2f h, and is fresh for %.2f", urls[i], gap, p.maxAge)
				}
			}
			got.add(p, visits)
			want.add(p, p.expected(least.Hours(), 30*24))
		}
		t.Logf("crawl: %v; simulation: %v; %v", got, want, s)
		if off := float64(got.requests)/float64(want.requests) - 1; math.Abs(off) > .1 {
			t.Errorf("%d requests, and %d in the simulation", got.requests, want.requests)
		}
		report, err := audit.Check(&log)
		if err != nil || !report.OK() {
			t.Fatalf("the log isn't proved: %v\n%v", err, report)
		}
		if due := report.Promise("pages asked again only when due"); due.Proved != got.requests-len(pages) {
			t.Errorf("%+v, want %d proved", due, got.requests-len(pages))
		}
		if off := got.mean() - want.mean(); math.Abs(off) > .02 {
			t.Errorf("pages that change are fresh for %.3f of the time, and for %.3f in the simulation", got.mean(), want.mean())
		}
	})
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
