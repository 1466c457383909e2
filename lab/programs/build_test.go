package programs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program is a real program, or a library with a driver of ours that uses it as its guide shows.
type program struct {
	name     string
	module   string // path of the module that is studied
	version  string
	sum      string   // of the module, as go.sum has it
	requires []string // further modules of the driver, each with its version
	short    bool     // whether it is one of those that go test -short runs: few dependencies

	// The program's own source is copied and patched, and the package main is built. Where these are
	// empty, testdata/NAME is the driver.
	main    string  // package main below the module's root
	patches []patch // one line each
	hook    string  // folder of the package that gets the function politely

	// run is called with the binary, and returns when the crawl has ended.
	run func(r *run)
	// wanted are the paths that the program is to fetch from each host.
	wanted []string
	// says is a text that the program prints, so that nothing is lost silently. Empty: disallowed.
	says string
}

// A patch replaces a line of a file.
type patch struct{ file, line, with string }

// politely is the text of the function that the one line calls: the snippet of README.md, once for
// the whole program.
const politely = `package %s

import (
	"log"
	"os"
	"sync"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
)

var politely = sync.OnceValue(func() *politeness.Transport {
	t, err := politeness.New(politeness.Config{
		UserAgent: "LabBot/1.0 (+https://example.com/bot; bot@example.com)",
		Evidence:  evidence.Console(os.Stderr),
	})
	if err != nil {
		log.Fatal(err)
	}
	return t
})
`

// A downloaded is what go mod download reports.
type downloaded struct{ Path, Version, Dir, Sum, Error string }

// download downloads the module and compares its checksum with the one that is pinned.
func (p *program) download(t *testing.T) (dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", p.module+"@"+p.version)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	var got downloaded
	if parsed := json.Unmarshal(out, &got); parsed != nil || got.Error != "" || err != nil {
		t.Fatalf("%v: %v, %v %s", cmd, err, parsed, got.Error)
	}
	if got.Sum != p.sum {
		t.Fatalf("%s@%s has the checksum %s, and %s is pinned", p.module, p.version, got.Sum, p.sum)
	}
	return got.Dir
}

// build builds the program with the politeness of the folder root, and returns the binary.
func (p *program) build(t *testing.T, root string) (binary string) {
	t.Helper()
	source := p.download(t)
	dir := t.TempDir()
	if p.main == "" {
		p.driver(t, dir)
	} else {
		p.patched(t, source, dir)
	}
	p.goCommand(t, dir, "mod", "edit", "-go=1.26.0", "-toolchain=none",
		"-require=github.com/go-politeness/politeness@v0.0.0", "-replace=github.com/go-politeness/politeness="+root)
	binary = filepath.Join(t.TempDir(), "program")
	p.goCommand(t, dir, "build", "-mod=mod", "-trimpath", "-o", binary, "./"+p.main)
	return binary
}

// driver writes the module of our own program around a library.
func (p *program) driver(t *testing.T, dir string) {
	t.Helper()
	copyTree(t, filepath.Join("testdata", p.name), dir)
	write(t, filepath.Join(dir, "politely.go"), fmt.Sprintf(politely, "main"))
	requires := []string{p.module + " " + p.version}
	for _, module := range p.requires {
		requires = append(requires, strings.Replace(module, "@", " ", 1))
	}
	write(t, filepath.Join(dir, "go.mod"), "module driver\n\nrequire (\n\t"+strings.Join(requires, "\n\t")+"\n)\n")
}

// patched writes a copy of the program's source with our line in it.
func (p *program) patched(t *testing.T, source, dir string) {
	t.Helper()
	copyTree(t, source, dir)
	own := filepath.Join("testdata", p.name)
	if _, err := os.Stat(own); err == nil {
		copyTree(t, own, dir)
	}
	for _, change := range p.patches {
		name := filepath.Join(dir, change.file)
		text := read(t, name)
		if n := strings.Count(text, change.line); n != 1 {
			t.Fatalf("%s of %s has the line %d times:\n%s", change.file, p.name, n, change.line)
		}
		write(t, name, strings.Replace(text, change.line, change.with, 1))
	}
	name := p.goCommand(t, filepath.Join(dir, p.hook), "list", "-mod=mod", "-f", "{{.Name}}", ".")
	write(t, filepath.Join(dir, p.hook, "politely.go"), fmt.Sprintf(politely, strings.TrimSpace(name)))
}

func (p *program) goCommand(t *testing.T, dir string, args ...string) (output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %v\n%s", p.name, cmd, err, stderr.String())
	}
	return string(out)
}

// buildProxy builds the command politeness of a checkout.
func buildProxy(ctx context.Context, t *testing.T, root string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "politeness")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	cmd.Dir = filepath.Join(root, "cmd", "politeness")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return binary
}

// copyTree copies a folder to one that may hold other files. The module cache is read-only, and the
// copy isn't.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, path), 0o755)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
