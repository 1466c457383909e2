package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"
)

// widest is how many columns a line of prose has at most. A tab is one of them.
const widest = 100

// check returns what is wrong with the comments of a file.
func check(name string, text []byte) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	c := &checker{name: name, fset: fset}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			c.begins(d.Doc, d.Name.Name)
		case *ast.GenDecl:
			c.group(d)
		}
	}
	lines := strings.Split(string(text), "\n")
	for _, n := range proseOf(fset, file, lines) {
		if isWide(lines[n]) {
			c.bad(n+1, "a comment of %d columns: go run ./internal/doccheck -w", utf8.RuneCountInString(lines[n]))
		}
	}
	return c.problems, nil
}

// A checker collects the problems of a file.
type checker struct {
	name     string
	fset     *token.FileSet
	problems []string
}

func (c *checker) bad(line int, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s:%d: ", c.name, line)+fmt.Sprintf(format, args...))
}

// begins checks that doc, if there is one, begins with one of names.
func (c *checker) begins(doc *ast.CommentGroup, names ...string) {
	word := firstWord(doc, names)
	if word != "" && !slices.Contains(names, word) {
		c.bad(c.fset.Position(doc.Pos()).Line, "the comment of %s begins with %q", names[0], word)
	}
}

// group checks the comments of types and values. That of a group in parentheses is about no single
// one of them.
func (c *checker) group(d *ast.GenDecl) {
	isGroup := d.Lparen.IsValid()
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			c.begins(s.Doc, s.Name.Name)
			if !isGroup {
				c.begins(d.Doc, s.Name.Name)
			}
		case *ast.ValueSpec:
			if !isGroup {
				c.begins(d.Doc, namesOf(s)...)
			}
		}
	}
}

// firstWord returns the first word of a comment, but for an article that is none of names; empty if
// there is no comment.
func firstWord(doc *ast.CommentGroup, names []string) string {
	words := strings.FieldsFunc(doc.Text(), func(r rune) bool { return strings.ContainsRune(" \t\n.,:;()[]'", r) })
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) && !slices.Contains(names, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func namesOf(spec *ast.ValueSpec) []string {
	var names []string
	for _, n := range spec.Names {
		names = append(names, n.Name)
	}
	return names
}

// proseOf returns the indexes of the lines that are comments and nothing else, but for code, lists,
// links and directives.
func proseOf(fset *token.FileSet, file *ast.File, lines []string) []int {
	var prose []int
	for _, group := range file.Comments {
		for _, c := range group.List {
			n := fset.Position(c.Pos()).Line - 1
			_, words := cut(lines[n])
			if words != "" && !isLaidOut(words) {
				prose = append(prose, n)
			}
		}
	}
	return prose
}

// isLaidOut reports whether the line of these words is code, or an item of a list, or a link.
func isLaidOut(words string) bool {
	isCode := words[0] == ' ' || words[0] == '\t'
	isLink := strings.HasPrefix(words, "[") && strings.Contains(words, "]: ")
	return isCode || isLink || strings.HasPrefix(words, "- ")
}

// cut returns the indentation and the words of a comment; without words, it is something else.
func cut(line string) (indent, words string) {
	code, words, ok := strings.Cut(line, "// ")
	if !ok || strings.Trim(code, "\t") != "" {
		return "", ""
	}
	return code, words
}

// isWide reports whether a line is too wide and can be wrapped.
func isWide(line string) bool {
	_, words := cut(line)
	return utf8.RuneCountInString(line) > widest && strings.Contains(words, " ")
}
