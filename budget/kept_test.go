package budget_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/internal/soak"
	"github.com/go-politeness/politeness/internal/statedir"
)

// spendAll reserves pages of host until the budget refuses, and returns their number.
func spendAll(t *testing.T, b budget.Budget, host string) (n int64) {
	t.Helper()
	for {
		_, err := b.Reserve(t.Context(), host)
		if err != nil {
			if !errors.Is(err, budget.ErrExceeded) {
				t.Fatal(err)
			}
			return n
		}
		n++
	}
}

// TestKeptRunsSpendTogether: runs one after another have the pages of one window together, and all
// of them in the next.
func TestKeptRunsSpendTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		limits := budget.Limits{Pages: 250, Every: 24 * time.Hour}
		for day := range 3 {
			var spent int64
			for run := range 5 {
				k := budget.Keep(dir, limits)
				if run == 4 {
					spent += spendAll(t, k, "example.com")
					break
				}
				for range 31 {
					if _, err := k.Reserve(t.Context(), "example.com"); err != nil {
						t.Fatal(err)
					}
					spent++
				}
				if run == 1 { // a page that isn't sent
					k.Refund(t.Context(), "example.com")
					spent--
				}
				if err := k.GiveBack(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if spent != limits.Pages {
				t.Errorf("day %d: %d pages, want %d", day, spent, limits.Pages)
			}
			k := budget.Keep(dir, limits)
			if err := k.Check(t.Context(), "example.com", time.Time{}); !errors.Is(err, budget.ErrExceeded) {
				t.Errorf("a run after the last page: %v", err)
			}
			if used, err := k.Usage(t.Context()); err != nil || used.Pages != limits.Pages {
				t.Errorf("usage: %+v, %v", used, err)
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

// TestKeptSurvivesKills: the leave of a process that is killed counts as spent, so never more than
// the limit is spent, and a kill loses a block at most.
func TestKeptSurvivesKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		limits := budget.Limits{Pages: 1000, PagesPerHost: 600, Bytes: 1 << 20, Every: time.Hour}
		var spent, bytes, killed int64
		for {
			k := budget.Keep(dir, limits)
			before := spent
			for i := range 17 {
				host := []string{"a.example", "b.example"}[i%2]
				if _, err := k.Reserve(t.Context(), host); err != nil {
					break
				}
				spent++
				n, _, err := k.TakeBytes(t.Context(), 300)
				if err != nil {
					break
				}
				bytes += n
			}
			if spent == before {
				break
			}
			killed++
		}
		if spent > limits.Pages || bytes > limits.Bytes {
			t.Errorf("%d pages, %d bytes of %+v", spent, bytes, limits)
		}
		if least := limits.Pages - killed*limits.Pages/100; spent < least {
			t.Errorf("%d pages after %d kills, want %d at least", spent, killed, least)
		}
	})
}

// TestKeptIsExactSideBySide: budgets on one directory never pass a limit together, and reach it if
// they give back what they don't spend.
func TestKeptIsExactSideBySide(t *testing.T) {
	dir := t.TempDir()
	limits := budget.Limits{Pages: 700, PagesPerHost: 300, Bytes: 1_000_000, Every: 24 * time.Hour}
	var pages, bytes atomic.Int64
	hosts := make([]atomic.Int64, 4)
	var all sync.WaitGroup
	budgets := make([]*budget.Kept, 4)
	for i := range budgets {
		budgets[i] = budget.Keep(dir, limits)
		for range 4 {
			all.Go(func() {
				for refused := 0; refused < 8; {
					host := rand.IntN(len(hosts))
					_, err := budgets[i].Reserve(t.Context(), fmt.Sprintf("h%d.example", host))
					if err != nil {
						refused++
						continue
					}
					if rand.IntN(5) == 0 {
						budgets[i].Refund(t.Context(), fmt.Sprintf("h%d.example", host))
						continue
					}
					pages.Add(1)
					hosts[host].Add(1)
					n, _, _ := budgets[i].TakeBytes(t.Context(), 333)
					bytes.Add(n)
				}
			})
		}
	}
	all.Wait()
	if pages.Load() > limits.Pages || bytes.Load() > limits.Bytes {
		t.Errorf("%d pages, %d bytes of %+v", pages.Load(), bytes.Load(), limits)
	}
	for i := range hosts {
		if n := hosts[i].Load(); n > limits.PagesPerHost {
			t.Errorf("host %d: %d pages", i, n)
		}
	}
	for _, k := range budgets {
		if err := k.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last := budget.Keep(dir, limits)
	for _, host := range []string{"x.example", "y.example", "z.example"} {
		pages.Add(spendAll(t, last, host))
	}
	if pages.Load() != limits.Pages {
		t.Errorf("%d pages in all, want %d", pages.Load(), limits.Pages)
	}
}

// TestKeptCostsNoFileAPage: a hundred writes in a window.
func TestKeptCostsNoFileAPage(t *testing.T) {
	dir := t.TempDir()
	k := budget.Keep(dir, budget.Limits{Pages: 10_000, Bytes: 1e9, Every: 24 * time.Hour})
	writes := 0
	var last os.FileInfo
	for range 10_000 {
		if _, err := k.Reserve(t.Context(), "example.com"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := k.TakeBytes(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			info, err := os.Stat(name)
			if err != nil || filepath.Base(name) == "lock" {
				continue
			}
			if last == nil || !os.SameFile(last, info) { // a file is replaced as a whole
				writes++
			}
			last = info
		}
	}
	if writes > 102 {
		t.Errorf("%d writes for 10,000 pages", writes)
	}
}

// TestKeptGoesOnWithoutItsDirectory: a loss stops no page, is reported, and passes no limit.
func TestKeptGoesOnWithoutItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "budget")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory can be made there
		t.Fatal(err)
	}
	k := budget.Keep(dir, budget.Limits{Pages: 300, PagesPerHost: 200, Every: 24 * time.Hour})
	if n := spendAll(t, k, "a.example") + spendAll(t, k, "b.example"); n != 300 {
		t.Errorf("%d pages, want 300", n)
	}
	if err := k.Lost(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("lost: %v", err)
	}
}

