package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/redis/redislimit"
)

// TestCommandSteersAFleet runs the command, as a user has it, beside a crawler on a real server.
func TestCommandSteersAFleet(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "politeness-fleet.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := redistest.New(t)
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
	says(run(exitOK, "processes"), `crawler \x1b[31mone`, "s ago")
	says(run(exitOK, "status"), "processes live: 1; hosts: 1, blocked: 0; requests in flight: 1, waiting: 0")
	says(run(exitOK, "list", "-blocked"), "(no host is blocked)")

	says(run(exitOK, "block", "a.example", "-for", "1h", "-why", "the \x1b[2Jowner"), `a.example is blocked until`, `the \x1b[2Jowner`)
	if _, err := start("a.example"); !errors.Is(err, hostlimit.ErrBlocked) {
		t.Errorf("a blocked host: %v", err)
	}
	says(run(exitOK, "list"), "a.example", "until", `by hand: the \x1b[2Jowner`)
	says(run(exitOK, "list", "-blocked"), "a.example", "until")
	var line struct {
		Host         string
		Starts       int
		BlockedUntil time.Time
		BlockedBy    string
	}
	if out := run(exitOK, "-json", "list", "-blocked"); json.Unmarshal([]byte(out), &line) != nil || line.Host != "a.example" || line.Starts != 1 || time.Until(line.BlockedUntil) < 50*time.Minute || line.BlockedBy == "" {
		t.Errorf("list -json: %s", out)
	}
	says(run(exitOK, "block", "-for", "1h", "-why", "x", "unknown.example"), "no crawler has requested it")
	says(run(exitOK, "clear", "a.example"), "a.example is cleared")
	says(run(exitNo, "clear", "a.example"), "wasn't blocked")
	lease, err := start("a.example")
	if err != nil {
		t.Fatalf("a cleared host: %v", err)
	}
	lease.Release()
	says(run(exitOK, "block", "A.Example.:443", "-for", "1h", "-why", "x"), "a.example is blocked")
	if out := run(exitOK, "clear", "A.EXAMPLE:80"); !strings.Contains(out, "a.example is cleared") {
		t.Error(out)
	}
	says(run(exitOK, "block", "BÜCHER.example", "-for", "1h", "-why", "x"), "xn--bcher-kva.example is blocked", "no crawler has requested it")

	time.AfterFunc(time.Second, func() { flying.Release() })
	other, err := redislimit.New(redislimit.Config{
		Client: client, Prefix: "fleet:", Name: "crawler two",
		Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}, MaxWait: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if lease, err = other.Acquire(t.Context(), "c.example", 0); err != nil {
		t.Fatal(err)
	}
	lease.Release()
	says(run(exitNo, "status"), `process "crawler two" has Delay.Min 1s (others 1ms)`)
	says(run(exitOK, "processes"), "has Delay.Min 1s (others 1ms)")
	var seen struct {
		Problems           []string
		Processes, Blocked int
	}
	if out := run(exitNo, "status", "-json"); json.Unmarshal([]byte(out), &seen) != nil || len(seen.Problems) != 1 || seen.Processes != 2 || seen.Blocked != 2 {
		t.Errorf("status -json: %s", out)
	}

	out := run(exitOK, "drain", "-for", "1h")
	says(out, "no request starts until", "nothing is in flight")
	if _, err := start("b.example"); !errors.Is(err, hostlimit.ErrBusy) {
		t.Errorf("a drained fleet: %v", err)
	}
	says(run(exitOK, "list"), "drained until")
	says(run(exitOK, "drain", "-for", "0"), "crawlers continue")
	if lease, err = start("b.example"); err != nil {
		t.Errorf("after the end of the drain: %v", err)
	} else {
		lease.Release()
	}

	watch := exec.CommandContext(t.Context(), binary, "-redis", server.Addr, "-prefix", "fleet:", "watch", "-every", "100ms")
	watched, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	shown := 0
	for lines := bufio.NewScanner(watched); lines.Scan(); {
		if !strings.Contains(lines.Text(), "b.example") {
			continue
		}
		if shown++; shown != 2 {
			continue
		}
		if err := watch.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	}
	if err := watch.Wait(); err != nil || shown < 2 {
		t.Errorf("watch has shown the host %d times, %v", shown, err)
	}

	server.Kill()
	says(run(exitError, "list"), server.Addr)
}

// TestABlockActsOnOneHost: among 100,000 hosts as well, a block, and the end of one, ask for no other.
// A list asks for many hosts in one call.
func TestABlockActsOnOneHost(t *testing.T) {
	const others = 100_000
	server := redistest.New(t, "--requirepass", "secret")
	t.Setenv("REDISCLI_AUTH", "secret")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "secret"})
	defer client.Close()
	crawler, err := redislimit.New(redislimit.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	defer crawler.Close()
	lease, err := crawler.Acquire(t.Context(), "a.example", 0)
	if err != nil {
		t.Fatal(err)
	}
	lease.Release()
	err = client.Eval(t.Context(), `
		for _, key in ipairs(redis.call('KEYS', '*a.example')) do
			local state = redis.call('GET', key)
			for i = 1, tonumber(ARGV[1]) do redis.call('SET', string.gsub(key, 'a.example', i .. '.example'), state) end
		end`, nil, others).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		most int // calls of the script
		says string
	}{
		{"block a.example -for 1h -why asked", 20, "a.example is blocked until"},
		{"clear a.example", 20, "a.example is cleared"},
		{"list -json", others / 20, `"host":"99999.example"`},
	} {
		if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		began := time.Now()
		status := run(t.Context(), &out, &errs, append([]string{"-redis", server.Addr}, strings.Fields(tt.args)...))
		took := time.Since(began)
		stats := client.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_evalsha")
		calls, _ := strconv.Atoi(strings.TrimPrefix(strings.Split(stats, ",")[0], "calls="))
		t.Logf("%s: %d calls of the script, %v", tt.args, calls, took)
		if status != exitOK || !strings.Contains(out.String(), tt.says) || calls > tt.most || calls == 0 {
			t.Errorf("%s: status %d, %d calls (%q), %.200q, %s", tt.args, status, calls, stats, out.String(), errs.String())
		}
	}
}

// TestAFieldMoreIsOneDifference: another version of the library may promise something in between.
func TestAFieldMoreIsOneDifference(t *testing.T) {
	const usual = "Database 0; Concurrency 2; Delay.Min 1s"
	for promises, want := range map[string]string{
		"Database 0; New 7; Concurrency 2; Delay.Min 1s": "New 7",
		"Database 0; New 7; Concurrency 2; Delay.Min 2s": "New 7, Delay.Min 2s (others 1s)",
		"Database 0; Delay.Min 1s":                       "another version",
	} {
		if got := difference(promises, usual); got != want {
			t.Errorf("%s: %q, want %q", promises, got, want)
		}
	}
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
		"-redis x drain -json":          "drain has no -json",
		"-redis x watch -blocked":       "watch has no -blocked",
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

func TestHelp(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help", "help"} {
		var out strings.Builder
		if status := run(t.Context(), &out, &out, []string{arg}); status != exitOK || out.String() != usage {
			t.Errorf("%s: status %d, %q", arg, status, &out)
		}
	}
	for line := range strings.Lines(usage) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > 80 {
			t.Error(fmt.Sprint(len(line), " columns: ", line))
		}
	}
}
