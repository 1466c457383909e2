package hostlimit_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

const debtor = "www.example.com"

// TestMemoryOnAFaultyDisk: whichever file operation fails, no request does; what isn't reported is kept, and
// what couldn't be kept is tried again while its process lives.
func TestMemoryOnAFaultyDisk(t *testing.T) {
	operations := 1
	for fail := 1; fail <= operations; fail++ {
		for _, f := range []hostlimit.Fault{{Err: syscall.ENOSPC}, {Err: syscall.EROFS, After: true}, {Err: syscall.EIO, Broken: true}} {
			f.At = fail
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				store, made := hostlimit.FaultyDir(dir, f)
				reported := refusedOn(t, store, f.Broken)
				operations = max(operations, made())
				if kept := blockedOn(t, hostlimit.Dir(dir)); !kept && (!reported || !f.Broken) {
					t.Errorf("operation %d (%v, after: %v, broken: %v): the block is lost, reported: %v", fail, f.Err, f.After, f.Broken, reported)
				}
			})
		}
	}
	if operations < 8 {
		t.Errorf("%d operations: too few", operations)
	}
}

// refusedOn is a process that is refused for an hour, and reports whether it was told that state
// was lost. Unless the disk is broken, it lives long enough to try again.
func refusedOn(t *testing.T, s hostlimit.Store, broken bool) (reported bool) {
	t.Helper()
	m, err := memory.New(hostlimit.Config{Store: s, MaxWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Acquire(t.Context(), debtor, 0)
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
	l.Release()
	if !e.Blocked || e.Refusals != 1 {
		t.Errorf("%+v", e)
	}
	if !broken {
		time.Sleep(10 * time.Second) // until the Memory reads the debt again
	}
	_, err = m.Acquire(t.Context(), debtor, 0)
	var refused *hostlimit.Error
	if !broken && err == nil {
		t.Error("a disk lifts a block")
	} else if errors.As(err, &refused) && refused.StateErr != nil {
		reported = true
	}
	return reported || g.StateErr != nil || e.StateErr != nil
}

// blockedOn reports whether the next process finds the block.
func blockedOn(t *testing.T, s hostlimit.Store) bool {
	t.Helper()
	m, err := memory.New(hostlimit.Config{Store: s, MaxWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	at, err := m.Next(t.Context(), debtor, 0)
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(at) > 50*time.Minute
}
