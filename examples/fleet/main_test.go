package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit/redislimit"
	"github.com/go-politeness/politeness/robots/robotscache"
	"github.com/go-politeness/politeness/robots/robotscache/redisrobots"
)

func TestMain(m *testing.M) {
	if os.Getenv(envName) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestFourProcessesAreOnePoliteCrawler runs the example; lead returns an error if it wasn't so.
func TestFourProcessesAreOnePoliteCrawler(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := lead(ctx, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{`BLOCKED for all: status 429`, `alone: first after the block`, `cleared for all`, `budget spent: pages`, ` 0 starts into the block`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// TestTwentyCrawlersMeetASite that none of them knows: it sees one fetch of robots.txt and then
// starts that are its crawl-delay apart, the first one too, whoever fetched. POLITENESS_LONG=1
// makes the delay ten seconds.
func TestTwentyCrawlersMeetASite(t *testing.T) {
	const crawlers, rounds = 20, 4
	delay := 2 * time.Second
	if os.Getenv("POLITENESS_LONG") != "" {
		delay = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server, err := startRedis(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	var asked atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			asked.Add(1)
			fmt.Fprintf(w, "User-agent: *\nCrawl-delay: %v\n", delay.Seconds())
		}
	}))
	defer web.Close()

	var mu sync.Mutex
	var starts []evidence.Decision
	enough := make(chan struct{})
	witness := evidence.Func(func(_ context.Context, d evidence.Decision) {
		if d.Type != evidence.Started {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if starts = append(starts, d); len(starts) == 1+rounds {
			close(enough)
		}
	})
	crawl, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for i := range crawlers {
		client := redis.NewClient(&redis.Options{Addr: server.addr})
		defer client.Close()
		hosts, err := redislimit.New(redislimit.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		defer hosts.Close()
		robots, err := redisrobots.New(redisrobots.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		transport, err := politeness.New(politeness.Config{
			UserAgent: "FleetBot/1.0 (+https://example.com/bot; bot@example.com)",
			Hosts:     hosts, Robots: robotscache.Config{Store: robots}, Evidence: witness,
		})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _ = get(crawl, &http.Client{Transport: transport}, fmt.Sprintf("%s/%d", web.URL, i)) })
	}
	select {
	case <-enough:
	case <-ctx.Done():
		t.Errorf("%d starts", len(starts))
	}
	stop()
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("robots.txt was fetched %d times", n)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.SortFunc(starts, func(a, b evidence.Decision) int { return a.Start.Compare(b.Start) })
	for i := 1; i < len(starts); i++ {
		if gap := starts[i].Start.Sub(starts[i-1].Start); gap < delay {
			t.Errorf("%s started %v after %s", starts[i].URL, gap, starts[i-1].URL)
		}
	}
}
