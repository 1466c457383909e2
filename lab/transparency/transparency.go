// Package transparency runs the tests of other people's HTTP clients through a Transport that
// fetches no robots.txt and keeps no delay. Apart from its refusals a Transport is invisible: tests
// that pass without it pass with it, except for a list of differences with their reasons. The
// package's own test checks this for net/http, and those of package rivals for thirteen libraries.
package transparency

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Full is the environment variable that asks for the run of the tests; make sets it. Without it
// they are only copied and looked at.
const Full = "POLITENESS_TRANSPARENCY"

// throughEnv is the environment variable that has a test binary send its requests through a
// Transport.
const throughEnv = "POLITENESS_THROUGH"

// Through returns the text of a Go file for a package of tests that is built with [Overlay]: it
// has each request of an http.Client go through a Transport, or not where the tests are to run
// without.
func Through(pkg string) string { return "package " + pkg + throughText }

// Overlay writes the files to dir that are compiled in the place of net/http's client, and returns
// them for an overlay of the go command: a variable of net/http, ThroughTransport, is called for
// the RoundTripper of each http.Client.
func Overlay(t *testing.T, dir string) map[string]string {
	t.Helper()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(goroot)), "src", "net", "http")
	client, err := os.ReadFile(filepath.Join(source, "client.go"))
	if err != nil {
		t.Fatal(err)
	}
	const hook = "func (c *Client) transport() RoundTripper {"
	if strings.Count(string(client), hook) != 1 {
		t.Fatalf("%s of this Go version has no %q to hook into", source, hook)
	}
	replace := make(map[string]string)
	const renamed = "func (c *Client) bareTransport() RoundTripper {"
	for name, text := range map[string]string{
		"client.go":             strings.Replace(string(client), hook, renamed, 1),
		"through_politeness.go": hookText,
	} {
		at := filepath.Join(dir, name+".txt")
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(source, name)] = at
	}
	return replace
}

const hookText = `package http

var ThroughTransport = func(rt RoundTripper) RoundTripper { return rt }

func (c *Client) transport() RoundTripper { return ThroughTransport(c.bareTransport()) }
`

// A Suite is a binary of tests in which [Through] is compiled in.
type Suite struct {
	Name   string // for the log
	Binary string
	Dir    string // that the tests run in

	// Differences are the tests that fail through a Transport, each with the reason why it should.
	// The tests that they are subtests of fail with them.
	Differences map[string]string
	// Unsteady are tests that aren't compared, each with the reason.
	Unsteady map[string]string
	// Fewest is how many tests there are at least, subtests included: fewer mean that something has
	// gone wrong with the building.
	Fewest int
	// Parallel is how many tests run at a time; 0: as many as there are processors.
	Parallel int
}

// Compare runs all tests with and without a Transport, and fails where they differ in another way
// than they should.
func (s Suite) Compare(t *testing.T) {
	t.Helper()
	var mu sync.Mutex
	bare := make(map[string]string)
	polite := make(map[string]string)
	names := slices.DeleteFunc(s.list(t), func(name string) bool { return s.Unsteady[name] != "" })
	s.each(names, func(name string) {
		without := s.run(t, "", name)
		through := s.run(t, "polite", name)
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(bare, without)
		maps.Copy(polite, through)
	})
	passed := 0
	suspects := slices.Collect(maps.Keys(s.Differences))
	for name, result := range bare {
		if result == "PASS" {
			passed++
			if polite[name] != "PASS" && !s.explained(name) {
				suspects = append(suspects, name)
			}
		}
	}
	if passed < s.Fewest {
		t.Fatalf("%d tests pass without politeness, want %d at least", passed, s.Fewest)
	}
	slices.Sort(suspects)
	for _, name := range suspects {
		reason := s.Differences[name]
		switch {
		case s.differs(t, name) == (reason != ""):
		case reason == "":
			t.Errorf("%s fails through a Transport", name)
		default:
			t.Errorf("%s passes, though it is listed: %s", name, reason)
		}
	}
	t.Logf("%s: %d tests pass without politeness, and through a Transport all but:", s.Name, passed)
	for _, list := range []map[string]string{s.Differences, s.Unsteady} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			t.Logf("%s: %s", name, list[name])
		}
	}
}

// explained reports whether a test is listed as different, or one of its subtests is.
func (s Suite) explained(name string) bool {
	for listed := range s.Differences {
		if listed == name || strings.HasPrefix(listed, name+"/") {
			return true
		}
	}
	return false
}

// each calls f with each of names, s.Parallel at a time.
func (s Suite) each(names []string, f func(name string)) {
	var group errgroup.Group
	group.SetLimit(cmp.Or(s.Parallel, runtime.NumCPU()))
	for _, name := range names {
		group.Go(func() error { f(name); return nil })
	}
	_ = group.Wait() // of functions that return nothing
}

// differs reports whether a test fails through a Transport. A test of the network may
// fail by chance; a difference shows each time.
func (s Suite) differs(t *testing.T, name string) bool {
	for range 3 {
		if s.run(t, "polite", name)[name] == "PASS" {
			return false
		}
	}
	return true
}

// list returns the names of the tests.
func (s Suite) list(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), s.Binary, "-test.list", "^Test").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

var result = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// run runs a test in a process of its own, and returns its result and those of its
// subtests. One that hangs has none.
func (s Suite) run(t *testing.T, through, name string) map[string]string {
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
	flags := []string{"-test.v", "-test.short", "-test.timeout=20s", "-test.run", pattern}
	cmd := exec.CommandContext(t.Context(), s.Binary, flags...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), throughEnv+"="+through)
	out, _ := cmd.CombinedOutput() // a test that fails is a result
	results := make(map[string]string)
	for _, m := range result.FindAllSubmatch(out, -1) {
		results[string(m[2])] = string(m[1])
	}
	return results
}

// throughText is the file's text behind the package clause.
const throughText = `

import (
	"context"
	"net/http"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

func init() { http.ThroughTransport = through }

var transports sync.Map // from base to Transport

func through(base http.RoundTripper) http.RoundTripper {
	if _, ok := base.(*politeness.Transport); ok || os.Getenv("POLITENESS_THROUGH") == "" {
		return base
	}
	if base == nil {
		base = http.DefaultTransport
	}
	keep := reflect.TypeOf(base).Comparable()
	if keep {
		if t, ok := transports.Load(base); ok {
			return t.(http.RoundTripper)
		}
	}
	hosts, err := memory.New(hostlimit.Config{
		Concurrency: 1 << 20, Delay: hostlimit.Delay{DangerouslyNone: true},
	})
	if err != nil {
		panic(err)
	}
	t, err := politeness.New(politeness.Config{
		UserAgent:               "TransparencyTest/1.0 (bot@example.com)",
		Base:                    base,
		Limiter:                 forgiving{hosts},
		DangerouslyIgnoreRobots: true,
	})
	if err != nil {
		panic(err)
	}
	if !keep {
		return t
	}
	kept, _ := transports.LoadOrStore(base, t)
	return kept.(http.RoundTripper)
}

// A forgiving limiter leaves no host alone for what it answers: the tests fail many requests, on
// purpose.
type forgiving struct{ hostlimit.Limiter }

func (f forgiving) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	lease, err := f.Limiter.Acquire(ctx, key, floor)
	if err != nil {
		return nil, err
	}
	return forgivingLease{lease}, nil
}

type forgivingLease struct{ hostlimit.Lease }

func (f forgivingLease) Observe(o hostlimit.Outcome) hostlimit.Effect {
	return f.Lease.Observe(hostlimit.Outcome{Status: http.StatusOK, Latency: o.Latency})
}
`
