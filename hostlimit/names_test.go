package hostlimit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExportsFewNames: a reader of the package's documentation meets at most 36 names at its top
// level, and no type, value or function of an internal package behind them.
func TestExportsFewNames(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	export := func(name *ast.Ident) {
		if name.IsExported() {
			names = append(names, name.Name)
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if strings.Contains(spec.Path.Value, "/hostlimit/internal/") {
				t.Errorf("%s imports %s", name, spec.Path.Value)
			}
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					export(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						export(s.Name)
						if s.Assign.IsValid() && s.Name.IsExported() {
							t.Errorf("%s is an alias", s.Name.Name)
						}
					case *ast.ValueSpec:
						for _, name := range s.Names {
							export(name)
						}
					}
				}
			}
		}
	}
	if slices.Sort(names); len(names) > 36 {
		t.Errorf("%d names: %s", len(names), strings.Join(names, ", "))
	}
}
