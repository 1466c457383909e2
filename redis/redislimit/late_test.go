package redislimit

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// A courier is a hook that decides what becomes of each run of step.lua: it may send it, now or later
// and as often as it likes, and lose the answer.
type courier struct {
	mu      sync.Mutex
	deliver func(payload string, send func() error) error // nil: send
}

func (c *courier) set(deliver func(payload string, send func() error) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deliver = deliver
}

func (*courier) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *courier) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.mu.Lock()
		deliver := c.deliver
		c.mu.Unlock()
		args := cmd.Args()
		if name := cmd.Name(); deliver == nil || name != "evalsha" && name != "eval" {
			return next(ctx, cmd)
		}
		payload, _ := args[len(args)-1].(string)
		var mu sync.Mutex
		isGone := false
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			isGone = true
		}()
		return deliver(payload, func() error {
			again := redis.NewCmd(context.Background(), args...)
			err := next(context.Background(), again)
			mu.Lock()
			defer mu.Unlock()
			// After the hook has returned, cmd is the caller's alone.
			if c, ok := cmd.(*redis.Cmd); ok && !isGone && ctx.Err() == nil {
				c.SetVal(again.Val())
			}
			return err
		})
	}
}

func (*courier) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// takes reports whether a call asks for a turn.
func takes(payload string) bool { return strings.Contains(payload, "\xa4take") }

var errReset = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}

var oneSlot = hostlimit.Config{
	Concurrency: 1, Delay: hostlimit.Delay{Min: time.Millisecond}, SlotTimeout: 300 * time.Millisecond, MaxWait: 10 * time.Second,
}

// TestALateCopyOfATakeUndoesNoStart: go-redis repeats a call whose answer doesn't come; then the first
// copy arrives.
func TestALateCopyOfATakeUndoesNoStart(t *testing.T) {
	t.Parallel()
	post := new(courier)
	fleet := newFleet(t, shared, Config{Limits: oneSlot}, 2, post)
	settle(t, fleet[0], "a.example")
	var first func() error
	post.set(func(payload string, send func() error) error {
		if takes(payload) && first == nil {
			first = send
		}
		return send()
	})
	held := acquire(t, fleet[0], "a.example", 0)
	defer held.Release()
	post.set(nil)
	if err := first(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(claimWithin + 100*time.Millisecond)
	if _, err := fleet[1].Acquire(t.Context(), "a.example", 0); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("while the only slot is taken, another process is told %v", err)
	}
}

// TestACallThatWasGivenUpLeaksNoSlot delivers a take after its client has given it up.
func TestACallThatWasGivenUpLeaksNoSlot(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{
		"before the client has told that it doesn't want the turn":           0,
		"after the client has told so, while the call may still come":        200 * time.Millisecond,
		"after that, as from a network that was away for longer than a call": 1500 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			post := new(courier)
			fleet := hastyFleet(t, shared, Config{Limits: oneSlot}, 2, post)
			settle(t, fleet[0], "a.example")
			delivered := make(chan error, 1)
			once := false
			post.set(func(payload string, send func() error) error {
				if !takes(payload) || once {
					return send()
				}
				once = true
				time.AfterFunc(after, func() { delivered <- send() })
				return errReset
			})
			if _, err := fleet[0].Acquire(t.Context(), "a.example", 0); !errors.Is(err, ErrUnavailable) {
				t.Errorf("a call without a response: %v", err)
			}
			if err := <-delivered; err != nil {
				t.Fatal(err)
			}
			// What it has taken is given back once no copy of it can come any more.
			time.Sleep(1200*time.Millisecond - min(after, time.Second))
			acquire(t, fleet[1], "a.example", 0).Release()
		})
	}
}

