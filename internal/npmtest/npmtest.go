// Package npmtest installs packages of npm for tests.
package npmtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Install returns a directory whose node_modules has the packages of a lock file, by their
// checksums. manifest is the text of package.json, and lock that of package-lock.json. The packages
// stay in the user's cache, by the given name, until the lock file changes. Several processes may
// install the same packages at once.
func Install(t testing.TB, name string, manifest, lock []byte) (dir string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	must(t, err)
	cache = filepath.Join(cache, "politeness-"+name)
	sum := sha256.Sum256(lock)
	dir = filepath.Join(cache, hex.EncodeToString(sum[:8]))
	_, err = os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		must(t, os.MkdirAll(cache, 0o755))
		install(t, cache, dir, map[string][]byte{"package.json": manifest, "package-lock.json": lock})
	default:
		must(t, err)
	}
	return dir
}

// install installs packages in a new directory, which gets its name when all of them are there. So
// nobody finds a part of them.
func install(t testing.TB, cache, dir string, files map[string][]byte) {
	t.Helper()
	fresh, err := os.MkdirTemp(cache, "new") //nolint:usetesting // it is kept
	must(t, err)
	defer os.RemoveAll(fresh) // it is there only if something has failed, or another process was quicker
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(fresh, name), text, 0o600))
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = fresh
	if said, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("%v (make setup installs npm): %v\n%s", npm, err, said)
	}
	err = os.Rename(fresh, dir)
	if _, missing := os.Stat(dir); missing == nil {
		return // also if another process has brought the same packages there
	}
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
