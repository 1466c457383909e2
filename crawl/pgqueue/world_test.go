package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/queuetest"
	"github.com/go-politeness/politeness/internal/pgtest"
)

// bouncer starts Debian's pgbouncer before a server for the time of a test.
func bouncer(t *testing.T, s *pgtest.Server, mode string) *pgtest.Bouncer {
	t.Helper()
	b, err := pgtest.StartBouncer(t.Context(), s, mode)
	if errors.Is(err, pgtest.ErrNoBouncer) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestQueueBehindPgbouncer holds what every Queue promises, with a pool between it and the server.
func TestQueueBehindPgbouncer(t *testing.T) {
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := bouncer(t, server, mode)
			queuetest.Run(t, func(t *testing.T) crawl.Queue {
				q, err := open(t.Context(), b.URL, t.Name(), 2*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(q.db.Close)
				return q
			})
		})
	}
}

// TestEachModeOfExecution: what people write into URLs of Postgres because of their pool works, with
// and without one.
func TestEachModeOfExecution(t *testing.T) {
	through := map[string]string{
		"direct":      server.URL,
		"session":     bouncer(t, server, "session").URL,
		"transaction": bouncer(t, server, "transaction").URL,
	}
	for name, base := range through {
		for _, mode := range []string{"", "cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				u := base
				if mode != "" {
					u += "&default_query_exec_mode=" + url.QueryEscape(mode)
				}
				q, err := Open(t.Context(), u, t.Name())
				if err != nil {
					t.Fatal(err)
				}
				crawlOnce(t, q, 30)
				if err := q.Clear(t.Context()); err != nil {
					t.Error(err)
				}
				if count, err := q.Count(t.Context()); err != nil || len(count) != 0 {
					t.Errorf("after Clear: %v (%v)", count, err)
				}
				if err := q.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// crawlOnce plays a crawl of n URLs, by each method that a crawl calls.
func crawlOnce(t *testing.T, q *Queue, n int) {
	t.Helper()
	reqs := numbered("a.example", n)
	reqs[1].Via = `https://a.example/it's "here"?\`
	reqs[1].From = `https://a.example/{NULL,"list"}`
	reqs[1].Data = "\x00\xff'\"\\é"
	reqs[1].Hops = 3
	reqs[1].Priority = 7
	reqs[1].Depth = 2
	if added, _, err := q.Add(t.Context(), reqs); err != nil || added != n {
		t.Errorf("%d of %d added (%v)", added, n, err)
		return
	}
	ended := 0
	for ended < n {
		if _, _, err := q.Hosts(t.Context(), 10); err != nil {
			t.Error(err)
			return
		}
		got, err := q.Take(t.Context(), []string{"a.example"}, 7)
		if err != nil {
			t.Error(err)
			return
		}
		if ended == 0 && (len(got) == 0 || got[0] != reqs[1]) {
			t.Errorf("the first is %+v, want %+v", got, reqs[1])
		}
		var results []crawl.Result
		for _, r := range got {
			results = append(results, crawl.Result{Request: r, Outcome: crawl.Visited, Status: 200})
		}
		if err := q.Done(t.Context(), results); err != nil {
			t.Error(err)
			return
		}
		ended += len(got)
	}
	if count, err := q.Count(t.Context()); err != nil || count[crawl.Visited] != n || len(count) != 1 {
		t.Errorf("count: %v (%v)", count, err)
	}
}

// A trouble keeps statements from succeeding until it ends.
type trouble struct {
	name  string
	begin func(ctx context.Context, t *testing.T, s *pgtest.Server, admin *pgx.Conn)
	end   func(ctx context.Context, t *testing.T, s *pgtest.Server, admin *pgx.Conn)
}

func exec(ctx context.Context, t *testing.T, db *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(ctx, s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

var troubles = []trouble{
	{
		"the server only reads", // as one that has become a standby
		func(ctx context.Context, t *testing.T, _ *pgtest.Server, admin *pgx.Conn) {
			exec(ctx, t, admin, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
		},
		func(ctx context.Context, t *testing.T, _ *pgtest.Server, admin *pgx.Conn) {
			exec(ctx, t, admin, "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
		},
	},
	{
		"locks that aren't had in time",
		func(ctx context.Context, t *testing.T, _ *pgtest.Server, admin *pgx.Conn) {
			exec(ctx, t, admin, "ALTER SYSTEM SET lock_timeout = '100ms'", "SELECT pg_reload_conf()",
				"BEGIN", "LOCK TABLE politeness_url, politeness_host, politeness_worker IN ACCESS EXCLUSIVE MODE")
		},
		func(ctx context.Context, t *testing.T, _ *pgtest.Server, admin *pgx.Conn) {
			exec(ctx, t, admin, "ROLLBACK", "ALTER SYSTEM RESET lock_timeout", "SELECT pg_reload_conf()")
		},
	},
	{
		"statements that are cancelled",
		func(ctx context.Context, t *testing.T, _ *pgtest.Server, admin *pgx.Conn) {
			exec(ctx, t, admin, "ALTER SYSTEM SET statement_timeout = '100ms'", "SELECT pg_reload_conf()",
				"BEGIN", "LOCK TABLE politeness_url, politeness_host, politeness_worker IN ACCESS EXCLUSIVE MODE")
		},
		func(ctx context.Context, t *testing.T, _ *pgtest.Server, admin *pgx.Conn) {
			exec(ctx, t, admin, "ROLLBACK", "ALTER SYSTEM RESET statement_timeout", "SELECT pg_reload_conf()")
		},
	},
	{
		"the server is away",
		func(_ context.Context, _ *testing.T, s *pgtest.Server, _ *pgx.Conn) { s.Kill() },
		func(ctx context.Context, t *testing.T, s *pgtest.Server, _ *pgx.Conn) {
			if err := s.Restart(ctx); err != nil {
				t.Error(err)
			}
		},
	},
}

// TestACrawlOutlastsTroubleOfThreeSeconds: each method waits for the end of what a failover, an
// operator or a pool does to it, with and without pgbouncer.
func TestACrawlOutlastsTroubleOfThreeSeconds(t *testing.T) {
	for _, mode := range []string{"direct", "session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			own, err := pgtest.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := own.Stop(); err != nil {
					t.Error(err)
				}
			}()
			url := own.URL
			if mode != "direct" {
				url = bouncer(t, own, mode).URL
			}
			for _, trouble := range troubles {
				t.Run(trouble.name, func(t *testing.T) { outlast(t, own, url, trouble) })
			}
		})
	}
}

// outlast calls each method during a trouble, each by a crawl of its own.
func outlast(t *testing.T, own *pgtest.Server, url string, trouble trouble) {
	methods := map[string]func(q *Queue, lent crawl.Request) error{
		"Add": func(q *Queue, _ crawl.Request) error {
			_, _, err := q.Add(t.Context(), []crawl.Request{{URL: "https://b.example/", Host: "b.example"}})
			return err
		},
		"Hosts": func(q *Queue, _ crawl.Request) error {
			_, _, err := q.Hosts(t.Context(), 10)
			return err
		},
		"Take": func(q *Queue, _ crawl.Request) error {
			_, err := q.Take(t.Context(), []string{"a.example"}, 2)
			return err
		},
		"Done": func(q *Queue, lent crawl.Request) error {
			return q.Done(t.Context(), []crawl.Result{{Request: lent, Outcome: crawl.Visited, Status: 200}})
		},
		"Count": func(q *Queue, _ crawl.Request) error {
			_, err := q.Count(t.Context())
			return err
		},
	}
	queues := make(map[string]*Queue)
	lent := make(map[string]crawl.Request)
	for name := range methods {
		q, err := open(t.Context(), url, t.Name()+name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		add(t, q, numbered("a.example", 10)...)
		if hosts, _, err := q.Hosts(t.Context(), 10); err != nil || len(hosts) != 1 {
			t.Fatal(hosts, err)
		}
		got, err := q.Take(t.Context(), []string{"a.example"}, 1)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		queues[name] = q
		lent[name] = got[0]
	}
	admin, err := pgx.Connect(t.Context(), own.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context()))
	exec(t.Context(), t, admin, "SET default_transaction_read_only = off") // a session's own setting stands
	trouble.begin(t.Context(), t, own, admin)
	var calls sync.WaitGroup
	for name, method := range methods {
		calls.Go(func() {
			if err := method(queues[name], lent[name]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	time.Sleep(3 * time.Second)
	trouble.end(t.Context(), t, own, admin)
	calls.Wait()
}

// TestAnswersThatPass: whether a further try may help is known by the class of an error, as Postgres
// and its pools have more codes than any list.
func TestAnswersThatPass(t *testing.T) {
	for code, want := range map[string]bool{
		"25006": true, "25P03": true, "25P04": true, "40001": true, "40P01": true, "40003": true, "53300": true, "53400": true,
		"55P03": true, "57014": true, "57P01": true, "57P02": true, "57P03": true, "57P05": true, "58030": true, "08006": true, "08P01": true, "57P99": true,
		"57P04": false, "42P01": false, "42501": false, "23505": false, "28P01": false, "3D000": false, "25P02": false, "22P02": false, "": false, "4": false,
	} {
		if got := passing(fmt.Errorf("in a transaction: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
}

// TestAWrongURLIsAnErrorAtOnce: no waiting mends it.
func TestAWrongURLIsAnErrorAtOnce(t *testing.T) {
	began := time.Now()
	_, err := Open(t.Context(), strings.Replace(server.URL, "/postgres?", "/nothing?", 1), "wrong")
	if err == nil || !strings.Contains(err.Error(), "nothing") || time.Since(began) > 30*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// TestProcessesShareAPool: the transactions of several processes are mixed by pgbouncer, so that a
// connection to the server has the prepared statements of one and not of another.
func TestProcessesShareAPool(t *testing.T) {
	b := bouncer(t, server, "transaction")
	var processes sync.WaitGroup
	for i := range 6 {
		processes.Go(func() {
			q, err := Open(t.Context(), b.URL, fmt.Sprint(t.Name(), i))
			if err != nil {
				t.Error(err)
				return
			}
			crawlOnce(t, q, 200)
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
}
