//go:build unix

package npmtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// fakeNPM puts a program of that name first in PATH, and the user's cache into a new directory.
func fakeNPM(t *testing.T, script string) (cache string) {
	t.Helper()
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "npm"), []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	cache, err := os.UserCacheDir()
	must(t, err)
	return filepath.Join(cache, "politeness-test")
}

// TestManyInstallAtOnce: all who install the same packages at once have them, and leave nothing else
// behind. None installs while another one hasn't begun: they wait for each other.
func TestManyInstallAtOnce(t *testing.T) {
	const installers = 5
	cache := fakeNPM(t, `
touch begun
while [ $(ls -d "$PWD"/../new*/begun 2>/dev/null | wc -l) -lt 5 ] && [ ! -e ../all ]; do sleep 0.01; done
touch ../all
mkdir node_modules && cp package.json node_modules/it
`)
	var dirs [installers]string
	var all sync.WaitGroup
	for i := range dirs {
		all.Go(func() { dirs[i] = Install(t, "test", []byte("manifest"), []byte("lock")) })
	}
	all.Wait()
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "node_modules", "it"))
		if err != nil || string(text) != "manifest" {
			t.Errorf("%q, %v", text, err)
		}
	}
	must(t, os.Remove(filepath.Join(cache, "all")))
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestInstallOnce: what is in the cache isn't fetched again until the lock file changes.
func TestInstallOnce(t *testing.T) {
	cache := fakeNPM(t, "mkdir node_modules && echo x >> ../calls\n")
	one := Install(t, "test", nil, []byte("lock"))
	again := Install(t, "test", nil, []byte("lock"))
	other := Install(t, "test", nil, []byte("another lock"))
	calls, err := os.ReadFile(filepath.Join(cache, "calls"))
	if one != again || one == other || err != nil || string(calls) != "x\nx\n" {
		t.Errorf("%s, %s, %s: npm was called %q, %v", one, again, other, calls, err)
	}
}
