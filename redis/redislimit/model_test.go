package redislimit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"

	"github.com/go-politeness/politeness/internal/soak"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// The model runs whole Limiters in virtual time over a network that a test controls call by call,
// with the real step.lua on a real server, whose clock is the bubble's. An oracle that knows nothing
// of either looks at what the callers did: never more in flight than slots, no gap shorter than its
// delay, no start into a block, and once the network is healed every process starts again, and every
// slot comes back. Where no process was killed and the server lost nothing, each number of a start was
// stamped once or given up.

// modelSource is step.lua with the clock and the messages of a world.
var modelSource = strings.NewReplacer(
	"redis.call('TIME')", "{ARGV[2], ARGV[3]}",
	"redis.call('PUBLISH',", "publish(",
).Replace("local function publish(to, what) redis.call('RPUSH', 'pushes', to, what) return 1 end\n" + strings.TrimPrefix(wire.Source, "#!lua\n"))

// A callFate is what becomes of a call.
type callFate int

const (
	fine      callFate = iota
	lostCall           // the server never gets it
	lostReply          // the server does it, and nobody hears of that
	doubled            // another copy comes late
	late               // the caller is told that it failed, then it comes
	fates
)

func (f callFate) String() string {
	return [...]string{"fine", "lost", "reply lost", "doubled", "late"}[f]
}

// A world is a server, its network and the processes that use it.
type world struct {
	t    *testing.T
	conn net.Conn
	read *bufio.Reader

	fate  func(call int) (callFate, time.Duration) // and how long a copy is under way
	trace bytes.Buffer

	mu     sync.Mutex // of conn and what follows; never held across a sleep
	calls  int
	procs  map[string]*Limiter // by name on the server
	dead   map[*Limiter]bool
	starts []modelStart
	blocks []modelBlock

	numbers map[*Limiter]uint64 // of the last start of each process
	stamps  map[time.Time]bool  // of starts on the server's clock, those that moved left out
	prevs   []time.Time         // those that starts have named
}

type modelStart struct {
	at, end time.Duration // in flight until end; 0: still
	delay   time.Duration
	by      *Limiter
	stamp   time.Time // on the server's clock
}

type modelBlock struct {
	known, until time.Duration
	by           *Limiter // that keeps to it; nil: all do
}

// newWorld must be called outside of the bubble.
func newWorld(t *testing.T, database string) *world {
	conn, err := net.Dial("tcp", shared.Addr)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, conn: conn, read: bufio.NewReader(conn)}
	t.Cleanup(func() { _ = conn.Close() })
	w.command("SELECT", database)
	return w
}

// reset empties the world.
func (w *world) reset() {
	w.command("FLUSHDB")
	w.procs, w.dead = map[string]*Limiter{}, map[*Limiter]bool{}
	w.calls, w.starts, w.blocks, w.numbers, w.prevs = 0, nil, nil, map[*Limiter]uint64{}, nil
	w.stamps = map[time.Time]bool{}
	w.trace.Reset()
}

// command speaks to the server.
func (w *world) command(args ...string) any {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := w.conn.Write(b.Bytes()); err != nil {
		panic(err)
	}
	return w.answer()
}

func (w *world) answer() any {
	line, err := w.read.ReadString('\n')
	if err != nil {
		panic(err)
	}
	rest := strings.TrimSpace(line[1:])
	switch n, _ := strconv.Atoi(rest); line[0] {
	case '-':
		return errors.New(rest)
	case '$':
		if n < 0 {
			return nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(w.read, b); err != nil {
			panic(err)
		}
		return string(b[:n])
	case '*':
		list := make([]any, max(n, 0))
		for i := range list {
			list[i] = w.answer()
		}
		return list
	}
	return rest
}

// run runs a script at the bubble's time, and delivers what it publishes.
func (w *world) run(args []any) (string, error) {
	w.mu.Lock()
	now := time.Now()
	command := []string{"EVAL", modelSource}
	for _, a := range args[2:] {
		command = append(command, fmt.Sprint(a))
	}
	command = append(command, strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond()/1000))
	reply := w.command(command...)
	pushes, _ := w.command("LRANGE", "pushes", "0", "-1").([]any)
	w.command("DEL", "pushes")
	procs := w.procs
	w.mu.Unlock()
	for i := 0; i+1 < len(pushes); i += 2 {
		_, to, _ := strings.Cut(pushes[i].(string), "push:")
		message := pushes[i+1].(string)
		w.mu.Lock()
		for name, l := range procs {
			if w.dead[l] || to != "all" && to != name {
				continue
			}
			go func() {
				if to == "all" {
					l.heard(message, true)
				} else {
					l.heard(message, false)
				}
			}()
		}
		w.mu.Unlock()
	}
	if err, failed := reply.(error); failed {
		return "", err
	}
	return reply.(string), nil
}

