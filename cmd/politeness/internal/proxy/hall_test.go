package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
)

// virtual serves requests by a proxy over a fake web, in virtual time.
type virtual struct {
	t    *testing.T
	p    *Proxy
	site *politenesstest.Site
}

func newVirtual(t *testing.T, cfg politeness.Config) *virtual {
	t.Helper()
	web := politenesstest.NewWeb()
	cfg.UserAgent = agent
	cfg.Base = web
	transport, err := politeness.New(cfg)
	must(t, err)
	return &virtual{t, New(transport, nil), web.Site("https://example.com")}
}

// get asks once, as a program that can wait does.
func (v *virtual) get(path string, header ...string) *http.Response {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "https://example.com"+path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	v.p.ServeHTTP(w, r)
	return w.Result()
}

// getAll asks for n pages with so many at once, with tries each. pause waits before a further try.
func (v *virtual) getAll(n, atOnce, tries int, path func(i int) string, pause func(*http.Response)) (lost int) {
	var group sync.WaitGroup
	var failed atomic.Int32
	places := make(chan bool, atOnce)
	for i := range n {
		places <- true
		group.Go(func() {
			defer func() { <-places }()
			for range tries {
				resp := v.get(path(i))
				if resp.StatusCode == http.StatusOK {
					return
				}
				pause(resp)
			}
			failed.Add(1)
		})
	}
	group.Wait()
	return int(failed.Load())
}

func page(i int) string { return fmt.Sprintf("/page/%d", i) }

func keepsRetryAfter(resp *http.Response) {
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	time.Sleep(time.Duration(seconds) * time.Second)
}

// TestAWaveIsSpread: programs that were refused together and keep Retry-After don't come back
// together, whether they want different pages or the same one.
func TestAWaveIsSpread(t *testing.T) {
	for name, path := range map[string]func(int) string{"different pages": page, "one page": func(int) string { return "/" }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cfg politeness.Config
				cfg.Hosts.MaxWait = 2 * time.Second
				v := newVirtual(t, cfg)
				v.site.Robots("User-agent: *\nCrawl-delay: 1\n").Page("/", "page").Handle("/page/", politenesstest.Status(200))
				if lost := v.getAll(18, 18, 4, path, keepsRetryAfter); lost > 1 {
					t.Errorf("%d of 18 lost", lost)
				}
			})
		})
	}
}

// TestProgramsThatRepeatAtOnceLoseNothing: Scrapy reads no Retry-After, and has eight requests under
// way and three tries.
func TestProgramsThatRepeatAtOnceLoseNothing(t *testing.T) {
	repeatsAtOnce := func(*http.Response) {}
	t.Run("crawl-delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var cfg politeness.Config
			cfg.Hosts.MaxWait = 50 * time.Second
			v := newVirtual(t, cfg)
			v.site.Robots("User-agent: *\nCrawl-delay: 10\n").Handle("/page/", politenesstest.Status(200))
			if lost := v.getAll(16, 8, 3, page, repeatsAtOnce); lost > 0 {
				t.Errorf("%d of 16 lost", lost)
			}
		})
	})
	t.Run("429", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var cfg politeness.Config
			cfg.Hosts.MaxWait = 50 * time.Second
			v := newVirtual(t, cfg)
			var once sync.Once
			v.site.Handle("/page/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				once.Do(func() {
					w.Header().Set("Retry-After", "90")
					w.WriteHeader(http.StatusTooManyRequests)
				})
			}))
			if lost := v.getAll(100, 8, 3, page, repeatsAtOnce); lost > 0 {
				t.Errorf("%d of 100 lost", lost)
			}
		})
	})
}

// TestABrowserIsToldOfALongWaitAtOnce: somebody may look at it. A crawler that has the headers of a
// browser, or drives one, repeats at once as others do, so a turn that is near is waited for.
func TestABrowserIsToldOfALongWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = 50 * time.Second
		for _, test := range []struct {
			mode    string
			blocked time.Duration
			want    time.Duration
		}{
			{"navigate", 2 * time.Hour, 0},
			{"navigate", 2 * time.Minute, hold},
			{"", 2 * time.Hour, hold},
			{"no-cors", 2 * time.Hour, hold},
		} {
			var cfg politeness.Config
			cfg.Hosts.MaxWait = hold
			v := newVirtual(t, cfg)
			must(t, v.p.hosts.Block(t.Context(), "example.com", time.Now().Add(test.blocked), "by the owner's wish"))
			began := time.Now()
			resp := v.get("/", "Sec-Fetch-Mode", test.mode)
			if took := time.Since(began); resp.StatusCode != http.StatusServiceUnavailable || took != test.want {
				t.Errorf("mode %q, blocked for %v: %s after %v, not %v", test.mode, test.blocked, resp.Status, took, test.want)
			}
		}
	})
}

// TestManyThatWaitForOneSiteDontSilenceTheOthers: there is a bound for one site and one for all, the
// newest is refused, and whoever waits for another site has its answer.
func TestManyThatWaitForOneSiteDontSilenceTheOthers(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			<-release
		}
	}))
	defer slow.Close()
	defer close(release)
	quick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "quick") }))
	defer quick.Close()
	cfg := politeness.Config{UserAgent: agent, Base: Base()}
	cfg.Hosts.Concurrency = 1
	cfg.Hosts.MaxWait = time.Hour
	transport, err := politeness.New(cfg)
	must(t, err)
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	must(t, err)
	p := New(transport, nil)
	p.grace = time.Second
	run(t, p, l)
	proxy := l.Addr().String()
	refused := make(chan string, 2*maxWaitingOf)
	for i := range maxWaitingOf + 100 {
		conn, err := net.Dial("tcp", proxy)
		must(t, err)
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s/%d HTTP/1.1\r\nHost: x\r\n\r\n", slow.URL, i)
		go func() {
			first := make([]byte, 12)
			if _, err := io.ReadFull(conn, first); err == nil {
				refused <- string(first)
			}
		}()
	}
	for range 100 {
		if status := <-refused; status != "HTTP/1.1 503" {
			t.Fatal(status)
		}
	}
	resp := raw(t, "http://"+proxy, "GET "+quick.URL+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp.StatusCode != http.StatusOK {
		t.Errorf("another site: %s", resp.Status)
	}
	resp = raw(t, "http://"+proxy, "GET "+slow.URL+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp.Header.Get("Retry-After") == "" || !strings.Contains(resp.Header.Get("Proxy-Status"), "too many") {
		t.Errorf("the newest: %s %v", resp.Status, resp.Header)
	}
}
