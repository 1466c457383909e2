//go:build unix

package cputime

import (
	"testing"
	"time"
)

// TestAWaitCostsNothing, and a computation what it takes.
func TestAWaitCostsNothing(t *testing.T) {
	const long = 300 * time.Millisecond
	if took := Of(func() { time.Sleep(long) }); took > long/2 {
		t.Errorf("a wait costs %v", took)
	}
	computed := Of(func() {
		for began := used(); used()-began < long; {
			continue
		}
	})
	if computed < long {
		t.Errorf("a computation of %v costs %v", long, computed)
	}
}
