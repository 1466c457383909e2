// Package docs holds the code in README.md and the guides to what a compiler asks.
package docs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	// The go command keeps a test's result until something that the test imports has changed.
	_ "github.com/go-politeness/politeness"
	_ "github.com/go-politeness/politeness/crawl"
	_ "github.com/go-politeness/politeness/politenesstest"
	_ "github.com/go-politeness/politeness/publicnet"
	_ "github.com/go-politeness/politeness/revisit"
	_ "github.com/go-politeness/politeness/statuspage"
)

// module is the path of the root module.
const module = "github.com/go-politeness/politeness"

// TestDocs type-checks every block of Go code in README.md and under docs/.
//
// A block that starts with a package clause is a complete file, held to what the
// compiler asks. Anything else is a fragment: declarations, or statements as they
// would stand in a function that has the variables of docFrame. A fragment needs no
// imports (docImports and the packages of this module are known by name) and may leave
// a variable unused. What isn't Go to be compiled is fenced as text.
func TestDocs(t *testing.T) {
	for name, text := range guides(t) {
		for _, block := range goBlocks(name, text) {
			t.Run(fmt.Sprintf("%s:%d", block.file, block.line), func(t *testing.T) {
				for _, err := range block.check(t) {
					t.Error(err)
				}
			})
		}
	}
}

func TestDocsChecker(t *testing.T) {
	tests := []struct {
		name, code string
		want       string // in the first error; empty: none
	}{
		{"fragment with an unused variable", `client := &http.Client{Transport: t}`, ""},
		{"fragment that returns", "if err != nil {\n\treturn nil, err\n}", ""},
		{"declaration", "func fetch(u *url.URL) error { return nil }", ""},
		{"complete file", "package main\n\nfunc main() {}", ""},
		{"no such field", `cfg := politeness.Config{Polite: true}`, "doc.md:2:"},
		{"no such name", "\nt.Nope()", "doc.md:3:"},
		{"not Go", `client := ...`, "doc.md:2:"},
		{"complete file with an unused import", "package main\n\nimport \"os\"\n\nfunc main() {}", "doc.md:4:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs := goBlocks("doc.md", "```go\n"+tt.code+"\n```\n")[0].check(t)
			switch {
			case tt.want == "" && len(errs) > 0:
				t.Error(errs)
			case tt.want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), tt.want)):
				t.Errorf("got errors %v, want one at %s", errs, tt.want)
			}
		})
	}
}

// A docBlock is one fenced block of Go code.
type docBlock struct {
	file string
	line int // of the code's first line
	code string
}

var goFence = regexp.MustCompile("(?ms)^[ \t]*```go[ \t]*\n(.*?)^[ \t]*```")

func goBlocks(file, text string) []docBlock {
	var blocks []docBlock
	for _, at := range goFence.FindAllStringSubmatchIndex(text, -1) {
		blocks = append(blocks, docBlock{file, 1 + strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]]})
	}
	return blocks
}

// docFrame is the function around a fragment's statements. Their block is one of
// its own so that a fragment can declare these names itself.
const docFrame = `func _(ctx context.Context, t *politeness.Transport, cfg politeness.Config, client *http.Client,
	req *http.Request, resp *http.Response, rawURL string, urls []string, signer *botauth.Signer, err error) %s {
	{
%s
	}
	panic("the end of the fragment")
}
`

// docImports are the packages that a fragment knows by name, and that a file may import.
var docImports = []string{
	"bytes", "context", "encoding/json", "errors", "fmt", "io", "iter", "log", "log/slog", "maps",
	"net/http", "net/http/httptest", "net/url", "os", "os/signal", "slices", "strings", "sync", "testing", "testing/synctest",
	"time",
	module,
	module + "/robots", module + "/robots/robotscache",
	module + "/hostlimit", module + "/hostlimit/memory", module + "/hostlimit/overrides",
	module + "/backoff", module + "/botauth", module + "/budget", module + "/publicnet",
	module + "/evidence", module + "/evidence/audit", module + "/evidence/audit/accesslog",
	module + "/evidence/audit/bundle",
	module + "/politenesstest", module + "/revisit", module + "/statuspage",
	module + "/crawl", module + "/crawl/sitemap",
	module + "/redis/redislimit", module + "/redis/redisbudget",
	module + "/crawl/sqlitequeue", module + "/crawl/pgqueue",
	module + "/redis/redisrobots", "github.com/redis/go-redis/v9",
	"github.com/gocolly/colly/v2",
}

var docPackageName = regexp.MustCompile(`([a-z0-9]+)(/v[0-9]+)?$`)

// complete returns the block as a complete file, its errors still at the lines of
// the document, and whether it was one already.
func (b docBlock) complete() (src string, already bool) {
	line := fmt.Sprintf("//line %s:%d\n", b.file, b.line)
	if _, err := parser.ParseFile(token.NewFileSet(), "", b.code, parser.PackageClauseOnly); err == nil {
		return line + b.code, true
	}

	body := line + b.code
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+b.code, 0); err != nil {
		body = fmt.Sprintf(docFrame, docResults(b.code), body)
	}
	var imports strings.Builder
	for _, p := range docImports {
		name := strings.TrimPrefix(docPackageName.FindStringSubmatch(p)[1], "go-")
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(body) {
			fmt.Fprintf(&imports, "import %s %q\n", name, p)
		}
	}
	return "package p\n" + imports.String() + body, false
}

// docResults returns the result list of a function that returns what the statements return.
func docResults(code string) string {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+code+"\n}", 0)
	if err != nil {
		return "" // reported when it is checked
	}
	results := ""
	ast.Inspect(f, func(n ast.Node) bool {
		if ret, ok := n.(*ast.ReturnStmt); ok && len(ret.Results) > 0 {
			results = "(" + strings.Repeat("any, ", len(ret.Results)) + ")"
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return results
}

// check returns what a compiler has to say of the block.
func (b docBlock) check(t *testing.T) (errs []error) {
	t.Helper()
	src, already := b.complete()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, b.file, src, parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	exports := docExports(t, f.Imports)
	conf := types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			return os.Open(exports[path])
		}),
		Error: func(err error) {
			// A soft error is something unused.
			var e types.Error
			isSoft := errors.As(err, &e) && e.Soft
			if already || !isSoft {
				errs = append(errs, err)
			}
		},
	}
	_, _ = conf.Check("p", fset, []*ast.File{f}, nil) // its error is the first of errs
	return errs
}

// docExports returns the files of export data for the imports and all that they
// import, from the first module of this repository that has them: mostly the root.
func docExports(t *testing.T, imports []*ast.ImportSpec) map[string]string {
	t.Helper()
	var missing []string
	for _, dir := range []string{"..", "../examples/integrations"} {
		exports := moduleExports(t, dir)
		missing = nil
		for _, spec := range imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if exports[name] == "" {
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			return exports
		}
	}
	t.Fatalf("no module has them all, the last one lacks %v (is it one of docImports?)", missing)
	return nil
}

// listed holds what moduleExports has returned: the go command takes its time.
var listed = map[string]map[string]string{}

// moduleExports returns the files of export data for those of docImports that the module in
// the directory has, and for all that they import.
func moduleExports(t *testing.T, dir string) map[string]string {
	t.Helper()
	if exports, ok := listed[dir]; ok {
		return exports
	}
	args := append([]string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, docImports...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", dir, err, &stderr)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[name] = file
	}
	listed[dir] = exports
	return exports
}
