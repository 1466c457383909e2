//go:build unix

package robots_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/robotsgen"
	"github.com/go-politeness/politeness/robots"
)

// TestChecksOfCostlyFilesAreBounded: however a file is made, a check takes no more of the processor
// than to go through its bytes a dozen times; that is milliseconds.
func TestChecksOfCostlyFilesAreBounded(t *testing.T) {
	const most = 12
	for _, w := range some(worst) {
		body, path := w.make()
		rules := robots.Parse(body).Agent("FooBot")
		check := medianCPU(t, func() { rules.Test(path) })
		read := medianCPU(t, func() { goThrough(body) })
		t.Logf("%s: %v, %.1f times the reading", w.name, check, float64(check)/float64(read))
		if check > most*read {
			t.Errorf("%s: a check takes %v, to read the file %v", w.name, check, read)
		}
	}
}

// TestChecksOfLargeFilesAreQuick: a usual file has an index, whatever its length.
func TestChecksOfLargeFilesAreQuick(t *testing.T) {
	body := robotsgen.File(robotsgen.Shapes[len(robotsgen.Shapes)-1]) // 450 KB
	paths := robotsgen.Paths(body, 20)
	rules := robots.Parse(body).Agent("FooBot")
	check := medianCPU(t, func() {
		for _, path := range paths {
			rules.Test(path)
		}
	})
	read := medianCPU(t, func() { goThrough(body) })
	t.Logf("%d checks in %v, to read the file takes %v", len(paths), check, read)
	if check > read/4 {
		t.Errorf("%d checks take %v, to read the file %v", len(paths), check, read)
	}
}

var sum byte // keeps goThrough from being left out

func goThrough(body []byte) {
	for _, c := range body {
		sum = sum*31 + c
	}
}

// medianCPU returns the median of the processor time that f takes, of a dozen times: what runs beside
// it in the process makes some longer, and a busy machine counts a part of one with the next.
func medianCPU(t *testing.T, f func()) time.Duration {
	t.Helper()
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	took := make([]time.Duration, 12)
	for i := range took {
		before := cpu()
		f()
		took[i] = cpu() - before
	}
	slices.Sort(took)
	return took[len(took)/2]
}
