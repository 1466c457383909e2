package redisrobots

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// workerEnv makes a process of the test binary ask for robots.txt with several caches: REDIS SITE
// CACHES.
const workerEnv = "REDISROBOTS_TEST_WORKER"

const origin = "https://a.example"

// shared is the server of the tests that don't harm it.
var shared *redistest.Server

func TestMain(m *testing.M) {
	if work := os.Getenv(workerEnv); work != "" {
		worker(work)
		return
	}
	redistest.Main(m, &shared)
}

func newStore(t testing.TB, addr, prefix string) *Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(Config{Client: client, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A site serves a robots.txt, slowly, and counts how often.
type site struct {
	*httptest.Server
	fetches atomic.Int64
	took    atomic.Int64  // nanoseconds
	entered chan struct{} // told of each fetch that begins
}

func newSite(t *testing.T, took time.Duration) *site {
	s := &site{entered: make(chan struct{}, 100)}
	s.took.Store(int64(took))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.fetches.Add(1)
		s.entered <- struct{}{}
		select {
		case <-time.After(time.Duration(s.took.Load())):
			fmt.Fprint(w, "User-agent: *\nCrawl-delay: 10\nDisallow: /private\n")
		case <-req.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func newCache(store *Store, events func(robotscache.Event)) *robotscache.Cache {
	c, err := robotscache.New(robotscache.Config{Store: store}, robotscache.Client{
		UserAgent: "TestBot/1.0 (+https://example.com/bot; bot@example.com)",
		Observe:   func(_ context.Context, e robotscache.Event) { events(e) },
	})
	if err != nil {
		panic(err)
	}
	return c
}

// ask asks for robots.txt by n caches at once, each with a client of its own, and returns how many
// found its crawl-delay.
func ask(addr, site, prefix string, n int) int64 {
	var found atomic.Int64
	var wg sync.WaitGroup
	u, err := url.Parse(site)
	if err != nil {
		panic(err)
	}
	for range n {
		wg.Go(func() {
			client := redis.NewClient(&redis.Options{Addr: addr})
			defer client.Close()
			store, err := New(Config{Client: client, Prefix: prefix})
			if err != nil {
				panic(err)
			}
			e, err := newCache(store, func(robotscache.Event) {}).Get(context.Background(), u)
			if err == nil && crawlDelay(e) == 10*time.Second {
				found.Add(1)
			}
		})
	}
	wg.Wait()
	return found.Load()
}

func crawlDelay(e *robotscache.Entry) time.Duration {
	d, _ := e.Rules.CrawlDelay()
	return d
}

func worker(work string) {
	var addr, site, prefix string
	var n int
	if _, err := fmt.Sscan(work, &addr, &site, &prefix, &n); err != nil {
		panic(err)
	}
	fmt.Println(ask(addr, site, prefix, n))
}

func startWorker(t *testing.T, site, prefix string, n int) (cmd *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d", workerEnv, shared.Addr, site, prefix, n))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(pipe)
}

// TestTwentyCrawlersFetchOnce: five processes with four caches each meet a site in the same moment.
func TestTwentyCrawlersFetchOnce(t *testing.T) {
	web := newSite(t, 500*time.Millisecond)
	var wg sync.WaitGroup
	for range 5 {
		cmd, out := startWorker(t, web.URL, "once:", 4)
		wg.Go(func() {
			var found int
			if _, err := fmt.Fscan(out, &found); err != nil || found != 4 {
				t.Errorf("%d of 4 know the crawl-delay, %v", found, err)
			}
			_ = cmd.Wait()
		})
	}
	wg.Wait()
	if n := web.fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

// TestAnotherTakesOver when the process that fetches is killed.
func TestAnotherTakesOver(t *testing.T) {
	t.Parallel()
	web := newSite(t, time.Minute)
	cmd, _ := startWorker(t, web.URL, "dead:", 1)
	<-web.entered
	go func() {
		time.Sleep(300 * time.Millisecond) // the others wait by now
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		web.took.Store(0)
	}()
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	if n := ask(shared.Addr, web.URL, "dead:", 5); n != 5 {
		t.Errorf("%d of 5 know the crawl-delay", n)
	}
	if took := time.Since(began); took > Lease+10*time.Second {
		t.Errorf("that took %v", took)
	}
	if n := web.fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want that of the dead and another", n)
	}
}

// TestHolderIsWaitedFor for longer than a lease, as long as it lives.
func TestHolderIsWaitedFor(t *testing.T) {
	t.Parallel()
	web := newSite(t, Lease+2*time.Second)
	if n := ask(shared.Addr, web.URL, "slow:", 3); n != 3 || web.fetches.Load() != 1 {
		t.Errorf("%d of 3 know the crawl-delay, after %d fetches", n, web.fetches.Load())
	}
}

func TestRecordsComeBack(t *testing.T) {
	store := newStore(t, shared.Addr, "records:")
	if _, ok, err := store.Load(t.Context(), origin); ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	now := time.Now().UTC().Round(0)
	tests := map[time.Duration]robotscache.Record{
		30 * 24 * time.Hour: {URL: origin + "/robots.txt", Status: 200, Body: []byte("a\nb\x00\xff"), ETag: `W/"1"`, LastModified: "yesterday", Fetched: now, MaxAge: 2 * time.Hour},
		24 * time.Hour:      {URL: origin + "/robots.txt", Status: 404, Body: []byte{}, Fetched: now, Until: now.Add(time.Hour), Reason: "status 503"},
		48 * time.Hour:      {URL: origin + "/robots.txt", Body: []byte{}, Fetched: now, Until: now.Add(48 * time.Hour), Reason: "status 503"},
	}
	for keep, r := range tests {
		if err := store.Save(t.Context(), origin, r); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := store.Load(t.Context(), origin); !ok || err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v, %v, %v", r, got, ok, err)
		}
		if left := store.client.PTTL(t.Context(), store.key(origin)).Val(); left > keep || left < keep-time.Minute {
			t.Errorf("%+v is kept for %v", r, left)
		}
	}
	if s := store.Stats(); s != (Stats{Loaded: 3}) {
		t.Errorf("%+v", s)
	}
}

// TestPoisonCostsOneFetch: whatever is found in place of a record or a lock.
func TestPoisonCostsOneFetch(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tests := map[string]func(s *Store, origin string) error{
		"noise":  func(s *Store, o string) error { return s.client.Set(ctx, s.key(o), "noise", 0).Err() },
		"type":   func(s *Store, o string) error { return s.client.LPush(ctx, s.key(o), "x").Err() },
		"length": func(s *Store, o string) error { return s.client.SetRange(ctx, s.key(o), 10<<20, "x").Err() },
		"another origin's": func(s *Store, o string) error {
			data, err := robotscache.Record{Status: 404, Fetched: time.Now()}.Encode("https://other.example")
			return errors.Join(err, s.client.Set(ctx, s.key(o), data, 0).Err())
		},
		"another version": func(s *Store, o string) error {
			data, err := robotscache.Record{Status: 404, Fetched: time.Now()}.Encode(o)
			return errors.Join(err, s.client.Set(ctx, s.key(o), "robotscache 2"+strings.TrimPrefix(string(data), "robotscache 1"), 0).Err())
		},
		"lock for ever":     func(s *Store, o string) error { return s.client.Set(ctx, s.lock(o), "x", 0).Err() },
		"lock of that type": func(s *Store, o string) error { return s.client.LPush(ctx, s.lock(o), "x").Err() },
	}
	for name, poison := range tests {
		t.Run(name, func(t *testing.T) {
			web := newSite(t, 0)
			store := newStore(t, shared.Addr, "poison "+name+":")
			if err := poison(store, web.URL); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if n := ask(shared.Addr, web.URL, "poison "+name+":", 1); n != 1 || web.fetches.Load() != 1 {
					t.Errorf("%d of 1 knows the crawl-delay, after %d fetches", n, web.fetches.Load())
				}
			}
			for _, key := range store.client.Keys(ctx, "poison "+name+":*").Val() {
				if store.client.TTL(ctx, key).Val() <= 0 {
					t.Errorf("%s never expires", key)
				}
			}
		})
	}
}

// TestServerAway: each fetches for itself, is told, and doesn't wait for the server each time.
func TestServerAway(t *testing.T) {
	t.Parallel()
	web := newSite(t, 0)
	store := newStore(t, "127.0.0.1:1", "")
	var events []robotscache.Event
	cache := newCache(store, func(e robotscache.Event) { events = append(events, e) })
	u, _ := url.Parse(web.URL)
	e, err := cache.Get(t.Context(), u)
	if err != nil || crawlDelay(e) != 10*time.Second || web.fetches.Load() != 1 {
		t.Fatalf("%+v, %v, %d fetches", e, err, web.fetches.Load())
	}
	if len(events) != 1 || !errors.Is(events[0].StoreErr, ErrUnavailable) {
		t.Errorf("events %+v", events)
	}
	if s := store.Stats(); s.Failed < 3 || s.Locked != 0 {
		t.Errorf("%+v", s)
	}
}

// TestServerComesBack: it is asked again after a pause.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	store := newStore(t, server.Addr, "")
	server.Kill()
	lost := time.Now()
	if _, _, err := store.Load(t.Context(), origin); err == nil || errors.Is(err, ErrUnavailable) {
		t.Fatalf("err = %v", err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	_, _, err := store.Load(t.Context(), origin)
	isOver := time.Since(lost) >= pause // on a busy machine
	if !errors.Is(err, ErrUnavailable) && !isOver {
		t.Errorf("err = %v", err)
	}
	for end := time.Now().Add(pause + 20*time.Second); ; time.Sleep(100 * time.Millisecond) {
		if _, _, err := store.Load(t.Context(), origin); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestLateUnlockFreesNobodyElse: a process that was stopped for longer than a lease wakes up.
func TestLateUnlockFreesNobodyElse(t *testing.T) {
	store := newStore(t, shared.Addr, "late:")
	unlock, err := store.Lock(t.Context(), origin)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.client.Set(t.Context(), store.lock(origin), "another", Lease).Err(); err != nil {
		t.Fatal(err)
	}
	unlock()
	if holder := store.client.Get(t.Context(), store.lock(origin)).Val(); holder != "another" {
		t.Errorf("held by %q", holder)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := store.Lock(ctx, origin); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

func TestConfigProblemsAreReportedTogether(t *testing.T) {
	_, err := New(Config{Prefix: "{"})
	for _, want := range []string{"Client", "Prefix"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v doesn't name %s", err, want)
		}
	}
}
