package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A habit is a kind of dense code.
type habit int

const (
	tuple    habit = iota // three or more unrelated values in one assignment
	mutation              // a header of an if or a switch that changes a variable
	wide                  // a line that is too long
	habits
)

// habitNames are the names of the habits in the baseline.
var habitNames = [habits]string{"tup3", "mut", "wide"}

const (
	widest   = 120 // columns of a line of code
	tabWidth = 4
)

// A place is where a habit shows.
type place struct {
	habit habit
	file  string
	line  int
}

// A room is one package: the Go files of a directory, tests and generated files aside.
type room struct {
	path   string // below the root, with slashes
	lines  int
	places []place
}

// count returns how often h shows.
func (r *room) count(h habit) int {
	n := 0
	for _, p := range r.places {
		if p.habit == h {
			n++
		}
	}
	return n
}

// countAll returns the packages below root, by their paths.
func countAll(root string) ([]*room, error) {
	rooms := map[string]*room{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			hidden := path != root && strings.HasPrefix(entry.Name(), ".")
			if hidden || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		dir, _ := filepath.Split(name)
		dir = filepath.ToSlash(filepath.Clean(dir))
		if rooms[dir] == nil {
			rooms[dir] = &room{path: dir}
		}
		return rooms[dir].addFile(name, text)
	})
	if err != nil {
		return nil, err
	}
	var all []*room
	for _, dir := range slices.Sorted(maps.Keys(rooms)) {
		if rooms[dir].lines > 0 {
			all = append(all, rooms[dir])
		}
	}
	return all, nil
}

// addFile counts in a file, unless that is generated or no part of a package.
func (r *room) addFile(name string, text []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) || isIgnored(file) {
		return nil
	}
	add := func(h habit, at token.Pos) {
		r.places = append(r.places, place{h, name, fset.Position(at).Line})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if isTuple(n) {
				add(tuple, n.Pos())
			}
		case *ast.IfStmt:
			if mutates(n.Init) {
				add(mutation, n.Pos())
			}
		case *ast.SwitchStmt:
			if mutates(n.Init) {
				add(mutation, n.Pos())
			}
		case *ast.TypeSwitchStmt:
			if mutates(n.Init) {
				add(mutation, n.Pos())
			}
		}
		return true
	})
	hasCode := codeLines(text)
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		if hasCode[i+1] && columns(line) > widest {
			r.places = append(r.places, place{wide, name, i + 1})
		}
	}
	r.lines += len(lines)
	return nil
}

// isIgnored reports whether file is part of no build, as a program that "go run" takes by its name.
func isIgnored(file *ast.File) bool {
	for _, group := range file.Comments {
		isAbove := group.Pos() < file.Package
		if isAbove && strings.HasPrefix(group.List[0].Text, "//go:build ignore") {
			return true
		}
	}
	return false
}

// isTuple reports whether three or more values are assigned that aren't one permutation of the
// variables, such as a, b, c = b, c, a, and aren't all dropped.
func isTuple(a *ast.AssignStmt) bool {
	if len(a.Lhs) < 3 || len(a.Rhs) != len(a.Lhs) {
		return false
	}
	var left, right []string
	for i := range a.Lhs {
		left = append(left, types.ExprString(a.Lhs[i]))
		right = append(right, types.ExprString(a.Rhs[i]))
	}
	isDropped := slices.Equal(slices.Compact(slices.Clone(left)), []string{"_"})
	slices.Sort(left)
	slices.Sort(right)
	return !isDropped && !slices.Equal(left, right)
}

// mutates reports whether the first part of the header of an if or a switch changes a variable of
// the code around it. A definition doesn't, and the assignment of an error or of ok is usual.
func mutates(init ast.Stmt) bool {
	if init == nil {
		return false
	}
	a, ok := init.(*ast.AssignStmt)
	if !ok { // x++, a call, or a send
		return true
	}
	if a.Tok == token.DEFINE {
		return false
	}
	last, ok := a.Lhs[len(a.Lhs)-1].(*ast.Ident)
	isUsual := ok && (last.Name == "err" || last.Name == "ok" || strings.HasSuffix(last.Name, "Err"))
	return !isUsual || len(a.Rhs) > 1
}

// codeLines returns the lines that hold more than comments.
func codeLines(text []byte) map[int]bool {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0) // without comments
	has := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return has
		}
		if tok == token.SEMICOLON && lit == "\n" { // the end of a line
			continue
		}
		line := file.Line(pos)
		for i := range strings.Count(lit, "\n") + 1 { // a raw string has several
			has[line+i] = true
		}
	}
}

// columns returns the width of a line.
func columns(line []byte) int {
	return utf8.RuneCount(line) + (tabWidth-1)*bytes.Count(line, []byte("\t"))
}
