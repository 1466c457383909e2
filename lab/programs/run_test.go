package programs_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// longest is how long a crawl may take. Those that go from host to host take two minutes.
const longest = 200 * time.Second

// A run is one crawl of a site.
type run struct {
	*testing.T
	root   string // of the checkout of politeness
	binary string
	site   *site
	dir    string // where the program runs
	output bytes.Buffer
	err    error // of the program
	took   time.Duration
}

// start runs the program with arguments and standard input until it ends, or is killed.
func (r *run) start(stdin string, args ...string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Dir = r.dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout = &r.output
	cmd.Stderr = &r.output
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "XDG_CONFIG_HOME="+r.dir)
	began := time.Now()
	r.err = cmd.Run()
	r.took = time.Since(began)
	if ctx.Err() != nil {
		r.err = errors.New("killed")
	}
}

// urls are the front pages, one a line.
func (r *run) urls() string { return strings.Join(r.site.urls(), "\n") + "\n" }

// aLine keeps whole lines of what a program prints.
type aLine struct {
	mu    sync.Mutex
	text  strings.Builder
	found chan string // gets the first line
}

func (l *aLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.text.String()
	l.text.Write(p)
	if line, _, ok := strings.Cut(l.text.String(), "\n"); ok && !strings.Contains(before, "\n") {
		l.found <- line
	}
	return len(p), nil
}

func (l *aLine) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// throughProxy runs the command politeness as a proxy for http, and calls crawl with its address.
func (r *run) throughProxy(crawl func(address string)) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, buildProxy(ctx, r.T, r.root), "proxy", "-private", "-listen", "127.0.0.1:0",
		"-agent", "LabBot/1.0 (+https://example.com/bot; bot@example.com)")
	said := &aLine{found: make(chan string, 1)}
	cmd.Stderr = said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	select {
	case line := <-said.found:
		_, address, _ := strings.Cut(line, "export http_proxy=http://")
		crawl(address)
	case <-time.After(time.Minute):
		r.Error("the proxy doesn't say where it listens")
	}
	cancel()
	_ = cmd.Wait()
	r.output.WriteString(said.String())
}

// file writes a file into the folder where the program runs.
func (r *run) file(name, text string) {
	r.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o755); err != nil {
		r.Fatal(err)
	}
	write(r.T, filepath.Join(r.dir, name), text)
}
