package redislimit

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
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

// host returns a host that nobody knows.
func (s *stage) host() *host {
	s.keys++
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.l.host(fmt.Sprintf("%d.example", s.keys))
}

// run runs one operation, and returns the server's time and the operation's answer.
func (s *stage) run(h *host, request wire.Request) (now int64, answer wire.Answer) {
	s.t.Helper()
	return s.runAgain(h, request, 0)
}

// runAgain is run for an operation that the call of number tried may have done.
func (s *stage) runAgain(h *host, request wire.Request, tried int64) (now int64, answer wire.Answer) {
	s.t.Helper()
	s.l.mu.Lock()
	c := s.l.parts[0].newCall([]op{{h: h, request: request, tried: tried}}, false)
	s.l.parts[0].sent.underWay--
	s.l.mu.Unlock()
	reply, err := s.l.run(s.t.Context(), c.keys, c.payload)
	if err != nil {
		s.t.Fatal(err)
	}
	if reply.Stale {
		s.t.Fatalf("the server has done nothing: %+v", reply)
	}
	answer = request.Answer()
	if err := wire.ReadAnswer(reply.Answers[0], answer); err != nil {
		s.t.Fatal(err)
	}
	return int64(reply.Now), answer
}

// looks returns the server's time, and the start of a newcomer to h.
func (s *stage) looks(h *host) (now int64, start wire.Micros) {
	s.t.Helper()
	now, answer := s.run(h, &wire.Peek{Slots: 2})
	return now, answer.(*wire.Peeked).At
}

// question is that of a first waiter of a process.
func question(id string, seq, delay int64, l *hostlimit.Limits) *wire.Take {
	return &wire.Take{ID: id, Seq: seq, Slots: 2, Longest: 1 << 30, Ceiling: micros(l.Delay.Ceiling), Delay: wire.Micros(delay)}
}

// take asks for a turn of h as the first waiter of a process.
func (s *stage) take(h *host, id string, seq, delay int64, l *hostlimit.Limits) (now int64, turn *wire.Turn) {
	s.t.Helper()
	now, answer := s.run(h, question(id, seq, delay, l))
	return now, answer.(*wire.Turn)
}

// write is the operation of that name, by the outcome of lease id: a refusal that makes the delay
// taught, if it isn't 0, or the end of an attempt without an answer.
func (s *stage) write(h *host, id string, version, taught int64, ended bool, owed int64) (now int64, changed *wire.Changed) {
	s.t.Helper()
	now, answer := s.run(h, &wire.Outcome{ID: id, Change: &wire.Change{
		Number: int64(crc32.ChecksumIEEE([]byte(id))), Version: version, Slots: 2, Rest: "a rest", Row: 1, Alone: true, Stay: 1000, Newly: true, Cause: "status 429",
		Learned: wire.Micros(taught), Taught: taught > 0, Blocked: true, Ended: ended, EndDelay: wire.Micros(owed),
	}})
	return now, answer.(*wire.Changed)
}

// set sets fields of h, numbers and texts.
func (s *stage) set(h *host, fields ...any) {
	s.t.Helper()
	s.l.mu.Lock()
	fields = append([]any{"g", s.l.parts[0].gen.name}, fields...)
	s.l.mu.Unlock()
	payload := packed(s.t, fields)
	err := s.client.Eval(s.t.Context(), `
		local raw = redis.call('GET', KEYS[1])
		local h, f = raw and cmsgpack.unpack(raw) or {}, cmsgpack.unpack(ARGV[1])
		for i = 1, #f, 2 do h[f[i]] = f[i + 1] end
		redis.call('SET', KEYS[1], cmsgpack.pack(h), 'PX', 600000)`, []string{s.key(h)}, payload).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatal(err)
	}
}

