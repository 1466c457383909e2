package redislimit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// A time that lies centuries ahead, written once by another program, doesn't stay: no answer blocks
// a host for longer than Retry-After may.
func TestAForgedTimeDoesNotStay(t *testing.T) {
	t.Parallel()
	const centuries = 285 * 365 * 24 * int64(time.Hour/time.Microsecond)
	for field, most := range map[string]time.Duration{"b": 24 * time.Hour, "l": time.Minute, "a": 7 * 24 * time.Hour, "pa": time.Minute} {
		l := newTest(t, shared, hostlimit.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		lease, err := l.Acquire(ctx, "a.example", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lease.Start(ctx); err != nil {
			t.Fatal(err)
		}
		lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Second})
		lease.Release()
		if _, err := l.State(ctx, "a.example"); err != nil { // all calls before it are over
			t.Fatal(err)
		}
		client := newClient(t, shared)
		forged := false
		for _, key := range client.Keys(ctx, l.conf.Prefix+"*a.example*").Val() {
			var h map[string]any
			if err := msgpack.Unmarshal([]byte(client.Get(ctx, key).Val()), &h); err != nil {
				t.Fatal(err)
			}
			h[field] = time.Now().UnixMicro() + centuries
			raw, err := msgpack.Marshal(h)
			if err != nil {
				t.Fatal(err)
			}
			forged = client.Set(ctx, key, raw, time.Hour).Err() == nil
		}
		if !forged {
			t.Fatal("the host has no key")
		}
		state, err := l.State(ctx, "a.example")
		if err != nil {
			t.Fatal(err)
		}
		if ahead := max(time.Until(state.Next), time.Until(state.BlockedUntil)); ahead > most {
			t.Errorf("%s: the host is held for %v", field, ahead)
		}
		_, err = l.Acquire(ctx, "a.example", 0)
		var refused *hostlimit.Error
		if errors.As(err, &refused) && time.Until(refused.RetryAt) > most+time.Second {
			t.Errorf("%s: %v, again in %v", field, err, time.Until(refused.RetryAt))
		}
	}
}

// Times of the generation that lie centuries ahead stop nobody either, nor do those that are too large
// for the expiry of a key.
func TestForgedTimesOfTheGenerationDoNotStay(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"q", "chk", "x", "p"} {
		for _, ahead := range []int64{285 * 365 * 24 * int64(time.Hour/time.Microsecond), 1 << 60} {
			l := newTest(t, shared, hostlimit.Config{})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := l.State(ctx, "a.example"); err != nil {
				t.Fatal(err)
			}
			client := newClient(t, shared)
			forged := 0
			for _, key := range client.Keys(ctx, l.conf.Prefix+"*").Val() {
				var gen map[string]any
				if msgpack.Unmarshal([]byte(client.Get(ctx, key).Val()), &gen) != nil || gen["chk"] == nil {
					continue
				}
				gen[field] = time.Now().UnixMicro() + ahead
				raw, err := msgpack.Marshal(gen)
				if err != nil {
					t.Fatal(err)
				}
				if err := client.Set(ctx, key, raw, time.Hour).Err(); err != nil {
					t.Fatal(err)
				}
				forged++
			}
			if forged == 0 {
				t.Fatal("there is no generation")
			}
			time.Sleep(150 * time.Millisecond) // then the server process is looked for, and the generation written
			state, err := l.State(ctx, "b.example")
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			if wait := time.Until(state.Next); wait > 7*24*time.Hour {
				t.Errorf("%s: the next start is in %v", field, wait)
			}
			lease, err := l.Acquire(ctx, "a.example", 0)
			if field == "q" || field == "p" {
				continue // it may be held for as long as a quarantine, or a pause, may be
			}
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			if _, err := lease.Start(ctx); err != nil {
				t.Errorf("%s: %v", field, err)
			}
			lease.Release()
		}
	}
}

// The ceiling cuts no block that the policy sets, with all of its jitter.
func TestTheCeilingCutsNoBlockOfThePolicy(t *testing.T) {
	t.Parallel()
	policy := backoff.Doubling{Start: 24 * time.Hour, Cap: 24 * time.Hour, Jitter: [2]float64{0.1, 0.2}}
	l := newTest(t, shared, hostlimit.Config{Backoff: backoff.Refusals{Policy: policy}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := l.Acquire(ctx, "a.example", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Start(ctx); err != nil {
		t.Fatal(err)
	}
	lease.Observe(hostlimit.Outcome{Status: 429})
	lease.Release()
	state, err := l.State(ctx, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(state.BlockedUntil); left < 26*time.Hour {
		t.Errorf("the host is blocked for %v", left)
	}
}
