package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-politeness/politeness/internal/npmtest"
)

// clientsOfNPM returns a directory with the code and the packages of testdata/clients; empty: node or
// npm is missing, or neither make nor POLITENESS_CLIENTS asks for what needs a network.
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
	manifest, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	packages := npmtest.Install(t, "clients", manifest, lock)
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
