package docs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/evidence/audit/bundle"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
)

// published are the directories of the packages that users give functions to, those of modules of
// their own included.
var published = []string{
	".",
	"robots", "robots/robotscache",
	"hostlimit", "hostlimit/hostlimittest", "hostlimit/overrides",
	"redis/redislimit", "redis/redisbudget", "redis/redisrobots",
	"backoff", "budget", "botauth", "publicnet", "statuspage", "politenesstest", "revisit",
	"evidence", "evidence/audit", "evidence/audit/accesslog", "evidence/audit/bundle", "evidence/otelevidence",
	"crawl", "crawl/sitemap", "crawl/queuetest", "crawl/sqlitequeue", "crawl/pgqueue",
}

// given are functions and interfaces that a user doesn't give us: we give them, or only ours are
// meant.
var given = map[string]string{
	"hostlimit.Controller":                  "part of Limiter",
	"hostlimit.Lease":                       "part of Limiter",
	"crawl.Owner":                           "a Queue",
	"crawl.Postponer":                       "a Queue",
	"crawl.Progress.Waiting":                "ours, to iterate",
	"evidence.Func":                         "an Evidence",
	"politenesstest.InTurn(handlers)":       "each is a Handler of Site.Handle",
	"politenesstest.Slow(h)":                "a Handler of Site.Handle",
	"politeness.RefuseAny(rules)":           "each is a Config.Refuse",
	"politeness.Transport.IsReachedBy(rt)":  "called by the caller, under no lock: a panic continues there",
	"hostlimittest.Run(newLimiter)":         "of a test, whose panic it is",
	"hostlimittest.RunIn(in)":               "of a test",
	"hostlimittest.RunIn(newLimiter)":       "of a test",
	"hostlimittest.RunRestarts(in)":         "of a test",
	"hostlimittest.RunRestarts(newLimiter)": "of a test",
	"queuetest.Run(open)":                   "of a test",
	"audit.Trust.Site":                      "a pure function: hostlimit/sitekey.Of",
}

// tables are the rows of design/callbacks.md: the name of a function, and the test that holds what the
// table says about a panic.
func tables(t *testing.T) map[string]string {
	text, err := os.ReadFile(filepath.Join("design", "callbacks.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	row := regexp.MustCompile("^\\| (`[^|]*`) \\|.*\\| `([^`|]+)` \\|$")
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		for name := range strings.SplitSeq(m[1], ", ") {
			name = strings.Trim(name, "`")
			if rows[name] != "" {
				t.Errorf("two rows for %s", name)
			}
			rows[name] = m[2]
		}
	}
	return rows
}

// TestCallbacks: the table has a row for each function and each interface that users give us, each
// row names a test that exists, and no row is of nothing.
func TestCallbacks(t *testing.T) {
	rows := tables(t)
	found := callbacks(t)
	for name := range found {
		if rows[name] == "" && given[name] == "" {
			t.Errorf("no row in design/callbacks.md for %s", name)
		}
	}
	for name, test := range rows {
		if !found[name] {
			t.Errorf("%s is nothing that a user gives", name)
		}
		dir, test, ok := strings.Cut(test, " ")
		if !ok {
			test = dir
			dir = filepath.Join("internal", "promises")
		}
		files, _ := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
		if !slices.ContainsFunc(files, func(file string) bool {
			text, _ := os.ReadFile(file)
			return strings.Contains(string(text), "\nfunc "+test+"(")
		}) {
			t.Errorf("%s: no test %s in %s", name, test, dir)
		}
	}
	for name := range given {
		if !found[name] {
			t.Errorf("%s isn't found any more: take it out of the list", name)
		}
	}
}

// callbacks returns the names of all functions that a user may give to a package: exported fields of
// structs and parameters of exported functions that are functions or interfaces of the standard
// library, and the packages' own exported interfaces.
func callbacks(t *testing.T) map[string]bool {
	names := map[string]bool{}
	imports := importing(t)
	for _, dir := range published {
		fset := token.NewFileSet()
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_windows.go") {
				continue
			}
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		cfg := types.Config{
			Importer:         imports,
			Error:            func(error) {}, // about types of other modules, which aren't known
			IgnoreFuncBodies: true,
		}
		pkg, _ := cfg.Check(strings.TrimSuffix(module+"/"+dir, "/."), fset, parsed, nil)
		s := scan{pkg: pkg, names: names}
		for _, name := range pkg.Scope().Names() {
			o := pkg.Scope().Lookup(name)
			if o.Exported() {
				s.object(o)
			}
		}
	}
	return names
}

// A scan collects the callbacks of a package.
type scan struct {
	pkg   *types.Package
	names map[string]bool
}

func (s scan) object(o types.Object) {
	name := s.pkg.Name() + "." + o.Name()
	switch o := o.(type) {
	case *types.Func:
		s.params(name, o)
	case *types.TypeName:
		named, ok := o.Type().(*types.Named)
		if !ok {
			return
		}
		switch u := named.Underlying().(type) {
		case *types.Interface:
			s.names[name] = true
		case *types.Signature:
			s.names[name] = true
		case *types.Struct:
			for f := range u.Fields() {
				if f.Exported() && !f.Embedded() && s.calls(f.Type()) {
					s.names[name+"."+f.Name()] = true
				}
			}
		}
		for m := range named.Methods() {
			if m.Exported() && !slices.Contains(forStandard, m.Name()) {
				s.params(name+"."+m.Name(), m)
			}
		}
		return
	}
}

