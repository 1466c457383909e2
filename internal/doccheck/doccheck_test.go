package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestComments checks all Go files of this repository but tests.
func TestComments(t *testing.T) {
	problems, err := checkAll(filepath.Join("..", ".."), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for _, c := range []struct{ name, code, want string }{
		{"own name", "// F does it.\nfunc F() {}", ""},
		{"own name after an article", "// A T is one.\ntype T int", ""},
		{"genitive", "// T's zero value is none.\ntype T int", ""},
		{"no comment", "func F() {}", ""},
		{"directive", "//go:noinline\nfunc F() {}", ""},
		{"a function's old name", "// f does it.\nfunc G() {}", "x.go:3: the comment of G begins with \"f\""},
		{"a method's old name", "type T int\n\n// by does it.\nfunc (T) byName() {}", "x.go:5: the comment of byName begins with \"by\""},
		{"a type's", "// An Old is one.\ntype T int", "x.go:3: the comment of T begins with \"Old\""},
		{"a type's in a group", "type (\n\t// Old is one.\n\tT int\n)", "x.go:4: the comment of T begins with \"Old\""},
		{"a variable's", "// The old ones.\nvar news = 1", "x.go:3: the comment of news begins with \"old\""},
		{"no name at all", "// Does it.\nfunc F() {}", "x.go:3: the comment of F begins with \"Does\""},
		{"a group", "// Kinds of things.\nconst (\n\tA = 1 // one\n\t// Zwei.\n\tB = 2\n)", ""},
		{"two names", "// A and B are it.\nvar A, B = 1, 2", ""},
		{"prose in a function", "func F() {\n\t// " + long + "\n}", "x.go:4: a comment of 104 columns: go run ./internal/doccheck -w"},
		{"prose", "// F " + long + "\nfunc F() {}", "x.go:3: a comment of 105 columns: go run ./internal/doccheck -w"},
		{"code", "// F does it:\n//\n//\tif " + long + "\nfunc F() {}", ""},
		{"an address", "// F: see\n// https://example.com/" + strings.Repeat("x", 90) + "\nfunc F() {}", ""},
		{"beside code", "const a = 1 // " + long, ""},
	} {
		problems, err := check("x.go", []byte("package x\n\n"+c.code+"\n"))
		if got := strings.Join(problems, "; "); err != nil || got != c.want {
			t.Errorf("%s: %v, %q; want %q", c.name, err, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for _, c := range []struct{ name, code, want string }{
		{"a paragraph", "// F " + words(20) + "\n// too.\nfunc F() {}", "// F " + words(19) + "\n// word too.\nfunc F() {}"},
		{"another stays", "// F is\n// short.\n//\n// " + words(20) + "\nfunc F() {}", "// F is\n// short.\n//\n// " + words(19) + "\n// word\nfunc F() {}"},
		{"within code", "func F() {\n\t\t// " + words(20) + "\n\t// so.\n}", "func F() {\n\t\t// " + words(19) + "\n\t\t// word\n\t// so.\n}"},
		{"a list", "// F is:\n//\n//   - " + words(21) + "\nfunc F() {}", "// F is:\n//\n//   - " + words(21) + "\nfunc F() {}"},
		{"no comment", "const s = `\n// " + words(21) + "\n`", "const s = `\n// " + words(21) + "\n`"},
		{"beside code", "const a = 1 // " + words(21), "const a = 1 // " + words(21)},
	} {
		got, err := wrap("x.go", []byte("package x\n\n"+c.code+"\n"))
		if want := "package x\n\n" + c.want + "\n"; err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, want)
		}
	}
}
