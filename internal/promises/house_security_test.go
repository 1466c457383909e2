package promises_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// heldBy finds the tests that .github/SECURITY.md names, with their packages.
var heldBy = regexp.MustCompile("`([a-z/]+) (Test[A-Za-z0-9]+)`")

// TestEachPromiseOfSecurityHasATest: the tests that .github/SECURITY.md names are there, and each row of
// its table names one.
func TestEachPromiseOfSecurityHasATest(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, ".github/SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise ") {
			continue
		}
		rows++
		tests := heldBy.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test holds %s", line)
		}
		for _, test := range tests {
			if !hasTest(t, filepath.Join(root, test[1]), test[2]) {
				t.Errorf("%s has no %s", test[1], test[2])
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows", rows)
	}
}

// hasTest reports whether a package has a test of that name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}
