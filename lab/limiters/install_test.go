package limiters_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-politeness/politeness/internal/npmtest"
	"github.com/go-politeness/politeness/lab/limiters"
)

// install builds the program of the limiters of Go, and installs those of npm where node is there.
func install(t *testing.T) limiters.Programs {
	t.Helper()
	p := limiters.Programs{Go: filepath.Join(t.TempDir(), "golimiters")}
	command(t, ".", "go", "build", "-o", p.Go, "./golimiters")
	if missing("node") || missing("npm") {
		t.Log("node or npm is missing: the limiters of npm are left out; make setup installs them")
		return p
	}
	p.Server = installNPM(t)
	return p
}

func missing(program string) bool {
	_, err := exec.LookPath(program)
	return err != nil
}

// installNPM returns the path of the server's script, beside its packages.
func installNPM(t *testing.T) (script string) {
	t.Helper()
	dir := npmtest.Install(t, "limiters", read(t, "testdata/npm/package.json"), read(t, "testdata/npm/package-lock.json"))
	script = filepath.Join(dir, "server.mjs")
	write(t, script, read(t, "testdata/npm/server.mjs"))
	return script
}

func command(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
