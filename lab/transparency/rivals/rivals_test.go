package rivals_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/lab/transparency"
)

// A rival is a module with a client of HTTP whose own tests are run.
type rival struct {
	module string
	dir    string // of the package in the module; empty: its root
	name   string // of the package
	fewest int    // tests, subtests included

	differences, unsteady map[string]string
}

func TestTheirSuitesSeeNoDifference(t *testing.T) {
	for _, r := range rivals {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			dir := r.copySource(t)
			for _, list := range []map[string]string{r.differences, r.unsteady} {
				for name, reason := range list {
					top, _, _ := strings.Cut(name, "/")
					if reason == "" || !hasTest(t, filepath.Join(dir, r.dir), top) {
						t.Errorf("%s has no reason, or %s has no such test", name, r.module)
					}
				}
			}
			if os.Getenv(transparency.Full) == "" {
				t.Logf("the tests are run with %s=1 only", transparency.Full)
				return
			}
			transparency.Suite{
				Name: r.module, Binary: r.build(t, dir), Dir: filepath.Join(dir, r.dir), // for its testdata
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
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil { // older than modules
		write(t, filepath.Join(dir, "go.mod"), "module "+r.module+"\n")
	}
	write(t, filepath.Join(dir, r.dir, "through_politeness_test.go"), transparency.Through(r.name))
	return dir
}

// build builds the tests with the requirements of this module, and the copy in the place of the
// original.
func (r rival) build(t *testing.T, dir string) string {
	t.Helper()
	at := t.TempDir()
	write(t, filepath.Join(at, "go.mod"), read(t, "../../go.mod")+"\nreplace "+r.module+" => "+dir+"\n")
	write(t, filepath.Join(at, "go.sum"), read(t, "../../go.sum"))
	overlay, err := json.Marshal(map[string]any{"Replace": transparency.Overlay(t, at)})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, "overlay.json"), string(overlay))
	binary := filepath.Join(at, r.name+".test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-trimpath", "-overlay", filepath.Join(at, "overlay.json"),
		"-modfile", filepath.Join(at, "go.mod"), "-o", binary, path.Join(r.module, r.dir))
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
