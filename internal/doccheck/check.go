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
	var problems []string
	bad := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: ", name, line)+fmt.Sprintf(format, args...))
	}
	begins := func(doc *ast.CommentGroup, names ...string) {
		if word := firstWord(doc, names); word != "" && !slices.Contains(names, word) {
			bad(fset.Position(doc.Pos()).Line, "the comment of %s begins with %q", names[0], word)
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			begins(d.Doc, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					begins(s.Doc, s.Name.Name)
					if !d.Lparen.IsValid() { // a group's comment is about no single one
						begins(d.Doc, s.Name.Name)
					}
				case *ast.ValueSpec:
					if !d.Lparen.IsValid() {
						begins(d.Doc, namesOf(s)...)
					}
				}
			}
		}
	}
	lines := strings.Split(string(text), "\n")
	for _, n := range proseOf(fset, file, lines) {
		if isWide(lines[n]) {
			bad(n+1, "a comment of %d columns: go run ./internal/doccheck -w", utf8.RuneCountInString(lines[n]))
		}
	}
	return problems, nil
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
			isLink := strings.HasPrefix(words, "[") && strings.Contains(words, "]: ")
			if words != "" && words[0] != ' ' && words[0] != '\t' && !strings.HasPrefix(words, "- ") && !isLink {
				prose = append(prose, n)
			}
		}
	}
	return prose
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