// packed returns v as step.lua reads it.
func packed(t *testing.T, v any) string {
	t.Helper()
	var out strings.Builder
	encoder := msgpack.NewEncoder(&out)
	encoder.SetOmitEmpty(true)
	if err := encoder.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.String()
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
			hostlimit.Longest(hostlimit.Squared, hostlimit.Slower(2)),
		}[r.IntN(6)]}}
		l.Delay.Ceiling = l.Delay.Min + someTime(r, 10*time.Second)
		old := someTime(r, l.Delay.Ceiling)
		o := hostlimit.Outcome{Status: 200 + 303*r.IntN(2), Latency: someTime(r, 5*time.Second)}
		usual := rules.Usual(&o, someTime(r, 3*time.Second))
		atOnce, halfway, raise, _ := l.Delay.Adaptive.Move(usual, &o)
		h := s.host()
		s.set(h, "ad", old.Microseconds())
		s.run(h, &wire.Outcome{ID: "1.1", Adapt: &wire.Adapt{
			Least: micros(l.Delay.Min), Most: micros(l.Delay.Ceiling), AtOnce: us(atOnce), Half: us(halfway), Longer: raise,
		}})
		if got, want := s.duration(h, "ad"), rules.Adapt(&l.Delay, old, usual, &o); got < want || got > want+time.Microsecond {
			t.Errorf("%+v from %v by %+v: %v, the rules say %v", l, old, o, got, want)
		}
	}
}

