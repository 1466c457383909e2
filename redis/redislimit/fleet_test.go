package redislimit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "unsafe" // for the linkname

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/internal/soak"
)

var fleetTime = flag.Duration("fleet", 2*time.Second, "how long each test with many processes runs")

// fleetLasts is fleetTime, or its part where the fourteen tests with many processes are a part of a soak.
func fleetLasts(t testing.TB) time.Duration {
	return max(*fleetTime, soak.Share(t)/14)
}

// workerEnv holds a work, as JSON, in the environment of a worker process.
const workerEnv = "REDISLIMIT_TEST_WORKER"

// A work is what one process of a fleet does.
type work struct {
	Name       string
	Addr       string
	Prefix     string
	Hosts      int
	Goroutines int
	First      int // number of the first goroutine in the fleet
	Delay      time.Duration
	Latency    time.Duration
	Refuse     float64       // share of requests that are answered 429
	Fail       float64       // share of requests that are answered 403; two in a row are a refusal
	Lost       float64       // share of requests that get no answer, after which the delay counts from the end
	FromEnd    bool          // one slot, and the delay counts from the end
	Extra      time.Duration // on top of the time of the test, to make up for what is lost
	Impatient  float64       // share of callers that leave after a while
	Again      float64       // share of starts that are followed by a further one
	Unsent     float64       // share of turns that are released without a start
	Skew       time.Duration // how far this process's clock is off
	Begin, End int64         // on CLOCK_MONOTONIC
	Log        string
}

// A mark is a line of a process's log. Times are CLOCK_MONOTONIC, which all
// processes of a machine share.
type mark struct {
	Kind  string // start, end, block, lost, sum, close
	Host  int    `json:",omitzero"`
	Lease string `json:",omitzero"`
	Seq   uint64 `json:",omitzero"` // of a start
	At    int64  `json:",omitzero"` // stamp of the start decision; before Release; after Observe
	Delay int64  `json:",omitzero"` // of a start
	Owes  bool   `json:",omitzero"` // of an end: the delay counts from it
	Until int64  `json:",omitzero"` // of a block; of what was lost: when its delay is over
	Calls int64  `json:",omitzero"` // of a sum: scripts run
	Trips int64  `json:",omitzero"` // round trips
	Fails int64  `json:",omitzero"` // refused turns
	Late  int64  `json:",omitzero"` // of a sum: for how long the machine held the process up
	Why   string `json:",omitzero"`
	proc  int
}

// monotonic reads the clock that all processes of a machine share, CLOCK_MONOTONIC on Linux.
//
//go:linkname monotonic runtime.nanotime
func monotonic() int64

// calibrate returns a function that maps this process's times to the machine's.
func calibrate() func(time.Time) int64 {
	best, width := int64(0), time.Hour
	origin := time.Now()
	for range 1000 {
		before := time.Since(origin)
		at := monotonic()
		if w := time.Since(origin) - before; w < width {
			width, best = w, at-int64(before+w/2)
		}
	}
	return func(t time.Time) int64 { return best + int64(t.Sub(origin)) }
}

// counter counts what goes to the server.
type counter struct{ calls, trips atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "evalsha" || name == "eval" {
			c.calls.Add(1)
			c.trips.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.calls.Add(int64(len(cmds)))
		c.trips.Add(1)
		return next(ctx, cmds)
	}
}

