package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// clientsOfNPM returns a directory with the code and the packages of testdata/clients; empty: node or
// npm is missing, or neither make nor POLITENESS_CLIENTS asks for what needs a network. The packages
// are those of the lock file, by their checksums. They stay in the user's cache until that file
// changes.
func clientsOfNPM(t *testing.T) (dir string) {
	t.Helper()
	if os.Getenv("POLITENESS_SCRAPY") != "1" && os.Getenv("POLITENESS_CLIENTS") != "1" {
		return ""
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Log(err)
			return ""
		}
	}
	const source = "testdata/clients"
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "politeness-clients")
	sum := sha256.Sum256(lock)
	packages := filepath.Join(cache, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(packages); err != nil {
		installClients(t, source, cache, packages)
	}
	// The code stands beside the packages, where node looks for them.
	dir = t.TempDir()
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node.mjs", "crawlee.mjs"} {
		copyFile(t, filepath.Join(source, name), filepath.Join(dir, name))
	}
	return dir
}

// installClients installs the packages in a new directory, and gives it its name when all are there.
func installClients(t *testing.T, source, cache, name string) {
	t.Helper()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(cache, "new") //nolint:usetesting // it is kept
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"package.json", "package-lock.json"} {
		copyFile(t, filepath.Join(source, file), filepath.Join(fresh, file))
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = fresh
	if said, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", install, err, said)
	}
	if err := os.Rename(fresh, name); err != nil {
		if _, there := os.Stat(name); there != nil {
			t.Fatal(err)
		}
		os.RemoveAll(fresh) // another run was quicker
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
