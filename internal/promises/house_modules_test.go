package promises_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// released are the directories of the modules that users import or install, and inHouse those of the
// others. Each go.mod costs a release, an upgrade and a look of whoever comes to the repository, so a
// new one is decided here. tools/go.mod only pins the linters.
var (
	released = []string{".", "cmd/politeness", "crawl/pgqueue", "crawl/sqlitequeue", "evidence/otelevidence", "redis"}
	inHouse  = []string{"examples/integrations", "lab"}
)

// TestEightModules: the repository has these modules and no other one.
func TestEightModules(t *testing.T) {
	var found []string
	walk(t, top, func(name string) {
		if path, ok := strings.CutSuffix(name, "go.mod"); ok {
			found = append(found, filepath.ToSlash(filepath.Clean(path)))
		}
	})
	want := slices.Concat(released, inHouse, []string{"tools"})
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("modules in %q, want %q", found, want)
	}
}

// TestReleasedModulesImportNoInternals of the root: whoever upgrades the root alone must not get a
// build that fails, since nothing holds an internal package to what another version of it promised.
// Test files are free.
func TestReleasedModulesImportNoInternals(t *testing.T) {
	for _, m := range released[1:] {
		files := 0
		walk(t, filepath.Join(top, m), func(name string) {
			if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return
			}
			files++
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, m, name), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range file.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				ours := strings.HasPrefix(path, module+"/")
				own := strings.HasPrefix(path, module+"/"+m+"/")
				if ours && !own && slices.Contains(strings.Split(path, "/"), "internal") {
					t.Errorf("%s/%s imports %s", m, filepath.ToSlash(name), path)
				}
			}
		})
		if files == 0 {
			t.Errorf("%s has no Go files", m)
		}
	}
}

// walk calls visit with the name of each file below dir, relative to it, but of test data and hidden
// directories.
func walk(t *testing.T, dir string, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := path != dir && strings.HasPrefix(entry.Name(), ".")
		if entry.IsDir() && (hidden || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		visit(name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
