package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	switchesFile = "mutants_switches.go"
	together     = 6 // so many of the slow tests run concurrently, because some of them only wait
)

// A bench is what mutants are tested on: the test binaries of a package, with a switch for each
// mutant.
type bench struct {
	code  *code
	tmp   string
	bins  map[string]string // by package
	tests []*test
	hash  string // of the binaries
	asked string // hash, and which of their tests are asked
	jobs  int    // number of test processes that run at once

	mu sync.Mutex // guards tests' noticed
}

// A test is one test function.
type test struct {
	pkg, name string
	took, cpu time.Duration // without a mutant
	reaches   []byte        // by the mutants' numbers: not 0 if this test asks for the switch
	noticed   []*mutant     // in this run, those that it was the first to notice
}

func (t *test) String() string { return t.pkg + "." + t.name }

// newBench builds the tests of the packages and runs each test once. Those that are slower than
// slowest or have a name that doesn't match are left out.
func newBench(
	ctx context.Context, c *code, pkgs []string, jobs int, slowest time.Duration, names, tmp string,
) (*bench, error) {
	b := &bench{code: c, tmp: tmp, bins: map[string]string{}, jobs: jobs}
	files := map[string][]byte{switchesFile: []byte(strings.Replace(switches, "package p", "package "+c.name(), 1))}
	for name := range c.files {
		files[name] = c.switched(name)
	}
	hash := sha256.New()
	for i, pkg := range pkgs {
		bin := filepath.Join(tmp, fmt.Sprintf("%d.test", i))
		if err := b.build(ctx, files, pkg, bin); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(bin)
		if err != nil {
			return nil, err
		}
		hash.Write(data)
		b.bins[pkg] = bin
	}
	b.hash = hex.EncodeToString(hash.Sum(nil)[:8])
	b.asked = b.hash
	for _, pkg := range pkgs {
		if err := b.measure(ctx, pkg, names, slowest); err != nil {
			return nil, err
		}
	}
	if names != "." {
		b.asked += " of " + names
	}
	if slowest < time.Hour {
		b.asked += " up to " + slowest.String()
	}
	return b, nil
}

