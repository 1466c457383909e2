package soak

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Without variables of its own a test has its short length.
func clean(t *testing.T) {
	for _, name := range []string{longEnv, soakEnv, seedEnv} {
		t.Setenv(name, "")
	}
}

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		env, value string
		want       []uint64
	}{
		{longEnv, "", []uint64{1, 2}},
		{longEnv, "1", []uint64{1, 2, 3}},
		{seedEnv, "17", []uint64{17}},
	} {
		t.Run(c.env+c.value, func(t *testing.T) {
			clean(t)
			t.Setenv(c.env, c.value)
			if got := slices.Collect(Seeds(t, 2, 3)); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A soak lasts as long as it is told to, in real time, whatever the time of a round is.
func TestASoakLastsItsTime(t *testing.T) {
	clean(t)
	t.Setenv(soakEnv, "50ms")
	begun, rounds := time.Now(), 0
	for range Seeds(t, 1, 1) {
		synctest.Test(t, func(t *testing.T) { time.Sleep(time.Hour) })
		rounds++
	}
	if took := time.Since(begun); rounds == 0 || took < 50*time.Millisecond {
		t.Errorf("%d rounds in %v", rounds, took)
	}
	begun = time.Now()
	over := Over(t)
	for !over() {
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("over after %v", took)
	}
	t.Setenv(soakEnv, "")
	if over := Over(t); over() || Size(1, 2, 3) != 1 {
		t.Error("there is no soak")
	}
}

// A recorder is a test that fails on demand.
type recorder struct {
	testing.TB
	failed bool
	log    string
}

func (r *recorder) Helper()      {}
func (r *recorder) Failed() bool { return r.failed }
func (r *recorder) Logf(format string, args ...any) {
	r.log += fmt.Sprintf(format, args...)
}

func TestAFailureNamesItsSeed(t *testing.T) {
	clean(t)
	r := &recorder{TB: t}
	rounds := 0
	for seed := range Seeds(r, 5, 5) {
		rounds++
		r.failed = seed == 3
	}
	if want := "POLITENESS_SEED=3 repeats this round"; rounds != 3 || r.log != want {
		t.Errorf("%d rounds, %q, want %q", rounds, r.log, want)
	}
	done := make(chan struct{})
	r = &recorder{TB: t}
	go func() { // as t.Fatal does
		defer close(done)
		for range Seeds(r, 5, 5) {
			r.failed = true
			runtime.Goexit()
		}
	}()
	<-done
	if want := "POLITENESS_SEED=1 repeats this round"; r.log != want {
		t.Errorf("%q, want %q", r.log, want)
	}
}
