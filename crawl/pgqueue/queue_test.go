package pgqueue

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/queuetest"
	"github.com/go-politeness/politeness/internal/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) {
	if database := os.Getenv(envDatabase); database != "" {
		if err := crawler(context.Background(), database, strings.Fields(os.Getenv(envURLs))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var err error
	if server, err = pgtest.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// process opens a crawl for one more process, whose lease is short. It isn't closed: a process of a
// test ends as at a kill.
func process(t *testing.T, lease time.Duration) *Queue {
	t.Helper()
	q, err := open(t.Context(), server.URL, t.Name(), lease)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.db.Close)
	return q
}

// TestQueue holds what every Queue promises.
func TestQueue(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) crawl.Queue { return process(t, 2*time.Second) })
}

// add adds requests, all of them new.
func add(t *testing.T, q *Queue, reqs ...crawl.Request) {
	t.Helper()
	if added, _, err := q.Add(t.Context(), reqs); err != nil || added != len(reqs) {
		t.Fatalf("%d of %d added (%v)", added, len(reqs), err)
	}
}

func numbered(host string, n int) (reqs []crawl.Request) {
	for i := range n {
		reqs = append(reqs, crawl.Request{URL: fmt.Sprintf("https://%s/%d", host, i), Host: host})
	}
	return reqs
}

// TestCrawlsAreApart: two crawls in one database have the same URLs, each for itself.
func TestCrawlsAreApart(t *testing.T) {
	for _, name := range []string{"one", "other"} {
		q, err := Open(t.Context(), server.URL, name)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		add(t, q, numbered("a.example", 3)...)
		if hosts, open, err := q.Hosts(t.Context(), 10); err != nil || len(hosts) != 1 || open {
			t.Errorf("hosts %q, open %v (%v)", hosts, open, err)
		}
		got, err := q.Take(t.Context(), []string{"a.example"}, 2)
		if err != nil || len(got) != 2 {
			t.Errorf("taken: %v (%v)", got, err)
		}
		if err := q.Done(t.Context(), []crawl.Result{{Request: got[0], Outcome: crawl.Visited, Status: 200}}); err != nil {
			t.Fatal(err)
		}
		count, err := q.Count(t.Context())
		if err != nil || count[crawl.Visited] != 1 || count[crawl.Left] != 2 {
			t.Errorf("count: %v (%v)", count, err)
		}
		if name == "other" {
			if err := q.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			if count, err := q.Count(t.Context()); err != nil || len(count) != 0 {
				t.Errorf("after Clear: %v (%v)", count, err)
			}
		}
	}
	q, err := Open(t.Context(), server.URL, "one")
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if count, err := q.Count(t.Context()); err != nil || count[crawl.Left] != 2 {
		t.Errorf("the first crawl has %v (%v)", count, err)
	}
}

// A proxy stands before the server. It may hold back what the server answers.
type proxy struct {
	url    string
	silent atomic.Bool  // it copies nothing, and closes nothing
	delay  atomic.Int64 // of each answer
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	cfg, err := pgx.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &proxy{url: strings.Replace(server.URL, fmt.Sprint(":", cfg.Port), fmt.Sprint(":", l.Addr().(*net.TCPAddr).Port), 1)}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			back, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)))
			if err != nil {
				client.Close()
				return
			}
			t.Cleanup(func() { client.Close(); back.Close() })
			go p.copy(back, client, false)
			go p.copy(client, back, true)
		}
	}()
	return p
}

func (p *proxy) copy(to, from net.Conn, answers bool) {
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		for p.silent.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		if answers {
			time.Sleep(time.Duration(p.delay.Load()))
		}
		if _, writeErr := to.Write(b[:n]); err != nil || writeErr != nil {
			to.Close()
			return
		}
	}
}