// TestScriptCountsStarts: the successes are counted from the first start, a lesson, or the start after
// an idle time; a turn that never starts leaves the number of starts as it was.
func TestScriptCountsStarts(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	r := rand.New(rand.NewPCG(14, 3))
	for i := range 100 {
		l := &hostlimit.Limits{Delay: hostlimit.Delay{Ceiling: time.Minute}}
		idle := someTime(r, 2*time.Minute)
		h := s.host()
		now, _ := s.looks(h)
		at := now - idle.Microseconds()
		s.set(h, "n", 100, "bg", at-1000000, "sv", 95, "l", at-1000, "a", at)
		id := fmt.Sprintf("p%d.1", i)
		asked, turn := s.take(h, id, 1, 1, l)
		idle += time.Duration(asked-now) * time.Microsecond
		if turn.Kind != wire.Go || s.get(h, "n") != 101 {
			t.Fatalf("%+v", turn)
		}
		if served := s.get(h, "sv"); idle > l.Delay.Ceiling && served != 0 || idle <= l.Delay.Ceiling && served != 95 {
			t.Errorf("idle for %v: %d successes are counted", idle, served)
		}
		for range 2 {
			s.run(h, &wire.Outcome{ID: id, Served: true})
		}
		if served := s.get(h, "sv"); served != 1 && served != 96 {
			t.Errorf("%d successes are counted after one more", served)
		}
		s.run(h, &wire.Release{ID: id, Slots: 2, Undone: true})
		if s.get(h, "n") != 100 {
			t.Errorf("after a turn without a start: n %d", s.get(h, "n"))
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
		isOpen := func(t time.Time) bool { return isOpen(windows, t) }
		for range 20 {
			h := s.host()
			now, _ := s.looks(h)
			until := now + someTime(r, 23*time.Hour).Microseconds() // a later one is cut to a day
			s.set(h, "b", until, "f", 1)
			_, start := s.looks(h)
			got := int64(start)
			block := time.UnixMicro(until)
			want := firstOpen(windows, block).UnixMicro()
			// Within the last moments of a window nothing starts, as it might be late.
			if got != want && (got < want || isOpen(block) && isOpen(block.Add(time.Second))) {
				t.Errorf("%v, blocked until %v: next start %v, want %v", windows, block.UTC(), time.UnixMicro(got).UTC(), time.UnixMicro(want).UTC())
			}
		}
	}
}

// isOpen reports whether one of the windows is open at t.
func isOpen(windows []hostlimit.Window, t time.Time) bool {
	at := t.Sub(t.Truncate(24 * time.Hour)) // from midnight UTC
	for _, w := range windows {
		afterBegin := w.From <= at
		beforeEnd := at < w.To
		spansMidnight := w.From > w.To
		if afterBegin && beforeEnd || spansMidnight && (afterBegin || beforeEnd) {
			return true
		}
	}
	return false
}

// firstOpen returns the first time from t on at which one of the windows is open: t, or the beginning
// of one of them on that day or the next.
func firstOpen(windows []hostlimit.Window, t time.Time) time.Time {
	if isOpen(windows, t) {
		return t
	}
	midnight := t.Truncate(24 * time.Hour)
	first := midnight.Add(1000 * time.Hour)
	for _, w := range windows {
		for _, begin := range []time.Time{midnight.Add(w.From), midnight.Add(24*time.Hour + w.From)} {
			if begin.After(t) && begin.Before(first) {
				first = begin
			}
		}
	}
	return first
}

// TestAnOperationRunTwiceCountsOnce: a client repeats a call whose reply was lost.
func TestAnOperationRunTwiceCountsOnce(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	h, id, l := s.host(), "p.1", &hostlimit.Limits{Delay: hostlimit.Delay{Ceiling: time.Second}}
	s.l.mu.Lock()
	take := question(id, 1, 0, l)
	c := s.l.parts[0].newCall([]op{{h: h, request: take}}, false)
	s.l.parts[0].sent.underWay--
	s.l.mu.Unlock()
	for _, want := range []wire.Kind{wire.Go, wire.Overtaken, wire.Overtaken} {
		reply, err := s.l.run(t.Context(), c.keys, c.payload)
		if err != nil {
			t.Fatal(err)
		}
		answer := take.Answer()
		if err := wire.ReadAnswer(reply.Answers[0], answer); err != nil || answer.Result().Kind != want {
			t.Errorf("%+v, %v, want %s", answer, err, want)
		}
	}
	state := func() (all [5]int64) {
		for i, field := range []string{"n", "sv", "f", "ad", "le"} {
			all[i] = s.get(h, field)
		}
		return all
	}
	for range 2 {
		s.run(h, &wire.Outcome{ID: id, Served: true, Adapt: &wire.Adapt{Most: 1000000, Half: 500000}})
		if got := state(); got != [5]int64{1, 1, 0, 250000, 0} {
			t.Errorf("starts, successes, refusals, delays: %v", got)
		}
	}
	var version int64
	for range 2 {
		if _, changed := s.write(h, id, 0, 70000, false, 0); changed.Kind != wire.Stored {
			t.Errorf("%+v", changed)
		}
		if got := state(); got != [5]int64{1, 0, 1, 250000, 70000} || version != 0 && s.get(h, "v") != version {
			t.Errorf("after a refusal: %v, version %d", got, s.get(h, "v"))
		}
		version = s.get(h, "v")
	}
	if _, changed := s.write(h, "p.2", 0, 80000, false, 0); changed.Kind != wire.Newer || changed.Host.Version != version || s.get(h, "le") != 70000 {
		t.Errorf("a change of an old version: %+v", changed)
	}
	restore := func(version int64) {
		s.run(h, &wire.Restore{Last: -1000, Lost: &wire.Lost{
			Until: 5000000, Cause: "status 429", Alone: true, Row: 2, Learned: 90000, EasedAt: -1, Version: version,
			Rest: "another rest", Served: 3, Since: -9000000,
		}})
	}
	for range 2 {
		restore(version - 1)
		if got := state(); got != [5]int64{1, 3, 2, 250000, 90000} || stored(t, s.client, s.key(h), "R") != "a rest" {
			t.Errorf("after a loss: %v, %s", got, stored(t, s.client, s.key(h), "R"))
		}
	}
	restore(version + 1)
	if r := stored(t, s.client, s.key(h), "R"); r != "another rest" {
		t.Errorf("a later version: %s", r)
	}
}

// TestASuccessIsCountedAgainOnlyIfItSurelyWasNot: the server has no record of its lease any more.
func TestASuccessIsCountedAgainOnlyIfItSurelyWasNot(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	served := &wire.Outcome{ID: "p.1", Served: true, Adapt: &wire.Adapt{Most: 1000000, Half: 500000}}
	release := &wire.Release{ID: "p.1", Slots: 2}
	restore := &wire.Restore{Leases: []wire.Lease{{ID: "p.1", Seq: 1, Left: 60_000_000}}}
	for name, c := range map[string]struct {
		done    bool           // by the call before
		between []wire.Request // before it is sent again
		counted int64
	}{
		"it was done":                           {true, nil, 1},
		"it was done, and others came since":    {true, []wire.Request{release, release}, 1},
		"it was not done":                       {false, nil, 1},
		"it was not done, which nobody can say": {false, []wire.Request{release}, 0},
		"its lease was restored since":          {true, []wire.Request{restore}, 1},
	} {
		h := s.host()
		s.run(h, &wire.Release{ID: "p.0", Slots: 2}) // this process was here
		s.l.mu.Lock()
		s.l.numbers.calls++
		tried := s.l.numbers.calls
		s.l.mu.Unlock()
		if c.done {
			s.run(h, served)
			tried++
		}
		for _, request := range c.between {
			s.run(h, request)
		}
		for range 2 {
			s.runAgain(h, served, tried)
			if got := s.get(h, "sv"); got != c.counted {
				t.Errorf("%s: %d successes are counted, want %d", name, got, c.counted)
			}
			if got := s.get(h, "ad"); got != c.counted*250000 {
				t.Errorf("%s: a delay of %d us", name, got)
			}
		}
	}
}

// TestAChangeIsStoredOnce, also when its lease has ended and other processes have changed the host.
func TestAChangeIsStoredOnce(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	h := s.host()
	s.write(h, "p.1", 0, 0, false, 0)
	s.run(h, &wire.Release{ID: "p.1", Slots: 2})
	s.set(h, "v", s.get(h, "v")+1000)
	version := s.get(h, "v")
	if _, changed := s.write(h, "p.1", 0, 0, false, 0); changed.Kind != wire.Stored || s.get(h, "v") != version {
		t.Errorf("%+v", changed)
	}
	if _, changed := s.write(h, "p.2", version, 0, false, 0); changed.Kind != wire.Stored || s.get(h, "v") == version {
		t.Errorf("the next one: %+v", changed)
	}
}

// TestWhatIsOwedOutlivesATurnThatIsUndone: a start that was let go and doesn't come takes no more
// back than its own gap.
func TestWhatIsOwedOutlivesATurnThatIsUndone(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	started, undone := "p.1", "p.2"
	for name, owe := range map[string]func(h *host, now int64){
		"the end of an attempt without a response": func(h *host, now int64) {
			s.write(h, started, 0, 0, true, 0)
		},
		"a longer delay by response times": func(h *host, now int64) {
			s.run(h, &wire.Outcome{ID: started, Adapt: &wire.Adapt{Most: 60000000, AtOnce: 5000000, Half: -1}})
		},
		"a learned delay": func(h *host, now int64) {
			s.write(h, started, 0, 5000000, false, 0)
		},
		"what a process tells after a loss": func(h *host, now int64) {
			s.run(h, &wire.Restore{Next: 5000000, Last: -1, Lost: &wire.Lost{Until: -1}})
		},
	} {
		h := s.host()
		now, _ := s.looks(h)
		s.set(h, "l", now, "a", now, "lo", undone, "pl", now-1000, "pa", now-1000, "n", 2,
			"L", []wire.StoredTurn{
				{ID: started, Seq: 1, Delay: 5000000, Expiry: wire.Micros(now + 60000000), Due: wire.Micros(now - 1000), Guard: 100, State: 2},
				{ID: undone, Seq: 1, Expiry: wire.Micros(now + 60000000), Due: wire.Micros(now), Guard: 100, State: 2},
			})
		owe(h, now)
		s.run(h, &wire.Release{ID: undone, Slots: 2, Undone: true})
		if owed := s.get(h, "a") - now; owed < 4900000 {
			t.Errorf("%s: after a turn that was undone, %d us are owed", name, owed)
		}
	}
}

// TestRefusalsCountOverProcesses has many see one at once: each of them counts.
func TestRefusalsCountOverProcesses(t *testing.T) {
	const all = 12
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{
		Concurrency: all, Delay: hostlimit.Delay{Min: time.Millisecond}, Backoff: backoff.Refusals{Policy: backoff.Doubling{Start: time.Hour}, InARow: all},
	}}, 4)
	for round := range 3 {
		key := fmt.Sprintf("%d.example", round)
		atOnce := func(n int) {
			var turns []turn
			for i := range n {
				turns = append(turns, acquire(t, fleet[i%len(fleet)], key, 0))
			}
			var wg sync.WaitGroup
			for _, turn := range turns {
				wg.Go(func() {
					if e := turn.Observe(hostlimit.Outcome{Status: 403}); e.Blocked || turn.Probe {
						t.Errorf("one of %d: probe %t, %+v", n, turn.Probe, e)
					}
					turn.Release()
				})
			}
			wg.Wait()
		}
		atOnce(all - 1)
		atOnce(1)
		last := acquire(t, fleet[0], key, 0)
		if e := last.Observe(hostlimit.Outcome{Status: 403}); !e.Blocked || e.Refusals != 1 || !last.Probe {
			t.Errorf("403 after %d: probe %t, %+v", all, last.Probe, e)
		}
		last.Release()
	}
}