// TestALateRestoreBringsNoLeaseBack: a process tells what it holds, and that call is under way for
// longer than the lease lives.
func TestALateRestoreBringsNoLeaseBack(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"its answer is had": false, "its answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			post := new(courier)
			fleet := hastyFleet(t, shared, Config{Limits: oneSlot}, 2, post)
			held := acquire(t, fleet[0], "a.example", 0)
			delivered := make(chan error, 1)
			post.set(func(payload string, send func() error) error {
				if !strings.Contains(payload, "restore") {
					return send()
				}
				post.set(nil)
				if lost {
					time.AfterFunc(300*time.Millisecond, func() { delivered <- send() })
					return errReset
				}
				time.Sleep(300 * time.Millisecond)
				err := send()
				delivered <- err
				return err
			})
			l := fleet[0]
			l.mu.Lock()
			l.parts[0].restore(true)
			l.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
			held.Release()
			if err := <-delivered; err != nil {
				t.Fatal(err)
			}
			time.Sleep(1200 * time.Millisecond)
			acquire(t, fleet[1], "a.example", 0).Release()
		})
	}
}

// TestACallForAnotherStateOfTheServerDoesNothing: one from before a loss of data would take a slot
// that nobody knows of.
func TestACallForAnotherStateOfTheServerDoesNothing(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	post := new(courier)
	fleet := newFleet(t, s, Config{Limits: oneSlot}, 2, post)
	settle(t, fleet[0], "a.example")
	var late func() error
	post.set(func(payload string, send func() error) error {
		if takes(payload) && late == nil {
			late = send
		}
		return send()
	})
	acquire(t, fleet[0], "a.example", 0).Release()
	post.set(nil)
	if err := newClient(t, s).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	settle(t, fleet[1], "a.example")
	if err := late(); err != nil {
		t.Fatal(err)
	}
	acquire(t, fleet[1], "a.example", 0).Release()
}

// stepped is step.lua on a server whose clock is off by what the key "offset" holds, in seconds.
var stepped = redis.NewScript(strings.Replace(wire.Source, "local time = redis.call('TIME')", `local time = redis.call('TIME')
time[1] = time[1] + tonumber(redis.call('GET', 'offset') or 0)`, 1))

// TestAStepOfTheServersClockStarvesNobody: turns that were planned by the clock of before are planned
// anew, also those of processes that only wait, and no gap is shorter than its delay.
func TestAStepOfTheServersClockStarvesNobody(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]int{"forward": 100, "back": -100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const delay = 30 * time.Millisecond
			s := ownServer(t)
			fleet := newFleet(t, s, Config{Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: delay}}}, 12)
			for _, l := range fleet {
				l.mu.Lock()
				l.script, l.quarantine = stepped, 500*time.Millisecond
				l.mu.Unlock()
			}
			type start struct {
				at    time.Time
				delay time.Duration
				by    int
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var mu sync.Mutex
			var starts []start
			var wg sync.WaitGroup
			for i, l := range fleet {
				wg.Go(func() {
					for ctx.Err() == nil {
						lease, err := l.Acquire(ctx, "a.example", 0)
						if err != nil {
							continue
						}
						if g, err := lease.Start(ctx); err == nil {
							mu.Lock()
							starts = append(starts, start{g.Start, g.Delay, i})
							mu.Unlock()
							lease.Observe(hostlimit.Outcome{Status: 200})
						}
						lease.Release()
					}
				})
			}
			time.Sleep(1500 * time.Millisecond)
			if err := newClient(t, s).Set(t.Context(), "offset", offset, 0).Err(); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			eventually(t, time.Minute, "all start something after the step", func() bool { // before the step is over
				mu.Lock()
				defer mu.Unlock()
				after := map[int]bool{}
				for _, s := range starts {
					if s.at.After(at) {
						after[s.by] = true
					}
				}
				return len(after) == len(fleet)
			})
			time.Sleep(time.Second)
			stop()
			wg.Wait()
			for i, s := range starts {
				if i > 0 && s.at.Sub(starts[i-1].at) < starts[i-1].delay {
					t.Errorf("%v after the step: a start %v after the one before", s.at.Sub(at), s.at.Sub(starts[i-1].at))
				}
			}
		})
	}
}

