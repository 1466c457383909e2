// Package transparency runs net/http's own client and server tests through a Transport
// that asks no robots.txt and keeps no delay: apart from its refusals a Transport is
// invisible, so they have to pass, all but those in [differences].
//
// The tests are those of the Go installation at hand. They are copied to a module of
// their own, with what they import from within the standard library; an overlay gives
// them net/http with its test helpers, and with one line more in http.Client, by which
// every request of a client goes through a Transport.
package transparency_test

import (
	"encoding/json"
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

// full is the environment variable that asks for the run of the tests, which takes a
// quarter of a minute, and once a minute to build; make test sets it. Without it they
// are only copied and looked at.
const full = "POLITENESS_TRANSPARENCY"

// fewest is how many tests there are at least, subtests included: fewer mean that
// something has gone wrong with the copying.
const fewest = 1000

// A lab is a module with a copy of net/http's tests.
type lab struct {
	*testing.T
	dir    string
	source string // of net/http
	tests  string // text of all its tests
}

func TestClientsSeeNoDifference(t *testing.T) {
	l := newLab(t)
	for _, list := range []map[string]string{differences, unsteady} {
		for name, reason := range list {
			top, _, _ := strings.Cut(name, "/")
			if reason == "" || !strings.Contains(l.tests, "\nfunc "+top+"(t *testing.T)") {
				t.Errorf("%s has no reason, or this Go version has no such test", name)
			}
		}
	}
	if os.Getenv(full) == "" {
		t.Logf("the tests are run with %s=1 only", full)
		return
	}
	binary := l.build()
	var mu sync.Mutex
	bare, polite := make(map[string]string), make(map[string]string)
	names := slices.DeleteFunc(l.list(binary), func(name string) bool { return unsteady[name] != "" })
	l.each(names, func(name string) {
		without, through := l.run(binary, "", name), l.run(binary, "polite", name)
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(bare, without)
		maps.Copy(polite, through)
	})
	passed, suspects := 0, slices.Collect(maps.Keys(differences))
	for name, result := range bare {
		if result == "PASS" {
			passed++
			if polite[name] != "PASS" && !explained(name) {
				suspects = append(suspects, name)
			}
		}
	}
	if passed < fewest {
		t.Fatalf("%d tests pass without politeness, want %d at least", passed, fewest)
	}
	slices.Sort(suspects)
	for _, name := range suspects {
		switch reason := differences[name]; {
		case l.differs(binary, name) == (reason != ""):
		case reason == "":
			t.Errorf("%s fails through a Transport", name)
		default:
			t.Errorf("%s passes, though it is listed: %s", name, reason)
		}
	}
	t.Logf("%s: %d tests pass without politeness, and through a Transport all but:", runtime.Version(), passed)
	for _, list := range []map[string]string{differences, unsteady} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			t.Logf("%s: %s", name, list[name])
		}
	}
}

// explained reports whether a test is listed as different, or one of its subtests is.
func explained(name string) bool {
	for listed := range differences {
		if listed == name || strings.HasPrefix(listed, name+"/") {
			return true
		}
	}
	return false
}

// each calls f with each of names, as many at a time as there are processors.
func (l *lab) each(names []string, f func(name string)) {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, name := range names {
		group.Go(func() error { f(name); return nil })
	}
	_ = group.Wait() // of functions that return nothing
}

// differs reports whether a test fails through a Transport. A test of the network may
// fail by chance; a difference shows each time.
func (l *lab) differs(binary, name string) bool {
	for range 3 {
		if l.run(binary, "polite", name)[name] == "PASS" {
			return false
		}
	}
	return true
}

// list returns the names of the tests.
func (l *lab) list(binary string) []string {
	l.Helper()
	out, err := exec.CommandContext(l.Context(), binary, "-test.list", "^Test").Output()
	if err != nil {
		l.Fatal(err)
	}
	return strings.Fields(string(out))
}

var (
	result   = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	httpTest = regexp.MustCompile(`(?m)^package http_test$`)
)

// run runs a test in a process of its own, and returns its result and those of its
// subtests. One that hangs has none.
func (l *lab) run(binary, through, name string) map[string]string {
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
	cmd := exec.CommandContext(l.Context(), binary, "-test.v", "-test.short", "-test.timeout=20s", "-test.run", pattern)
	cmd.Dir = l.source // for its testdata
	cmd.Env = append(os.Environ(), "POLITENESS_THROUGH="+through)
	out, _ := cmd.CombinedOutput() // a test that fails is a result
	results := make(map[string]string)
	for _, m := range result.FindAllSubmatch(out, -1) {
		results[string(m[2])] = string(m[1])
	}
	return results
}

