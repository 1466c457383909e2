package budget_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/budget"
)

func TestValidateReportsAllProblems(t *testing.T) {
	tests := []struct {
		limits budget.Limits
		want   []string // fields named, in order
	}{
		{budget.Limits{}, nil},
		{budget.Limits{Pages: 200, PagesPerHost: 20, Bytes: 1 << 30, Duration: time.Hour, WarnAt: 0.8}, nil},
		{budget.Limits{Pages: -1}, []string{"Limits.Pages is"}},
		{budget.Limits{PagesPerHost: -1, Bytes: -2}, []string{"Limits.PagesPerHost", "Limits.Bytes"}},
		{budget.Limits{Duration: -time.Second}, []string{"Limits.Duration"}},
		{budget.Limits{Pages: 200, Every: 24 * time.Hour}, nil},
		{budget.Limits{Every: time.Second}, nil},
		{budget.Limits{Every: time.Second - 1}, []string{"Limits.Every is shorter"}},
		{budget.Limits{Every: -time.Hour}, []string{"Limits.Every is shorter"}},
		{budget.Limits{Every: 24 * time.Hour, Duration: time.Hour}, []string{"Limits.Every is 24h0m0s, and Limits.Duration 1h0m0s"}},
		{budget.Limits{WarnAt: 1}, []string{"Limits.WarnAt"}},
		{budget.Limits{WarnAt: -0.1}, []string{"Limits.WarnAt"}},
		{budget.Limits{WarnAt: math.NaN()}, []string{"Limits.WarnAt"}},
		{budget.Limits{Pages: -1, PagesPerHost: -1, Bytes: -1, Duration: -1, WarnAt: 80}, []string{
			"Limits.Pages is", "Limits.PagesPerHost", "Limits.Bytes", "Limits.Duration", "Limits.WarnAt",
		}},
	}
	for _, test := range tests {
		err := test.limits.Validate()
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
		}
		if len(lines) != len(test.want) {
			t.Errorf("%+v: %d problems, want %d: %v", test.limits, len(lines), len(test.want), err)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%+v: problem %d is %q, want %q in it", test.limits, i, lines[i], want)
			}
		}
	}
}

func TestErrorSaysWhichLimitAndByHowMuch(t *testing.T) {
	tests := []struct {
		err  *budget.Error
		want string
	}{
		{
			&budget.Error{Limit: budget.Pages, Used: 200, Want: 1, Max: 200},
			"budget exceeded: pages: 200 of 200 used, 1 more would be 1 over",
		},
		{
			&budget.Error{Limit: budget.PagesPerHost, Host: "example.com", Used: 20, Want: 1, Max: 20},
			"budget exceeded: pages of example.com: 20 of 20 used, 1 more would be 1 over",
		},
		{
			&budget.Error{Limit: budget.Bytes, Used: 900, Want: 512, Max: 1000},
			"budget exceeded: bytes: 900 of 1000 used, 512 more would be 412 over",
		},
		{
			&budget.Error{Limit: budget.Time, Used: 3725, Max: 3600},
			"budget exceeded: time: 1h2m5s of 1h0m0s used, 2m5s over",
		},
		{
			&budget.Error{Limit: budget.Time, Used: 3590, Want: 30, Max: 3600},
			"budget exceeded: time: 59m50s of 1h0m0s used, a start in 30s would be 20s over",
		},
	}
	for _, test := range tests {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
		if !errors.Is(fmt.Errorf("fetching: %w", test.err), budget.ErrExceeded) {
			t.Errorf("%v is not ErrExceeded", test.err)
		}
	}
}

