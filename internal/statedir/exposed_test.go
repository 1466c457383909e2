package statedir

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestALinkToTheDirectoryIsNoDanger: the directory counts that it leads to.
func TestALinkToTheDirectoryIsNoDanger(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the mode says nothing")
	}
	for mode, danger := range map[os.FileMode]bool{0o755: false, 0o777: true} {
		to := t.TempDir()
		if err := os.Chmod(to, mode); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "state")
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		v := Values[int]{Dir: New(filepath.Join(link, "hosts"), OS{}), Format: "test 1", Zero: "is nothing"}
		_, err := v.Update(t.Context(), "key", func(int) int { return 1 })
		if got := err != nil && strings.Contains(err.Error(), "others may write to "+link); got != danger || !danger && err != nil {
			t.Errorf("a link to a directory of mode %o: %v", mode, err)
		}
	}
}