// worker is the main function of a worker process.
func worker(encoded string) {
	var w work
	if err := json.Unmarshal([]byte(encoded), &w); err != nil {
		panic(err)
	}
	stamp := calibrate()
	log, err := os.OpenFile(w.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	// One write for each mark, so that a kill loses none.
	put := func(m mark) {
		line, err := json.Marshal(m)
		if err != nil {
			panic(err)
		}
		if _, err := log.Write(append(line, '\n')); err != nil {
			panic(err)
		}
	}
	count := new(counter)
	client := redis.NewClient(&redis.Options{Addr: w.Addr, ReadTimeout: hasty})
	client.AddHook(count)
	l, err := newLimiter(Config{
		Client: client, Prefix: w.Prefix,
		Limits: hostlimit.Config{
			Concurrency: w.slots(),
			Delay:       hostlimit.Delay{Min: w.Delay, Ceiling: 2 * w.Delay, FromEnd: w.FromEnd},
			Backoff:     backoff.Refusals{InARow: 2},
		},
	}, quarantine, time.Now().Add(w.Skew-2*time.Hour))
	if err != nil {
		panic(err)
	}
	time.Sleep(time.Duration(w.Begin - monotonic()))
	// A deadline would have turns refused that come after it.
	all, stop := context.WithCancel(context.Background())
	var starts, latest atomic.Int64 // and when the latest one was
	time.AfterFunc(time.Duration(w.End-monotonic()), func() {
		// On a starved machine it takes longer until there is something to judge, to the end.
		hasAll := func() bool { return starts.Load() >= fewStarts && latest.Load() > w.End-int64(time.Second) }
		for !hasAll() && monotonic() < w.End+int64(time.Minute) {
			time.Sleep(100 * time.Millisecond)
		}
		stop()
	})

	var late atomic.Int64
	go func() {
		const usual = 5 * time.Millisecond
		for before := monotonic(); ; {
			time.Sleep(usual)
			now := monotonic()
			late.Add(max(now-before-int64(2*usual), 0))
			before = now
		}
	}()

	var fails atomic.Int64
	var last atomic.Pointer[string]
	var wg sync.WaitGroup
	for g := range w.Goroutines {
		host := (w.First + g) % w.Hosts
		wg.Go(func() {
			for all.Err() == nil {
				ctx, leave := all, context.CancelFunc(func() {})
				if rand.Float64() < w.Impatient {
					ctx, leave = context.WithCancel(ctx)
					time.AfterFunc(time.Duration(rand.Int64N(int64(4*w.Delay))), leave)
				}
				lease, err := l.Acquire(ctx, fmt.Sprintf("host-%d.example", host), 0)
				leave()
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						why := err.Error()
						last.Store(&why)
						fails.Add(1)
						time.Sleep(20 * time.Millisecond)
					}
					continue
				}
				if rand.Float64() < w.Unsent {
					lease.Release()
					continue
				}
				grant, err := lease.Start(all)
				for err == nil && rand.Float64() < w.Again { // the connection came late
					time.Sleep(time.Duration(rand.Int64N(int64(w.Delay) + 1)))
					grant, err = lease.Start(all)
				}
				if err != nil {
					lease.Release()
					continue
				}
				id := lease.(interface{ name() string }).name()
				starts.Add(1)
				latest.Store(stamp(grant.Start))
				put(mark{Kind: "start", Host: host, Lease: id, Seq: grant.Seq, At: stamp(grant.Start), Delay: int64(grant.Delay)})
				time.Sleep(time.Duration(rand.Int64N(int64(2*w.Latency) + 1)))
				answer := hostlimit.Outcome{Status: 200, Latency: w.Latency}
				switch r := rand.Float64(); {
				case r < w.Refuse:
					answer = hostlimit.Outcome{Status: 429, RetryAfter: 300 * time.Millisecond}
				case r < w.Refuse+w.Fail:
					answer = hostlimit.Outcome{Status: 403, RetryAfter: 200 * time.Millisecond}
				case r < w.Refuse+w.Fail+w.Lost:
					answer = hostlimit.Outcome{Err: errors.New("connection refused"), Latency: w.Latency, RetryAfter: 200 * time.Millisecond}
				}
				called := monotonic()
				e := lease.Observe(answer)
				if answer.Err != nil {
					put(mark{Kind: "lost", Host: host, At: monotonic(), Until: called + int64(grant.Delay)})
				}
				if e.Blocked {
					put(mark{Kind: "block", Host: host, At: monotonic(), Until: stamp(e.Until)})
				}
				put(mark{Kind: "end", Host: host, Lease: id, At: monotonic(), Owes: w.FromEnd})
				lease.Release()
			}
		})
	}
	wg.Wait()
	why := ""
	if p := last.Load(); p != nil {
		why = *p
	}
	put(mark{Kind: "sum", Calls: count.calls.Load(), Trips: count.trips.Load(), Fails: fails.Load(), Late: late.Load(), Why: why})
	if err := l.Close(); err != nil {
		put(mark{Kind: "close", Why: err.Error()})
	}
	_ = client.Close()
}

func (t *lease) name() string { return t.id }

func (w *work) slots() int {
	if w.FromEnd {
		return 1
	}
	return 2
}

// A fleet is a number of worker processes on one server.
type fleet struct {
	t     *testing.T
	work  work // of each
	procs []*exec.Cmd
	logs  []string
	ended map[int]int64 // when a process was killed
	dir   string
	each  func(i int, w *work)
}

