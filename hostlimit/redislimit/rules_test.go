package redislimit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// A stage is one partition of a server whose hosts a test sets up by hand.
type stage struct {
	t      *testing.T
	l      *Limiter
	client *redis.Client
	keys   int
}

func newStage(t *testing.T, limits hostlimit.Config) *stage {
	s := &stage{t: t, l: newTest(t, shared, limits), client: newClient(t, shared)}
	settle(t, s.l, "first.example") // makes the generation
	return s
}

// calmStarts is the number of starts without a refusal after which a learned delay gets shorter.
const calmStarts = 20

// host returns a host that nobody knows.
func (s *stage) host() *host {
	s.keys++
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.l.host(fmt.Sprintf("%d.example", s.keys))
}

// run runs one operation, and returns the server's time and the operation's reply.
func (s *stage) run(name string, h *host, args ...any) (now int64, reply []any) {
	s.t.Helper()
	s.l.mu.Lock()
	c := s.l.parts[0].newCall([]op{{name: name, h: h, args: args}}, false)
	s.l.parts[0].calls--
	s.l.mu.Unlock()
	all, err := s.l.run(s.t.Context(), c.keys, c.payload)
	if err != nil {
		s.t.Fatal(err)
	}
	if number(all[2]) != 0 {
		s.t.Fatalf("the server has done nothing: %v", all)
	}
	reply, _ = all[replyHead].([]any)
	return number(all[0]), reply
}

// take is the operation of that name, as the first waiter of a process would ask.
func (s *stage) take(h *host, id string, seq int, delay int64, l *hostlimit.Limits) (now int64, reply []any) {
	s.t.Helper()
	return s.run("take", h, id, 1, seq, 2, -1, 0, 0, true, false, micros(l.Delay.Min), micros(l.Delay.Ceiling), delay, 0, false, 0, 0)
}

// set sets fields of h, numbers and texts.
func (s *stage) set(h *host, fields ...any) {
	s.t.Helper()
	s.l.mu.Lock()
	fields = append([]any{"g", s.l.parts[0].gen}, fields...)
	s.l.mu.Unlock()
	payload := string(appendValue(nil, fields))
	err := s.client.Eval(s.t.Context(), `
		local raw = redis.call('GET', KEYS[1])
		local h, f = raw and cmsgpack.unpack(raw) or {}, cmsgpack.unpack(ARGV[1])
		for i = 1, #f, 2 do h[f[i]] = f[i + 1] end
		redis.call('SET', KEYS[1], cmsgpack.pack(h), 'PX', 600000)`, []string{s.key(h)}, payload).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatal(err)
	}
}

func (s *stage) key(h *host) string { return s.l.parts[0].hostKey(h.key) }

// get returns a field of h, which is a number.
func (s *stage) get(h *host, field string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(stored(s.t, s.client, s.key(h), field), 10, 64)
	if err != nil {
		s.t.Fatal(field, err)
	}
	return n
}

// stored returns a field of what is stored of a host; 0 if there is none.
func stored(t *testing.T, client *redis.Client, key, field string) string {
	t.Helper()
	v, err := client.Eval(t.Context(), `
		local raw = redis.call('GET', KEYS[1])
		local v = raw and cmsgpack.unpack(raw)[ARGV[1]] or 0
		return type(v) == 'number' and string.format('%.0f', v) or v`, []string{key}, field).Text()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (s *stage) duration(h *host, field string) time.Duration {
	return time.Duration(s.get(h, field)) * time.Microsecond
}

func someTime(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)/1000)) * time.Microsecond
}