// settle waits until the server has had all that l has to tell of a key.
func settle(t *testing.T, l *Limiter, key string) {
	t.Helper()
	if _, err := l.Next(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
}

// TestASuccessElsewhereEndsARow: one process is refused, while another is served.
func TestASuccessElsewhereEndsARow(t *testing.T) {
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Concurrency: 8, Delay: hostlimit.Delay{Min: time.Millisecond}}}, 2)
	forbid := func() turn {
		turn := acquire(t, fleet[0], "a.example", 0)
		defer turn.Release()
		turn.Observe(hostlimit.Outcome{Status: 403})
		return turn
	}
	served := acquire(t, fleet[1], "a.example", 0) // before there was a refusal
	for range 4 {
		forbid()
	}
	served.Observe(hostlimit.Outcome{Status: 200})
	served.Release()
	eventually(t, 10*time.Second, "the answer is told, and then what it has changed", func() bool {
		l := fleet[1]
		settle(t, l, "a.example")
		l.mu.Lock()
		defer l.mu.Unlock()
		p := l.parts[0]
		return len(p.ops)+p.sent.underWay+len(l.host("a.example").changes) == 0
	})
	for i := range 6 {
		if turn := forbid(); turn.Probe != (i == 5) {
			t.Errorf("403 number %d in a row: %+v", i+1, turn.Grant)
		}
	}
}

