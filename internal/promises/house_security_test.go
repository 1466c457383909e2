package promises_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// heldBy finds the tests and fuzz targets that a row names, with their packages.
var heldBy = regexp.MustCompile("`([a-z/0-9]+) ((?:Test|Fuzz)[A-Za-z0-9]+)`")

// rowsWithTests returns the rows of the tables in a file whose last column is "held by". It fails
// unless each row names a test, and each test is there.
func rowsWithTests(t *testing.T, file string) (rows []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| held by |\n") {
			continue
		}
		rows = append(rows, line)
		tests := heldBy.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("%s: no test holds %s", file, line)
		}
		for _, test := range tests {
			if !hasTest(t, filepath.Join(top, test[1]), test[2]) {
				t.Errorf("%s: %s has no %s", file, test[1], test[2])
			}
		}
	}
	return rows
}

// TestEachPromiseOfSecurityHasATest: the tests that .github/SECURITY.md names are there, and each row of
// its table names one.
func TestEachPromiseOfSecurityHasATest(t *testing.T) {
	if rows := rowsWithTests(t, ".github/SECURITY.md"); len(rows) < 20 {
		t.Errorf("%d rows", len(rows))
	}
}

// kindsOfAttacks is how many kinds docs/design/attacks.md numbers.
const kindsOfAttacks = 20

// TestEachAttackHasATest: the numbers of docs/design/attacks.md go from 1.1 on without a hole, and each names a
// test that is there.
func TestEachAttackHasATest(t *testing.T) {
	kind := 1
	part := 0
	for _, row := range rowsWithTests(t, "docs/design/attacks.md") {
		next := fmt.Sprintf("%d.%d", kind, part+1)
		number := strings.Fields(row)[1]
		if number == fmt.Sprintf("%d.1", kind+1) && part > 0 {
			kind++
			part = 1
			continue
		}
		if number != next {
			t.Fatalf("%s where %s was expected", number, next)
		}
		part++
	}
	if kind != kindsOfAttacks {
		t.Errorf("%d kinds, not %d", kind, kindsOfAttacks)
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