func TestEachLimitRefuses(t *testing.T) {
	const host, other = "a.example", "b.example"
	tests := []struct {
		name   string
		limits budget.Limits
		spend  func(*testing.T, *budget.Memory)
		want   *budget.Error // nil: nothing refuses
		other  bool          // whether other is refused too
	}{
		{"unlimited", budget.Limits{}, pages(host, 1000), nil, false},
		{"pages left", budget.Limits{Pages: 3}, pages(host, 2), nil, false},
		{"pages", budget.Limits{Pages: 3}, pages(host, 3), &budget.Error{Limit: budget.Pages, Used: 3, Want: 1, Max: 3}, true},
		{
			"pages of a host",
			budget.Limits{PagesPerHost: 2},
			pages(host, 2),
			&budget.Error{Limit: budget.PagesPerHost, Host: host, Used: 2, Want: 1, Max: 2}, false,
		},
		{
			"bytes",
			budget.Limits{Bytes: 10},
			func(t *testing.T, m *budget.Memory) { take(t, m, 10, 10) },
			&budget.Error{Limit: budget.Bytes, Used: 10, Want: 1, Max: 10}, true,
		},
		{"negative", budget.Limits{Pages: -5}, nothing, &budget.Error{Limit: budget.Pages, Want: 1, Max: -5}, true},
		{"negative time", budget.Limits{Duration: -time.Minute}, nothing, &budget.Error{Limit: budget.Time, Max: -60}, true},
		{"refunded", budget.Limits{Pages: 1, PagesPerHost: 1}, func(t *testing.T, m *budget.Memory) {
			pages(host, 1)(t, m)
			m.Refund(t.Context(), host)
		}, nil, false},
		{"refund of nothing", budget.Limits{Pages: 1, PagesPerHost: 1}, func(t *testing.T, m *budget.Memory) {
			pages(host, 1)(t, m)
			m.Refund(t.Context(), other)
		}, &budget.Error{Limit: budget.Pages, Used: 1, Want: 1, Max: 1}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := budget.New(test.limits)
			test.spend(t, m)
			before, _ := m.Usage(t.Context())
			same(t, m.Check(t.Context(), host, time.Now()), test.want)
			if err := m.Check(t.Context(), other, time.Time{}); (err != nil) != test.other {
				t.Errorf("the other host: %v, want refused: %t", err, test.other)
			}
			after, _ := m.Usage(t.Context())
			if before.Pages != after.Pages || before.Bytes != after.Bytes || !before.Started.Equal(after.Started) {
				t.Errorf("Check spent something: %+v, then %+v", before, after)
			}
			_, err := m.Reserve(t.Context(), host)
			same(t, err, test.want)
		})
	}
}

func TestTakeBytesTakesWhatIsLeft(t *testing.T) {
	m := budget.New(budget.Limits{Bytes: 100})
	take(t, m, 60, 60)
	take(t, m, 60, 40)
	take(t, m, 0, 0)
	take(t, m, -30, 0)
	_, _, err := m.TakeBytes(t.Context(), 7)
	same(t, err, &budget.Error{Limit: budget.Bytes, Used: 100, Want: 7, Max: 100})
	if u, _ := m.Usage(t.Context()); u.Bytes != 100 {
		t.Errorf("%d bytes used, want 100", u.Bytes)
	}
}

func TestTimeRunsFromFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := budget.New(budget.Limits{Duration: time.Minute})
		time.Sleep(time.Hour) // unused: costs nothing
		same(t, m.Check(t.Context(), "a", time.Now().Add(59*time.Second)), nil)
		if u, _ := m.Usage(t.Context()); !u.Started.IsZero() || u.Elapsed != 0 {
			t.Fatalf("Check started the clock: %+v", u)
		}
		began := time.Now()
		pages("a", 1)(t, m)
		time.Sleep(59*time.Second + 999*time.Millisecond)
		pages("a", 1)(t, m)
		if u, _ := m.Usage(t.Context()); !u.Started.Equal(began) || u.Elapsed != 59*time.Second+999*time.Millisecond {
			t.Errorf("usage %+v, want it started at %v", u, began)
		}
		time.Sleep(time.Millisecond)
		_, err := m.Reserve(t.Context(), "a")
		same(t, err, &budget.Error{Limit: budget.Time, Used: 60, Max: 60})
		time.Sleep(5 * time.Second)
		same(t, m.Check(t.Context(), "a", time.Now()), &budget.Error{Limit: budget.Time, Used: 65, Max: 60})
		if n, _, err := m.TakeBytes(t.Context(), 9); n != 9 || err != nil {
			t.Errorf("TakeBytes after the time: %d, %v; a body that began in time may end", n, err)
		}
	})
}

