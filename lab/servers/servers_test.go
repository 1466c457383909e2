package servers_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/lab/servers"
)

var (
	strict = flag.Bool("strict", false, "goals that are missed fail the tests")
	only   = flag.String("servers", "", "servers whose names contain this")
	atOnce = flag.Int("at-once", len(servers.Servers), "servers that are crawled at a time")
)

// short is how long a cell of the short form lasts.
const short = time.Minute

// guide holds the table that the long form writes.
const guide = "RESULTS.md"

// form reads POLITENESS_SERVERS: 1 is the short form, and a time such as 15m the long form with
// cells of this length. Where it isn't set, form skips the test.
func form(t *testing.T) (length time.Duration, long bool) {
	t.Helper()
	text := os.Getenv("POLITENESS_SERVERS")
	switch text {
	case "":
		t.Skip("POLITENESS_SERVERS isn't set: this starts nginx, HAProxy, Apache and Varnish, and crawls them for a minute or more")
	case "1":
		return short, false
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("POLITENESS_SERVERS: %v", err)
	}
	return length, true
}

// TestServers crawls every server with every crawler. In the long form strangers crawl as well, and
// the guide's table is written.
func TestServers(t *testing.T) {
	length, long := form(t)
	t.Parallel()
	crawlers := servers.Crawlers
	if !long {
		crawlers = slices.DeleteFunc(slices.Clone(crawlers), func(c *servers.Crawler) bool { return c.Slots == 0 })
	}
	crawlers = slices.DeleteFunc(slices.Clone(crawlers), (*servers.Crawler).Missing)

	late := servers.WatchTimers()
	var mu sync.Mutex
	var wg sync.WaitGroup
	cells := map[*servers.Server][]servers.Result{}
	places := make(chan struct{}, *atOnce)
	whole := true // no server is left out
	for _, s := range servers.Servers {
		if !strings.Contains(s.Name, *only) {
			whole = false
			continue
		}
		if missing := s.Missing(); len(missing) > 0 {
			whole = false
			t.Run(s.Name, func(t *testing.T) {
				t.Skipf("needs %s; make setup installs servers", strings.Join(missing, ", "))
			})
			continue
		}
		dir := servers.TempDir(t)
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			results, err := servers.Run(dir, s, crawlers, length)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			cells[s] = results
		})
	}
	wg.Wait()
	p99, worst := late()

	missed := 0
	var all []servers.Result
	for _, s := range servers.Servers {
		for _, r := range cells[s] {
			all = append(all, r)
			t.Logf("%s, %s: %+v", s.Name, r.Crawler.Name, r.Cell)
			if r.Crawler.Slots == 0 { // a stranger
				continue
			}
			t.Run(s.Name+"/"+strings.ReplaceAll(r.Crawler.Name, " ", "-"), func(t *testing.T) {
				for _, p := range servers.Always(&r) {
					t.Errorf("%s: %s", p.Bound, p.Text)
				}
				for _, p := range servers.Goals(&r) {
					missed++
					if *strict {
						t.Errorf("%s: %s", p.Bound, p.Text)
					} else {
						t.Logf("goal missed: %s: %s", p.Bound, p.Text)
					}
				}
			})
		}
	}
	if len(all) == 0 && !t.Failed() {
		t.Skip("no server of that name, or none that is installed")
	}
	table := servers.Markdown(all, length, p99, worst)
	t.Logf("%d cells, %d goals missed\n%s", len(all), missed, table)
	if long && whole && !t.Failed() {
		if err := servers.Replace(guide, table); err != nil {
			t.Error(err)
		}
	}
}

// TestRudeCrawlers shows that each bound can be broken, by crawlers that break it on a real server.
func TestRudeCrawlers(t *testing.T) {
	form(t)
	t.Parallel()
	const length = 15 * time.Second
	rude := servers.Rude("rude", 8, 0)
	steady := servers.Rude("steady", 2, 100*time.Millisecond)
	hasty := servers.Rude("hasty", 1, time.Second) // it keeps its own delay, and not the site's
	idle := servers.Rude("idle", 0, 0)
	var wg sync.WaitGroup
	for _, tt := range []struct {
		server  string
		crawler *servers.Crawler
		always  []string // bounds that it breaks, in their order
		goals   []string
	}{
		{"plain", idle, []string{"asked"}, []string{"lost"}},
		{"nginx-503", rude, []string{"disallowed", "delay"}, []string{"refusals", "lost"}},
		{"nginx-30rm", steady, []string{"retry-after", "disallowed", "delay"}, []string{"refusals", "lost"}},
		{"nginx-delay", rude, []string{"disallowed", "delay", "slots"}, []string{"refusals", "lost"}},
		{"crawl-delay", hasty, []string{"disallowed", "delay"}, nil},
		{"haproxy-ban", rude, []string{"disallowed", "delay"}, []string{"refusals", "ban", "lost"}},
		{"haproxy-429", rude, []string{"disallowed", "delay"}, []string{"refusals", "lost"}},
		{"broken-1-503", rude, []string{"disallowed", "delay"}, nil}, // as many are broken as the judge counts
		{"broken-5-503", rude, []string{"disallowed", "delay"}, nil},
		{"broken-10-500", rude, []string{"disallowed", "delay"}, nil},
	} {
		i := slices.IndexFunc(servers.Servers, func(s *servers.Server) bool { return s.Name == tt.server })
		s := servers.Servers[i]
		if missing := s.Missing(); len(missing) > 0 {
			t.Logf("%s: skipped, it needs %s", s.Name, strings.Join(missing, ", "))
			continue
		}
		dir := servers.TempDir(t)
		wg.Go(func() {
			results, err := servers.Run(dir, s, []*servers.Crawler{tt.crawler}, length)
			if err != nil {
				t.Error(err)
				return
			}
			r := &results[0]
			if got := names(servers.Always(r)); !slices.Equal(got, tt.always) {
				t.Errorf("%s on %s breaks %q, want %q: %+v", tt.crawler.Name, s.Name, got, tt.always, r.Cell)
			}
			if got := names(servers.Goals(r)); !slices.Equal(got, tt.goals) {
				t.Errorf("%s on %s misses %q, want %q: %+v", tt.crawler.Name, s.Name, got, tt.goals, r.Cell)
			}
		})
	}
	wg.Wait()
}

func names(problems []servers.Problem) []string {
	var names []string
	for _, p := range problems {
		names = append(names, p.Bound)
	}
	return names
}
