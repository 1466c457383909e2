package servers

import (
	"os"
	"testing"
)

// TempDir is t.TempDir for servers that read it as another user: that one is its owner's alone.
func TempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "servers") //nolint:usetesting // t.TempDir can't be read by them
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("configuration and logs: %s", dir)
		} else {
			os.RemoveAll(dir)
		}
	})
	return dir
}