func TestWaitThatOutlastsTheTimeIsRefusedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := budget.New(budget.Limits{Duration: time.Minute})
		pages("a", 1)(t, m)
		time.Sleep(50 * time.Second)
		now := time.Now()
		tests := []struct {
			start time.Time
			want  *budget.Error
		}{
			{time.Time{}, nil},
			{now.Add(-time.Hour), nil},
			{now.Add(10*time.Second - 1), nil},
			{now.Add(10 * time.Second), &budget.Error{Limit: budget.Time, Used: 50, Want: 10, Max: 60}},
			{now.Add(30 * time.Second), &budget.Error{Limit: budget.Time, Used: 50, Want: 30, Max: 60}},
			{now.AddDate(5000, 0, 0), &budget.Error{Limit: budget.Time, Used: 50, Want: int64(math.MaxInt64/time.Second) - 50, Max: 60}},
		}
		for _, test := range tests {
			same(t, m.Check(t.Context(), "a", test.start), test.want)
		}
	})
}

func TestWarnsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := budget.New(budget.Limits{Pages: 10, PagesPerHost: 5, Bytes: 1000, Duration: 100 * time.Second, WarnAt: 0.8})
		var got []budget.Warning
		page := func(host string) {
			w, err := m.Reserve(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, w...)
		}
		read := func(n int64) {
			_, warnings, err := m.TakeBytes(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, warnings...)
		}
		for range 4 {
			page("a")
		}
		m.Refund(t.Context(), "a")
		page("a") // at the threshold a second time
		read(799)
		read(1)
		read(10)
		time.Sleep(80 * time.Second)
		for range 4 {
			page("b")
		}
		page("a")
		want := []budget.Warning{
			{Limit: budget.PagesPerHost, Host: "a", Used: 4, Max: 5},
			{Limit: budget.Bytes, Used: 800, Max: 1000},
			{Limit: budget.Time, Used: 80, Max: 100},
			{Limit: budget.Pages, Used: 8, Max: 10},
			{Limit: budget.PagesPerHost, Host: "b", Used: 4, Max: 5},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("warned\n%v\nwant\n%v", got, want)
		}
	})
}

func TestWarnsAtTheShare(t *testing.T) {
	tests := []struct {
		pages  int64
		warnAt float64
		want   int64 // page that warns; 0: none
	}{
		{200, 0.8, 160},
		{100, 0.07, 7}, // 0.07 * 100 > 7 in floating point
		{10, 0.75, 8},
		{3, 0.5, 2},
		{1, 0.5, 1},
		{1, 0.001, 1},
		{5, 0.9999999, 5},
		{200, 0, 0},
		{0, 0.8, 0},
		{200, 1.5, 0}, // Validate reports it
	}
	for _, test := range tests {
		m := budget.New(budget.Limits{Pages: test.pages, WarnAt: test.warnAt})
		var at int64
		for i := range int64(200) {
			w, err := m.Reserve(t.Context(), "a")
			if err != nil {
				break
			}
			if len(w) > 0 {
				at = i + 1
			}
		}
		if at != test.want {
			t.Errorf("%d pages at %v: warned at page %d, want %d", test.pages, test.warnAt, at, test.want)
		}
	}
}

