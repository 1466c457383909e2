package memory_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hostlimittest"

	"github.com/go-politeness/politeness/hostlimit/memory"
)

func newMemory(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
	m, err := memory.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// All scenarios in virtual time, and with POLITENESS_LONG=1 (make test) once more in real time.
func TestConformance(t *testing.T) {
	hostlimittest.RunIn(t, synctest.Test, newMemory)
	if os.Getenv("POLITENESS_LONG") != "" {
		hostlimittest.Run(t, newMemory)
	}
}

func TestRestarts(t *testing.T) {
	hostlimittest.RunRestarts(t, nil, keepsIn(hostlimit.Dir(t.TempDir())))
}

func TestRestartsInVirtualTime(t *testing.T) {
	hostlimittest.RunRestarts(t, synctest.Test, keepsApart(t.TempDir()))
}

// keepsIn makes Memories with that Store.
func keepsIn(store hostlimit.Store) hostlimittest.New {
	return func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		cfg.Store = store
		return newMemory(t, cfg)
	}
}

// keepsApart makes Memories whose Store is that of the scenario: a bubble that waits for the lock
// of another one would wait in its own time, which is over at once.
func keepsApart(dir string) hostlimittest.New {
	return func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		return keepsIn(hostlimit.Dir(filepath.Join(dir, filepath.FromSlash(t.Name()))))(t, cfg)
	}
}

// TestConformanceWithAStore: a Store changes nothing for one process.
func TestConformanceWithAStore(t *testing.T) {
	hostlimittest.RunIn(t, synctest.Test, keepsApart(t.TempDir()))
}
