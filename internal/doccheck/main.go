// Doccheck holds the comments of all modules to two rules: a doc comment begins with the name of
// what it documents, and prose ends before column 100:
//
//	go run ./internal/doccheck [-w]
//
// It prints what breaks a rule; with -w it wraps prose that is too wide first. Test files are free.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	write := flag.Bool("w", false, "wrap prose that is too wide")
	flag.Parse()
	problems, err := checkAll(".", *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "doccheck:", err)
		os.Exit(2)
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// checkAll checks the Go files below root but tests; with write it wraps their prose before.
func checkAll(root string, write bool) ([]string, error) {
	var problems []string
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
		found, err := checkFile(path, write)
		problems = append(problems, found...)
		return err
	})
	return problems, err
}

// checkFile checks a file; with write it wraps its prose before.
func checkFile(path string, write bool) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !write {
		return check(path, text)
	}
	wrapped, err := wrap(path, text)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(wrapped, text) {
		if err := os.WriteFile(path, wrapped, 0o644); err != nil {
			return nil, err
		}
	}
	return check(path, wrapped)
}