// launch starts processes that begin together.
func launch(t *testing.T, s *redistest.Server, processes int, w work, each func(i int, w *work)) *fleet {
	t.Helper()
	f := &fleet{t: t, ended: make(map[int]int64)}
	w.Addr, w.Prefix = s.Addr, "fleet:"+t.Name()+":"
	// The quarantine of a first use is tested elsewhere, and takes as long as the test.
	first, err := newLimiter(Config{Client: newClient(t, s), Prefix: w.Prefix}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	settle(t, first, "")
	_ = first.Close()
	w.Begin = monotonic() + int64(600*time.Millisecond)
	w.End = w.Begin + int64(fleetLasts(t)+w.Extra)
	f.work = w
	f.dir, f.each = t.TempDir(), each
	for range processes {
		f.join()
	}
	return f
}

// join adds a process.
func (f *fleet) join() {
	t, i, w := f.t, len(f.procs), f.work
	t.Helper()
	w.Name = fmt.Sprint(i)
	w.First = i * w.Goroutines
	w.Log = filepath.Join(f.dir, w.Name)
	if f.each != nil {
		f.each(i, &w)
	}
	encoded, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(encoded), "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	if err := os.WriteFile(w.Log, nil, 0o600); err != nil { // it may be killed before it writes
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	f.procs = append(f.procs, cmd)
	f.logs = append(f.logs, w.Log)
}

// until sleeps until the given share of the time under load has passed.
func (f *fleet) until(share float64) {
	at := f.work.Begin + int64(share*float64(fleetLasts(f.t)))
	time.Sleep(time.Duration(at - monotonic()))
}

// begun waits until process i has started something, which takes a busy machine a while.
func (f *fleet) begun(i int) {
	for monotonic() < f.work.End {
		if info, err := os.Stat(f.logs[i]); err == nil && info.Size() > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (f *fleet) kill(i int) {
	f.t.Helper()
	if err := f.procs[i].Process.Kill(); err != nil {
		f.t.Fatal(err)
	}
	_ = f.procs[i].Wait()
	f.ended[i] = monotonic()
}

// A verdict is what the recorder found.
type verdict struct {
	starts   int
	perProc  []int
	last     []int64       // when each process has started something last
	times    [][]int64     // of the starts of each process
	late     time.Duration // for which the machine held up a process, at most
	calls    float64       // scripts per start
	share    float64       // of 1/delay, by the median gap
	mean     float64       // of 1/delay, from each host's first start to its last
	fails    int64
	unsaid   int           // processes that couldn't say in time that they end
	smallest time.Duration // by which a gap was longer than its delay
}

// judge waits for the processes and checks all that they did.
func (f *fleet) judge() verdict {
	t := f.t
	t.Helper()
	for i, cmd := range f.procs {
		if _, killed := f.ended[i]; killed {
			continue
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
	}
	hosts := make([][]mark, f.work.Hosts)
	v := verdict{perProc: make([]int, len(f.procs)), last: make([]int64, len(f.procs)), times: make([][]int64, len(f.procs)), smallest: time.Hour}
	var calls, sumStarts int64
	for i, name := range f.logs {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		n := int64(0)
		for sc := bufio.NewScanner(file); sc.Scan(); {
			var m mark
			if err := json.Unmarshal(sc.Bytes(), &m); err != nil {
				if _, killed := f.ended[i]; killed {
					continue
				}
				t.Fatal(err)
			}
			m.proc = i
			switch m.Kind {
			case "close":
				v.unsaid++
			case "sum":
				calls += m.Calls
				sumStarts += n
				v.fails += m.Fails
				v.late = max(v.late, time.Duration(m.Late))
				if m.Why != "" {
					t.Logf("process %d: %d turns refused, the last: %s", i, m.Fails, m.Why)
				}
			case "start":
				n++
				v.starts++
				v.perProc[i]++
				v.times[i] = append(v.times[i], m.At)
				v.last[i] = max(v.last[i], m.At)
				fallthrough
			default:
				hosts[m.Host] = append(hosts[m.Host], m)
			}
		}
	}
	v.calls = float64(calls) / float64(max(sumStarts, 1))
	var gaps []float64
	var theory, took float64
	for host, marks := range hosts {
		slices.SortFunc(marks, func(a, b mark) int { return int(a.At - b.At) })
		v.judgeHost(f, host, marks)
		var first, last mark
		for _, m := range marks {
			if m.Kind != "start" {
				continue
			}
			if first.Kind == "" {
				first = m
			} else {
				gaps = append(gaps, float64(m.At-last.At))
				theory += float64(last.Delay)
			}
			last = m
		}
		took += float64(last.At - first.At)
	}
	slices.Sort(gaps)
	if len(gaps) > 0 {
		v.share = float64(f.work.Delay) / gaps[len(gaps)/2]
		v.mean = theory / took
	}
	t.Logf("%d starts by %v, %d refused; %.2f%% of 1/delay by the median gap, %.2f%% by the mean; %.2f scripts a start; smallest gap %v more than the delay",
		v.starts, v.perProc, v.fails, 100*v.share, 100*v.mean, v.calls, v.smallest)
	return v
}

// judgeHost checks gaps, slots and blocks by the stamps of the start decisions.
func (v *verdict) judgeHost(f *fleet, host int, marks []mark) {
	ends, delays := make(map[string]int64), make(map[string]int64)
	for _, m := range marks {
		if m.Kind == "end" {
			ends[m.Lease] = m.At
		}
	}
	var last mark
	owed := int64(0)   // no start before
	var flying []int64 // ends
	blocked := int64(0)
	for _, m := range marks {
		switch m.Kind {
		case "block":
			blocked = max(blocked, m.Until)
		case "lost":
			owed = max(owed, m.Until)
		case "end":
			if m.Owes {
				owed = max(owed, m.At+delays[m.Lease])
			}
		case "start":
			if last.Kind != "" {
				extra := time.Duration(m.At - owed)
				v.smallest = min(v.smallest, extra)
				if extra < 0 {
					f.t.Errorf("gap: host %d, process %d started %v after process %d, delay %v, which is %v too early", host, m.proc, time.Duration(m.At-last.At), last.proc, time.Duration(last.Delay), -extra)
					for _, near := range marks {
						if d := time.Duration(near.At - m.At); d > -3*time.Second && d < time.Second {
							f.t.Logf("at %v: %+v", d, near)
						}
					}
				}
			}
			last, owed = m, m.At+m.Delay
			delays[m.Lease] = m.Delay
			if m.At < blocked {
				f.t.Errorf("block: host %d, process %d started %v before its end", host, m.proc, time.Duration(blocked-m.At))
			}
			flying = slices.DeleteFunc(flying, func(end int64) bool { return end < m.At })
			end, ok := ends[m.Lease]
			if killed, is := f.ended[m.proc]; !ok && is {
				end, ok = killed, true
			}
			if !ok {
				f.t.Errorf("host %d: a start of process %d has no end", host, m.proc)
			}
			flying = append(flying, end)
			if len(flying) > f.work.slots() {
				f.t.Errorf("concurrency: host %d, %d in flight", host, len(flying))
			}
		}
	}
}

// jain is 1 where all have the same.
func jain(counts []int) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// Every process that isn't killed starts so many requests, however slow the machine is.
const fewStarts = 5

// The eight processes with sixteen goroutines each of the fleet tests.
var eight = work{Hosts: 50, Goroutines: 16, Delay: 100 * time.Millisecond, Latency: 5 * time.Millisecond}

// lossy has time to spare for an outage of 2 s and the client's patience after it.
var lossy = func() work {
	w := eight
	w.Extra = 4 * time.Second
	return w
}()

func (f *fleet) someStarts(v verdict) {
	f.t.Helper()
	for i, n := range v.perProc {
		if _, killed := f.ended[i]; n < fewStarts && !killed {
			f.t.Errorf("process %d started %d requests: nothing was tested", i, n)
		}
	}
}

func TestFleetIsAsPoliteAsOne(t *testing.T) {
	f := launch(t, shared, 8, eight, nil)
	f.someStarts(f.judge())
}

func TestFleetAtOneSecond(t *testing.T) {
	w := eight
	w.Delay = time.Second
	f := launch(t, shared, 8, w, nil)
	f.someStarts(f.judge())
}

func TestFleetHoldsBlocks(t *testing.T) {
	w := eight
	w.Refuse = 0.05
	f := launch(t, shared, 8, w, nil)
	f.someStarts(f.judge())
}

func TestFleetWithCallersThatLeave(t *testing.T) {
	w := eight
	w.Impatient, w.Refuse = 0.5, 0.02
	f := launch(t, shared, 8, w, nil)
	f.someStarts(f.judge())
}

func TestFleetStartsLateAgainOrNot(t *testing.T) {
	w := eight
	w.Again, w.Unsent, w.Refuse = 0.3, 0.1, 0.02
	f := launch(t, shared, 8, w, nil)
	f.someStarts(f.judge())
}

func TestFleetCountsFailures(t *testing.T) {
	w := eight
	w.Fail, w.Lost = 0.1, 0.1
	f := launch(t, shared, 8, w, nil)
	f.someStarts(f.judge())
}

func TestFleetCountsFromTheEnd(t *testing.T) {
	w := eight
	w.FromEnd, w.Refuse, w.Again, w.Unsent = true, 0.02, 0.1, 0.1
	f := launch(t, shared, 8, w, nil)
	f.someStarts(f.judge())
}

func TestFleetIsFair(t *testing.T) {
	w := eight
	// First come, first served is fair where everybody has had some turns, and so many that those which
	// a process has missed while the machine held it up don't count.
	w.Hosts, w.Goroutines, w.Delay, w.Latency, w.Extra = 1, 2, 20*time.Millisecond, time.Millisecond, 4*time.Second
	f := launch(t, shared, 8, w, nil)
	v := f.judge()
	f.someStarts(v)
	counts, lasted, whole := v.together()
	j := jain(counts)
	t.Logf("Jain index %.4f: %v in %v of %v; held up for %v at most", j, counts, lasted, whole, v.late)
	// Nothing is fair to a process that doesn't run. TestAFleetTakesTurns asks the same in virtual time.
	isQuiet := v.late < whole/10
	isFair := lasted > whole/2 && j >= 0.98
	if isQuiet && !isFair {
		t.Error("some processes get more turns than others")
	}
}

// together returns how many requests each process has started while all of them were at work, and for
// how long they were: on a busy machine one begins later than the others. whole is the time from the
// first start of all to the last one.
func (v *verdict) together() (counts []int, lasted, whole time.Duration) {
	from, to := int64(0), int64(math.MaxInt64)
	first, last := int64(math.MaxInt64), int64(0)
	for _, times := range v.times {
		if len(times) == 0 {
			return nil, 0, 0
		}
		from = max(from, slices.Min(times))
		to = min(to, slices.Max(times))
		first = min(first, slices.Min(times))
		last = max(last, slices.Max(times))
	}
	for _, times := range v.times {
		n := 0
		for _, at := range times {
			if from <= at && at <= to {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts, time.Duration(to - from), time.Duration(last - first)
}

func TestFleetSurvivesAKilledProcess(t *testing.T) {
	f := launch(t, shared, 8, eight, nil)
	f.until(0.3)
	f.begun(3)
	f.kill(3)
	f.someStarts(f.judge())
}

func TestFleetSurvivesAStoppedServer(t *testing.T) {
	s := ownServer(t)
	f := launch(t, s, 8, lossy, nil)
	f.until(0.2)
	if err := redistest.Pause(s.Process()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	if err := redistest.Resume(s.Process()); err != nil {
		t.Fatal(err)
	}
	f.someStarts(f.judge())
}

func TestFleetSurvivesAnEmptyServer(t *testing.T) {
	s := ownServer(t)
	f := launch(t, s, 8, lossy, nil)
	f.until(0.2)
	s.Kill()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	f.someStarts(f.judge())
}

func TestFleetSurvivesAFlush(t *testing.T) {
	s := ownServer(t)
	client := newClient(t, s)
	f := launch(t, s, 8, lossy, nil)
	for i := range 8 {
		f.until(0.1 + 0.1*float64(i))
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.someStarts(f.judge())
}

func TestFleetSurvivesAWrongClock(t *testing.T) {
	f := launch(t, shared, 8, eight, func(i int, w *work) {
		switch i {
		case 2:
			w.Skew = -time.Hour
		case 5:
			w.Skew = time.Hour
		}
	})
	f.someStarts(f.judge())
}

func TestFleetSurvivesAPausedProcess(t *testing.T) {
	f := launch(t, shared, 8, eight, nil)
	for i := range 4 {
		f.until(0.1 + 0.2*float64(i))
		p := f.procs[i].Process
		if err := redistest.Pause(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		if err := redistest.Resume(p); err != nil {
			t.Fatal(err)
		}
	}
	f.someStarts(f.judge())
}