// A link is the network of one process.
type link struct {
	w *world
	l *Limiter
}

func (*link) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errReset }
}

func (*link) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (k *link) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		w := k.w
		c, ok := cmd.(*redis.Cmd)
		w.mu.Lock()
		if !ok || w.dead[k.l] {
			w.mu.Unlock()
			return errReset
		}
		w.calls++
		f, under := w.fate(w.calls)
		fmt.Fprintf(&w.trace, "%v call %d: %v %v\n", time.Duration(time.Now().UnixNano()%1e12), w.calls, f, under)
		w.mu.Unlock()
		send := func() error {
			reply, err := w.run(cmd.Args())
			c.SetVal(reply)
			return err
		}
		again := func() {
			args := cmd.Args()
			time.AfterFunc(under, func() { _, _ = w.run(args) })
		}
		switch f {
		case lostCall:
			time.Sleep(k.l.patience)
			return errReset
		case lostReply:
			_, _ = w.run(cmd.Args())
			time.Sleep(k.l.patience)
			return errReset
		case doubled:
			again()
		case late:
			again()
			return errReset
		}
		time.Sleep(under / 100)
		err := send()
		time.Sleep(under / 100)
		return err
	}
}

// process adds a process to the world.
func (w *world) process(limits hostlimit.Config) *Limiter {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: time.Second, MaxRetries: -1})
	l, err := idleLimiter(Config{Client: client, Limits: limits}, -1, born())
	if err != nil {
		w.t.Fatal(err)
	}
	client.AddHook(&link{w, l})
	l.sub.listening = true
	l.wg.Go(l.beat)
	w.mu.Lock()
	w.procs[l.proc] = l
	w.mu.Unlock()
	return l
}

// kill ends a process as SIGKILL would: nothing that it says is heard any more.
func (w *world) kill(l *Limiter) {
	w.mu.Lock()
	w.dead[l] = true
	now := w.now()
	for i := range w.starts {
		if s := &w.starts[i]; s.by == l && s.end == 0 {
			s.end = now
		}
	}
	w.mu.Unlock()
	_ = l.Close()
}

func (w *world) now() time.Duration {
	return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
}

// Waits and String make a world the hostlimit.Watcher of its requests.
func (*world) Waits(hostlimit.Wait) {}
func (*world) String() string       { return "" }

// number notes a start of a process, whose number is the next.
func (w *world) number(l *Limiter, g hostlimit.Grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.numbers[l]++; g.Seq != w.numbers[l] {
		w.t.Errorf("start %d of a process has number %d", w.numbers[l], g.Seq)
	}
	if !g.Prev.IsZero() {
		w.prevs = append(w.prevs, g.Prev)
	}
}

func (w *world) acquire(ctx context.Context, l *Limiter) (hostlimit.Lease, error) {
	return l.Acquire(context.WithValue(ctx, (*hostlimit.Watcher)(nil), w), "a.example", 0)
}

// fetch takes one turn, as a crawler does. It reports whether there was one.
func (w *world) fetch(ctx context.Context, l *Limiter, hold time.Duration, o hostlimit.Outcome, again bool) bool {
	lease, err := w.acquire(ctx, l)
	if err != nil {
		return false
	}
	start := func() (g hostlimit.Grant, err error) {
		if g, err = lease.Start(context.WithValue(ctx, (*hostlimit.Watcher)(nil), w)); err == nil {
			w.number(l, g)
		}
		return g, err
	}
	g, err := start()
	if err == nil && again {
		time.Sleep(hold)
		g, err = start()
	}
	if err != nil {
		lease.Release()
		return false
	}
	w.mu.Lock()
	if w.dead[l] { // it was killed before it could send anything
		w.mu.Unlock()
		lease.Release()
		return false
	}
	i := len(w.starts)
	w.starts = append(w.starts, modelStart{at: w.now(), delay: g.Delay, by: l, stamp: g.At})
	w.stamps[g.At] = true
	w.mu.Unlock()
	time.Sleep(hold)
	told := w.now()
	e := lease.Observe(o)
	w.mu.Lock()
	if e.Blocked && !w.dead[l] {
		b := modelBlock{known: w.now(), until: time.Until(e.Until) + w.now()}
		if b.known-told >= observing { // the server may not know yet
			b.by = l
		}
		w.blocks = append(w.blocks, b)
	}
	if w.starts[i].end == 0 {
		w.starts[i].end = w.now()
	}
	w.mu.Unlock()
	lease.Release()
	return true
}

