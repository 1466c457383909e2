package redisbudget

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/internal/redistest"
)

// workerEnv makes a process of the test binary spend a budget: ADDRESS NAME.
const workerEnv = "REDISBUDGET_TEST_WORKER"

var fleetPages = flag.Int64("pages", 20_000, "pages that the processes of a fleet spend")

var names atomic.Int64

// newFleet returns n Budgets, as of n processes, that spend the same.
func newFleet(t *testing.T, limits budget.Limits, n int) []*Budget {
	t.Helper()
	name := fmt.Sprintf("%s-%d-%d", t.Name(), time.Now().UnixNano(), names.Add(1))
	var fleet []*Budget
	for range n {
		b, err := New(Config{Client: newClient(t, shared), Name: name, Limits: limits, Processes: n})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		fleet = append(fleet, b)
	}
	return fleet
}

// spend takes pages until they are refused, and returns how many it got.
func spend(t testing.TB, b *Budget, host func(i int64) string) (n int64, refusal error) {
	for {
		if _, err := b.Reserve(context.Background(), host(n)); err != nil {
			return n, err
		}
		n++
	}
}

func limitOf(t *testing.T, err error) string {
	t.Helper()
	var e *budget.Error
	if !errors.As(err, &e) || !errors.Is(err, budget.ErrExceeded) {
		t.Fatalf("err = %v, want a *budget.Error", err)
	}
	return e.Limit
}

