package limiters_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

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

// installNPM returns the path of the server's script. The packages are those of the lock file, by
// their checksums. They stay in the user's cache until the lock file changes.
func installNPM(t *testing.T) (script string) {
	t.Helper()
	lock := read(t, "testdata/npm/package-lock.json")
	sum := sha256.Sum256(lock)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "politeness-limiters")
	dir := filepath.Join(cache, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err != nil {
		fill(t, cache, dir)
	}
	script = filepath.Join(dir, "server.mjs")
	write(t, script, read(t, "testdata/npm/server.mjs"))
	return script
}

// fill installs the packages in a new directory, and gives it its name when all are there.
func fill(t *testing.T, cache, dir string) {
	t.Helper()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(cache, "new") //nolint:usetesting // it is kept
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		write(t, filepath.Join(fresh, name), read(t, filepath.Join("testdata/npm", name)))
	}
	command(t, fresh, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	if err := os.Rename(fresh, dir); err != nil {
		t.Fatal(err)
	}
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
