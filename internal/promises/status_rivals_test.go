package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// A lockedBuffer collects what several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// logged returns what package log is given while f runs.
func logged(f func()) string {
	var out lockedBuffer
	log.SetOutput(&out)
	defer log.SetOutput(os.Stderr)
	f()
	return out.String()
}

func newPage(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "page")
	}))
	t.Cleanup(server.Close)
	return server
}

// hostsAsked counts the hosts that asked has named.
var hostsAsked atomic.Int64

// asked returns a URL of server whose host nobody has asked before, and a Base that leads there. The
// notice is of host and port, and the port may be that of a server of a test that is over.
func asked(t *testing.T, server *httptest.Server) (url string, base *http.Transport) {
	t.Helper()
	base = &http.Transport{DialContext: dialsTo(server)}
	t.Cleanup(base.CloseIdleConnections)
	return fmt.Sprintf("http://asked%d.example/", hostsAsked.Add(1)), base
}

// crowdOn makes n Transports of cfg, one for each goroutine, and lets each fetch a page.
func crowdOn(t *testing.T, url string, n int, cfg politeness.Config) []*politeness.Transport {
	t.Helper()
	all := make([]*politeness.Transport, n)
	var group sync.WaitGroup
	for i := range n {
		all[i] = mustNew(t, cfg)
		group.Go(func() {
			if status, err := fetch(t.Context(), &http.Client{Transport: all[i]}, url); err != nil || status != http.StatusOK {
				t.Errorf("status %d, error %v", status, err)
			}
		})
	}
	group.Wait()
	return all
}

func TestTransportsThatShareNothingAreNoticedOnce(t *testing.T) {
	quick := hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}}
	t.Run("console", func(t *testing.T) {
		url, base := asked(t, newPage(t))
		var console lockedBuffer
		var all []*politeness.Transport
		text := logged(func() {
			all = crowdOn(t, url, 200, politeness.Config{UserAgent: agent, Base: base, Hosts: quick, Evidence: evidence.Console(&console)})
		})
		if n := strings.Count(console.String(), "two limiters"); n != 1 || !strings.Contains(console.String(), "share it") {
			t.Errorf("%d warnings: %s", n, console.String())
		}
		if text != "" {
			t.Errorf("package log has %q as well", text)
		}
		warned := 0
		for _, tr := range all {
			if strings.Contains(tr.Status(t.Context()).Warning, "same Config.Limiter") {
				warned++
			}
		}
		if warned != 2 {
			t.Errorf("%d status pages have the warning, want those of the two", warned)
		}
	})
	t.Run("package log", func(t *testing.T) {
		url, base := asked(t, newPage(t))
		text := logged(func() { crowdOn(t, url, 200, politeness.Config{UserAgent: agent, Base: base, Hosts: quick}) })
		if strings.Count(text, "\n") != 1 || !strings.Contains(text, "Transport.Over") || !strings.Contains(text, strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")) {
			t.Errorf("package log: %q, want one line", text)
		}
	})
	t.Run("one after the other", func(t *testing.T) {
		url, base := asked(t, newPage(t))
		text := logged(func() {
			for range 5 {
				crowdOn(t, url, 1, politeness.Config{UserAgent: agent, Base: base, Hosts: quick})
			}
		})
		if strings.Count(text, "\n") != 1 {
			t.Errorf("package log: %q, want one line", text)
		}
	})
}

func TestTransportsThatShareOrUseNoSocketsAreNotNoticed(t *testing.T) {
	quick := hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}}
	hosts, err := memory.New(quick)
	if err != nil {
		t.Fatal(err)
	}
	server := newPage(t)
	other := newPage(t)
	url, base := asked(t, server)
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Page("/", "page")
	for name, f := range map[string]func(t *testing.T){
		"one limiter": func(t *testing.T) {
			crowdOn(t, url, 5, politeness.Config{UserAgent: agent, Base: base, Limiter: hosts})
		},
		"one limiter in a wrapper": func(t *testing.T) {
			crowdOn(t, url, 1, politeness.Config{UserAgent: agent, Base: base, Limiter: hosts})
			crowdOn(t, url, 1, politeness.Config{UserAgent: agent, Base: base, Limiter: &wrappedLimiter{hosts}})
		},
		"a fake web": func(t *testing.T) {
			crowdOn(t, "https://example.com/", 5, politeness.Config{UserAgent: agent, Hosts: quick, Base: web})
		},
		"one transport over two": func(t *testing.T) {
			tr := mustNew(t, politeness.Config{UserAgent: agent, Base: base, Limiter: hosts})
			for range 2 {
				client := &http.Client{Transport: tr.Over(&http.Transport{DialContext: dialsTo(server), DisableKeepAlives: true})}
				if _, err := fetch(t.Context(), client, url); err != nil {
					t.Error(err)
				}
			}
		},
		"two servers by one name": func(t *testing.T) {
			name, here := asked(t, server)
			elsewhere := &http.Transport{DialContext: dialsTo(other)}
			crowdOn(t, name, 1, politeness.Config{UserAgent: agent, Hosts: quick, Base: here})
			crowdOn(t, name, 1, politeness.Config{UserAgent: agent, Hosts: quick, Base: elsewhere})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if text := logged(func() { f(t) }); text != "" {
				t.Errorf("package log: %s", text)
			}
		})
	}
}

type wrappedLimiter struct{ hostlimit.Limiter }

// dialsTo connects to server whatever host is asked for.
func dialsTo(server *httptest.Server) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
}
