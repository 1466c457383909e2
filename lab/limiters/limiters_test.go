package limiters_test

import (
	"flag"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/lab/limiters"
	"github.com/go-politeness/politeness/lab/servers"
)

const env = "POLITENESS_LIMITERS"

var only = flag.String("limiters", "", "limiters whose names contain one of these, with commas between them")

// form reads POLITENESS_LIMITERS: 1 is the short form, six limiters for a minute, and a time such as
// 3m the long form, all limiters with cells of this length. Where it isn't set, form skips the test.
func form(t *testing.T) (length time.Duration, long bool) {
	t.Helper()
	text := os.Getenv(env)
	switch text {
	case "":
		t.Skipf("%s isn't set: this starts limiters of npm, of Go and of Debian, and crawls them for a minute or more", env)
	case "1":
		return time.Minute, false
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return length, true
}

// isMeant reports whether the limiter of that name is to be crawled.
func isMeant(name string) bool {
	return slices.ContainsFunc(strings.Split(*only, ","), func(part string) bool { return strings.Contains(name, part) })
}

// TestLimiters crawls every limiter with every crawler, all at the same time.
func TestLimiters(t *testing.T) {
	length, long := form(t)
	// The library warns that three Transports without a common limiter ask one host. Each has an
	// address of its own here, so that a server takes them for three clients.
	log.SetOutput(io.Discard)
	all, err := limiters.Limiters(install(t))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	cells := map[*limiters.Limiter][]limiters.Cell{}
	var wg sync.WaitGroup
	late := servers.WatchTimers()
	for _, l := range all {
		if !long && !l.Short || !isMeant(l.Name) {
			continue
		}
		dir := filepath.Join(servers.TempDir(t), l.Name)
		wg.Go(func() {
			results, err := servers.Run(dir, l.Server, limiters.Crawlers(), length)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				cells[l] = append(cells[l], limiters.Cell{Result: r, Limiter: l})
			}
		})
	}
	wg.Wait()
	p99, worst := late()
	for _, l := range all {
		for _, c := range cells[l] {
			t.Run(l.Name+"/"+strings.ReplaceAll(c.Crawler.Name, " ", "-"), func(t *testing.T) {
				for _, problem := range c.Problems() {
					t.Error(problem)
				}
			})
		}
	}
	t.Logf("Timers of the machine were up to %v late, 99 %% of them at most %v.", worst, p99)
	t.Logf("%s", limiters.Markdown(all, cells))
}