// TestKeptWhereTheClockIsSetBack: a run into the window before spends nothing more, and one after a
// clock that was a year ahead has this window's pages, less those of then.
func TestKeptWhereTheClockIsSetBack(t *testing.T) {
	dir := t.TempDir()
	limits := budget.Limits{Pages: 100, Every: 24 * time.Hour}
	run := func(at time.Duration, pages int) (n int64) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(at)
			k := budget.Keep(dir, limits)
			for range pages {
				if _, err := k.Reserve(t.Context(), "example.com"); err == nil {
					n++
				}
			}
			if err := k.GiveBack(t.Context()); err != nil {
				t.Error(err)
			}
		})
		return n
	}
	day := 24 * time.Hour
	for _, step := range []struct {
		at    time.Duration
		pages int
		want  int64
	}{
		{day - time.Hour, 100, 100},
		{day + time.Hour, 40, 40},
		{day - time.Hour, 100, 0}, // an hour back, over midnight
		{day + 2*time.Hour, 100, 60},
		{400 * day, 30, 30},
		{3 * day, 100, 70}, // the clock was wrong
		{4 * day, 100, 100},
	} {
		if got := run(step.at, step.pages); got != step.want {
			t.Errorf("at %v: %d pages, want %d", step.at, got, step.want)
		}
	}
}

