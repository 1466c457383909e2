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

// helpers are internal packages that know none of ours. Each package may import them.
var helpers = []string{"internal/durations", "internal/hostname", "internal/printable", "internal/sfv", "internal/weblink"}

// mayImport has a line for each package that can be used without the root: the packages of ours that
// it may import beside the helpers. Only the root, crawl and the programs stand above these.
var mayImport = map[string][]string{
	// The leaves.
	"backoff":   nil,
	"botauth":   {"internal/conntrace"},
	"budget":    {"internal/statedir"},
	"evidence":  {"internal/statedir"},
	"hostlimit": {"backoff", "internal/contexts", "internal/statedir"},
	"publicnet": nil,
	"robots":    nil,

	// What is built on one leaf or two.
	"evidence/audit":           {"evidence", "robots"},
	"evidence/audit/accesslog": {"evidence"},
	"evidence/audit/bundle":    {"evidence", "evidence/audit"},
	"hostlimit/hints":          {"backoff", "hostlimit"},
	"hostlimit/hostlimittest":  {"backoff", "hostlimit"}, // and no more, since limiters that it tests may use the rest
	"hostlimit/memory":         {"hostlimit", "hostlimit/rules", "hostlimit/sitekey", "internal/list"},
	"hostlimit/overrides":      {"hostlimit", "hostlimit/rules", "internal/hostfile"},
	"hostlimit/rules":          {"backoff", "hostlimit", "internal/contexts", "internal/statedir"},
	"hostlimit/sitekey":        nil,
	"politenesstest":           {"robots"}, // it judges the others, so it shares nothing else with them
	"robots/robotscache":       {"backoff", "hostlimit/sitekey", "robots", "internal/caching", "internal/coding", "internal/statedir"},

	// What is internal to them, and to crawl.
	"crawl/internal/traps":          nil,
	"evidence/audit/internal/sites": {"evidence"},
	"evidence/audit/internal/trees": {"evidence"},
	"evidence/internal/lines":       nil,
	"evidence/internal/merkle":      nil,
	"internal/caching":              nil,
	"internal/coding":               nil,
	"internal/conntrace":            nil,
	"internal/contexts":             nil,
	"internal/durations":            nil,
	"internal/hostfile":             nil,
	"internal/hostname":             nil,
	"internal/list":                 nil,
	"internal/printable":            nil,
	"internal/sfv":                  nil,
	"internal/statedir":             nil,
	"internal/weblink":              nil,
}

// speakHTTP are the packages that may import net/http, beside programs and what is internal. No other
// package of mayImport depends on it, directly or not.
var speakHTTP = []string{
	"", "botauth", "crawl", "crawl/sitemap", "hostlimit/hints", "internal/caching", "internal/coding", "politenesstest", "publicnet", "revisit", "robots/robotscache", "statuspage",
}

// knowSites are the packages that read the public suffix list of golang.org/x/net/publicsuffix, and
// those above them. That package imports net/http/cookiejar for the name of one interface.
var knowSites = []string{"hostlimit/memory", "hostlimit/sitekey"}

// TestImportGraph holds who may import whom: each leaf can be used by itself, only the packages
// that speak HTTP are built on net/http, and crawl is built on all the rest. Test files are free.
func TestImportGraph(t *testing.T) {
	type pkg struct {
		ImportPath    string
		Imports, Deps []string // direct, and all
	}
	seen := make(map[string]bool)
	for _, p := range goJSON[pkg](t, "list", "-json=ImportPath,Imports,Deps", "./...") {
		name, _ := ours(p.ImportPath)
		seen[name] = true
		allowed, below := mayImport[name]
		for _, path := range p.Imports {
			dep, isOurs := ours(path)
			if !isOurs {
				continue
			}
			if below && !slices.Contains(helpers, dep) && !isOwnInternal(dep) && !slices.Contains(allowed, dep) {
				t.Errorf("%s imports %s", name, path)
			}
			if isIn(dep, "crawl") && !isIn(name, "crawl") && !isIn(name, "examples") {
				t.Errorf("%s imports %s", name, path)
			}
		}
		speaks := slices.Contains(speakHTTP, name)
		throughList := slices.Contains(knowSites, name)
		dependsOnHTTP := slices.Contains(p.Deps, "net/http")
		if below && !speaks && !throughList && dependsOnHTTP {
			t.Errorf("%s depends on net/http", name)
		}
		if throughList && !dependsOnHTTP {
			t.Errorf("%s doesn't depend on net/http any more: take it out of knowSites", name)
		}
		isFree := isIn(name, "examples") || isIn(name, "internal")
		if !speaks && !isFree && slices.Contains(p.Imports, "net/http") {
			t.Errorf("%s imports net/http", name)
		}
	}
	for name, allowed := range mayImport {
		for _, dep := range append(allowed, name) {
			if _, listed := mayImport[dep]; !listed || !seen[dep] {
				t.Errorf("%s, which %s may import, is no package with a line of its own", dep, name)
			}
		}
	}
}

// ours returns the directory of a package of the root module, which is empty for the root itself, and
// whether path names one.
func ours(path string) (dir string, ok bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// isIn reports whether the package in dir is that in top, or below it.
func isIn(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// isOwnInternal reports whether the package in dir is internal to another one than the root, so that
// the compiler sees to it who imports it.
func isOwnInternal(dir string) bool { return strings.Contains(dir, "/internal/") }

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
