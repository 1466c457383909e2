//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCheckFindsEachModuleThatRequiresAnotherVersion, or has a replace, at each step of a release.
func TestCheckFindsEachModuleThatRequiresAnotherVersion(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "scripts", "release-check.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil { //nolint:gosec // the script is run
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	check := func(args ...string) []string {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "scripts", "release-check.sh"), args...).CombinedOutput()
		if (err == nil) != (len(out) == 0) && args[0] != "-modules" {
			t.Errorf("%v, and the output is %q", err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	expect := func(want ...string) {
		t.Helper()
		git("add", "--all")
		git("commit", "--quiet", "--allow-empty", "--message=x")
		if got := check("v0.1.0"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}

	write("scripts/release-check.sh", string(script))
	write("CHANGELOG.md", "## [0.1.0]\n")
	write("go.mod", "module "+root+"\n")
	module := func(name string, lines ...string) {
		t.Helper()
		write(name+"/go.mod", "module "+root+"/"+name+"\n\n"+strings.Join(lines, "\n")+"\n")
	}
	for _, name := range check("-modules") {
		module(name, "require "+root+" v0.1.0")
	}
	queue := root + "/crawl/sqlitequeue"
	module("cmd/politeness", "require (", "\t"+root+" v0.1.0", "\t"+queue+" v0.0.0", ")",
		"replace (", "\t"+root+" => ../..", "\t"+queue+" => ../../crawl/sqlitequeue", ")")
	git("init", "--quiet")
	expect("the root is not tagged v0.1.0")
	git("tag", "v0.1.0")
	expect("")

	module("crawl/pgqueue", "require "+root+" v0.0.9")
	expect("crawl/pgqueue doesn't require " + root + " v0.1.0")
	module("crawl/pgqueue", "require example.org/other v0.1.0")
	expect("crawl/pgqueue doesn't require " + root)
	module("crawl/pgqueue", "require "+root+" v0.1.0")

	git("tag", "crawl/sqlitequeue/v0.1.0")
	expect("cmd/politeness has a replace", "cmd/politeness doesn't require "+queue+" v0.1.0")
	module("cmd/politeness", "require (", "\t"+root+" v0.1.0 // indirect", "\t"+queue+" v0.1.0", ")")
	expect("")
}
