package browsertest

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-politeness/politeness/internal/npmtest"
)

var (
	//go:embed testdata/npm/package.json
	packageJSON []byte
	//go:embed testdata/npm/package-lock.json
	packageLock []byte
)

// axe returns the script of axe-core, which finds obstacles for people who can't see well, use no
// mouse, or have a page read to them.
func axe(t *testing.T) string {
	t.Helper()
	dir := npmtest.Install(t, "axe", packageJSON, packageLock)
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}
