// Package browsertest looks at pages in a real browser, for the tests of what draws them.
package browsertest

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
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
	flags = append(flags,
		"--headless", "--hide-scrollbars", "--no-first-run", "--user-data-dir="+t.TempDir(),
		"--no-sandbox", "--disable-gpu", // as tests run in containers
		"--disable-quic", // a proxy in front of it sees no UDP
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		output, url)
	cmd := exec.CommandContext(t.Context(), browser, flags...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return string(dom)
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
