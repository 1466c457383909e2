package redislimit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
)

func TestStatsTellWhatWasDone(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	l := newFleet(t, s, Config{Limits: oneSlot}, 1)[0]
	held := acquire(t, l, "a.example", 0)
	_, _ = l.Acquire(t.Context(), "a.example", 0)
	acquire(t, l, "slow.example", 8*time.Second).Release() // no slot is waited for there
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, _ = l.Acquire(ctx, "slow.example", 8*time.Second)
	held.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	_, _ = l.Acquire(t.Context(), "a.example", 0)
	st := l.Stats()
	if st.Refused["busy"] != 1 || st.Refused["cancelled"] != 1 || st.Refused["blocked"] != 1 || st.InFlight != 1 || st.Calls < 4 || st.Guard <= 0 || st.Down {
		t.Errorf("%+v", st)
	}
	if err := newClient(t, s).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	settle(t, l, "a.example")
	if st := l.Stats(); st.Quarantines != 1 || st.Stale < 1 || st.Stale > 99 {
		t.Errorf("after a loss: %+v", st)
	}
	held.Release()
}

// TestStatsCountEachRefusal, also those without a call of the server, and no turn that was had.
func TestStatsCountEachRefusal(t *testing.T) {
	t.Parallel()
	for _, f := range []Failure{FailClosed, FailLocal} {
		post := new(courier)
		l := newFleet(t, shared, Config{Failure: f, Processes: 2, Limits: oneSlot}, 1, post)[0]
		settle(t, l, "a.example")
		post.set(func(string, func() error) error { return errReset })
		for range 3 {
			lease, err := l.Acquire(t.Context(), "a.example", 0)
			if err == nil {
				lease.Release()
			}
		}
		want := map[Failure]uint64{FailClosed: 3, FailLocal: 0}[f]
		if st := l.Stats(); st.Refused["unavailable"] != want || len(st.Refused) > 1 {
			t.Errorf("Failure %d: %v", f, st.Refused)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		_, _ = l.Acquire(t.Context(), "a.example", 0)
		if st := l.Stats(); st.Refused["draining"] != 1 {
			t.Errorf("Failure %d: %v", f, st.Refused)
		}
	}
}

// TestAFirstCallIsNoQuarantine, also where a process can go on without the server.
func TestAFirstCallIsNoQuarantine(t *testing.T) {
	t.Parallel()
	l := newFleet(t, shared, Config{Failure: FailLocal, Processes: 2, Limits: oneSlot}, 1)[0]
	acquire(t, l, "a.example", 0).Release()
	if st := l.Stats(); st.Quarantines != 0 {
		t.Errorf("%+v", st)
	}
}

// A scanner is a hook by which SCAN returns each key twice, as it may.
type scanner struct{ courier }

func (*scanner) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if c, ok := cmd.(*redis.ScanCmd); ok && err == nil {
			keys, cursor := c.Val()
			c.SetVal(append(keys, keys...), cursor)
		}
		return err
	}
}

func TestListYieldsAHostOnce(t *testing.T) {
	t.Parallel()
	l := newFleet(t, shared, Config{}, 1, new(scanner))[0]
	for _, key := range []string{"b.example", "a.example"} {
		acquire(t, l, key, 0).Release()
	}
	var keys []string
	for state, err := range l.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, state.Key)
	}
	if strings.Join(keys, " ") != "a.example b.example" {
		t.Error(keys)
	}
	for _, err := range l.List(t.Context()) {
		if err != nil {
			t.Error(err)
		}
		break // one is enough
	}
}

// TestStatsAreThoseOfTheMoment: of all partitions, the latency and the guard of the worst.
func TestStatsAreThoseOfTheMoment(t *testing.T) {
	h := idleHost(t, hostlimit.Config{})
	h.waiter(t, later)
	h.l.places.taken, h.l.down.parts, h.p.latency, h.p.clock = 2, 1, time.Millisecond, clock.Server{}
	if s := h.l.Stats(); s.Waiting != 1 || s.InFlight != 2 || !s.Down || s.Latency != time.Millisecond || s.Guard != h.p.guard.Allow(2*time.Millisecond) {
		t.Errorf("%+v", s)
	}
}

