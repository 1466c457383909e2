package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// switches is the file that a package with mutants gets in addition.
//
//go:embed switches.go.txt
var switches string

// A mutant is one operator of the code that could be another.
type mutant struct {
	n        int // its number in the build: the switch that turns it on
	kind     string
	pkg      string
	file     string // name without directory
	line     int
	name     string // what mutants.txt calls it
	from, to token.Token
	pos      token.Pos // of the operator
	node     ast.Node
	end      int  // line on which the innermost function around it ends
	fixed    bool // can't be switched while the program runs, as in a constant: has a build of its own
}

// place returns the file and line of the mutant.
func (m *mutant) place() string { return fmt.Sprintf("%s:%d", path.Join(m.pkg, m.file), m.line) }

// boundary and negation have the operators that become others.
var boundary = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
}

var negation = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS,
	token.GTR: token.LEQ, token.LEQ: token.GTR,
}

var arithmetic = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
}

var helpers = map[token.Token]string{
	token.LSS: "mutantLess",
	token.LEQ: "mutantLessEqual",
	token.GTR: "mutantMore",
	token.GEQ: "mutantMoreEqual",
	token.ADD: "mutantAdd",
	token.SUB: "mutantSub",
	token.MUL: "mutantMul",
	token.QUO: "mutantQuo",
	token.REM: "mutantRem",
	token.INC: "mutantInc",
	token.DEC: "mutantDec",
}

// A code is a package of which mutants are made.
type code struct {
	pkg     string
	dir     string
	fset    *token.FileSet
	files   map[string]*ast.File
	text    map[string][]byte
	info    *types.Info
	imports types.Importer
	mutants []*mutant
}

// load reads a package and finds its mutants.
func load(pkg string) (*code, error) {
	c := &code{
		pkg:   pkg,
		dir:   filepath.Join(root, pkg),
		fset:  token.NewFileSet(),
		files: map[string]*ast.File{},
		text:  map[string][]byte{},
	}
	cmd := exec.CommandContext(context.Background(), "go", "list", "-export", "-deps",
		"-json=Dir,ImportPath,Export,GoFiles", ".")
	cmd.Dir = filepath.Join(root, pkg)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	var p struct {
		Dir, ImportPath, Export string
		GoFiles                 []string
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); { // the package itself is the last one
		p.GoFiles = nil
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
	}
	c.imports = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		c.text[name] = text
	}
	c.dir = p.Dir
	c.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	c.files, err = c.check(c.text, c.info, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		c.find(name)
	}
	return c, c.sort()
}