// newLab copies the tests.
func newLab(t *testing.T) *lab {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, dir: t.TempDir(), source: filepath.Join(strings.TrimSpace(string(goroot)), "src", "net", "http")}

	// The module.
	mod := l.read(filepath.Join(root, "go.mod"))
	_, requires, _ := strings.Cut(mod, "\nrequire")
	l.write("go.mod", "module transparency\n\ngo "+strings.TrimPrefix(goVersion.FindString(mod), "go ")+
		"\n\nrequire github.com/go-politeness/politeness v0.0.0\n\nreplace github.com/go-politeness/politeness => "+root+"\n\nrequire"+requires)
	l.write("go.sum", l.read(filepath.Join(root, "go.sum")))
	for name, text := range shims {
		l.write(name, text)
	}
	l.write("testcert/testcert.go", l.read(filepath.Join(l.source, "internal", "testcert", "testcert.go")))

	// The tests.
	names, err := filepath.Glob(filepath.Join(l.source, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, name := range names {
		text := l.read(name)
		if !httpTest.MatchString(text) || strings.HasPrefix(filepath.Base(name), "example_") {
			continue
		}
		tests.WriteString(text)
		l.write(filepath.Base(name), imports.Replace(text))
	}
	l.tests = tests.String()

	// The overlay.
	client := l.read(filepath.Join(l.source, "client.go"))
	const hook = "func (c *Client) transport() RoundTripper {"
	if strings.Count(client, hook) != 1 {
		t.Fatalf("%s of this Go version has no %q to hook into", l.source, hook)
	}
	l.write("overlay/client.txt", strings.Replace(client, hook, "func (c *Client) bareTransport() RoundTripper {", 1))
	l.write("overlay/export.txt", l.read(filepath.Join(l.source, "export_test.go")))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(l.source, "client.go"):             filepath.Join(l.dir, "overlay/client.txt"),
		filepath.Join(l.source, "export_for_others.go"):  filepath.Join(l.dir, "overlay/export.txt"),
		filepath.Join(l.source, "through_politeness.go"): filepath.Join(l.dir, "overlay/hook.txt"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.write("overlay.json", string(overlay))
	return l
}

// build builds the tests.
func (l *lab) build() string {
	l.Helper()
	binary := filepath.Join(l.dir, "http.test")
	cmd := exec.CommandContext(l.Context(), "go", "test", "-c", "-vet=off", "-trimpath", "-overlay", filepath.Join(l.dir, "overlay.json"), "-o", binary, ".")
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.Fatalf("building net/http's tests: %v\n%s", err, out)
	}
	return binary
}

func (l *lab) read(name string) string {
	l.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		l.Fatal(err)
	}
	return string(text)
}

func (l *lab) write(name, text string) {
	l.Helper()
	name = filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		l.Fatal(err)
	}
}

var goVersion = regexp.MustCompile(`(?m)^go .*$`)

// imports leads what only the standard library may import to the shims.
var imports = strings.NewReplacer(
	`"internal/synctest"`, `"testing/synctest"`,
	`"internal/testenv"`, `"transparency/testenv"`,
	`"internal/nettrace"`, `"transparency/nettrace"`,
	`"net/http/internal"`, `"transparency/internal"`,
	`"net/http/internal/testcert"`, `"transparency/testcert"`,
)

// shims stand for what only the standard library may import.
var shims = map[string]string{
	"overlay/hook.txt": `package http

import (
	"internal/nettrace"
	"os"
)

var ThroughTransport = func(rt RoundTripper) RoundTripper { return rt }

func (c *Client) transport() RoundTripper { return ThroughTransport(c.bareTransport()) }

type LookupIPAltResolverKey = nettrace.LookupIPAltResolverKey

func ResetProxyEnv() {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
		os.Unsetenv(name)
	}
	ResetCachedEnvironment()
}
`,
	"nettrace/nettrace.go": `package nettrace

import "net/http"

type LookupIPAltResolverKey = http.LookupIPAltResolverKey
`,
	"internal/internal.go": `package internal

import "net/http/httputil"

var NewChunkedWriter = httputil.NewChunkedWriter
`,
	"testenv/testenv.go": `package testenv

import (
	"context"
	"os/exec"
	"testing"
)

func Builder() string { return "" }

func SkipFlaky(t testing.TB, issue int) { t.Skipf("flaky: golang.org/issue/%d", issue) }

func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(context.Background(), name, args...)
}

func CommandContext(t testing.TB, ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}
`,
	"through_test.go": `package http_test

import (
	"math"
	"net/http"
	"os"
	"reflect"
	"sync"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

var transports sync.Map // from base to Transport

func init() {
	if os.Getenv("POLITENESS_THROUGH") != "" {
		http.ThroughTransport = through
	}
}

func through(base http.RoundTripper) http.RoundTripper {
	if _, ok := base.(*politeness.Transport); ok {
		return base
	}
	keep := reflect.TypeOf(base).Comparable()
	if keep {
		if t, ok := transports.Load(base); ok {
			return t.(http.RoundTripper)
		}
	}
	hosts, err := hostlimit.New(hostlimit.Config{
		Concurrency: 1 << 20, Delay: hostlimit.Delay{DangerouslyNone: true},
		Backoff: backoff.Refusals{InARow: math.MaxUint16}, // the tests fail many requests in a row, on purpose
	})
	if err != nil {
		panic(err)
	}
	t, err := politeness.New(politeness.Config{
		UserAgent: "TransparencyTest/1.0 (bot@example.com)", Base: base, Hosts: hosts, DangerouslyIgnoreRobots: true,
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
`,
}
