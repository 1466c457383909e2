//go:build unix

package robots_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/robotsgen"
	"github.com/go-politeness/politeness/robots"
)

// TestChecksOfCostlyFilesAreBounded: however a file is made, a check takes no more of the processor
// than to go through its bytes two dozen times, which is twice what the worst one takes: some 20 ms.
func TestChecksOfCostlyFilesAreBounded(t *testing.T) {
	const most = 24
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

// TestPreferencesOfCostlyFilesAreBounded: lines of Content-Usage cost no more than rules do, which
// shows for the longest paths.
func TestPreferencesOfCostlyFilesAreBounded(t *testing.T) {
	const most = 100
	for name, w := range map[string]worstFile{
		"nearly everywhere": {rule: func(_ *rand.Rand, i int) string { return fmt.Sprintf("/*aaaaa%05d", i) }, path: letters("a")},
		"random ab, 64":     {rule: func(r *rand.Rand, i int) string { return "/" + abPattern(64, 1)(r, i) }, path: letters("ab")},
	} {
		lines, path := w.make()
		body := bytes.ReplaceAll(lines, []byte("\nallow:"), []byte(" bots=n\ncontent-usage:"))
		body = append([]byte("user-agent:*"), body[bytes.IndexByte(body, '\n'):500<<10]...)
		rules := robots.Parse(body).Agent("FooBot")
		target := "/" + strings.Repeat(path[1:], 32)
		check := medianCPU(t, func() { rules.Preferences(target) })
		read := medianCPU(t, func() { goThrough(body) })
		t.Logf("%s: %v, %.1f times the reading", name, check, float64(check)/float64(read))
		if check > most*read {
			t.Errorf("%s: preferences take %v, to read the file %v", name, check, read)
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