// TestOpsOfOneHostInOneCallSeeEachOther: while the server is away a process forgets a host that owes
// nothing, but what it has to tell of it waits. If it meets the host again before that, both go in one
// call, in which each of them changes what the other has.
func TestOpsOfOneHostInOneCallSeeEachOther(t *testing.T) {
	s := newStage(t, hostlimit.Config{})
	met := s.host()
	forgotten := *met
	l := &hostlimit.Limits{Delay: hostlimit.Delay{Ceiling: time.Second}}
	take := question("p.2", 1, 5_000_000, l)
	release := &wire.Release{ID: "p.1", Slots: 2}
	s.l.mu.Lock()
	c := s.l.parts[0].newCall([]op{{h: met, request: take}, {h: &forgotten, request: release}}, false)
	s.l.parts[0].sent.underWay--
	s.l.mu.Unlock()
	reply, err := s.l.run(t.Context(), c.keys, c.payload)
	if err != nil {
		t.Fatal(err)
	}
	turn := take.Answer()
	if err := wire.ReadAnswer(reply.Answers[0], turn); err != nil || turn.Result().Kind != wire.Go {
		t.Fatalf("%+v, %v", turn, err)
	}
	if n, owed := s.get(met, "n"), s.get(met, "a")-int64(reply.Now); n != 1 || owed < 5_000_000 {
		t.Errorf("after a start: %d starts, %d us are owed", n, owed)
	}
}

// TestATurnThatHasBecomeTooLateIsRefusedAtOnce: the host's answer to another request has made the
// delay longer than the waiter may wait.
func TestATurnThatHasBecomeTooLateIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	limits := hostlimit.Config{
		Concurrency: 2, MaxWait: 10 * time.Minute,
		Delay: hostlimit.Delay{Min: time.Minute, Adaptive: hostlimit.Throttle(1), Ceiling: time.Hour},
	}
	slow := hostlimit.Outcome{Status: 200, Latency: time.Hour}
	wait := func(t *testing.T, l *Limiter) <-chan error {
		refused := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), "a.example", 0)
			if err == nil {
				lease.Release()
			}
			refused <- err
		}()
		return refused
	}
	see := func(t *testing.T, refused <-chan error) {
		t.Helper()
		select {
		case err := <-refused:
			if !errors.Is(err, hostlimit.ErrBusy) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("it waits for a turn that it can't have")
		}
	}
	t.Run("while it asked", func(t *testing.T) {
		t.Parallel()
		post := new(courier)
		l := newFleet(t, shared, Config{Limits: limits}, 1, post)[0]
		turn := acquire(t, l, "a.example", 0)
		defer turn.Release()
		asked, through := make(chan struct{}), make(chan struct{})
		var once sync.Once
		post.set(func(payload string, send func() error) error {
			err := send()
			if takes(payload) {
				once.Do(func() { close(asked) })
				<-through
			}
			return err
		})
		refused := wait(t, l)
		<-asked
		turn.Observe(slow)
		close(through)
		see(t, refused)
	})
	t.Run("while it was queued", func(t *testing.T) {
		t.Parallel()
		limits := limits
		limits.Concurrency = 1
		fleet := newFleet(t, shared, Config{Limits: limits}, 2)
		turn := acquire(t, fleet[0], "a.example", 0)
		refused := wait(t, fleet[1])
		eventually(t, 10*time.Second, "the other process is in the queue", func() bool {
			fleet[1].mu.Lock()
			defer fleet[1].mu.Unlock()
			h := fleet[1].hosts["a.example"]
			return h != nil && len(h.waiters) > 0 && h.waiters[0].phase == waiting
		})
		turn.Observe(slow)
		turn.Release()
		see(t, refused)
	})
}
