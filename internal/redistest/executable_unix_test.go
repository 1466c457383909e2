//go:build unix

package redistest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAValkeyServesToo where no redis-server is installed, and what the environment names goes first.
func TestAValkeyServesToo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("POLITENESS_REDIS_SERVER", "")
	if path, err := executable(); err == nil {
		t.Errorf("found %s", path)
	}
	for _, name := range []string{"valkey-server", "redis-server", "other"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o700); err != nil { //nolint:gosec // it stands for a program
			t.Fatal(err)
		}
		if name == "other" {
			t.Setenv("POLITENESS_REDIS_SERVER", path)
		}
		if got, err := executable(); got != path || err != nil {
			t.Errorf("%v, %v; want %s", got, err, path)
		}
	}
}
