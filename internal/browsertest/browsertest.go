// Package browsertest looks at pages in a real browser, for the tests of what draws them.
package browsertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Find returns the browser of this machine. Without POLITENESS_BROWSER=1, which make sets, it
// returns "": tests in a browser are left to those that have one.
func Find(t *testing.T) string {
	t.Helper()
	if os.Getenv("POLITENESS_BROWSER") != "1" {
		return ""
	}
	for _, name := range []string{
		"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no browser; install one with: make setup")
	return ""
}

// Look opens url in a fresh headless browser that fetches nothing of its own, with these flags as
// well. It writes a picture if there is a name for it, and otherwise returns the page as its
// scripts have left it.
func Look(t *testing.T, browser, url, picture string, flags ...string) string {
	t.Helper()
	output := "--dump-dom"
	if picture != "" {
		output = "--screenshot=" + picture
	}
	flags = append(slices.Clip(flags),
		"--headless", "--hide-scrollbars", "--no-first-run",
		"--no-sandbox", "--disable-gpu", // as tests run in containers
		"--disable-quic", // a proxy in front of it sees no UDP
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		output, url)
	for try := 1; ; try++ {
		dom, err := run(t, patient, browser, flags)
		if err == nil {
			return dom
		}
		if !errors.Is(err, context.DeadlineExceeded) || try == tries {
			t.Fatal(err)
		}
		t.Logf("%v: once more", err)
	}
}

// A browser whose virtual time is bounded comes to a stop at times, with all its processes idle.
const (
	tries   = 3
	patient = 2 * time.Minute // many times what a page takes
)

// run runs the browser once, for the time patience at most, and returns what it has written.
func run(t *testing.T, patience time.Duration, browser string, flags []string) (string, error) {
	t.Helper()
	// Processes that a browser leaves behind still write to it: t.TempDir couldn't be removed.
	dir, err := os.MkdirTemp("", "browsertest") //nolint:usetesting // see above
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	// They keep its output open, too, and the end of a pipe would be waited for.
	dom, err := os.Create(filepath.Join(dir, "dom.html"))
	if err != nil {
		return "", err
	}
	defer dom.Close()
	messages, err := os.Create(filepath.Join(dir, "messages.txt"))
	if err != nil {
		return "", err
	}
	defer messages.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	flags = slices.Insert(slices.Clone(flags), 0, "--user-data-dir="+filepath.Join(dir, "profile"))
	cmd := exec.CommandContext(ctx, browser, flags...)
	cmd.Stdout = dom
	cmd.Stderr = messages
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(messages.Name())
		return "", fmt.Errorf("%w\n%s", cmp.Or(ctx.Err(), err), said)
	}
	text, err := os.ReadFile(dom.Name())
	return string(text), err
}

// Attribute returns the number in a data attribute of a page's root, -1 if it isn't there.
func Attribute(dom, name string) int {
	m := regexp.MustCompile(`<html[^>]* data-` + name + `="(-?\d+)"`).FindStringSubmatch(dom)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
