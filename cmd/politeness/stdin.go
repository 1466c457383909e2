package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// standardInput is the name of an argument that stands for standard input.
const standardInput = "-"

// fromStdin returns names with a copy of standard input in the place of "-", because a log is read
// again to draw it. Call remove when the copy isn't needed any more.
func (sh *shell) fromStdin(names []string) (files []string, remove func(), err error) {
	remove = func() {}
	i := slices.Index(names, standardInput)
	if i < 0 {
		return names, remove, nil
	}
	if slices.Contains(names[i+1:], standardInput) {
		return nil, remove, misused("- is given twice, and standard input can be read once")
	}
	dir, err := os.MkdirTemp("", "politeness") // mode 0700
	if err != nil {
		return nil, remove, err
	}
	remove = func() { os.RemoveAll(dir) }
	files = slices.Clone(names)
	files[i] = filepath.Join(dir, "standard input") // which pages show
	if err := copyTo(files[i], sh.in); err != nil {
		remove()
		return nil, func() {}, err
	}
	return files, remove, nil
}

// copyTo writes all of from to a new file, which only its user may read.
func copyTo(name string, from io.Reader) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
