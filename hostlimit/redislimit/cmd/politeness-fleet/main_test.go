package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/redislimit"
	"github.com/go-politeness/politeness/internal/redistest"
)

// TestCommandSteersAFleet runs the command, as a user has it, beside a crawler on a real server.
func TestCommandSteersAFleet(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "politeness-fleet.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server, err := redistest.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	run := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"-redis", server.Addr, "-prefix", "fleet:"}, args...)...)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%q: exit status %d, not %d (%v)\n%s", args, got, want, err, out)
		}
		if i := strings.IndexFunc(string(out), func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
			t.Errorf("%q: a control character at %d of %q", args, i, out)
		}
		return string(out)
	}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("it doesn't say %q:\n%s", w, out)
			}
		}
	}

	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	crawler, err := redislimit.New(redislimit.Config{
		Client: client, Prefix: "fleet:", Name: "crawler \x1b[31mone",
		Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, MaxWait: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = crawler.Close() })
	start := func(key string) (hostlimit.Lease, error) {
		lease, err := crawler.Acquire(t.Context(), key, 0)
		if err == nil {
			_, err = lease.Start(t.Context())
		}
		return lease, err
	}

	says(run(exitOK, "list"), "(no host")
	flying, err := start("a.example")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(run(exitOK, "list")) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == "a.example" && (f[1] != "1" || f[2] != "1" || f[3] != "0") {
			t.Errorf("one start, in flight: %q", line)
		}
	}
	says(run(exitOK, "processes"), `crawler \x1b[31mone`, "ms ago")

	says(run(exitOK, "block", "a.example", "-for", "1h", "-why", "the \x1b[2Jowner"), `a.example is blocked until`, `the \x1b[2Jowner`)
	if _, err := start("a.example"); !errors.Is(err, hostlimit.ErrBlocked) {
		t.Errorf("a blocked host: %v", err)
	}
	says(run(exitOK, "list"), "a.example", "until", `by hand: the \x1b[2Jowner`)
	says(run(exitOK, "block", "-for", "1h", "-why", "x", "unknown.example"), "no crawler has asked for it")
	says(run(exitOK, "clear", "a.example"), "a.example is cleared")
	says(run(exitNo, "clear", "a.example"), "wasn't blocked")
	lease, err := start("a.example")
	if err != nil {
		t.Fatalf("a cleared host: %v", err)
	}
	lease.Release()

	time.AfterFunc(time.Second, func() { flying.Release() })
	out := run(exitOK, "drain", "-for", "1h")
	says(out, "nothing starts until", "nothing is in flight")
	if _, err := start("b.example"); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("a drained fleet: %v", err)
	}
	says(run(exitOK, "list"), "drained until")
	says(run(exitOK, "drain", "-for", "0"), "all go on")
	if lease, err = start("b.example"); err != nil {
		t.Errorf("after the end of the drain: %v", err)
	} else {
		lease.Release()
	}

	ctx, cancel := context.WithCancel(t.Context())
	watch := exec.CommandContext(ctx, binary, "-redis", server.Addr, "-prefix", "fleet:", "watch", "-every", "100ms")
	watch.Cancel = func() error { return watch.Process.Signal(os.Interrupt) }
	time.AfterFunc(2*time.Second, cancel)
	seen, _ := watch.Output()
	if n := strings.Count(string(seen), "b.example"); n < 2 || watch.ProcessState.ExitCode() != exitOK {
		t.Errorf("watch, status %d, has shown the host %d times:\n%s", watch.ProcessState.ExitCode(), n, seen)
	}

	server.Kill()
	says(run(exitError, "list"), server.Addr)
}

func TestWrongUseIsNamed(t *testing.T) {
	for args, want := range map[string]string{
		"list":                          "-redis ADDR is missing",
		"-redis x":                      "COMMAND is missing",
		"-redis x frob":                 `no command "frob"`,
		"-redis x block":                "HOST is missing",
		"-redis x block a":              "-for D is missing",
		"-redis x block a -for 1h":      "-why TEXT is missing",
		"-redis x block a -for x":       "invalid value",
		"-redis x list -for 1h":         "list has no -for",
		"-redis x clear a b":            `"b" is too much`,
		"-redis x clear https://a/":     "is no host",
		"-redis x watch -every 1ms":     "less than 100ms",
		"-redis x -prefix {a list":      "contains a brace",
		"-redis redis://:pw@h:p/x list": "no URL",
		"-redis x drain -for 900h":      "is no time from",
		"-redis x -colour list":         "colour",
	} {
		var out, errs strings.Builder
		status := run(t.Context(), &out, &errs, strings.Fields(args))
		if status != exitError || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), ":pw") {
			t.Errorf("%q: status %d, %q doesn't say %q", args, status, errs.String(), want)
		}
	}
}

func TestHelpFitsAScreen(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help", "help"} {
		var out strings.Builder
		if status := run(t.Context(), &out, &out, []string{arg}); status != exitOK || out.String() != usage {
			t.Errorf("%s: status %d, %q", arg, status, &out)
		}
	}
	lines := strings.Split(strings.TrimSuffix(usage, "\n"), "\n")
	if len(lines) > 23 {
		t.Errorf("%d lines, and the prompt needs one", len(lines))
	}
	for _, line := range lines {
		if len(line) > 80 {
			t.Error(fmt.Sprint(len(line), " columns: ", line))
		}
	}
}