// TestScriptAdaptsAsTheRules: what an answer does to the delay by response times is computed by the
// server, from what the delay is by then, and is what the rules compute.
func TestScriptAdaptsAsTheRules(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	r := rand.New(rand.NewPCG(14, 1))
	for range 300 {
		l := &hostlimit.Limits{Delay: hostlimit.Delay{Min: someTime(r, time.Second), Adaptive: []hostlimit.Adaptive{
			hostlimit.Squared, hostlimit.Proportional(5 * r.Float64()), hostlimit.Throttle(5 * r.Float64()),
			hostlimit.Longest(hostlimit.Squared, hostlimit.Proportional(r.Float64())), hostlimit.Longest(hostlimit.Proportional(1), hostlimit.Throttle(2)),
		}[r.IntN(5)]}}
		l.Delay.Ceiling = l.Delay.Min + someTime(r, 10*time.Second)
		old := someTime(r, l.Delay.Ceiling)
		o := hostlimit.Outcome{Status: 200 + 303*r.IntN(2), Latency: someTime(r, 5*time.Second)}
		atOnce, halfway, raise, _ := l.Delay.Adaptive.Move(&o)
		h := s.host()
		s.set(h, "ad", old.Microseconds())
		s.run("adapt", h, "1.1", micros(l.Delay.Min), micros(l.Delay.Ceiling), us(atOnce), us(halfway), raise)
		if got, want := s.duration(h, "ad"), l.Delay.Adapt(old, o); got < want || got > want+time.Microsecond {
			t.Errorf("%+v from %v by %+v: %v, the rules say %v", l, old, o, got, want)
		}
	}
}

// TestScriptLearnsAsTheRules: so is what a refusal teaches.
func TestScriptLearnsAsTheRules(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	r := rand.New(rand.NewPCG(14, 2))
	for range 300 {
		l := &hostlimit.Limits{Delay: hostlimit.Delay{Min: someTime(r, time.Second)}}
		l.Delay.Ceiling = l.Delay.Min + someTime(r, time.Minute)
		gap, since, starts := someTime(r, time.Minute), someTime(r, 10*time.Minute), r.Int64N(30)
		h := s.host()
		now, _ := s.run("peek", h, 0, 2, 0)
		s.set(h, "n", 50, "bn", 50-starts, "bg", now-since.Microseconds(), "l", now, "a", now+gap.Microseconds())
		asked, _ := s.run("observe", h, "1.1", 2, now+1, "refused", 0, "429", 5, 0, 1000, 1000, micros(l.Delay.Min), micros(l.Delay.Ceiling))
		since += time.Duration(asked-now) * time.Microsecond
		want := l.Delay.Learn(gap, since, starts)
		if got := s.duration(h, "le"); got < want-time.Microsecond || got > want {
			t.Errorf("%+v, gap %v, %d starts in %v: %v, the rules say %v", l, gap, starts, since, got, want)
		}
		if run := s.get(h, "n") - s.get(h, "bn"); run != 0 || s.get(h, "bg") != asked || s.get(h, "cn") != 50 {
			t.Errorf("%d starts counted after a refusal, since %d of %d, calm since %d", run, s.get(h, "bg"), asked, s.get(h, "cn"))
		}
		if gap := s.get(h, "a") - s.get(h, "l"); gap < s.get(h, "le") {
			t.Errorf("a delay of %d is learned, the gap that is running is %d", s.get(h, "le"), gap)
		}
	}
}

// TestScriptEasesAsTheRules: and how a learned delay gets shorter, by starts and by idle time.
func TestScriptEasesAsTheRules(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	r := rand.New(rand.NewPCG(14, 3))
	for i := range 300 {
		l := &hostlimit.Limits{Delay: hostlimit.Delay{Min: someTime(r, time.Second), Ceiling: time.Minute}}
		learned := l.Delay.Min + someTime(r, 10*time.Second) + time.Millisecond
		calm, idle := r.Int64N(2*calmStarts), someTime(r, 30*time.Minute)
		h := s.host()
		now, _ := s.run("peek", h, 0, 2, 0)
		at := now - idle.Microseconds()
		s.set(h, "n", 100, "cn", 100-calm, "bg", at-1000000, "bn", 95, "le", learned.Microseconds(), "l", at-1000, "a", at)
		id := fmt.Sprintf("p%d.1", i)
		asked, answer := s.take(h, id, 1, 1, l)
		idle += time.Duration(asked-now) * time.Microsecond
		want := learned
		for ; calm >= calmStarts && want > 0; calm -= calmStarts {
			want = l.Delay.Ease(want)
		}
		if text(answer[0]) != "GO" || max(duration(answer[3])-want, want-duration(answer[3])) > 2*time.Microsecond {
			t.Fatalf("%v after %d calm starts: %v, want the delay %v", learned, calm, answer, want)
		}
		counted := calm + 1 + int64(idle/l.Delay.Ceiling)
		if got := s.get(h, "n") - s.get(h, "cn"); s.duration(h, "le") > 0 && got != counted {
			t.Errorf("idle for %v: %d calm starts, want %d", idle, got, counted)
		}
		if run := s.get(h, "n") - s.get(h, "bn"); idle > l.Delay.Ceiling && run != 1 || idle <= l.Delay.Ceiling && run != 6 {
			t.Errorf("idle for %v: %d starts are counted", idle, run)
		}
		// A turn that never starts leaves all as it was.
		s.run("release", h, id, 2, 1, 0, 0)
		if s.get(h, "n") != 100 || s.duration(h, "le") > 0 && s.get(h, "n")-s.get(h, "cn") != calm {
			t.Errorf("after a turn without a start: n %d, %d calm starts, want %d", s.get(h, "n"), s.get(h, "n")-s.get(h, "cn"), calm)
		}
	}
}