// judge looks at what the callers did.
func (w *world) judge(slots int) (faults []string) {
	bad := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	starts := slices.Clone(w.starts)
	for _, stamp := range w.prevs {
		if !w.stamps[stamp] {
			bad("no start has the stamp %v that another one names", stamp)
		}
	}
	slices.SortFunc(starts, func(a, b modelStart) int { return a.stamp.Compare(b.stamp) })
	for i, s := range starts {
		if i > 0 && s.stamp.Sub(starts[i-1].stamp) < starts[i-1].delay {
			bad("stamp %v, %v after the one before, which owes %v", s.stamp, s.stamp.Sub(starts[i-1].stamp), starts[i-1].delay)
		}
	}
	slices.SortStableFunc(starts, func(a, b modelStart) int { return int(a.at - b.at) })
	for i, s := range starts {
		if i > 0 && s.at-starts[i-1].at < starts[i-1].delay {
			bad("start at %v, %v after the one before, which owes %v", s.at, s.at-starts[i-1].at, starts[i-1].delay)
		}
		flying := 0
		for _, o := range starts[:i+1] {
			if o.end == 0 || o.end > s.at {
				flying++
			}
		}
		if flying > slots {
			bad("%d in flight at %v", flying, s.at)
		}
		for _, b := range w.blocks {
			if s.at > b.known && s.at < b.until && (b.by == nil || b.by == s.by) {
				bad("start at %v into a block until %v that was known at %v", s.at, b.until, b.known)
			}
		}
	}
	return faults
}

// heal looks whether every process starts again and every slot comes back once the network is fine.
func (w *world) heal(slots int, procs ...*Limiter) (faults []string) {
	w.mu.Lock()
	w.fate = func(int) (callFate, time.Duration) { return fine, 0 }
	w.mu.Unlock()
	// A heartbeat tells of the slots, a quarantine may follow, and a block of a second may be on.
	ctx, cancel := context.WithTimeout(context.Background(), heartbeat+quarantine+deadAfter+5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i, l := range procs {
		wg.Go(func() {
			for !w.fetch(ctx, l, time.Millisecond, hostlimit.Outcome{Status: 200}, false) {
				if ctx.Err() != nil {
					w.mu.Lock()
					faults = append(faults, fmt.Sprintf("process %d starts nothing after the network was healed", i))
					w.mu.Unlock()
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	var held []hostlimit.Lease
	for range slots {
		// A 403 that was on its way may have been the one that makes a ban of a minute.
		if err := procs[0].Clear(ctx, "a.example"); err != nil {
			faults = append(faults, fmt.Sprintf("a block can't be lifted: %v", err))
		}
		lease, err := w.acquire(ctx, procs[0])
		if err != nil {
			faults = append(faults, fmt.Sprintf("a slot never came back: %v", err))
			break
		}
		held = append(held, lease)
	}
	for _, lease := range held {
		lease.Release()
	}
	return faults
}

// TestEveryFateOfTheFirstCalls tries each combination of fates for the first four calls of two
// processes that share one slot (five in make soak): 625, or 3,125, runs.
func TestEveryFateOfTheFirstCalls(t *testing.T) {
	t.Parallel()
	depth := soak.Size(4, 4, 5)
	w := newWorld(t, "9")
	total := 1
	for range depth {
		total *= int(fates)
	}
	limits := hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: 50 * time.Millisecond, Adaptive: hostlimit.Fixed}}
	for n := range total {
		w.reset()
		w.t = t
		synctest.Test(t, func(t *testing.T) {
			a, b := w.settled(limits), w.settled(limits)
			w.mu.Lock()
			w.calls = 0
			w.fate = func(call int) (callFate, time.Duration) {
				if call > depth {
					return fine, 0
				}
				k := n
				for range call - 1 {
					k /= int(fates)
				}
				return callFate(k % int(fates)), 400 * time.Millisecond
			}
			w.mu.Unlock()
			var wg sync.WaitGroup
			for i, l := range []*Limiter{a, b} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					for range 2 {
						w.fetch(ctx, l, 30*time.Millisecond, hostlimit.Outcome{Status: 200}, i == 1)
					}
				})
			}
			wg.Wait()
			w.end(fmt.Sprintf("fates %d", n), 1, a, b)
		})
		if t.Failed() {
			return
		}
	}
}

// settled is a process that the server knows.
func (w *world) settled(limits hostlimit.Config) *Limiter {
	w.mu.Lock()
	if w.fate == nil || w.calls == 0 {
		w.fate = func(int) (callFate, time.Duration) { return fine, 0 }
	}
	w.mu.Unlock()
	l := w.process(limits)
	w.fetch(context.Background(), l, 0, hostlimit.Outcome{Status: 200}, false)
	return l
}

// end heals, closes and judges a world.
func (w *world) end(name string, slots int, procs ...*Limiter) {
	faults := w.heal(slots, procs...)
	for _, l := range w.procs {
		_ = l.Close()
		_ = l.conf.Client.Close()
	}
	time.Sleep(5 * time.Second) // what is still under way, such as the news of a number that is given up
	if faults = append(faults, w.judge(slots)...); len(faults) > 0 {
		w.t.Errorf("%s:\n%s\n%s", name, strings.Join(faults, "\n"), w.trace.String())
	}
}
