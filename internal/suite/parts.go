package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// parts are the parts of the suite, each under the name by which the Makefile calls it. To add one,
// add a function that returns its tasks here, and a target to the Makefile.
var parts = map[string]func(r *repository) []*task{
	"vet":         vet,
	"staticcheck": staticcheck,
	"lint":        lint,
	"vulns":       vulns,
	"race":        race,
	"rest":        rest,
	"portable":    portable,
	"fuzz":        fuzz,
	"bench":       bench,
	"soak":        soak,
}

// timed are the modules whose tests on a real Redis measure how late they are woken. They begin
// first, and all other tasks yield.
var timed = []string{"redis"}

func vet(r *repository) []*task {
	return yield(each(r.modules(), "vet", "go", "vet", "./..."))
}

func staticcheck(r *repository) []*task {
	// The default set of checks but one: an error about a Config begins with the name of the field,
	// as it is written.
	checks := "-checks=inherit,-ST1005"
	return yield(each(r.modules(), "staticcheck", r.tool("staticcheck", checks, "./...")...))
}

// lint runs all checks of vet and of staticcheck, too: see .golangci.yml.
func lint(r *repository) []*task {
	golangci := r.tool("golangci-lint", "run", "--allow-parallel-runners", "./...")
	code := each(r.modules(), "lint", golangci...)
	workflows := each([]string{"."}, "workflows", r.tool("actionlint")...)
	return yield(append(code, workflows...))
}

// vulns asks vuln.go.dev for known faults in code that is reached.
func vulns(r *repository) []*task {
	return yield(each(r.modules(), "vulns", r.tool("govulncheck", "./...")...))
}

// sequential are the packages of the root module in which hardly anything runs side by side. With
// the race detector, which makes them ten times as slow, they have the short tests.
var sequential = []string{"robots", "evidence/audit"}

// race tests the published modules, and crawls over bad networks. The other programs' heavy
// dependencies would cost more than the race detector finds there.
func race(r *repository) []*task {
	test := func(packages ...string) []string {
		return append([]string{"go", "test", "-json", "-race", "-timeout=30m"}, packages...)
	}
	all := test("./...")
	others := without(r.published, append([]string{"."}, timed...))
	parallel := without(r.packages, sequential)
	return slices.Concat(each(timed, "race", all...), yield(slices.Concat(
		each([]string{"."}, "race", test(paths(parallel)...)...),
		with("POLITENESS_LONG=", each([]string{"."}, "race, short", test(paths(sequential)...)...)),
		each(others, "race", all...),
		each([]string{"lab/nettest"}, "race", all...),
	)))
}

// without returns the names that aren't among others.
func without(names, others []string) []string {
	isOther := func(name string) bool { return slices.Contains(others, name) }
	return slices.DeleteFunc(slices.Clone(names), isOther)
}

// rest is the tests that race leaves out: those that it would slow down too much, and the
// programs'. It also vets the published modules for 32 bits; portable asks for more.
func rest(r *repository) []*task {
	test := func(args ...string) []string { return append([]string{"go", "test", "-json"}, args...) }
	once := test("-count=1", ".")
	fewPrograms := test("-count=1", "-short", "-parallel=8", ".")
	root := []string{"."}
	return yield(slices.Concat(
		with("POLITENESS_TRANSPARENCY=1", each([]string{"lab/transparency"}, "transparency", once...)),
		with("POLITENESS_PROGRAMS=1", each([]string{"lab/programs"}, "programs", fewPrograms...)),
		with("POLITENESS_SERVERS=1", each([]string{"lab/servers"}, "servers", once...)),
		with("POLITENESS_LIMITERS=1", each([]string{"lab/limiters"}, "limiters", once...)),
		each(root, "long", test(paths(sequential)...)...),
		each(root, "grid", test("-count=1", "-run=Grid|DelaysComeBack", "./hostlimit/memory")...),
		each([]string{"redis/redislimit"}, "fates", test("-count=1", "-run=Fates", ".")...),
		with("GOARCH=386", each(r.published, "32 bits", "go", "vet", "./...")),
		each(r.programs, "test", test("./...")...),
	))
}

// portable vets for other processors and systems, 32 bits among them.
func portable(r *repository) []*task {
	var tasks []*task
	for _, target := range []string{"linux/386", "linux/arm64", "freebsd/amd64", "darwin/arm64", "windows/amd64"} {
		system, processor, _ := strings.Cut(target, "/")
		vets := each(r.published, target, "go", "vet", "./...")
		tasks = append(tasks, with("GOOS="+system, with("GOARCH="+processor, vets))...)
	}
	return tasks
}

func fuzz(r *repository) []*task {
	modules := append(slices.Clone(r.published), "lab/interop")
	return live(each(modules, "fuzz", filepath.Join(r.root, "scripts", "fuzz.sh"), setting("FUZZTIME", "30s")))
}