// TestScriptKnowsTheHoursAsTheRules asks for the next start after blocks that end at any time.
func TestScriptKnowsTheHoursAsTheRules(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 4))
	for range 20 {
		var windows []hostlimit.Window
		for range 1 + r.IntN(3) {
			windows = append(windows, hostlimit.Window{From: someTime(r, 24*time.Hour), To: someTime(r, 24*time.Hour)})
		}
		s := newStage(t, hostlimit.Config{Windows: windows})
		isOpen := func(t time.Time) bool { return s.l.rules.Opens(t).Equal(t) }
		for range 20 {
			h := s.host()
			now, _ := s.run("peek", h, 0, 2, 0)
			until := now + someTime(r, 48*time.Hour).Microseconds()
			s.set(h, "b", until, "f", 1)
			_, reply := s.run("peek", h, 0, 2, 0)
			got := number(reply[0])
			block := time.UnixMicro(until)
			want := s.l.rules.Opens(block).UnixMicro()
			// Within the last moments of a window nothing starts, as it might be late.
			if got != want && (got < want || isOpen(block) && isOpen(block.Add(time.Second))) {
				t.Errorf("%v, blocked until %v: next start %v, want %v", windows, block.UTC(), time.UnixMicro(got).UTC(), time.UnixMicro(want).UTC())
			}
		}
	}
}

// TestAnOperationRunTwiceCountsOnce: a client repeats a call whose reply was lost.
func TestAnOperationRunTwiceCountsOnce(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	h, id, l := s.host(), "p.1", &hostlimit.Limits{Delay: hostlimit.Delay{Ceiling: time.Second}}
	s.take(h, id, 1, 0, l)
	now, again := s.take(h, id, 1, 0, l)
	if text(again[0]) != "OLD" {
		t.Errorf("a copy of a take is answered with %v", again)
	}
	s.take(h, id, 2, 0, l)
	state := func() (all [5]int64) {
		for i, field := range []string{"n", "bn", "cn", "fl", "ad"} {
			all[i] = s.get(h, field)
		}
		return all
	}
	for range 2 {
		s.run("adapt", h, id, 0, 1000000, 0, 500000, false)
		s.run("observe", h, id, 2, now, "failed", 0, "500", 5, 0, 1000, 1000, 0, 0)
		if got := state(); got != [5]int64{1, 0, 0, 1, 250000} {
			t.Errorf("starts, those before the counting began, those at the last shortening, failures, delay: %v", got)
		}
	}
	for range 2 {
		s.run("restore", h, true, 0, -1000, 5000000, "429", 2, 3, 70000, 8, 9000000)
		if got := state(); got != [5]int64{1, -7, 1, 3, 250000} {
			t.Errorf("after a loss: %v", got)
		}
	}
}