// TestGiveBackReachesEachHost, also of many, whose files are written at the same time.
func TestGiveBackReachesEachHost(t *testing.T) {
	dir := t.TempDir()
	limits := budget.Limits{PagesPerHost: 1000, Every: 1000 * time.Hour} // leave in blocks of ten
	const hosts = 100
	const each = 3
	for range 2 {
		k := budget.Keep(dir, limits)
		for host := range hosts {
			for range each {
				if _, err := k.Reserve(t.Context(), fmt.Sprintf("h%d.example", host)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := k.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last := budget.Keep(dir, limits)
	for _, host := range []string{"h0.example", "h57.example", "h99.example"} {
		pages := 0
		for {
			if _, err := last.Reserve(t.Context(), host); err != nil {
				break
			}
			pages++
		}
		if want := 1000 - 2*each; pages != want {
			t.Errorf("%s: %d pages were left, want %d", host, pages, want)
		}
	}
}

// keptEnv makes the test binary a process that spends a kept budget until it is killed or refused.
const keptEnv = "POLITENESS_TEST_KEPT"

var killedLimits = budget.Limits{Pages: 5000, Every: 7 * 24 * time.Hour}

func TestMain(m *testing.M) {
	dir := os.Getenv(keptEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	k := budget.Keep(dir, killedLimits)
	for {
		if _, err := k.Reserve(context.Background(), "example.com"); err != nil {
			fmt.Println("end", err)
			os.Exit(0)
		}
		fmt.Println("page") // written before the next one is reserved
		time.Sleep(100 * time.Microsecond)
	}
}

// TestKeptSurvivesRealKills: processes on one directory, two at a time, that are killed at any
// instant.
func TestKeptSurvivesRealKills(t *testing.T) {
	dir := t.TempDir()
	var pages, kills, ended atomic.Int64
	process := func(after time.Duration) { // until it is killed; 0: it isn't
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), keptEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Error(err)
			return
		}
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return
		}
		if after > 0 {
			defer time.AfterFunc(after, func() { _ = cmd.Process.Kill() }).Stop()
		}
		killed := true
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "page" {
				pages.Add(1)
			} else {
				killed = false
			}
		}
		_ = cmd.Wait()
		if killed {
			kills.Add(1)
		} else {
			ended.Add(1)
		}
	}
	most := int64(soak.Size(6, 20, 100))
	for kills.Load() < most && ended.Load() == 0 {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { process(time.Duration(20+rand.IntN(120)) * time.Millisecond) })
		}
		both.Wait()
	}
	// Those that are left are spent by one that isn't killed.
	process(0)
	n := pages.Load()
	if n > killedLimits.Pages {
		t.Errorf("%d pages of %d", n, killedLimits.Pages)
	}
	// A kill loses a block, and the page whose line wasn't written any more.
	if least := killedLimits.Pages - kills.Load()*(killedLimits.Pages/100+1); n < least {
		t.Errorf("%d pages after %d kills, want %d at least", n, kills.Load(), least)
	}
	t.Logf("%d pages of %d, %d kills", n, killedLimits.Pages, kills.Load())
}

// TestKeptHostsWaitForNoOther: the files of two hosts are used at the same time, so a file that
// another process has locked holds up its own host only.
func TestKeptHostsWaitForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k := budget.Keep(dir, budget.Limits{PagesPerHost: 10, Every: time.Hour})
		key := func(host string) string { return statedir.New(dir, statedir.OS{}).File("every 1h0m0s of " + host) }
		const locked = "locked.example"
		unlock, err := statedir.New(dir, statedir.OS{}).Lock(t.Context(), key(locked))
		if err != nil {
			t.Fatal(err)
		}
		reserved := make(chan error)
		go func() {
			_, err := k.Reserve(t.Context(), locked)
			reserved <- err
		}()
		time.Sleep(time.Second) // it waits for the lock
		begin := time.Now()
		for i := range 50 {
			host := fmt.Sprintf("host%d.example", i)
			if filepath.Dir(key(host)) == filepath.Dir(key(locked)) {
				continue // it has the same lock
			}
			if _, err := k.Reserve(t.Context(), host); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("other hosts waited for %v", waited)
		}
		unlock()
		if err := <-reserved; err != nil {
			t.Error(err)
		}
	})
}