func bench(r *repository) []*task {
	command := []string{"go", "test", "-run", "^$", "-benchmem"}
	command = append(command, "-bench", setting("BENCH", "."), "-count", setting("COUNT", "1"), "./...")
	return live(each(r.modules(), "bench", command...))
}

// soak has a task for each random test. Each lasts for an equal share of the time, but for those
// called sizes, which last as long as they need.
func soak(*repository) []*task {
	var tasks []*task
	for _, t := range []struct{ name, module, test string }{
		{"property", "hostlimit/memory", "TestPropertyAgainstModel"},
		{"restart", "hostlimit/memory", "TestRestartsChangeNothing"},
		{"kill", "hostlimit", "TestDirSurvivesKill"},
		{"kill", "internal/promises", "TestKilledAtAnyInstant"},
		{"chaos", "redis/redislimit", "TestChaos"},
		{"fleet", "redis/redislimit", "TestFleet"},
		{"fates", "redis/redislimit", "TestFatesAtRandom"},
		{"losses", "redis/redisbudget", "TestRandomLosses"},
		{"judge", "evidence/audit", "TestNoHonest"},
		{"wire", "internal/promises", "TestNoTwoArrivals"},
		{"webs", "crawl", "TestRandomWebs"},
		{"names", "internal/promises", "TestManyNames"},
		{"names", "robots/robotscache", "TestWildcardDomain"},
		{"sizes", "crawl/sitemap", ""}, // all of its tests
		{"sizes", "evidence/audit", "TestTheJudgeRemembersSoMuch"},
		{"sizes", "hostlimit/memory", "TestLearnedFindsTheRate"},
		{"sizes", "redis/redislimit", "TestEveryFate"},
	} {
		command := []string{"go", "test", "-json", "-count=1", "-timeout=0", "-run", "^" + t.test, "."}
		tasks = append(tasks, each([]string{t.module}, t.name, command...)...)
	}
	return tasks
}

// each returns a task in each directory that runs command. No shell reads it.
func each(dirs []string, name string, command ...string) []*task {
	var tasks []*task
	for _, dir := range dirs {
		tasks = append(tasks, &task{name: name, dir: dir, command: command})
	}
	return tasks
}

// paths returns directories of packages as the go command takes them.
func paths(dirs []string) []string {
	var list []string
	for _, dir := range dirs {
		list = append(list, "./"+dir)
	}
	return list
}

// yield makes tasks leave the processor to those that don't yield.
func yield(tasks []*task) []*task {
	for _, t := range tasks {
		t.command = append([]string{"nice", "-n", "10"}, t.command...)
	}
	return tasks
}

// with adds NAME=VALUE to the environment of tasks.
func with(variable string, tasks []*task) []*task {
	for _, t := range tasks {
		t.env = append(t.env, variable)
	}
	return tasks
}

// live makes tasks run one at a time and show their output as it comes.
func live(tasks []*task) []*task {
	for _, t := range tasks {
		t.live = true
	}
	return tasks
}

// setting returns the value of an environment variable, which make sets, or else the other one.
func setting(name, otherwise string) string { return cmp.Or(os.Getenv(name), otherwise) }

// A repository is the modules of this repository, by their directories.
type repository struct {
	root      string   // absolute
	published []string // the root module first
	programs  []string // modules that no other imports: examples with dependencies, and the laboratory
	packages  []string // directories of the root module's packages
}

// newRepository finds the modules below root, but for the tools.
func newRepository(root string) (*repository, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	r := &repository{root: root, published: []string{"."}}
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern, "go.mod"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			module, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return nil, err
			}
			module = filepath.ToSlash(module)
			first, _, _ := strings.Cut(module, "/")
			switch first {
			case "tools":
			case "examples", "lab":
				r.programs = append(r.programs, module)
			default:
				r.published = append(r.published, module)
			}
		}
	}
	slices.Sort(r.published)
	slices.Sort(r.programs)
	list := exec.Command("go", "list", "-f", "{{.Dir}}", "./...") //nolint:noctx // it takes no time
	list.Dir = root
	dirs, err := list.Output()
	if err != nil {
		return nil, err
	}
	for dir := range strings.Lines(string(dirs)) {
		name, err := filepath.Rel(root, strings.TrimSpace(dir))
		if err != nil {
			return nil, err
		}
		r.packages = append(r.packages, filepath.ToSlash(name))
	}
	return r, nil
}

func (r *repository) modules() []string { return slices.Concat(r.published, r.programs) }

// tool returns the command for a tool, which is pinned in tools/go.mod and built when it is first
// used.
func (r *repository) tool(name string, args ...string) []string {
	return append([]string{"go", "tool", "-modfile=" + filepath.Join(r.root, "tools", "go.mod"), name}, args...)
}