// build builds the test binary of a package with these files of the code replaced.
func (b *bench) build(ctx context.Context, files map[string][]byte, pkg, bin string) error {
	dir, err := os.MkdirTemp(b.tmp, "")
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for name, text := range files {
		replace[filepath.Join(b.code.dir, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off",
		"-overlay="+filepath.Join(dir, "overlay"), "-o="+bin, ".")
	cmd.Dir = filepath.Join(root, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// measure runs each test of a package without a mutant, and sees which ones it reaches.
func (b *bench) measure(ctx context.Context, pkg, names string, slowest time.Duration) error {
	list := exec.CommandContext(ctx, b.bins[pkg], "-test.list="+names)
	list.Dir = filepath.Join(root, pkg)
	out, err := list.Output()
	if err != nil {
		return err
	}
	err = each(b.jobs, strings.Fields(string(out)), func(i int, name string) error {
		if strings.HasPrefix(name, "Benchmark") {
			return nil
		}
		reach := filepath.Join(b.tmp, fmt.Sprint("reach", i))
		if err := os.WriteFile(reach, make([]byte, len(b.code.mutants)+2+4096), 0o644); err != nil {
			return err
		}
		t := &test{pkg: pkg, name: name}
		began := time.Now()
		failed, cpu := b.play(ctx, b.bins[pkg], []*test{t}, 10*time.Minute, "MUTANT_REACH="+reach,
			fmt.Sprintf("MUTANT_CPU=%.0f", math.Ceil(slowest.Seconds())))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if cpu > slowest {
			fmt.Printf("\tleft out, as it takes more than %v: %s\n", slowest, t)
			return nil
		}
		if failed != "" {
			fmt.Printf("\tleft out, as it fails without any mutant: %s\n", t)
			return nil
		}
		t.took = time.Since(began)
		t.cpu = cpu
		reaches, err := os.ReadFile(reach)
		t.reaches = reaches
		b.mu.Lock()
		b.tests = append(b.tests, t)
		b.mu.Unlock()
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(b.tests, func(x, y *test) int { return int(x.cpu - y.cpu) })
	return nil
}

// play runs tests of one package and returns the name of the one that fails, "" if they pass, and
// what processor time that took. What the tests have started, such as a server, ends with them.
func (b *bench) play(
	ctx context.Context, bin string, tests []*test, limit time.Duration, env ...string,
) (failed string, cpu time.Duration) {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = regexp.QuoteMeta(t.name)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.v", "-test.failfast", "-test.timeout=0",
		"-test.run=^("+strings.Join(names, "|")+")$")
	cmd.Dir = filepath.Join(root, tests[0].pkg)
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &out
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), env...)
	err := cmd.Run()
	if verbose {
		os.Stdout.Write(out.Bytes())
	}
	if cmd.ProcessState != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return "", cpu
	}
	if name := failing.FindSubmatch(out.Bytes()); name != nil {
		return string(name[1]), cpu
	}
	failed = "?"
	for _, name := range running.FindAllSubmatch(out.Bytes(), -1) { // the last one that has begun
		failed = string(name[1])
	}
	return failed, cpu
}

// failing and running find the tests of a verbose output, without those inside of others.
var (
	failing = regexp.MustCompile(`(?m)^--- FAIL: ([^\s/]+)`)
	running = regexp.MustCompile(`(?m)^=== (?:RUN|CONT) +([^\s/]+)`)
)

const (
	noticed   = "noticed"
	lived     = "lived"
	unreached = "unreached"
)

// rank orders the statuses of a mutant: with more tests it has the same one, or a higher one.
var rank = map[string]int{unreached: 1, lived: 2, noticed: 3}

// try returns what the tests make of a mutant, and which tests notice it. It begins with the test
// of this name.
func (b *bench) try(ctx context.Context, m *mutant, first string) (status, by string, err error) {
	bins := b.bins
	if m.fixed {
		bins = map[string]string{}
		for pkg := range b.bins {
			bin := filepath.Join(b.tmp, fmt.Sprintf("mutant%d-%d.test", m.n, len(bins)))
			if err := b.build(ctx, map[string][]byte{m.file: b.code.changed(m)}, pkg, bin); err != nil {
				return "", "", err
			}
			bins[pkg] = bin
		}
	}
	var tests []*test
	for _, t := range b.tests {
		if m.fixed || t.reaches[m.n] != 0 {
			tests = append(tests, t)
		}
	}
	if len(tests) == 0 {
		return unreached, "", nil
	}
	b.mu.Lock()
	parts := parts(tests, first, m)
	b.mu.Unlock()
	for _, part := range parts {
		var took, cpu time.Duration
		for _, t := range part {
			took += t.took
			cpu += t.cpu
		}
		// A machine with much else to do takes longer, but not more of the processor.
		failed, _ := b.play(ctx, bins[part[0].pkg], part, 20*time.Second+10*took, fmt.Sprintf("MUTANT=%d", m.n),
			fmt.Sprintf("MUTANT_CPU=%.0f", math.Ceil(1+4*cpu.Seconds())))
		if ctx.Err() != nil { // not by the mutant
			return "", "", context.Cause(ctx)
		}
		if failed != "" {
			by := part[0].pkg + "." + failed
			b.mu.Lock()
			for _, t := range part {
				if t.String() == by {
					t.noticed = append(t.noticed, m)
				}
			}
			b.mu.Unlock()
			return noticed, by, nil
		}
	}
	return lived, "", nil
}

// parts divides tests into those that are run at once: the first one, those that have noticed most
// of what stands near the mutant until now, the quick ones, and the others, a few at a time.
func parts(tests []*test, first string, m *mutant) (parts [][]*test) {
	tests = slices.Clone(tests)
	// take moves at most n of the tests of one package for which is holds into a part.
	take := func(n int, is func(*test) bool) bool {
		var part []*test
		tests = slices.DeleteFunc(tests, func(t *test) bool {
			isOfAnother := len(part) > 0 && part[0].pkg != t.pkg
			if len(part) == n || isOfAnother || !is(t) {
				return false
			}
			part = append(part, t)
			return true
		})
		if len(part) > 0 {
			parts = append(parts, part)
		}
		return len(part) > 0
	}
	take(1, func(t *test) bool { return t.String() == first })
	near := func(t *test) (n int) {
		for _, other := range t.noticed {
			n++
			if other.file == m.file && max(other.line-m.line, m.line-other.line) < 20 {
				n += 10
			}
		}
		return n
	}
	slices.SortStableFunc(tests, func(x, y *test) int { return near(y) - near(x) })
	take(4, func(t *test) bool { return len(t.noticed) > 0 && t.cpu < 100*time.Millisecond })
	slices.SortStableFunc(tests, func(x, y *test) int { return int(x.cpu - y.cpu) })
	for _, quick := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
		for take(len(tests), func(t *test) bool { return t.cpu < quick }) {
		}
	}
	for take(together, func(*test) bool { return true }) {
	}
	return parts
}

// each calls do for each of all, for n at once, until something goes wrong, and returns that.
func each[T any](n int, all []T, do func(i int, x T) error) error {
	slots := make(chan struct{}, n)
	errs := make([]error, len(all))
	var group sync.WaitGroup
	var failed atomic.Bool
	for i, x := range all {
		slots <- struct{}{}
		if failed.Load() {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i, x)
			if errs[i] != nil {
				failed.Store(true)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
