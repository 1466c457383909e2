package redislimit

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/known"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// ownStage returns a stage on a server of its own.
func ownStage(t *testing.T) *stage {
	server := ownServer(t)
	s := &stage{t: t, l: newTest(t, server, hostlimit.Config{}), client: newClient(t, server)}
	settle(t, s.l, "first.example")
	return s
}

// now returns the server's time.
func (s *stage) now() int64 { return s.client.Time(s.t.Context()).Val().UnixMicro() }

// generation changes fields of the generation.
func (s *stage) generation(change string) {
	s.t.Helper()
	err := s.client.Eval(s.t.Context(), `
		local gen = cmsgpack.unpack(redis.call('GET', KEYS[1]))
		`+change+`
		redis.call('SET', KEYS[1], cmsgpack.pack(gen), 'PX', 86400000)`, []string{s.l.parts[0].genKey()}).Err()
	if err != nil && err != redis.Nil { //nolint:errorlint // it isn't wrapped
		s.t.Fatal(err)
	}
}

// peek returns how far away the next start on h is.
func (s *stage) peek(h *host) time.Duration {
	s.t.Helper()
	now, start := s.looks(h)
	return (start - wire.Micros(now)).Duration()
}

const hour = int64(time.Hour / time.Microsecond)

// TestAStepForgetsNoBlock, also where no process lives that knows it, and lengthens none where it is a
// process that has slept.
func TestAStepForgetsNoBlock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stepped         time.Duration
		before          int64 // what the clock showed before, from now
		least, most     time.Duration
		owed, mostDelay time.Duration
	}{
		"forward":           {2 * time.Hour, -2 * hour, 29 * time.Minute, 30 * time.Minute, 4 * time.Second, 5 * time.Second},
		"back":              {-2 * time.Hour, 2 * hour, 29 * time.Minute, 30 * time.Minute, 4 * time.Second, 5 * time.Second},
		"a process slept":   {8 * time.Hour, 0, 59 * time.Minute, time.Hour, 9 * time.Second, 10 * time.Second},
		"it slept a little": {time.Minute, 0, 30 * time.Minute, 31 * time.Minute, 9 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := ownStage(t)
			blocked, slow := s.host(), s.host()
			began := time.Now()
			old := s.now() + tt.before
			s.set(blocked, "b", old+hour/2, "bs", old-hour/2, "al", true, "f", 1, "c", "status 429", "R", known.Rest(rules.Refusals{Row: 1}))
			s.set(slow, "l", old-5_000_000, "a", old+5_000_000)
			s.l.mu.Lock()
			s.l.parts[0].gen.stepped = tt.stepped
			s.l.mu.Unlock()
			settle(t, s.l, "first.example")
			settle(t, s.l, "first.example")
			if d := s.peek(blocked); d < tt.least || d > tt.most {
				t.Errorf("the block lasts for %v, not %v to %v", d, tt.least, tt.most)
			}
			if d, took := s.peek(slow), time.Since(began); d+took < tt.owed || d > tt.mostDelay {
				t.Errorf("%v later the next start comes in %v, not %v to %v", took, d, tt.owed, tt.mostDelay)
			}
		})
	}
}

// TestAServerWhoseClockIsBehindStarvesNobody: after a failover, or a reboot, times of its state are
// ahead; the next loss of data changes nothing.
func TestAServerWhoseClockIsBehindStarvesNobody(t *testing.T) {
	t.Parallel()
	s := ownStage(t)
	h, other := s.host(), s.host()
	for _, h := range []*host{h, other} {
		ahead := s.now() + hour
		s.set(h, "l", ahead, "a", ahead+1000)
	}
	s.generation("gen.run = 'x' gen.chk = gen.chk + 3600000000")
	for range 2 {
		settle(t, s.l, "first.example")
	}
	if d := s.peek(h); d > 5*time.Second {
		t.Errorf("the next start comes in %v", d)
	}
	s.generation("gen.run = 'y' gen.chk = 0")
	for range 2 {
		settle(t, s.l, "first.example")
	}
	if d := s.peek(other); d > 5*time.Second {
		t.Errorf("after one more loss: the next start comes in %v", d)
	}
}

// TestAServerWhoseClockIsAheadEndsNoBlockEarly: after a failover. A process that knew the old clock
// tells it.
func TestAServerWhoseClockIsAheadEndsNoBlockEarly(t *testing.T) {
	t.Parallel()
	s := ownStage(t)
	h := s.host()
	old := s.now() - hour
	s.set(h, "b", old+hour/2, "bs", old-hour/2, "al", true, "f", 1, "c", "status 429", "R", known.Rest(rules.Refusals{Row: 1}))
	s.generation("gen.run = 'x' gen.chk = gen.chk - 3600000000")
	s.l.mu.Lock()
	s.l.parts[0].clock.Lo -= time.Hour
	s.l.parts[0].clock.Hi -= time.Hour
	s.l.mu.Unlock()
	for range 3 {
		settle(t, s.l, "first.example")
	}
	s.l.mu.Lock()
	gen := s.l.parts[0].gen.name
	s.l.mu.Unlock()
	if d := s.peek(h); d < 29*time.Minute || d > 30*time.Minute || !strings.HasPrefix(gen, "s") {
		t.Errorf("the block lasts for %v, generation %s", d, gen)
	}
}

// TestALiftedBlockIsNotRestored: a process that has missed the lifting tells what it knew before. What
// it has learned since holds.
func TestALiftedBlockIsNotRestored(t *testing.T) {
	t.Parallel()
	s := newStage(t, hostlimit.Config{})
	for after, want := range map[int64]bool{-1: false, 1: true} {
		h := s.host()
		now, _ := s.looks(h)
		s.set(h, "k", now+hour, "v", now, "rv", now)
		s.run(h, &wire.Restore{Last: -1000, Lost: &wire.Lost{
			Until: wire.Micros(hour / 2), Cause: "status 429", Alone: true, Row: 1, EasedAt: -1, Version: now + after, Since: -1,
		}})
		if d := s.peek(h); d > time.Minute != want || stored(t, s.client, s.key(h), "f") != map[bool]string{true: "1", false: "0"}[want] {
			t.Errorf("version %+d: the next start comes in %v", after, d)
		}
	}
}