func TestPagesAreExact(t *testing.T) {
	t.Parallel()
	const limit = 500
	fleet := newFleet(t, budget.Limits{Pages: limit}, 4)
	var total atomic.Int64
	var wg sync.WaitGroup
	for _, b := range fleet {
		for range 4 {
			wg.Go(func() {
				n, err := spend(t, b, func(int64) string { return "a.example" })
				total.Add(n)
				if !errors.Is(err, budget.ErrExceeded) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if total.Load() != limit {
		t.Errorf("%d pages, want %d", total.Load(), limit)
	}
	if u, err := fleet[0].Usage(t.Context()); err != nil || u.Pages != limit {
		t.Errorf("Usage = %+v, %v", u, err)
	}
}

func TestPagesPerHostAreExact(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, budget.Limits{PagesPerHost: 20}, 3)
	var wg sync.WaitGroup
	var total [3]atomic.Int64
	for _, b := range fleet {
		for h := range total {
			wg.Go(func() {
				n, err := spend(t, b, func(int64) string { return fmt.Sprint(h) })
				total[h].Add(n)
				var e *budget.Error
				if !errors.As(err, &e) || e.Limit != budget.PagesPerHost || e.Host != fmt.Sprint(h) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for h := range total {
		if n := total[h].Load(); n != 20 {
			t.Errorf("host %d: %d pages", h, n)
		}
	}
}

func TestBytesAreExact(t *testing.T) {
	t.Parallel()
	const limit = 10 << 20
	fleet := newFleet(t, budget.Limits{Bytes: limit, WarnAt: 0.5}, 3)
	var total, warned atomic.Int64
	var wg sync.WaitGroup
	for _, b := range fleet {
		wg.Go(func() {
			for i := int64(0); ; i++ {
				n, warnings, err := b.TakeBytes(context.Background(), 32<<10-i%7)
				warned.Add(int64(len(warnings)))
				if err != nil {
					if !errors.Is(err, budget.ErrExceeded) {
						t.Error(err)
					}
					return
				}
				total.Add(n)
			}
		})
	}
	wg.Wait()
	if total.Load() != limit || warned.Load() != 1 {
		t.Errorf("%d bytes of %d, %d warnings", total.Load(), limit, warned.Load())
	}
	if err := fleet[1].Check(t.Context(), "a.example", time.Time{}); limitOf(t, err) != budget.Bytes {
		t.Error(err)
	}
}

func TestRefundedPagesAreThereForAll(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, budget.Limits{Pages: 3, PagesPerHost: 3}, 2)
	a, b := fleet[0], fleet[1]
	for range 3 {
		if _, err := a.Reserve(t.Context(), "a.example"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Reserve(t.Context(), "a.example"); limitOf(t, err) != budget.Pages {
		t.Fatal(err)
	}
	a.Refund(t.Context(), "a.example")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := b.Reserve(t.Context(), "a.example")
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the refunded page never came back")
		}
	}
	if _, err := a.Reserve(t.Context(), "a.example"); limitOf(t, err) != budget.Pages {
		t.Fatal(err)
	}
}

func TestCloseGivesBack(t *testing.T) {
	t.Parallel()
	fleet := newFleet(t, budget.Limits{Pages: 100}, 2)
	if _, err := fleet[0].Reserve(t.Context(), "a.example"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fleet[0].Close(), fleet[0].Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet[0].Reserve(t.Context(), "a.example"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if n, _ := spend(t, fleet[1], func(int64) string { return "a.example" }); n != 99 {
		t.Errorf("%d pages left, want 99", n)
	}
}

func TestTimeRunsForAllFromTheFirstPage(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second // longer than a busy machine stands still
	fleet := newFleet(t, budget.Limits{Duration: limit, WarnAt: 0.02}, 2)
	if err := fleet[1].Check(t.Context(), "a.example", time.Now().Add(time.Hour)); limitOf(t, err) != budget.Time {
		t.Error(err)
	}
	if _, err := fleet[0].Reserve(t.Context(), "a.example"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(limit / 50)
	warnings := 0
	for range 3 {
		for _, b := range fleet {
			w, err := b.Reserve(t.Context(), "a.example")
			if err != nil && !errors.Is(err, budget.ErrExceeded) {
				t.Fatal(err)
			}
			for _, w := range w {
				if w.Limit == budget.Time {
					warnings++
				}
			}
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings", warnings)
	}
	time.Sleep(limit)
	for _, b := range fleet {
		if _, err := b.Reserve(t.Context(), "a.example"); limitOf(t, err) != budget.Time {
			t.Error(err)
		}
		u, err := b.Usage(t.Context())
		if err != nil || u.Elapsed < limit || u.Started.IsZero() {
			t.Errorf("Usage = %+v, %v", u, err)
		}
	}
}

func TestEachLimitWarnsOnce(t *testing.T) {
	fleet := newFleet(t, budget.Limits{Pages: 100, PagesPerHost: 60, WarnAt: 0.8}, 3)
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for _, b := range fleet {
		wg.Go(func() {
			for i := 0; ; i++ {
				w, err := b.Reserve(context.Background(), fmt.Sprint(i%2))
				if err != nil {
					return
				}
				mu.Lock()
				for _, w := range w {
					seen[w.Limit+w.Host]++
					if w.Used < int64(0.8*float64(w.Max)) || w.Used > w.Max {
						t.Errorf("warning %v", w)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if seen[budget.Pages] != 1 || seen[budget.PagesPerHost+"0"] > 1 || seen[budget.PagesPerHost+"1"] > 1 {
		t.Errorf("warnings: %v", seen)
	}
}

// TestLossIsMadeGood empties the server under a process.
func TestLossIsMadeGood(t *testing.T) {
	t.Parallel()
	s := redistest.New(t)
	client := newClient(t, s)
	b, err := New(Config{Client: client, Name: "loss", Limits: budget.Limits{Pages: 300, PagesPerHost: 200}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	total := 0
	for i := range 400 {
		if i%150 == 149 {
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Reserve(t.Context(), fmt.Sprint(i%2)); err == nil {
			total++
		} else if limitOf(t, err) != budget.Pages {
			t.Fatal(err)
		}
	}
	if total != 300 {
		t.Errorf("%d pages of 300", total)
	}
}

// A reply that is lost must not lose what it granted.
func TestLostReplyLosesNothing(t *testing.T) {
	fleet := newFleet(t, budget.Limits{Pages: 200}, 2)
	lossy := &losesReplies{}
	fleet[0].client.(*redis.Client).AddHook(lossy)
	n := int64(0)
	for {
		_, err := fleet[0].Reserve(t.Context(), "a.example")
		if errors.Is(err, budget.ErrExceeded) {
			break
		}
		if err == nil {
			n++
		}
	}
	if n != 200 || lossy.lost.Load() == 0 {
		t.Errorf("%d pages of 200 with %d lost replies", n, lossy.lost.Load())
	}
}

// A hook that losesReplies loses every other reply.
type losesReplies struct{ n, lost atomic.Int64 }

func (l *losesReplies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *losesReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") && l.n.Add(1)%2 == 0 {
			l.lost.Add(1)
			err = errors.New("connection reset")
			cmd.SetErr(err)
		}
		return err
	}
}

func (l *losesReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestServerError(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer client.Close()
	b, err := New(Config{Client: client, Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Reserve(t.Context(), "a.example")
	var e *ServerError
	if !errors.As(err, &e) || e.Name != "x" || !e.Temporary() || errors.Unwrap(e) == nil || errors.Is(err, budget.ErrExceeded) {
		t.Errorf("err = %v", err)
	}
}

func TestConfigProblemsAreReportedTogether(t *testing.T) {
	_, err := New(Config{Prefix: "{", Processes: -1, Limits: budget.Limits{Pages: -1}})
	for _, want := range []string{"Client", "Name", "Prefix", "Processes", "Pages"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v doesn't name %s", err, want)
		}
	}
}

// TestProcessesSpendExactly has eight processes spend one budget.
func TestProcessesSpendExactly(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("fleet-%d", time.Now().UnixNano())
	var outs []*strings.Builder
	var cmds []*exec.Cmd
	for range 8 {
		out := new(strings.Builder)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", workerEnv, shared.Addr, name, *fleetPages))
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	var pages, calls int64
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		var p, c int64
		if _, err := fmt.Sscan(outs[i].String(), &p, &c); err != nil {
			t.Fatal(err)
		}
		pages, calls = pages+p, calls+c
	}
	if pages != *fleetPages {
		t.Errorf("%d pages, want %d", pages, *fleetPages)
	}
	t.Logf("%d pages, %.4f calls a page", pages, float64(calls)/float64(pages))
}

func worker(work string) {
	var addr, name string
	var limit int64
	if _, err := fmt.Sscan(work, &addr, &name, &limit); err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	count := new(counter)
	client.AddHook(count)
	b, err := New(Config{Client: client, Name: name, Limits: budget.Limits{Pages: limit}, Processes: 8})
	if err != nil {
		panic(err)
	}
	n, err := spend(nil, b, func(int64) string { return "a.example" })
	if !errors.Is(err, budget.ErrExceeded) {
		panic(err)
	}
	_ = b.Close()
	fmt.Println(n, count.Load())
}

type counter struct{ atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			c.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