// TestASilentNetworkHoldsNoCallForLong: a call ends although its connection is neither answered nor
// closed, and goes on where the network comes back.
func TestASilentNetworkHoldsNoCallForLong(t *testing.T) {
	p := newProxy(t)
	q, err := open(t.Context(), p.url, t.Name(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer q.db.Close()
	add(t, q, numbered("a.example", 3)...)
	q.outage, q.try = 3*time.Second, 500*time.Millisecond
	p.silent.Store(true)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { _, _, err := q.Hosts(context.WithoutCancel(t.Context()), 10); ended <- err }()
	select {
	case err := <-ended:
		if err == nil || time.Since(began) < q.outage {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
	}
	time.AfterFunc(time.Second, func() { p.silent.Store(false) })
	q.outage = 20 * time.Second
	if hosts, _, err := q.Hosts(context.WithoutCancel(t.Context()), 10); err != nil || len(hosts) != 1 {
		t.Errorf("the network is back: %q, %v", hosts, err)
	}
}

// TestTheLeaseEndsHereFirst: a process takes its lease to end no later than the server does, also
// where it is paused, or its network slow, while it renews the lease.
func TestTheLeaseEndsHereFirst(t *testing.T) {
	p := newProxy(t)
	q, err := open(t.Context(), p.url, t.Name(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer q.db.Close()
	for _, what := range []string{"begun", "renewed"} {
		p.delay.Store(int64(400 * time.Millisecond))
		if _, _, err := q.Hosts(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		p.delay.Store(0)
		var until time.Time
		if err := q.db.QueryRow(t.Context(), "SELECT until FROM politeness_worker WHERE id = $1", q.id).Scan(&until); err != nil {
			t.Fatal(err)
		}
		if early := until.Sub(q.until); early < q.lease/10 {
			t.Errorf("%s: the lease ends %v earlier here, want %v", what, early, q.lease/10)
		}
	}
}

// TestCloseGivesBackAtOnce: others needn't wait for the lease of a process that ends in order.
func TestCloseGivesBackAtOnce(t *testing.T) {
	one, two := process(t, time.Hour), process(t, time.Hour)
	add(t, one, numbered("a.example", 3)...)
	if hosts, _, err := one.Hosts(t.Context(), 10); err != nil || len(hosts) != 1 {
		t.Fatal(hosts, err)
	}
	if got, err := one.Take(t.Context(), []string{"a.example"}, 2); err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if hosts, _, err := two.Hosts(t.Context(), 10); err != nil || len(hosts) != 1 {
		t.Errorf("hosts %q (%v)", hosts, err)
	}
	if got, err := two.Take(t.Context(), []string{"a.example"}, 10); err != nil || len(got) != 3 {
		t.Errorf("taken: %v (%v)", got, err)
	}
}

// TestManyAddAtOnce: the same URLs, of the same hosts, while others take and end them. Nothing is
// counted twice, nothing deadlocks, and no host is given back as finished before its last URL.
func TestManyAddAtOnce(t *testing.T) {
	const processes, hosts, rounds, each = 6, 5, 20, 8
	var mu sync.Mutex
	added, visited := 0, make(map[string]int)
	var group sync.WaitGroup
	for p := range processes {
		q := process(t, 10*time.Second)
		group.Go(func() {
			for more, round := true, 0; more || round < rounds; round++ {
				var reqs []crawl.Request
				for h := range hosts {
					for i := range each {
						if round < rounds {
							host := fmt.Sprintf("h%d.example", (h+p)%hosts)
							reqs = append(reqs, crawl.Request{URL: fmt.Sprintf("https://%s/%d/%d", host, round, i), Host: host})
						}
					}
				}
				n, _, err := q.Add(t.Context(), reqs)
				if err != nil {
					t.Error(err)
					return
				}
				names, isOpen, err := q.Hosts(t.Context(), 10)
				if err != nil {
					t.Error(err)
					return
				}
				more = isOpen || len(names) > 0
				got, err := q.Take(t.Context(), names, 20)
				if err != nil {
					t.Error(err)
					return
				}
				var results []crawl.Result
				mu.Lock()
				added += n
				for _, r := range got {
					visited[r.URL]++
					results = append(results, crawl.Result{Request: r, Outcome: crawl.Visited})
				}
				mu.Unlock()
				if err := q.Done(t.Context(), results); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if want := hosts * rounds * each; added != want || len(visited) != want {
		t.Errorf("%d URLs: %d were added, %d visited", want, added, len(visited))
	}
	for url, n := range visited {
		if n != 1 {
			t.Errorf("%s was lent %d times", url, n)
		}
	}
}

// TestPostgresIsRestarted: a crawl outlasts that.
func TestPostgresIsRestarted(t *testing.T) {
	own, err := pgtest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	}()
	q, err := Open(t.Context(), own.URL, "crawl")
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	add(t, q, numbered("a.example", 10)...)
	if hosts, _, err := q.Hosts(t.Context(), 10); err != nil || len(hosts) != 1 {
		t.Fatal(hosts, err)
	}
	got, err := q.Take(t.Context(), []string{"a.example"}, 2)
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	own.Kill()
	restarted := make(chan error, 1)
	go func() {
		select {
		case <-time.After(2 * time.Second):
		case <-t.Context().Done():
		}
		restarted <- own.Restart(t.Context())
	}()
	if err := q.Done(t.Context(), []crawl.Result{{Request: got[0], Outcome: crawl.Visited}, {Request: got[1], Outcome: crawl.Left}}); err != nil {
		t.Errorf("Done while Postgres is away: %v", err)
	}
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	if hosts, _, err := q.Hosts(t.Context(), 10); err != nil || len(hosts) != 1 {
		t.Errorf("hosts %q (%v)", hosts, err)
	}
	if got, err := q.Take(t.Context(), []string{"a.example"}, 20); err != nil || len(got) != 9 {
		t.Errorf("%d taken (%v)", len(got), err)
	}
}