// TestALearnedDelayIsEverybodys, as is what is known of pages.
func TestALearnedDelayIsEverybodys(t *testing.T) {
	const least = 10 * time.Millisecond
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: least}}}, 3)
	refused := acquire(t, fleet[0], "a.example", 0)
	refused.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Millisecond})
	refused.Release()
	var first time.Duration
	for i := range 42 {
		turn := acquire(t, fleet[i%3], "a.example", 0)
		if i == 0 { // as much longer as the pages before were rarer
			first = max(least*3/2, turn.Delay)
		}
		if turn.Delay < first || turn.Delay > first+2*time.Microsecond || turn.DelaySource != "learned" || turn.Probe != (i == 0) {
			t.Errorf("start %d after a refusal: %+v, want %v", i+1, turn.Grant, first)
		}
		turn.Observe(hostlimit.Outcome{Status: 200})
		turn.Release()
	}
}

// TestTheRulesHoldForAFleet goes through sequences of answers, each to the one process or the other:
// what they do is what they would do to a Memory.
func TestTheRulesHoldForAFleet(t *testing.T) {
	t.Parallel()
	type answer struct {
		process  int
		status   int
		resource uint64
		probe    bool
		want     hostlimit.Effect
	}
	blocked := func(refusals int) hostlimit.Effect { return hostlimit.Effect{Blocked: true, Refusals: refusals} }
	cleared, none, own := hostlimit.Effect{Cleared: true}, hostlimit.Effect{}, hostlimit.Effect{Own: true}
	for name, answers := range map[string][]answer{
		"a page in trouble of its own": {
			{0, 200, 1, false, none},
			{1, 503, 2, false, blocked(1)},
			{0, 503, 2, true, hostlimit.Effect{Refusals: 1}},
			{1, 200, 3, true, cleared},
			{0, 503, 2, false, own},
			{1, 503, 2, false, own},
			{0, 200, 4, false, none},
		},
		"the host's trouble": {
			{0, 503, 1, false, blocked(1)}, {1, 503, 1, true, hostlimit.Effect{Refusals: 1}}, {0, 503, 2, true, blocked(3)}, {1, 200, 1, true, cleared},
		},
		"forbidden pages": {
			{0, 403, 1, false, none},
			{1, 403, 2, false, none},
			{0, 403, 3, false, none},
			{1, 403, 4, false, none},
			{0, 403, 5, false, none},
			{1, 200, 6, true, cleared},
			{0, 403, 7, false, none},
		},
		"a ban": {
			{0, 403, 1, false, none},
			{1, 403, 2, false, none},
			{0, 403, 3, false, none},
			{1, 403, 4, false, none},
			{0, 403, 5, false, none},
			{1, 403, 6, true, blocked(1)},
		},
		"a refusal, and the probe's": {{0, 429, 1, false, blocked(1)}, {1, 403, 2, true, blocked(2)}, {0, 200, 3, true, cleared}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{
				Delay: hostlimit.Delay{Min: time.Millisecond}, Backoff: backoff.Doubling{Start: 50 * time.Millisecond},
			}}, 2)
			for i, a := range answers {
				turn := acquire(t, fleet[a.process], "a.example", 0)
				e := turn.Observe(hostlimit.Outcome{Status: a.status, Resource: a.resource})
				turn.Release()
				if e.Blocked != e.Until.After(turn.Start) {
					t.Errorf("answer %d: %+v", i+1, e)
				}
				if e.Until, e.Kind, e.Row = (time.Time{}), "", 0; e != a.want || turn.Probe != a.probe {
					t.Errorf("answer %d, %d of page %d: probe %t, %+v, want %+v", i+1, a.status, a.resource, turn.Probe, e, a)
				}
			}
		})
	}
}