// TestWhatIsOwedOutlivesATurnThatIsUndone: a start that was let go and doesn't come takes no more
// back than its own gap.
func TestWhatIsOwedOutlivesATurnThatIsUndone(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	started, undone := "p.1", "p.2"
	for name, owe := range map[string]func(h *host, now int64){
		"the end of an attempt without an answer": func(h *host, now int64) {
			s.run("observe", h, started, 2, now, "failed", 0, "network", 5, 0, 1000, 1000, 0, 0)
		},
		"a longer delay by response times": func(h *host, now int64) { s.run("adapt", h, started, 0, 60000000, 5000000, -1, false) },
		"a learned delay": func(h *host, now int64) {
			s.run("observe", h, started, 2, now, "refused", 0, "429", 5, 0, 1000, 1000, 5000000, 60000000)
		},
		"what a process tells after a loss": func(h *host, now int64) { s.run("restore", h, true, 5000000, -1, -1, "", 0, 0, 0, 0, 0) },
	} {
		h := s.host()
		now, _ := s.run("peek", h, 0, 2, 0)
		s.set(h, "l", now, "a", now, "lo", undone, "pl", now-1000, "pa", now-1000, "n", 2,
			"L", []any{
				[]any{started, 1, 5000000, 0, 0, 0, 0, now + 60000000, now - 1000, 100, 2, ""},
				[]any{undone, 1, 0, 0, 0, 0, 0, now + 60000000, now, 100, 2, ""},
			})
		owe(h, now)
		s.run("release", h, undone, 2, 1, 0, 0)
		if owed := s.get(h, "a") - now; owed < 4900000 {
			t.Errorf("%s: after a turn that was undone, %d us are owed", name, owed)
		}
	}
}

// TestFailuresCountOverProcesses has many see a failure at once: one of them is the refusal.
func TestFailuresCountOverProcesses(t *testing.T) {
	const all = 12
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{
		Concurrency: all, Delay: hostlimit.Delay{Min: time.Millisecond}, Backoff: backoff.Refusals{Policy: backoff.Doubling{Start: time.Hour}, InARow: all},
	}}, 4)
	for round := range 3 {
		key := fmt.Sprintf("%d.example", round)
		var turns []turn
		for i := range all {
			turns = append(turns, acquire(t, fleet[i%len(fleet)], key, 0))
		}
		effects := make([]hostlimit.Effect, all)
		var wg sync.WaitGroup
		for i, turn := range turns {
			wg.Go(func() {
				effects[i] = turn.Observe(hostlimit.Outcome{Status: 403})
				turn.Release()
			})
		}
		wg.Wait()
		blocked := 0
		for _, e := range effects {
			if e.Blocked {
				blocked++
			}
		}
		if blocked != 1 {
			t.Errorf("%d failures at once, InARow %d: %+v", all, all, effects)
		}
	}
}

// settle waits until the server has had all that l has to tell of a key.
func settle(t *testing.T, l *Limiter, key string) {
	t.Helper()
	if _, err := l.Next(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
}

// TestASuccessElsewhereEndsARow: one process fails, while another is served.
func TestASuccessElsewhereEndsARow(t *testing.T) {
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 8, Delay: hostlimit.Delay{Min: time.Millisecond}}}, 2)
	fail := func() hostlimit.Effect {
		turn := acquire(t, fleet[0], "a.example", 0)
		defer turn.Release()
		return turn.Observe(hostlimit.Outcome{Status: 500})
	}
	served := acquire(t, fleet[1], "a.example", 0) // before there was a failure
	for range 4 {
		fail()
	}
	served.Observe(hostlimit.Outcome{Status: 200})
	served.Release()
	settle(t, fleet[1], "a.example")
	for i := range 5 {
		if e := fail(); e.Blocked != (i == 4) {
			t.Errorf("failure %d in a row: %+v", i+1, e)
		}
	}
}

// TestALearnedDelayIsEverybodys: so are the starts that make it shorter.
func TestALearnedDelayIsEverybodys(t *testing.T) {
	const least = 10 * time.Millisecond
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: least}}}, 3)
	refused := acquire(t, fleet[0], "a.example", 0)
	refused.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Millisecond})
	refused.Release()
	var first time.Duration
	for i := range 42 {
		turn := acquire(t, fleet[i%3], "a.example", 0)
		if i == 0 { // as much longer as the starts before were rarer
			first = max(least*3/2, turn.Delay)
		}
		want := first
		for range i / calmStarts {
			want -= want / 50
		}
		if turn.Delay < want || turn.Delay > want+2*time.Microsecond || turn.DelaySource != "learned" {
			t.Errorf("start %d after a refusal: %v by %q, want %v", i+1, turn.Delay, turn.DelaySource, want)
		}
		turn.Observe(hostlimit.Outcome{Status: 200})
		turn.Release()
		settle(t, fleet[i%3], "a.example")
	}
}

