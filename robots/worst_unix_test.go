//go:build unix

package robots_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness/robots"
)

// TestChecksOfCostlyFilesAreBounded: however a file is made, a check takes no more of the processor
// than to go through its bytes a dozen times; that is milliseconds.
func TestChecksOfCostlyFilesAreBounded(t *testing.T) {
	const most = 12
	for _, w := range some(worst) {
		body, path := w.make()
		rules := robots.Parse(body).Agent("FooBot")
		check := leastCPU(t, func() { rules.Test(path) })
		sum := byte(1)
		read := leastCPU(t, func() {
			for _, c := range body {
				sum = sum*31 + c
			}
		})
		t.Logf("%s: %v, %.1f times the reading", w.name, check, float64(check)/float64(read))
		if check > most*read || sum == 0 {
			t.Errorf("%s: a check takes %v, to read the file %v", w.name, check, read)
		}
	}
}

// leastCPU returns the least processor time that f takes.
func leastCPU(t *testing.T, f func()) time.Duration {
	t.Helper()
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	least := time.Hour
	for range 3 {
		before := cpu()
		f()
		least = min(least, cpu()-before)
	}
	return least
}