func TestWarningString(t *testing.T) {
	for w, want := range map[budget.Warning]string{
		{Limit: budget.Pages, Used: 160, Max: 200}:                         "budget nearly spent: pages: 160 of 200 used",
		{Limit: budget.PagesPerHost, Host: "example.com", Used: 4, Max: 5}: "budget nearly spent: pages of example.com: 4 of 5 used",
		{Limit: budget.Time, Used: 2880, Max: 3600}:                        "budget nearly spent: time: 48m0s of 1h0m0s used",
	} {
		if got := w.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// 1,000 goroutines on one budget: N limits N, never N+1, and never N-1.
func TestExactUnderConcurrency(t *testing.T) {
	const goroutines, limit, perHost, bytes = 1000, 700, 90, 4321
	hosts := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} // 9 * 90 > 700 > 7 * 90
	m := budget.New(budget.Limits{Pages: limit, PagesPerHost: perHost, WarnAt: 0.5})
	var sent, warnings atomic.Int64
	perHostSent := make([]atomic.Int64, len(hosts))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			<-start
			for j := range hosts {
				n := (i + j) % len(hosts)
				w, err := m.Reserve(t.Context(), hosts[n])
				warnings.Add(int64(len(w)))
				if err != nil {
					continue
				}
				if i%3 == 0 {
					m.Refund(t.Context(), hosts[n])
					continue
				}
				sent.Add(1)
				perHostSent[n].Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	for i, host := range hosts { // whatever refunds have left over
		for {
			if _, err := m.Reserve(t.Context(), host); err != nil {
				break
			}
			sent.Add(1)
			perHostSent[i].Add(1)
		}
	}
	if sent.Load() != limit {
		t.Errorf("%d pages sent, limit %d", sent.Load(), limit)
	}
	for i := range perHostSent {
		if n := perHostSent[i].Load(); n > perHost {
			t.Errorf("%d pages of %s, limit %d", n, hosts[i], perHost)
		}
	}
	if n := warnings.Load(); n > 1+int64(len(hosts)) {
		t.Errorf("%d warnings, want at most one for the pages and one for each host", n)
	}

	b := budget.New(budget.Limits{Bytes: bytes})
	var read atomic.Int64
	for range goroutines {
		wg.Go(func() {
			for {
				n, _, err := b.TakeBytes(t.Context(), 13)
				if err != nil {
					return
				}
				read.Add(n)
			}
		})
	}
	wg.Wait()
	if read.Load() != bytes {
		t.Errorf("%d bytes read, limit %d", read.Load(), bytes)
	}
}

// Whatever is reserved, refunded, taken and given, the counts are those of a plain model.
func TestMatchesModel(t *testing.T) {
	hosts := []string{"a", "b", "c"}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := budget.Limits{Pages: rng.Int64N(20), PagesPerHost: rng.Int64N(8), Bytes: rng.Int64N(500)}
		m := budget.New(l)
		var pages, bytes int64
		held := map[string]int64{}
		full := func(used, limit int64) bool { return limit != 0 && used >= limit }
		for step := range 300 {
			host := hosts[rng.IntN(len(hosts))]
			switch rng.IntN(4) {
			case 0, 1:
				want := full(pages, l.Pages) || full(held[host], l.PagesPerHost) || full(bytes, l.Bytes)
				if err := m.Check(t.Context(), host, time.Now()); (err != nil) != want {
					t.Fatalf("seed %d, step %d: Check %v, want refused: %t", seed, step, err, want)
				}
				_, err := m.Reserve(t.Context(), host)
				if (err != nil) != want {
					t.Fatalf("seed %d, step %d: Reserve %v, want refused: %t", seed, step, err, want)
				}
				if err == nil {
					pages++
					held[host]++
				}
			case 2:
				if held[host] > 0 {
					m.Refund(t.Context(), host)
					pages--
					held[host]--
				}
			case 3:
				ask := rng.Int64N(50) + 1
				want := ask
				if l.Bytes != 0 {
					want = min(ask, l.Bytes-bytes)
				}
				n, _, err := m.TakeBytes(t.Context(), ask)
				if n != want || (err != nil) != (want == 0) {
					t.Fatalf("seed %d, step %d: TakeBytes(%d) = %d, %v; want %d", seed, step, ask, n, err, want)
				}
				bytes += n
			}
		}
		if u, _ := m.Usage(t.Context()); u.Pages != pages || u.Bytes != bytes || u.Limits != l {
			t.Fatalf("seed %d: usage %+v, want %d pages, %d bytes", seed, u, pages, bytes)
		}
	}
}

func TestNothingIsAllocatedForAKnownHost(t *testing.T) {
	m := budget.New(budget.Limits{Pages: 1 << 40, PagesPerHost: 1 << 40, Bytes: 1 << 40, Duration: time.Hour, WarnAt: 0.5})
	ctx := t.Context()
	_, _ = m.Reserve(ctx, "a")
	if n := testing.AllocsPerRun(100, func() {
		_ = m.Check(ctx, "a", time.Time{})
		_, _ = m.Reserve(ctx, "a")
		_, _, _ = m.TakeBytes(ctx, 100)
	}); n != 0 {
		t.Errorf("%v allocations a page, want none", n)
	}
}

func BenchmarkPage(b *testing.B) {
	m := budget.New(budget.Limits{Pages: math.MaxInt64, PagesPerHost: math.MaxInt64, Bytes: math.MaxInt64, Duration: 1 << 60, WarnAt: 0.99})
	ctx := b.Context()
	for b.Loop() {
		_ = m.Check(ctx, "a", time.Time{})
		_, _ = m.Reserve(ctx, "a")
		_, _, _ = m.TakeBytes(ctx, 1)
	}
}

func nothing(*testing.T, *budget.Memory) {}

func pages(host string, n int) func(*testing.T, *budget.Memory) {
	return func(t *testing.T, m *budget.Memory) {
		t.Helper()
		for range n {
			if _, err := m.Reserve(t.Context(), host); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func take(t *testing.T, m *budget.Memory, n, want int64) {
	t.Helper()
	if got, _, err := m.TakeBytes(t.Context(), n); got != want || err != nil {
		t.Fatalf("TakeBytes(%d) = %d, %v; want %d", n, got, err, want)
	}
}

// same fails unless err is an *Error equal to want, or both are nil.
func same(t *testing.T, err error, want *budget.Error) {
	t.Helper()
	if want == nil {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	got, ok := errors.AsType[*budget.Error](err)
	if !ok || *got != *want {
		t.Errorf("got %+v, want %+v", err, want)
	}
}

// TestEveryRenewsTheBudget at midnight in UTC, whatever was spent and warned of before.
func TestEveryRenewsTheBudget(t *testing.T) {
	if w := (budget.Limits{}).Window(time.Now()); !w.IsZero() {
		t.Errorf("a budget that is spent once has a window, which began at %v", w)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		time.Sleep(time.Until(time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC)))
		b := budget.New(budget.Limits{Pages: 4, PagesPerHost: 3, Bytes: 100, WarnAt: 0.5, Every: 24 * time.Hour})
		for day := range 3 {
			pages, warned := 0, 0
			for i := range 10 {
				w, err := b.Reserve(ctx, fmt.Sprint(i%2))
				if err == nil {
					pages++
				} else if !errors.Is(err, budget.ErrExceeded) {
					t.Fatal(err)
				}
				warned += len(w)
			}
			n, w, err := b.TakeBytes(ctx, 1000)
			if _, _, gone := b.TakeBytes(ctx, 1); pages != 4 || warned != 3 || n != 100 || err != nil || len(w) != 1 || !errors.Is(gone, budget.ErrExceeded) {
				t.Errorf("day %d: %d pages, %d warnings, %d bytes, %v, %v", day, pages, warned, n, w, err)
			}
			if u, _ := b.Usage(ctx); u.Pages != 4 || u.Bytes != 100 {
				t.Errorf("day %d: %+v", day, u)
			}
			time.Sleep(time.Until(time.Now().UTC().Truncate(24*time.Hour).Add(24*time.Hour)) - 1)
			if err := b.Check(ctx, "2", time.Time{}); !errors.Is(err, budget.ErrExceeded) {
				t.Errorf("just before midnight: %v", err)
			}
			time.Sleep(time.Nanosecond)
			if u, _ := b.Usage(ctx); u.Pages != 0 || u.Bytes != 0 || !u.Started.IsZero() {
				t.Errorf("at midnight: %+v", u)
			}
		}
	})
}

// TestPageOfTheWindowBeforeIsNoPageOfThis: one that is given back after midnight stays spent,
// however long after, and one of this window doesn't: see charge.refund for who asks.
func TestPageOfTheWindowBeforeIsNoPageOfThis(t *testing.T) {
	for _, perHost := range []int64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			b := budget.New(budget.Limits{Pages: 1, PagesPerHost: perHost, Every: 24 * time.Hour})
			reserve := func() time.Time {
				if _, err := b.Reserve(ctx, "a.example"); err != nil {
					t.Fatal(err)
				}
				return b.Window()
			}
			giveBack := func(window time.Time) {
				if window.Equal(b.Window()) {
					b.Refund(ctx, "a.example")
				}
			}
			giveBack(reserve())
			time.Sleep(23 * time.Hour)
			yesterday := reserve() // waits for its turn
			time.Sleep(2 * time.Hour)
			today := reserve() // all of the second day
			if want := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); !yesterday.Equal(want) || !today.Equal(want.AddDate(0, 0, 1)) {
				t.Errorf("windows of %v and %v", yesterday, today)
			}
			time.Sleep(2 * time.Hour)
			giveBack(yesterday)
			if _, err := b.Reserve(ctx, "a.example"); !errors.Is(err, budget.ErrExceeded) {
				t.Errorf("two pages in a day of one: %v", err)
			}
			giveBack(today)
			reserve()
		})
	}
}
