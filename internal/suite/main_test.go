//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A command that fails keeps none from running, and fails the whole.
func TestOneFailureFailsTheWhole(t *testing.T) {
	var out bytes.Buffer
	tasks := []*task{
		{name: "bad", dir: ".", command: []string{"bash", "-c", "echo because; exit 3"}},
		{name: "gone", dir: "no-such-directory", command: []string{"true"}},
		{name: "good", dir: ".", command: []string{"echo", "fine"}},
	}
	run(t.Context(), &out, 1, tasks)
	ok := summarize(&out, tasks, time.Second)
	if got := out.String(); ok || !strings.Contains(got, "== bad: FAILED, exit status 3 after 0 s\nbecause\n") ||
		!strings.Contains(got, "== gone no-such-directory: FAILED, ") || !strings.Contains(got, "== good: ok after 0 s\nfine\n") {
		t.Errorf("%v\n%s", ok, got)
	}
	if !summarize(&out, tasks[2:], time.Second) {
		t.Error("it failed without a failure")
	}
}

// TestLiveTasksShowTheirOutput as it comes, one after the other.
func TestLiveTasksShowTheirOutput(t *testing.T) {
	var out bytes.Buffer
	tasks := with("WORD=fine", live([]*task{
		{name: "one", dir: ".", command: []string{"bash", "-c", "sleep .05; echo $WORD"}},
		{name: "two", dir: ".", command: []string{"echo", "too"}},
	}))
	run(t.Context(), &out, 2, tasks)
	if got, want := out.String(), "== one\nfine\n== one: ok after 0 s\n== two\ntoo\n== two: ok after 0 s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
