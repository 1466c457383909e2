package redislimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestProcessesThatDifferAreNamed: two processes of one fleet with other limits, and two on other
// databases of one server. Each hears of the other by itself, and Check of each names it.
func TestProcessesThatDifferAreNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		database int
		delay    time.Duration
		want     [2]string // of what each says about the other
	}{
		"limits":   {0, 2 * time.Millisecond, [2]string{"Delay.Min 2ms (here 1ms)", "Delay.Min 1ms (here 2ms)"}},
		"database": {1, time.Millisecond, [2]string{"Database 1 (here 0)", "Database 0 (here 1)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := ownServer(t)
			var seen [2]events
			var fleet [2]*Limiter
			for i, c := range []struct {
				database int
				delay    time.Duration
			}{{0, time.Millisecond}, {tt.database, tt.delay}} {
				client := redis.NewClient(&redis.Options{Addr: s.Addr, DB: c.database, ReadTimeout: patience})
				t.Cleanup(func() { _ = client.Close() })
				l, err := newLimiter(Config{
					Client: client, Name: fmt.Sprint("crawler ", i), OnFailure: seen[i].add,
					Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: c.delay}},
				}, 0, born())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				acquire(t, l, "a.example", 0).Release()
				fleet[i] = l
			}
			for i, l := range fleet {
				want := fmt.Sprintf("process %q has %s", fmt.Sprint("crawler ", 1-i), tt.want[i])
				if e := seen[i].await(t, 1); !strings.HasPrefix(e.Differs, want) || !strings.Contains(e.String(), want) || e.Err != nil {
					t.Errorf("crawler %d: %+v, want %q", i, e, want)
				}
				problems, err := l.Check(t.Context())
				if err != nil || len(problems) != 1 || !strings.HasPrefix(problems[0], want) {
					t.Errorf("crawler %d: Check = %q, %v, want %q", i, problems, err, want)
				}
			}
		})
	}
}

// TestAnOperatorsToolDiffersFromNobody: it has no limits to compare.
func TestAnOperatorsToolDiffersFromNobody(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	var seen events
	crawler := newFleet(t, s, Config{Prefix: "x:", OnFailure: seen.add, Limits: hostlimit.Config{Concurrency: 3}}, 1)[0]
	acquire(t, crawler, "a.example", 0).Release()
	tool, err := New(Config{Client: newClient(t, s), Prefix: crawler.conf.Prefix, Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	if problems, err := tool.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("Check = %q, %v", problems, err)
	}
	fleet, err := tool.Fleet(t.Context())
	if err != nil || len(fleet.Processes) != 1 || !strings.Contains(fleet.Processes[0].Promises, "Concurrency 3;") ||
		!strings.Contains(fleet.Processes[0].Promises, "Override false;") {
		t.Errorf("Fleet = %+v, %v", fleet, err)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.list) > 0 {
		t.Errorf("the crawler reports %v", seen.list)
	}
}

// TestCheckSaysWhatTheACLForbids: a command, the script, the keys, or a channel of those that a
// Limiter needs. Without one of them nothing starts, or pushes don't come.
func TestCheckSaysWhatTheACLForbids(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	admin := newClient(t, s)
	all := []string{"on", ">secret", "~politeness:*", "&politeness:*", "+@all"}
	for name, rules := range map[string][]string{
		"":              nil,
		"no script":     {"-evalsha", "-eval"},
		"no write":      {"-hset"},
		"no publish":    {"-publish"},
		"other keys":    {"resetkeys", "~else:*"},
		"no subscribe":  {"-subscribe"},
		"other channel": {"resetchannels", "&else:*"},
	} {
		user := "user" + strings.ReplaceAll(name, " ", "")
		if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", user}, anys(append(all[:len(all):len(all)], rules...))...)...).Err(); err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(&redis.Options{Addr: s.Addr, Username: user, Password: "secret", ReadTimeout: patience})
		defer client.Close()
		l, err := newLimiter(Config{Client: client}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		problems, err := l.Check(t.Context())
		said := strings.Join(problems, "\n")
		if forbidden := strings.Contains(said, "refuses what every Limiter asks") || strings.Contains(said, "doesn't reach it"); err != nil || forbidden != (name != "") {
			t.Errorf("%q: %q, %v", name, problems, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		lease, err := l.Acquire(ctx, "a.example", 0)
		if cancel(); err == nil {
			lease.Release()
		}
		if name == "" && err != nil {
			t.Errorf("%q: %v", name, err)
		} else if errors.Is(err, ErrUnavailable) && len(problems) == 0 {
			t.Errorf("%q: nothing starts, and Check says nothing: %v", name, err)
		}
	}
}

func anys(list []string) (all []any) {
	for _, s := range list {
		all = append(all, s)
	}
	return all
}

// TestAProcessThatBeginsQuietlySaysHello: it calls the server for the first time when its heartbeat
// has begun.
func TestAProcessThatBeginsQuietlySaysHello(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	var seen [2]events
	for i := range 2 {
		l, err := newLimiter(Config{
			Client: newClient(t, s), OnFailure: seen[i].add, Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Duration(i+1) * time.Millisecond}},
		}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		time.Sleep(2 * heartbeat) // reads its configuration
		acquire(t, l, "a.example", 0).Release()
	}
	for i := range 2 {
		if e := seen[i].await(t, 1); !strings.Contains(e.Differs, "Delay.Min") {
			t.Errorf("process %d: %+v", i, e)
		}
	}
}

// TestProcessesThatHaveGoneAreForgotten, and leave room for others to be reported.
func TestProcessesThatHaveGoneAreForgotten(t *testing.T) {
	t.Parallel()
	var seen events
	l := newFleet(t, shared, Config{OnFailure: seen.add}, 1)[0]
	settle(t, l, "a.example")
	eventually(t, time.Minute, "a hello", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.peers.helloed > 0
	})
	greet := func(from, to int) {
		l.mu.Lock()
		for i := from; i < to; i++ {
			l.greeted(&wire.Hello{ID: fmt.Sprint("process ", i), Name: "old", Promise: "Concurrency 77"}, false)
		}
		l.mu.Unlock()
		l.reportEvents()
	}
	next := func() { // as if the time between two hellos were over
		l.mu.Lock()
		l.peers.helloed = 0
		l.mu.Unlock()
		eventually(t, time.Minute, "a hello", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.peers.helloed > 0
		})
	}
	greet(0, mostPeers+5)
	next()
	greet(0, 1) // the only one that answers
	next()
	l.mu.Lock()
	n := len(l.peers.differ) + len(l.peers.before)
	l.mu.Unlock()
	if n != 1 {
		t.Errorf("%d processes are remembered", n)
	}
	greet(100, 101)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.list) != mostPeers+1 {
		t.Errorf("%d events", len(seen.list))
	}
}