// check parses and type-checks files. It calls each with the place of every error.
func (c *code) check(
	text map[string][]byte, info *types.Info, each func(token.Position),
) (map[string]*ast.File, error) {
	files := map[string]*ast.File{}
	for name, t := range text {
		f, err := parser.ParseFile(c.fset, name, t, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files[name] = f
	}
	var all []error
	config := types.Config{Importer: c.imports, Error: func(err error) {
		all = append(all, err)
		var e types.Error
		if errors.As(err, &e) && each != nil {
			each(e.Fset.Position(e.Pos))
		}
	}}
	if _, err := config.Check(c.pkg, c.fset, slices.Collect(maps.Values(files)), info); err != nil {
		all = append(all, err)
	}
	return files, errors.Join(all...)
}

// find finds the mutants of a file.
func (c *code) find(name string) {
	lines := strings.Split(string(c.text[name]), "\n")
	seen := map[string]int{}
	fixed := map[ast.Node]bool{} // expressions that must stay constant
	end := 0                     // of the function that is being looked through
	add := func(node ast.Node, pos token.Pos, kind string, from, to token.Token) {
		at := c.fset.Position(pos)
		line := lines[at.Line-1]
		indent := len(line) - len(strings.TrimLeft(line, "\t"))
		m := &mutant{
			n:     len(c.mutants) + 1,
			name:  fmt.Sprintf("%s %s at %d of `%s`", path.Join(c.pkg, name), kind, at.Column-indent, line[indent:]),
			kind:  kind,
			pkg:   c.pkg,
			file:  name,
			line:  at.Line,
			from:  from,
			to:    to,
			pos:   pos,
			node:  node,
			fixed: fixed[node],
			end:   end,
		}
		seen[m.name]++
		if seen[m.name] > 1 {
			m.name += fmt.Sprintf(" (%d)", seen[m.name])
		}
		c.mutants = append(c.mutants, m)
	}
	var inFixed []ast.Node // the innermost of them last
	var stack []ast.Node
	around := func() int {
		for _, node := range slices.Backward(stack) {
			switch node.(type) {
			case *ast.FuncDecl, *ast.FuncLit:
				return c.fset.Position(node.End()).Line
			}
		}
		return 0
	}
	ast.Inspect(c.files[name], func(node ast.Node) bool {
		if node == nil {
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if len(inFixed) > 0 && inFixed[len(inFixed)-1] == top {
				inFixed = inFixed[:len(inFixed)-1]
			}
			return true
		}
		stack = append(stack, node)
		end = around()
		switch node := node.(type) {
		case *ast.GenDecl:
			if node.Tok == token.CONST {
				inFixed = append(inFixed, node)
			}
		case *ast.ArrayType:
			inFixed = append(inFixed, node)
		}
		fixed[node] = len(inFixed) > 0
		switch node := node.(type) {
		case *ast.BinaryExpr:
			if to, ok := boundary[node.Op]; ok {
				add(node, node.OpPos, "conditionals_boundary", node.Op, to)
			}
			if to, ok := negation[node.Op]; ok {
				add(node, node.OpPos, "conditionals_negation", node.Op, to)
			}
			if to, ok := arithmetic[node.Op]; ok && !c.isString(node) {
				add(node, node.OpPos, "arithmetic_base", node.Op, to)
			}
			switch node.Op {
			case token.LAND:
				add(node, node.OpPos, "invert_logical", node.Op, token.LOR)
			case token.LOR:
				add(node, node.OpPos, "invert_logical", node.Op, token.LAND)
			}
		case *ast.UnaryExpr:
			if node.Op == token.SUB {
				add(node, node.OpPos, "invert_negatives", token.SUB, token.ADD)
			}
		case *ast.IncDecStmt:
			to := token.INC
			if node.Tok == token.INC {
				to = token.DEC
			}
			add(node, node.TokPos, "increment_decrement", node.Tok, to)
		case *ast.BranchStmt:
			switch node.Tok {
			case token.BREAK:
				add(node, node.TokPos, "invert_loopctrl", token.BREAK, token.CONTINUE)
			case token.CONTINUE:
				add(node, node.TokPos, "invert_loopctrl", token.CONTINUE, token.BREAK)
			}
		}
		return true
	})
}

func (c *code) isString(e ast.Expr) bool {
	t, ok := c.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && t.Info()&types.IsString != 0
}

// sort finds out which mutants can be switched in one build, which need a build of their own, and
// which don't build at all: those are none.
func (c *code) sort() error {
	for {
		text := map[string][]byte{}
		for name := range c.files {
			text[name] = c.switched(name)
		}
		text[switchesFile] = []byte(strings.Replace(switches, "package p", "package "+c.name(), 1))
		found := false
		var strange error
		_, err := c.check(text, nil, func(at token.Position) {
			mine := false
			for _, m := range c.mutants {
				if m.file != at.Filename {
					continue
				}
				from := c.fset.Position(m.node.Pos()).Line
				to := c.fset.Position(m.node.End()).Line
				isInside := from <= at.Line && at.Line <= to
				// With a switch in it that leads out of a loop, the function may seem to lack a return.
				lacksReturn := m.kind == "invert_loopctrl" && m.end == at.Line
				if isInside || lacksReturn {
					mine = true
					if !m.fixed {
						m.fixed = true
						found = true
					}
				}
			}
			if !mine && strange == nil {
				strange = fmt.Errorf("no mutant at %s", at)
			}
		})
		if err == nil {
			break
		}
		if !found {
			return errors.Join(err, strange)
		}
	}
	c.mutants = slices.DeleteFunc(c.mutants, func(m *mutant) bool {
		if !m.fixed {
			return false
		}
		text := maps.Clone(c.text)
		text[m.file] = c.changed(m)
		_, err := c.check(text, nil, nil)
		return err != nil
	})
	return nil
}

// name returns the name in the package clause.
func (c *code) name() string {
	for _, f := range c.files {
		return f.Name.Name
	}
	return ""
}

// changed returns the file of a mutant with just that mutant in it.
func (c *code) changed(m *mutant) []byte {
	text := c.text[m.file]
	at := c.fset.Position(m.pos).Offset
	return slices.Concat(text[:at], []byte(m.to.String()), text[at+len(m.from.String()):])
}

// switched returns a file with a switch for each mutant that can have one.
func (c *code) switched(name string) []byte {
	type edit struct {
		at, kind, order, cut int
		text                 string
	}
	const (
		end = iota // of an expression; the inner ones end first
		operator
		start
	)
	var edits []edit
	order := 0
	insert := func(pos token.Pos, kind int, text string, cut int) {
		order++
		o := order
		if kind == end {
			o = -order
		}
		edits = append(edits, edit{c.fset.Position(pos).Offset, kind, o, cut, text})
	}
	byNode := map[ast.Node][]*mutant{}
	var nodes []ast.Node // in the order in which they were found: the outer ones first
	for _, m := range c.mutants {
		if m.file != name || m.fixed {
			continue
		}
		if byNode[m.node] == nil {
			nodes = append(nodes, m.node)
		}
		byNode[m.node] = append(byNode[m.node], m)
	}
	for _, node := range nodes {
		for i, m := range byNode[node] {
			on := fmt.Sprintf("mutantOn(%d)", m.n)
			switch node := node.(type) {
			case *ast.BinaryExpr:
				switch m.kind {
				case "conditionals_negation": // follows the boundary, if there is one
					if i == 0 {
						insert(node.Pos(), start, "((", 0)
						insert(node.End(), end, ") != "+on+")", 0)
					}
				case "conditionals_boundary":
					other := byNode[node][i+1]
					insert(node.Pos(), start, fmt.Sprintf("(%s(%d, ", helpers[m.from], m.n), 0)
					insert(node.OpPos, operator, ",", len(m.from.String()))
					insert(node.End(), end, fmt.Sprintf(") != mutantOn(%d))", other.n), 0)
				case "arithmetic_base":
					insert(node.Pos(), start, fmt.Sprintf("%s%s(%d, ", helpers[m.from], c.typeArg(node), m.n), 0)
					insert(node.OpPos, operator, ",", len(m.from.String()))
					insert(node.End(), end, ")", 0)
				case "invert_logical": // X || Y is !(!X && !Y)
					insert(node.Pos(), start, "((((", 0)
					insert(node.OpPos, operator, ") != "+on+") "+m.from.String()+"((", len(m.from.String()))
					insert(node.End(), end, ") != "+on+")) != "+on+")", 0)
				}
			case *ast.UnaryExpr:
				insert(node.OpPos, start, fmt.Sprintf("mutantNeg%s(%d, ", c.typeArg(node), m.n), len(m.from.String()))
				insert(node.End(), end, ")", 0)
			case *ast.IncDecStmt:
				insert(node.Pos(), start, fmt.Sprintf("%s(%d, &(", helpers[m.from], m.n), 0)
				insert(node.TokPos, operator, "))", len(m.from.String()))
			case *ast.BranchStmt:
				label := ""
				if node.Label != nil {
					label = " " + node.Label.Name
				}
				insert(node.Pos(), start, fmt.Sprintf("if %s { %s%s } else { ", on, m.to, label), 0)
				insert(node.End(), end, " }", 0)
			}
		}
	}
	slices.SortFunc(edits, func(a, b edit) int {
		return cmp.Or(a.at-b.at, a.kind-b.kind, a.order-b.order)
	})
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(out, c.text[name][at:e.at]...)
		out = append(out, e.text...)
		at = e.at + e.cut
	}
	return append(out, c.text[name][at:]...)
}

// typeArg says of which type an expression is, if that has a name in every file: constants alone
// would make it int.
func (c *code) typeArg(e ast.Expr) string {
	if t, ok := c.info.TypeOf(e).(*types.Basic); ok && t.Info()&types.IsUntyped == 0 {
		return "[" + t.Name() + "]"
	}
	return ""
}
