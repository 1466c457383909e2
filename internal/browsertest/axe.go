package browsertest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	//go:embed testdata/npm/package.json
	packageJSON []byte
	//go:embed testdata/npm/package-lock.json
	packageLock []byte
)

// axe returns the script of axe-core, which finds obstacles for people who can't see well, use no
// mouse, or have a page read to them. npm fetches the script, by the checksum of the lock file. The
// script stays in the user's cache until the lock file changes.
func axe(t *testing.T) string {
	t.Helper()
	sum := sha256.Sum256(packageLock)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "politeness-axe")
	dir := filepath.Join(cache, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err != nil {
		install(t, cache, dir)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// install installs the packages of the lock file in a new directory, which gets its name once all
// files are there.
func install(t *testing.T, cache, dir string) {
	t.Helper()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(cache, "new") //nolint:usetesting // it is kept
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock} {
		if err := os.WriteFile(filepath.Join(fresh, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("axe-core can't be installed (npm comes with: make setup): %v\n%s", err, out)
	}
	err = os.Rename(fresh, dir)
	if _, statErr := os.Stat(dir); statErr == nil {
		err = nil // another test was quicker
	}
	if err != nil {
		t.Fatal(err)
	}
}
