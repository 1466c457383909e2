package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"
)

// wrap returns a file with each paragraph of prose filled anew in which a line is too wide.
func wrap(name string, text []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return text, err
	}
	lines := strings.Split(string(text), "\n")
	prose := proseOf(fset, file, lines)
	var out []string
	for n := 0; n < len(lines); {
		end := paragraph(lines, prose, n)
		if end > n && slices.ContainsFunc(lines[n:end], isWide) {
			out = append(out, fill(lines[n:end])...)
			n = end
			continue
		}
		end = max(end, n+1)
		out = append(out, lines[n:end]...)
		n = end
	}
	return []byte(strings.Join(out, "\n")), nil
}

// paragraph returns the end of the lines of prose from n on that have one indentation; n if that
// isn't one.
func paragraph(lines []string, prose []int, n int) int {
	indent, _ := cut(lines[n])
	for end := n; ; end++ {
		if _, ok := slices.BinarySearch(prose, end); !ok {
			return end
		}
		other, _ := cut(lines[end])
		if other != indent {
			return end
		}
	}
}

// fill distributes the words of a paragraph over lines that aren't too wide, if there is a way.
func fill(lines []string) []string {
	indent, _ := cut(lines[0])
	var words []string
	for _, line := range lines {
		_, w := cut(line)
		words = append(words, strings.Fields(w)...)
	}
	var out []string
	line := indent + "//"
	for i, word := range words {
		if i > 0 && line != indent+"//" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > widest {
			out = append(out, line)
			line = indent + "//"
		}
		line += " " + word
	}
	return append(out, line)
}
