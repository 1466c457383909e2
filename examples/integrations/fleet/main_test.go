package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/redis/redislimit"
	"github.com/go-politeness/politeness/redis/redisrobots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func TestMain(m *testing.M) {
	if os.Getenv(envName) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestAFleetIsOnePoliteCrawler although its processes are killed, and one is stopped for longer than
// its lease with POLITENESS_LONG=1. lead returns an error where it isn't.
func TestAFleetIsOnePoliteCrawler(t *testing.T) {
	o := options{processes: 3, sites: 20, pages: 20, kills: 2, every: 3 * time.Second}
	if os.Getenv("POLITENESS_LONG") != "" {
		o.pages, o.kills, o.pause = 40, 6, 14*time.Second
	}
	out := t.Output()
	if err := lead(t.Context(), out, o); err != nil {
		t.Error(err)
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
	server := redistest.New(t)
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
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
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
			Limiter:   hosts, Robots: robotscache.Config{Store: robots}, Evidence: witness,
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

func get(ctx context.Context, web *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}
