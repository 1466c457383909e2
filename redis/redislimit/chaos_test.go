package redislimit

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/internal/soak"
)

var (
	chaosTime = flag.Duration("chaos", 5*time.Second, "how long TestChaos breaks things")
	chaosSeed = flag.Uint64("chaosseed", uint64(time.Now().UnixNano()), "what TestChaos breaks, and when")
)

// healed is how long after the last fault everybody starts something again: a heartbeat, the
// quarantine and 2 s, and a second for the block that a host may have set.
const healed = heartbeat + quarantine + 3*time.Second

// TestChaos lets 16 processes crawl 200 hosts while the server is stopped, restarted empty, emptied
// and cut off, and processes are stopped and killed and begin. What the hosts see must be as polite as
// ever; afterwards everybody goes on, every key expires, and every slot comes back. make chaos runs
// it for ten minutes, make soak for its share of the time.
func TestChaos(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	client := newClient(t, s)
	w := work{Hosts: 200, Goroutines: 16, Delay: 100 * time.Millisecond, Latency: 20 * time.Millisecond, Refuse: 0.01, Lost: 0.01, Impatient: 0.05, Again: 0.1}
	lasts := *chaosTime
	if share := soak.Share(t); share > 0 {
		lasts = share
	}
	w.Extra = lasts + healed + 2*time.Second - fleetLasts(t)
	f := launch(t, s, 16, w, nil)
	t.Logf("-chaosseed %d repeats the faults", *chaosSeed)
	r := rand.New(rand.NewPCG(*chaosSeed, 17))
	f.until(0.1)
	faults := map[string]int{}
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Duration(r.Int64N(int64(time.Second)))) {
		switch fault := r.IntN(12); {
		case fault < 4:
			faults["stopped process"]++
			i := r.IntN(len(f.procs))
			if _, killed := f.ended[i]; killed {
				continue
			}
			_ = redistest.Pause(f.procs[i].Process)
			time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
			_ = redistest.Resume(f.procs[i].Process)
		case fault < 6:
			faults["killed process"]++
			i := r.IntN(len(f.procs))
			if _, killed := f.ended[i]; killed {
				continue
			}
			f.kill(i)
			f.join()
		case fault < 8:
			faults["stopped server"]++
			_ = redistest.Pause(s.Process())
			time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
			_ = redistest.Resume(s.Process())
		case fault == 8:
			faults["restarted server"]++
			s.Kill()
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
		case fault == 9:
			faults["emptied server"]++
			_ = client.FlushAll(t.Context())
		default:
			faults["cut connections"]++
			_ = client.Do(t.Context(), "CLIENT", "KILL", "TYPE", []string{"normal", "pubsub"}[r.IntN(2)])
		}
	}
	over := monotonic()
	v := f.judge()
	t.Logf("soak: %d starts under %v from -chaosseed %d", v.starts, faults, *chaosSeed)
	// On a busy machine the faults may take longer than they should, and the work ends before that.
	alive := min(over+int64(healed), f.work.End-int64(time.Second))
	for i, last := range v.last {
		if _, killed := f.ended[i]; !killed && last < alive {
			t.Errorf("process %d has started nothing since %v after the last fault", i, time.Duration(last-over))
		}
	}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl < 0 {
			t.Errorf("%s never expires", key)
		}
	}
	l, err := newLimiter(Config{Client: client, Prefix: f.work.Prefix, Limits: hostlimit.Config{
		Concurrency: f.work.slots(), Delay: hostlimit.Delay{Min: time.Millisecond}, SlotTimeout: deadAfter + 10*time.Second,
	}}, 0, born())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n := client.HLen(t.Context(), f.work.Prefix+"{0}processes").Val(); int(n) > len(f.ended)+v.unsaid {
		t.Errorf("%d processes are remembered, %d were killed, %d ended in silence", n, len(f.ended), v.unsaid)
	}
	var wg sync.WaitGroup
	for host := range f.work.Hosts {
		wg.Go(func() {
			for range f.work.slots() {
				turn := acquire(t, l, fmt.Sprintf("host-%d.example", host), 0)
				turn.Observe(hostlimit.Outcome{Status: 200}) // it may be a probe
			}
		})
	}
	wg.Wait()
}
