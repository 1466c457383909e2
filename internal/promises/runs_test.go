package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
)

// runEnv is what a process of these tests does: the site, the directory of its state, the number of
// pages, the delay, and "end" if that counts from the end.
const runEnv = "POLITENESS_TEST_RUN"

// TestRunOfPages is the process of the tests below.
func TestRunOfPages(t *testing.T) {
	args := strings.Fields(os.Getenv(runEnv))
	if len(args) == 0 {
		return // it is the tests below that run this one
	}
	pages, err := strconv.Atoi(args[2])
	if err != nil {
		t.Fatal(err)
	}
	delay, err := time.ParseDuration(args[3])
	if err != nil {
		t.Fatal(err)
	}
	cfg := politeness.Config{UserAgent: agent, Base: stamped{&http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return stampedConn{conn}, err
		},
	}}}
	cfg.Hosts.Delay = hostlimit.Delay{Min: delay, Max: delay, Adaptive: hostlimit.Fixed}
	if args[4] == "end" {
		cfg.Hosts.Concurrency = 1
		cfg.Hosts.Delay.FromEnd = true
	}
	client := &http.Client{Transport: mustNew(t, cfg.WithState(args[1]))}
	for range pages {
		if _, err := fetch(t.Context(), client, args[0]+"/page"); err != nil {
			t.Fatal(err)
		}
	}
}

// Each request says when it was written, in place of unsent: the server of a busy machine reads it
// later.
const (
	sentHeader = "X-Sent"
	unsent     = "0000000000000000000" // nanoseconds
)

// stamped is a transport whose connections stamp the requests.
type stamped struct{ *http.Transport }

func (s stamped) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(sentHeader, unsent)
	return s.Transport.RoundTrip(req)
}

type stampedConn struct{ net.Conn }

func (c stampedConn) Write(p []byte) (int, error) {
	now := fmt.Appendf(nil, "%019d", time.Now().UnixNano())
	return c.Conn.Write(bytes.Replace(p, []byte(unsent), now, 1))
}

// A knock is a request to a doorLog.
type knock struct{ sent, came, ended time.Time }

// A doorLog is a site that stamps its requests, robots.txt included.
type doorLog struct {
	robots string
	takes  time.Duration

	mu     sync.Mutex
	knocks []*knock
}

func (d *doorLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	nanoseconds, err := strconv.ParseInt(r.Header.Get(sentHeader), 10, 64)
	if err != nil {
		panic(err)
	}
	k := &knock{sent: time.Unix(0, nanoseconds), came: time.Now()}
	d.mu.Lock()
	d.knocks = append(d.knocks, k)
	d.mu.Unlock()
	if r.URL.Path == "/robots.txt" {
		_, _ = io.WriteString(w, d.robots)
	}
	time.Sleep(d.takes)
	d.mu.Lock()
	k.ended = time.Now()
	d.mu.Unlock()
}

// gaps returns the longest that those between the requests can be: each from when a request was sent
// or, with fromEnd, from its end, until the next one has come.
func (d *doorLog) gaps(fromEnd bool) (gaps []time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.SortFunc(d.knocks, func(a, b *knock) int { return a.sent.Compare(b.sent) })
	for i := 1; i < len(d.knocks); i++ {
		since := d.knocks[i-1].sent
		if fromEnd {
			since = d.knocks[i-1].ended
		}
		gaps = append(gaps, d.knocks[i].came.Sub(since))
	}
	return gaps
}

// late is by how much later than its start a process may stamp and write a request. What a busy machine
// adds to that is measured beside the test.
const late = 120 * time.Millisecond

// begin starts a process that fetches pages.
func begin(t *testing.T, site, dir string, pages int, delay time.Duration, end bool) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunOfPages$", "-test.count=1")
	from := "start"
	if end {
		from = "end"
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %v %s", runEnv, site, dir, pages, delay, from))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestRunsArePacedAsOneByTheSitesLog: processes that begin when the one before has ended fetch a page
// each. With POLITENESS_LONG there are six of them.
func TestRunsArePacedAsOneByTheSitesLog(t *testing.T) {
	t.Parallel() // it waits in real time
	runs := 3
	if os.Getenv("POLITENESS_LONG") != "" {
		runs = 6
	}
	for _, c := range []struct {
		name   string
		robots string
		delay  time.Duration // Min and Max
		want   time.Duration
		end    bool
	}{
		{"a second", "", time.Second, time.Second, false},
		{"crawl-delay", "User-agent: *\nCrawl-delay: 2\n", time.Millisecond, 2 * time.Second, false},
		{"from the end", "", 3 * time.Second, 3 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site := &doorLog{robots: c.robots}
			if c.end {
				site.takes = 200 * time.Millisecond
			}
			server := httptest.NewServer(site)
			defer server.Close()
			dir := filepath.Join(t.TempDir(), "state")
			busy := lateness()
			for range runs {
				if err := begin(t, server.URL, dir, 1, c.delay, c.end).Wait(); err != nil {
					t.Fatal(err)
				}
			}
			slack := late + 3*busy()
			gaps := site.gaps(c.end)
			t.Logf("%v", gaps)
			if len(gaps) != runs { // robots.txt is fetched once
				t.Errorf("%d requests of %d runs", len(gaps)+1, runs)
			}
			for i, gap := range gaps {
				if gap < c.want-slack {
					t.Errorf("gap %d: %v, want %v (the machine is up to %v late)", i, gap, c.want, slack)
				}
			}
		})
	}
}

// TestKilledRunsArePacedAsOne: a process that is killed at any instant, and begun anew at once, is
// paced as one that goes on. With POLITENESS_LONG it is killed a hundred times.
func TestKilledRunsArePacedAsOne(t *testing.T) {
	t.Parallel() // it waits in real time
	kills := 10
	if os.Getenv("POLITENESS_LONG") != "" {
		kills = 100
	}
	const delay = time.Second // far more than what a busy machine adds
	site := &doorLog{}
	server := httptest.NewServer(site)
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "state")
	busy := lateness()
	for range kills {
		cmd := begin(t, server.URL, dir, 1000, delay, false)
		time.Sleep(rand.N(3 * delay))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	slack := late + 3*busy()
	gaps := site.gaps(false)
	short := 0
	for _, gap := range gaps {
		if gap < delay-slack {
			short++
			t.Errorf("a gap of %v, want %v (the machine is up to %v late)", gap, delay, slack)
		}
	}
	t.Logf("%d kills, %d requests, %d short", kills, len(gaps)+1, short)
}
