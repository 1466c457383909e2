package redislimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// TestNothingStartsAfterAnUnansweredAttemptUntilItsDelayIsOver: a process that was stopped wakes and
// finds that its request got no answer, in the moment in which the server has already let another
// process go. That one starts before Observe returns, or a delay after the attempt's end.
func TestNothingStartsAfterAnUnansweredAttemptUntilItsDelayIsOver(t *testing.T) {
	t.Parallel()
	const delay = 100 * time.Millisecond
	w := newWorld(t, "12")
	for after := 80 * time.Millisecond; after < 105*time.Millisecond; after += time.Millisecond {
		w.reset()
		w.t = t
		synctest.Test(t, func(t *testing.T) {
			limits := hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: delay, Adaptive: hostlimit.Fixed}}
			a, b := w.settled(limits), w.settled(limits)
			time.Sleep(time.Second)
			w.starts = nil
			lost := acquire(t, a, "a.example", 0)
			w.number(a, lost.Grant)
			w.stamps[lost.Grant.At] = true
			done := make(chan bool)
			go func() {
				w.fetch(context.Background(), b, 0, hostlimit.Outcome{Status: 200}, false)
				close(done)
			}()
			time.Sleep(after)
			ended := w.now()
			lost.Observe(hostlimit.Outcome{Err: errors.New("connection refused")})
			returned := w.now()
			lost.Release()
			<-done
			if at := w.starts[0].at; at > returned && at < ended+delay {
				t.Errorf("%v after the start of an attempt it ends without a response, and another start is %v after that", after, at-ended)
			}
			if returned-ended > 50*time.Millisecond {
				t.Errorf("Observe took %v", returned-ended)
			}
			w.end(after.String(), 2, a, b)
		})
	}
}

// TestAnUnansweredAttemptOfALostLease: the server has lost its data, and is told of the end before it
// is told of the lease.
func TestAnUnansweredAttemptOfALostLease(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	h := s.host()
	now, _ := s.looks(h)
	const delay, window = 5_000_000, 400_000
	s.set(h, "l", now+window, "a", now+window+1, "lo", "p.2", "n", 2, "L", []wire.StoredTurn{
		{ID: "p.2", Seq: 1, Delay: 1, Expiry: wire.Micros(now + 60_000_000), Due: wire.Micros(now), Guard: window, State: 2},
	})
	now2, changed := s.write(h, "p.1", 0, 0, true, delay)
	if owed := s.get(h, "a") - now2; owed < delay {
		t.Errorf("%d us are owed after the end, want %d", owed, delay)
	}
	if last := int64(changed.Latest); last != now+window {
		t.Errorf("another request may start until %d, the answer says %d", now+window, last)
	}
}

// TestAnEndOwesTheDelayOfItsStart, although answers to others have made the delay shorter since.
func TestAnEndOwesTheDelayOfItsStart(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	h, l := s.host(), &hostlimit.Limits{Delay: hostlimit.Delay{Ceiling: time.Minute}}
	now, _ := s.looks(h)
	s.set(h, "ad", 5_000_000, "l", now-1_000_000, "a", now-1)
	if _, turn := s.take(h, "p.1", 1, 0, l); turn.Kind != wire.Go || turn.Delay != 5_000_000 {
		t.Fatalf("%+v", turn)
	}
	s.set(h, "lo", "p.2", "l", now, "a", now, "ad", 1000) // since then others have started, and were answered soon
	now, _ = s.write(h, "p.1", 0, 0, true, 5_000_000)
	if owed := s.get(h, "a") - now; owed < 5_000_000 {
		t.Errorf("%d us are owed after the end of an attempt whose start owed 5 s", owed)
	}
}

// TestTheEndOfAnUnansweredAttemptSurvivesALoss that comes before its release.
func TestTheEndOfAnUnansweredAttemptSurvivesALoss(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	fleet := newFleet(t, server, Config{Limits: hostlimit.Config{
		Delay: hostlimit.Delay{Min: time.Minute},
	}}, 2)
	turn := acquire(t, fleet[0], "a.example", 0)
	defer turn.Release()
	time.Sleep(400 * time.Millisecond)
	ended := time.Now()
	turn.Observe(hostlimit.Outcome{Err: errors.New("connection refused")})
	if err := newClient(t, server).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	settle(t, fleet[0], "a.example") // has met the loss, and tells what it knows
	settle(t, fleet[0], "a.example")
	eventually(t, 10*time.Second, "what was owed is known again", func() bool {
		next, err := fleet[1].Next(t.Context(), "a.example", 0)
		return err == nil && !next.Before(ended.Add(time.Minute))
	})
}
