package rivals_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/transparency"
)

// A rival is a module with a client of HTTP whose own tests are run.
type rival struct {
	module, pkg string
	file, hook  string // where its http.Client sends a request, and the text there
	client      string // of hook, the part that is the client
	fewest      int    // tests, subtests included

	differences, unsteady map[string]string
}

// clients lets each request of a client go through a Transport.
const clients = `package PKG

import "net/http"

func throughPoliteness(c *http.Client) *http.Client {
	polite := *c
	polite.Transport = through(c.Transport)
	return &polite
}
`

func TestTheirSuitesSeeNoDifference(t *testing.T) {
	for _, r := range rivals {
		t.Run(r.pkg, func(t *testing.T) {
			t.Parallel()
			dir := r.copySource(t)
			for _, list := range []map[string]string{r.differences, r.unsteady} {
				for name, reason := range list {
					top, _, _ := strings.Cut(name, "/")
					if reason == "" || !hasTest(t, dir, top) {
						t.Errorf("%s has no reason, or %s has no such test", name, r.module)
					}
				}
			}
			if os.Getenv(transparency.Full) == "" {
				t.Logf("the tests are run with %s=1 only", transparency.Full)
				return
			}
			transparency.Suite{
				Name: r.module, Binary: r.build(t, dir), Dir: dir, // for its testdata
				Differences: r.differences, Unsteady: r.unsteady, Fewest: r.fewest,
				Parallel: 8, // they mostly sleep
			}.Compare(t)
		})
	}
}

// copySource copies the module out of the module cache, which may not be changed.
func (r rival) copySource(t *testing.T) (dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", r.module)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	source, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if source == "" {
		t.Fatalf("%s isn't in the module cache: go mod download", r.module)
	}
	t.Logf("%s %s", r.module, version)
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(dir, r.file))
	if strings.Count(text, r.hook) != 1 {
		t.Fatalf("%s of %s has no %q to hook into", r.file, r.module, r.hook)
	}
	write(t, filepath.Join(dir, r.file), strings.Replace(text, r.hook, strings.Replace(r.hook, r.client, "throughPoliteness("+r.client+")", 1), 1))
	write(t, filepath.Join(dir, "through_politeness.go"), strings.Replace(clients, "PKG", r.pkg, 1))
	write(t, filepath.Join(dir, "through.go"), transparency.Through(r.pkg))
	return dir
}

// build builds the tests with the requirements of this module, and the copy in the place of the
// original.
func (r rival) build(t *testing.T, dir string) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.Replace(read(t, "go.mod"), "=> ../../..", "=> "+root, 1)
	at := t.TempDir()
	write(t, filepath.Join(at, "go.mod"), mod+"\nreplace "+r.module+" => "+dir+"\n")
	write(t, filepath.Join(at, "go.sum"), read(t, "go.sum"))
	binary := filepath.Join(at, r.pkg+".test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-modfile", filepath.Join(at, "go.mod"), "-o", binary, r.module)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the tests of %s: %v\n%s", r.module, err, out)
	}
	return binary
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(`)
	for _, file := range files {
		if declared.MatchString(read(t, file)) {
			return true
		}
	}
	return false
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
