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
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || path != root && strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case entry.IsDir(), filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if write {
			wrapped, err := wrap(path, text)
			if err != nil {
				return err
			}
			if !bytes.Equal(wrapped, text) {
				if err := os.WriteFile(path, wrapped, 0o644); err != nil {
					return err
				}
				text = wrapped
			}
		}
		found, err := check(path, text)
		problems = append(problems, found...)
		return err
	})
	return problems, err
}