// forStandard are methods for interfaces of the standard library.
var forStandard = []string{"As", "Is", "Format", "MarshalJSON", "RoundTrip", "Record", "UnmarshalJSON"}

func (s scan) params(name string, f *types.Func) {
	for p := range f.Type().(*types.Signature).Params().Variables() {
		if s.calls(p.Type()) {
			s.names[name+"("+p.Name()+")"] = true
		}
	}
}

// calls reports whether t is a function, or an interface of the standard library with methods whose
// implementations may be anything, also as the element of a slice.
func (s scan) calls(t types.Type) bool {
	if slice, ok := t.(*types.Slice); ok {
		t = slice.Elem()
	}
	switch u := t.Underlying().(type) {
	case *types.Signature:
		named, ok := t.(*types.Named)
		return !ok || named.Obj().Pkg() == nil || !strings.HasPrefix(named.Obj().Pkg().Path(), module)
	case *types.Interface:
		named, ok := t.(*types.Named)
		if !ok || named.Obj().Pkg() == nil || u.NumMethods() == 0 { // error, any
			return false
		}
		switch path := named.Obj().Pkg().Path(); path {
		case "context", "testing":
			return false
		default:
			isStandard := !strings.Contains(path, ".")
			return isStandard && named.Obj().Name() != "ResponseWriter"
		}
	}
	return false
}

// importing returns an importer for what the root module is built of. Packages of other modules are
// not known.
func importing(t *testing.T) types.Importer {
	cmd := exec.Command("go", "list", "-e", "-export", "-deps", "-json=ImportPath,Export", "./...", "crypto", "embed")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for d := json.NewDecoder(bufio.NewReader(strings.NewReader(string(out)))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("not of the root module")
		}
		return os.Open(exports[path])
	})
}

// A mined file panics when it is read or written.
type mined struct{}

func (mined) Read([]byte) (int, error)       { panic("boom") }
func (mined) Write([]byte) (int, error)      { panic("boom") }
func (mined) Seek(int64, int) (int64, error) { return 0, nil }

func TestReadersAndWritersPanicInTheirCalls(t *testing.T) {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Page("/", "page")
	for range 2 {
		if resp, err := (&http.Client{Transport: web}).Get("https://example.com/"); err == nil {
			resp.Body.Close()
		}
	}
	for name, call := range map[string]func(){
		"audit.Check":       func() { _, _ = audit.Check(mined{}) },
		"audit.Trust.Check": func() { _, _ = audit.Trust{}.Check(mined{}) },
		"audit.CheckSite":   func() { _, _ = audit.CheckSite(mined{}, "example.com") },
		"accesslog evidence": func() {
			_, _ = accesslog.Compare(mined{}, accesslog.Options{Host: "example.com"}, strings.NewReader(""))
		},
		"bundle.Extract":   func() { _, _ = bundle.Extract(io.Discard, mined{}, audit.Trust{}, "example.com") },
		"bundle.Verify":    func() { _, _ = bundle.Verify(mined{}, audit.Trust{}) },
		"Report.WriteText": func() { _ = new(audit.Report).WriteText(mined{}) },
		"robots.ReadMeta":  func() { _, _ = robots.ReadMeta(mined{}) },
		"Rules.HostKey": func() {
			web.Violations(politenesstest.Rules{
				HostKey: func(*http.Request) string { panic("boom") },
			})
		},
		"sitemap.Read": func() {
			for _, err := range sitemap.Read(mined{}) {
				t.Error(err)
			}
		},
	} {
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("%s: panic %v", name, p)
				}
			}()
			call()
		}()
	}
}

// TestAPanicOfAWriterHoldsUpNobody: it costs a line of a Console, and no lock.
func TestAPanicOfAWriterHoldsUpNobody(t *testing.T) {
	var out strings.Builder
	panics := true
	sink := evidence.Safe(evidence.Console(writer(func(p []byte) (int, error) {
		if panics {
			panic("boom")
		}
		return out.Write(p)
	})))
	for range 3 {
		sink.Record(context.Background(), evidence.Decision{Type: evidence.SlotTimeout, Host: "example.com"})
		panics = false
	}
	if n := strings.Count(out.String(), "not started"); n != 2 || sink.Err() == nil {
		t.Errorf("%d lines, %v:\n%s", n, sink.Err(), out.String())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestAHandlerThatAborts ends its exchange, and no other.
func TestAHandlerThatAborts(t *testing.T) {
	web := politenesstest.NewWeb()
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	web.Site("https://example.com").Page("/", "page").Handle("/abort", http.HandlerFunc(abort))
	client := &http.Client{Transport: web}
	for path, want := range map[string]bool{"/abort": false, "/": true} {
		resp, err := client.Get("https://example.com" + path)
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	for _, r := range web.Requests() {
		if r.End.IsZero() {
			t.Errorf("%v is open", fmt.Sprint(r))
		}
	}
}