// TestTheEndIsEverybodys: with FromEnd, all processes count from the Release of one.
func TestTheEndIsEverybodys(t *testing.T) {
	const delay = 40 * time.Millisecond
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: delay, FromEnd: true}}}, 3)
	var mu sync.Mutex
	var ended time.Time
	var wg sync.WaitGroup
	for _, l := range fleet {
		wg.Go(func() {
			for range 4 {
				turn := acquire(t, l, "a.example", 0)
				mu.Lock()
				if gap := turn.Start.Sub(ended); !ended.IsZero() && gap < delay {
					t.Errorf("a start %v after the end of the one before", gap)
				}
				mu.Unlock()
				time.Sleep(delay / 2)
				turn.Observe(hostlimit.Outcome{Status: 200})
				mu.Lock()
				ended = time.Now()
				mu.Unlock()
				turn.Release()
			}
		})
	}
	wg.Wait()
	// A lease that is never released ends when it is taken back.
	leaky := newTest(t, shared, hostlimit.Config{
		Concurrency: 1, LeaseTTL: 4 * delay, Delay: hostlimit.Delay{Min: delay, FromEnd: true},
	})
	first := acquire(t, leaky, "a.example", 0)
	if next := acquire(t, leaky, "a.example", 0); next.Start.Sub(first.Start) < 5*delay {
		t.Errorf("a start %v after that of a lease which was taken back after %v", next.Start.Sub(first.Start), 4*delay)
	}
}

// TestWhatIsLearnedSurvivesALoss empties the server: failures in a row, a learned delay, what
// set a block and the end of a request are told again.
func TestWhatIsLearnedSurvivesALoss(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	fleet := newFleet(t, s, Config{Limits: hostlimit.Config{
		Delay: hostlimit.Delay{Min: 200 * time.Millisecond}, Backoff: backoff.Doubling{Start: time.Hour}, MaxWait: time.Minute,
		Override: func(key string) (hostlimit.Limits, bool) {
			return hostlimit.Limits{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Hour, FromEnd: true}}, key == "ended.example"
		},
	}}, 2)
	for _, l := range fleet {
		l.quarantine = quarantine
	}
	say := func(l *Limiter, key string, o hostlimit.Outcome) hostlimit.Effect {
		turn := acquire(t, l, key, 0)
		defer turn.Release()
		return turn.Observe(o)
	}
	for range 4 {
		say(fleet[0], "failing.example", hostlimit.Outcome{Status: 403})
	}
	say(fleet[0], "taught.example", hostlimit.Outcome{Status: 429, RetryAfter: time.Millisecond})
	say(fleet[0], "blocked.example", hostlimit.Outcome{Status: 200, Refused: "a captcha"})
	open := acquire(t, fleet[0], "ended.example", 0)
	time.Sleep(20 * time.Millisecond)
	open.Release()
	ended := time.Now()
	settle(t, fleet[0], "ended.example")
	client := newClient(t, s)
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if turn := acquire(t, fleet[1], "taught.example", 0); turn.Delay < 300*time.Millisecond || turn.DelaySource != "learned" || !turn.Probe {
		t.Errorf("after the loss: %+v", turn.Grant)
	}
	if e := say(fleet[1], "failing.example", hostlimit.Outcome{Status: 403}); !e.Blocked || e.Refusals != 1 {
		t.Errorf("after the loss, the fifth failure did %+v", e)
	}
	if c := stored(t, client, fleet[0].parts[0].hostKey("blocked.example"), "c"); c != "refused" {
		t.Errorf("after the loss, a host is blocked by %q", c)
	}
	if next, err := fleet[1].Next(t.Context(), "ended.example", 0); err != nil || next.Before(ended.Add(time.Hour-time.Second)) {
		t.Errorf("after the loss, the next start is %v, %v; a request ended %v", next, err, ended)
	}
}