// A liar is a hook by which a server tells another time and version.
type liar struct {
	courier
	off     time.Duration
	slow    time.Duration // until it is asked for the time
	version string
}

func (h *liar) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, ok := cmd.(*redis.TimeCmd); ok {
			time.Sleep(h.slow)
		}
		err := next(ctx, cmd)
		switch c := cmd.(type) {
		case *redis.TimeCmd:
			c.SetVal(c.Val().Add(h.off))
		case *redis.InfoCmd:
			c.SetVal(map[string]map[string]string{"Server": {"redis_version": h.version}})
		}
		return err
	}
}

// TestCheckNamesAClockAndAVersion that a Limiter can't rely on.
func TestCheckNamesAClockAndAVersion(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		off, slow time.Duration
		version   string
		want      string // "": no problem
	}{
		{0, 0, "7.0.0", ""},
		{0, 0, "10.1.0", ""},
		{0, 0, "6.2.14", "version 6.2.14 is older than 7"},
		{time.Second, 1200 * time.Millisecond, "7.0.0", ""},
		{-time.Second, 0, "7.0.0", ""},
		{time.Hour, 0, "7.0.0", "its clock is off by 36"},
		{-time.Hour, 0, "7.0.0", "its clock is off by -3"},
	} {
		client := newClient(t, shared)
		client.AddHook(&liar{off: tc.off, slow: tc.slow, version: tc.version})
		l, err := idleLimiter(Config{Client: client}, 0, born())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		problems, err := l.checkNode(t.Context(), client)
		if all := strings.Join(problems, "\n"); err != nil || (all == "") != (tc.want == "") || !strings.Contains(all, tc.want) {
			t.Errorf("%v, %s: %q, %v", tc.off, tc.version, problems, err)
		}
	}
}

func TestCheckNamesWhatEndangersAFleet(t *testing.T) {
	t.Parallel()
	good := newFleet(t, ownServer(t), Config{}, 1)[0]
	if problems, err := good.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("a server without problems: %q, %v", problems, err)
	}
	host, port, _ := strings.Cut(shared.Addr, ":")
	s := ownServer(t, "--maxmemory-policy", "allkeys-lru", "--replicaof", host+" "+port)
	problems, err := newFleet(t, s, Config{}, 1)[0].Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(problems, "\n")
	for _, want := range []string{"maxmemory-policy is allkeys-lru", "is a replica", s.Addr} {
		if !strings.Contains(all, want) {
			t.Errorf("%q doesn't say %q", all, want)
		}
	}
	s.Kill()
	var server *ServerError
	if _, err := newFleet(t, s, Config{}, 1)[0].Check(t.Context()); !errors.As(err, &server) {
		t.Errorf("a server that is away: %v", err)
	}
}

// TestStateNamesWhatDecidesTheDelay of a host: what was learned, response times, or Config.Delay.
func TestStateNamesWhatDecidesTheDelay(t *testing.T) {
	t.Parallel()
	store := hostlimit.Dir(t.TempDir())
	_, err := store.Update(t.Context(), "learned", func(d hostlimit.Debt) hostlimit.Debt {
		d.Delay = 50 * time.Millisecond
		return d
	})
	if err != nil {
		t.Fatal(err)
	}
	learns := newTest(t, shared, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, Store: store})
	adapts := newTest(t, shared, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Adaptive: hostlimit.Throttle(1)}})
	for key, l := range map[string]*Limiter{"learned": learns, "random": learns, "adaptive": adapts} {
		turn := acquire(t, l, key, 0)
		if l == adapts {
			turn.Observe(hostlimit.Outcome{Status: 200, Latency: time.Second})
		}
		turn.Release()
		eventually(t, 10*time.Second, key, func() bool {
			st, err := l.State(t.Context(), key)
			return err == nil && st.DelaySource == key
		})
	}
	if st, err := learns.State(t.Context(), "unknown"); err != nil || st.DelaySource != "" || st.Starts != 0 {
		t.Errorf("a host that nobody has asked for: %+v, %v", st, err)
	}
}
