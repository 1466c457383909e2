package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func repo(t *testing.T) *repository {
	t.Helper()
	r, err := newRepository(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEveryModuleIsInTheSuite: a module that git knows is vetted, linted and tested.
func TestEveryModuleIsInTheSuite(t *testing.T) {
	r := repo(t)
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "go.mod", "*/go.mod")
	cmd.Dir = r.root
	out, err := cmd.Output()
	if err != nil {
		t.Skip("no git repository: ", err)
	}
	for file := range strings.FieldsSeq(string(out)) {
		module := path.Dir(file)
		if !strings.HasPrefix(module, "tools") && !strings.Contains(file, "testdata/") && !slices.Contains(r.modules(), module) {
			t.Errorf("%s is no module of the suite", module)
		}
	}
	for _, names := range [][]string{{"vet"}, {"staticcheck"}, {"lint"}, {"vulns"}, {"race", "rest"}} {
		dirs := make(map[string]bool)
		for _, name := range names {
			for _, task := range parts[name](r) {
				dirs[task.dir] = true
			}
		}
		for _, module := range r.modules() {
			if !dirs[module] {
				t.Errorf("%v leaves %s out", names, module)
			}
		}
	}
}

// TestTimedTestsBeginFirst: of all that runs beside them, nothing comes before them, and all yields.
func TestTimedTestsBeginFirst(t *testing.T) {
	r := repo(t)
	for i, task := range slices.Concat(race(r), rest(r), vet(r), staticcheck(r), lint(r)) {
		if yields := task.command[0] == "nice"; yields == (i < len(timed)) {
			t.Errorf("%d: %s yields: %t", i, task.title(), yields)
		}
	}
}

// TestMakefileCallsParts: each part has a target, and no target calls a part that isn't there.
func TestMakefileCallsParts(t *testing.T) {
	r := repo(t)
	makefile, err := os.ReadFile(filepath.Join(r.root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	called := make(map[string]bool)
	for _, call := range regexp.MustCompile(`(?m)^\t@\$\(SUITE\)(?: -soak \$\(SOAK\))?((?: [a-z]+)+)$`).FindAllStringSubmatch(string(makefile), -1) {
		for name := range strings.FieldsSeq(call[1]) {
			called[name] = true
			if parts[name] == nil {
				t.Errorf("the Makefile calls %s, which is no part", name)
			}
		}
	}
	for name := range parts {
		if !called[name] {
			t.Errorf("no target of the Makefile calls %s", name)
		}
	}
}

// TestSoakNamesTests: go test passes where -run matches nothing.
func TestSoakNamesTests(t *testing.T) {
	r := repo(t)
	for _, task := range soak(r) {
		prefix := strings.TrimPrefix(task.command[len(task.command)-2], "^")
		files, err := filepath.Glob(filepath.Join(r.root, task.dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+prefix)
		}) {
			t.Errorf("%s has no %s", task.dir, prefix)
		}
	}
}

// TestMakeCISaysFirstWhatItDoes, and how long that may take: a newcomer sees nothing else for minutes.
func TestMakeCISaysFirstWhatItDoes(t *testing.T) {
	notice := exec.CommandContext(t.Context(), "make", "-n", "ci")
	notice.Dir = filepath.Join("..", "..")
	out, err := notice.Output()
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(out), "scripts/setup.sh")
	for _, want := range []string{"make ci: ", "2 GB", "hour"} {
		if !strings.Contains(first, want) {
			t.Errorf("nothing about %q before the first command:\n%s", want, first)
		}
	}
}

// TestEveryPackageMeetsTheRaceDetector: and those that meet it with their short tests have the long
// ones without.
func TestEveryPackageMeetsTheRaceDetector(t *testing.T) {
	r := repo(t)
	in := func(tasks []*task, pkg string) bool {
		return slices.ContainsFunc(tasks, func(task *task) bool { return task.dir == "." && slices.Contains(task.command, "./"+pkg) })
	}
	for _, pkg := range r.packages {
		if !in(race(r), pkg) {
			t.Errorf("race leaves %s out", pkg)
		}
	}
	for _, pkg := range sequential {
		if !in(rest(r), pkg) {
			t.Errorf("the long tests of %s aren't run", pkg)
		}
	}
	if len(r.packages) < 20 {
		t.Errorf("only %d packages: %v", len(r.packages), r.packages)
	}
}
