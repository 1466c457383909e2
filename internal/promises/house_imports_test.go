package promises_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/go-politeness/politeness"

// top is the directory of the root module.
const top = "../.."

// TestImportGraph holds who may import whom: each leaf can be used by itself, only the packages
// that speak HTTP are built on net/http, and crawl is built on all the rest. Test files are free.
func TestImportGraph(t *testing.T) {
	leaves := map[string][]string{ // and the other leaves that each may use, beside internal/hostname, internal/durations, internal/printable, internal/sfv and internal/weblink
		"internal/hostname": nil, "internal/printable": nil, "internal/statedir": nil, "internal/sfv": nil, "internal/hostfile": nil,
		"robots": nil, "botauth": {"internal/conntrace"}, "hostlimit": {"backoff", "internal/statedir", "internal/list", "internal/contexts"}, "internal/list": nil, "internal/contexts": nil,
		"hostlimit/overrides": {"hostlimit", "backoff", "internal/statedir", "internal/list", "internal/contexts", "internal/hostfile"}, "backoff": nil, "budget": nil, "evidence": {"internal/statedir"},
		"publicnet":                nil,
		"evidence/audit":           {"evidence", "internal/statedir", "evidence/internal/merkle", "evidence/internal/lines", "robots"},
		"evidence/audit/accesslog": {"evidence", "internal/statedir", "evidence/internal/merkle", "evidence/internal/lines", "evidence/audit/internal/sites"},
		"evidence/audit/bundle":    {"evidence", "internal/statedir", "evidence/audit", "evidence/audit/internal/sites", "evidence/audit/internal/trees", "evidence/internal/merkle", "evidence/internal/lines", "robots"},
	}
	speaksHTTP := []string{"", "robots/robotscache", "botauth", "publicnet", "statuspage", "politenesstest", "crawl", "crawl/sitemap"}

	type pkg struct {
		ImportPath    string
		Imports, Deps []string // direct, and all
	}
	for _, p := range goJSON[pkg](t, "list", "-json=ImportPath,Imports,Deps", "./...") {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if mayUse, ok := leaves[name]; ok {
			for _, dep := range p.Deps {
				leaf, ours := strings.CutPrefix(dep, module)
				leaf = strings.TrimPrefix(leaf, "/")
				own := leaf == name || strings.HasPrefix(leaf, name+"/internal/") || slices.Contains([]string{"internal/hostname", "internal/printable", "internal/durations", "internal/sfv", "internal/weblink"}, leaf)
				if dep == "net/http" && !slices.Contains(speaksHTTP, name) || ours && !own && !slices.Contains(mayUse, leaf) {
					t.Errorf("the leaf %s depends on %s", name, dep)
				}
			}
		}
		first, _, _ := strings.Cut(name, "/")
		for _, dep := range p.Imports {
			onTop := first == "crawl" || first == "examples"
			if leaf, ours := strings.CutPrefix(dep, module+"/"); name == "hostlimit/hostlimittest" && ours && leaf != "hostlimit" && leaf != "backoff" {
				t.Errorf("%s imports %s, which the limiters that it tests may use too", name, dep)
			} else if !onTop && (leaf == "crawl" || strings.HasPrefix(leaf, "crawl/")) {
				t.Errorf("%s imports %s", name, dep)
			}
		}
		if slices.Contains(p.Imports, "net/http") && !slices.Contains(speaksHTTP, name) && first != "examples" && first != "internal" {
			t.Errorf("%s imports net/http", name)
		}
	}
}

// TestValuesKnowNoTrip: what a trip is made of takes values, and never calls up into it.
func TestValuesKnowNoTrip(t *testing.T) {
	for _, name := range []string{"subject.go", "page.go", "charge.go", "turn.go", "answer.go", "sendcontext.go", "body.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && slices.Contains([]string{"trip", "Transport"}, id.Name) {
				t.Errorf("%s names %s", name, id.Name)
			}
			return true
		})
	}
}

// TestRootImportsNoTemplates: a program with html/template in it keeps every exported method of its
// types, used or not. Only package statuspage may cost that.
func TestRootImportsNoTemplates(t *testing.T) {
	type pkg struct{ Deps []string }
	for _, p := range goJSON[pkg](t, "list", "-json=Deps", ".") {
		for _, dep := range []string{"html/template", "text/template", module + "/statuspage"} {
			if slices.Contains(p.Deps, dep) {
				t.Errorf("the root depends on %s", dep)
			}
		}
	}
}

// TestDirectDependencies keeps the module graph of a user small.
func TestDirectDependencies(t *testing.T) {
	allowed := []string{
		"github.com/cenkalti/backoff/v4",
		"github.com/hashicorp/golang-lru/v2",
		"github.com/jimsmart/grobotstxt",
		"golang.org/x/mod",
		"golang.org/x/net",
		"golang.org/x/sync",
	}
	type goMod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	for _, m := range goJSON[goMod](t, "mod", "edit", "-json") {
		for _, r := range m.Require {
			if !r.Indirect && !slices.Contains(allowed, r.Path) {
				t.Errorf("go.mod requires %s", r.Path)
			}
		}
	}
}

// goJSON runs the go command and returns the JSON values that it prints.
func goJSON[T any](t *testing.T, args ...string) []T {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = top
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", cmd, err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	var values []T
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var v T
		if err := dec.Decode(&v); errors.Is(err, io.EOF) {
			return values
		} else if err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
}
