package transparency_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/lab/transparency"
)

// fewest is how many tests there are at least, subtests included: fewer mean that
// something has gone wrong with the copying.
const fewest = 1000

// mostOthers is how many tests may differ, or not be compared, for another reason than the
// User-Agent. docs/compat.md lists them.
const mostOthers = 8

// A lab is a module with a copy of net/http's tests: those of the Go installation at hand. What they
// import from within the standard library is copied too; an overlay gives them net/http with its test
// helpers, and with one line more in http.Client, by which every request of a client goes through a
// Transport. They run for a quarter of a minute, and take a minute to build.
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
	others := len(unsteady)
	for _, reason := range differences {
		if reason != userAgent {
			others++
		}
	}
	if others > mostOthers {
		t.Errorf("%d tests differ for another reason than the User-Agent, at most %d may", others, mostOthers)
	}
	if os.Getenv(transparency.Full) == "" {
		t.Logf("the tests are run with %s=1 only", transparency.Full)
		return
	}
	transparency.Suite{
		Name: "net/http of " + runtime.Version(), Binary: l.build(), Dir: l.source, // for its testdata
		Differences: differences, Unsteady: unsteady, Fewest: fewest,
	}.Compare(t)
}

var httpTest = regexp.MustCompile(`(?m)^package http_test$`)

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
	l.write("through_test.go", transparency.Through("http_test"))
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
	l.write("overlay/export.txt", l.read(filepath.Join(l.source, "export_test.go")))
	replace := transparency.Overlay(t, filepath.Join(l.dir, "overlay"))
	replace[filepath.Join(l.source, "export_for_others.go")] = filepath.Join(l.dir, "overlay/export.txt")
	replace[filepath.Join(l.source, "helpers_for_others.go")] = filepath.Join(l.dir, "overlay/helpers.txt")
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
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
	"overlay/helpers.txt": `package http

import (
	"internal/nettrace"
	"os"
)

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
}