// TestWhoSuspectsAPageTeachesEverybody: pages that one process saw refused are served to the other, at
// a delay that was refused.
func TestWhoSuspectsAPageTeachesEverybody(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, shared, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Millisecond}}}, 2)
	say := func(l *Limiter, status int, resource uint64) turn {
		turn := acquire(t, l, "a.example", 0)
		defer turn.Release()
		turn.Observe(hostlimit.Outcome{Status: status, Resource: resource})
		return turn
	}
	say(fleet[0], 503, 1)
	if turn := say(fleet[1], 200, 1); !turn.Probe || turn.DelaySource != "random" {
		t.Errorf("%+v", turn.Grant)
	}
	if turn := say(fleet[0], 200, 9); turn.DelaySource != "learned" || turn.Delay < 15*time.Millisecond || turn.Delay > 40*time.Millisecond {
		t.Errorf("after the first page that was refused and then served: %+v", turn.Grant)
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

// TestWhatIsLearnedSurvivesALoss empties the server: refusals in a row, a learned delay, what
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
		l.mu.Lock()
		l.quarantine = quarantine
		l.mu.Unlock()
	}
	say := func(l *Limiter, key string, o hostlimit.Outcome) turn {
		turn := acquire(t, l, key, 0)
		defer turn.Release()
		turn.Observe(o)
		return turn
	}
	for range 4 {
		say(fleet[0], "forbidden.example", hostlimit.Outcome{Status: 403})
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
	for i := range 2 {
		if turn := say(fleet[1], "forbidden.example", hostlimit.Outcome{Status: 403}); turn.Probe != (i == 1) {
			t.Errorf("after the loss, 403 number %d in a row: %+v", i+5, turn.Grant)
		}
	}
	if c := stored(t, client, fleet[0].parts[0].hostKey("blocked.example"), "c"); c != "refused" {
		t.Errorf("after the loss, a host is blocked by %q", c)
	}
	if next, err := fleet[1].Next(t.Context(), "ended.example", 0); err != nil || next.Before(ended.Add(time.Hour-time.Second)) {
		t.Errorf("after the loss, the next start is %v, %v; a request ended %v", next, err, ended)
	}
}
