// Release rehearses the release of all published modules. It packs each module as the module proxy
// does, in the order of CONTRIBUTING.md. Then it builds a program outside of the repository from
// these packages, and runs it.
//
//	go run -C lab ./release v0.1.0 MODULE...
//
// MODULE is the directory of a published nested module, as scripts/release-check.sh lists them. The
// files are those of the last commit. Without redis-server and Postgres a part of the program can't
// run, which is an error.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/go-politeness/politeness/internal/pgtest"
	"github.com/go-politeness/politeness/internal/redistest"
)

const (
	root       = "github.com/go-politeness/politeness"
	repository = ".." // from the directory of the laboratory
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: release vX.Y.Z MODULE...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := play(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func play(ctx context.Context, version string, nested []string) (err error) {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := newRelease(ctx, dir, version)
	if err != nil {
		return err
	}
	modules, err := r.inOrder(nested)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := r.publish(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", path.Join(root, m), err)
		}
		fmt.Println("released", path.Join(root, m)+"@"+version)
	}
	return r.try(ctx, modules)
}

// A release is played in a directory of its own.
type release struct {
	version string
	tree    string   // the files of the last commit
	proxy   string   // the released modules, as GOPROXY reads them
	outside string   // where the user's program is
	env     []string // of each go command
}

func newRelease(ctx context.Context, dir, version string) (*release, error) {
	r := &release{
		version: version,
		tree:    filepath.Join(dir, "tree"),
		proxy:   filepath.Join(dir, "proxy"),
		outside: filepath.Join(dir, "try"),
	}
	for _, d := range []string{r.tree, r.proxy, r.outside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	r.env = os.Environ()
	cache, err := r.output(ctx, ".", "go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	others, err := r.output(ctx, ".", "go", "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	// The module cache is a new one, since a version that is played twice may differ. Other modules
	// come from the old one, if it has them.
	r.env = append(r.env,
		"GOPROXY=file://"+r.proxy+",file://"+filepath.Join(cache, "cache", "download")+","+others,
		"GOMODCACHE="+filepath.Join(dir, "modules"),
		"GOBIN="+filepath.Join(dir, "bin"),
		"GONOSUMDB="+root+","+root+"/*",
		"GOWORK=off",
		"GOFLAGS=-modcacherw",
	)
	archive := filepath.Join(dir, "tree.tar")
	if err := r.run(ctx, repository, "git", "archive", "--output", archive, "HEAD"); err != nil {
		return nil, err
	}
	return r, r.run(ctx, r.tree, "tar", "-xf", archive)
}

// inOrder returns the directories of the modules, each behind those that it requires.
func (r *release) inOrder(nested []string) ([]string, error) {
	all := append([]string{"."}, nested...)
	var order []string
	for len(order) < len(all) {
		before := len(order)
		for _, m := range all {
			requires, err := r.ours(m)
			if err != nil {
				return nil, err
			}
			isMissing := func(d string) bool { return !slices.Contains(order, d) }
			if isMissing(m) && !slices.ContainsFunc(requires, isMissing) {
				order = append(order, m)
			}
		}
		if len(order) == before { // otherwise this would never end
			const text = "modules require each other, or one that isn't published: released are %q of %q"
			return nil, fmt.Errorf(text, order, all)
		}
	}
	return order, nil
}

// ours returns the directories of those of our modules that the module in dir requires.
func (r *release) ours(dir string) ([]string, error) {
	name := filepath.Join(r.tree, dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, require := range file.Require {
		if require.Mod.Path == root {
			dirs = append(dirs, ".")
		} else if d, ok := strings.CutPrefix(require.Mod.Path, root+"/"); ok {
			dirs = append(dirs, d)
		}
	}
	return dirs, nil
}

// publish changes the module in dir as CONTRIBUTING.md says, builds it and puts it into the proxy.
func (r *release) publish(ctx context.Context, dir string) error {
	in := filepath.Join(r.tree, dir)
	requires, err := r.ours(dir)
	if err != nil {
		return err
	}
	for _, d := range requires {
		required := path.Join(root, d)
		edit := []string{"mod", "edit", "-dropreplace=" + required, "-require=" + required + "@" + r.version}
		if err := r.run(ctx, in, "go", edit...); err != nil {
			return err
		}
	}
	if len(requires) > 0 {
		if err := r.run(ctx, in, "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	if err := r.run(ctx, in, "go", "build", "./..."); err != nil {
		return err
	}
	at := filepath.Join(r.proxy, filepath.FromSlash(path.Join(root, dir)), "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": r.version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(in, "go.mod"))
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"list":              []byte(r.version + "\n"),
		r.version + ".info": info,
		r.version + ".mod":  mod,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o600); err != nil {
			return err
		}
	}
	packed, err := os.Create(filepath.Join(at, r.version+".zip"))
	if err != nil {
		return err
	}
	m := module.Version{Path: path.Join(root, dir), Version: r.version}
	return errors.Join(zip.CreateFromDir(packed, m, in), packed.Close())
}

// try builds and runs a user's programs: one of their own, and the command.
func (r *release) try(ctx context.Context, modules []string) (err error) {
	redis, err := redistest.Run()
	if err != nil {
		return err
	}
	defer redis.Close()
	postgres, err := pgtest.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.Stop()) }()
	text, err := os.ReadFile(filepath.Join(r.tree, "lab", "release", "testdata", "try", "main.go"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.outside, "main.go"), text, 0o600); err != nil {
		return err
	}
	if err := r.run(ctx, r.outside, "go", "mod", "init", "example.org/try"); err != nil {
		return err
	}
	get := []string{"get"}
	for _, m := range modules {
		module := path.Join(root, m)
		itself := bytes.Contains(text, []byte(`"`+module+`"`))
		below := bytes.Contains(text, []byte(`"`+module+`/`))
		switch {
		case itself || below:
			get = append(get, module+"@"+r.version)
		case !strings.HasPrefix(m, "cmd/"):
			return fmt.Errorf("the program lab/release/testdata/try doesn't use %s", module)
		}
	}
	run := []string{"run", ".", redis.Addr, postgres.URL}
	for _, args := range [][]string{get, {"mod", "tidy"}, {"vet", "."}, run} {
		if err := r.run(ctx, r.outside, "go", args...); err != nil {
			return err
		}
	}
	fmt.Println("a program outside of the repository uses", len(get)-1, "modules")
	command := root + "/cmd/politeness@" + r.version
	if err := r.run(ctx, r.outside, "go", "install", command); err != nil {
		return err
	}
	installed := filepath.Join(filepath.Dir(r.tree), "bin", "politeness")
	printed, err := r.output(ctx, r.outside, installed, "version")
	if err != nil {
		return err
	}
	if !strings.Contains(printed, r.version) {
		return fmt.Errorf("%s says that its version is %q", command, printed)
	}
	fmt.Println("installed", command+":", printed)
	return nil
}

func (r *release) run(ctx context.Context, dir, name string, args ...string) error {
	_, err := r.output(ctx, dir, name, args...)
	return err
}

// output runs a command, and returns the text that it printed. An error has its standard error,
// too.
func (r *release) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaint bytes.Buffer
	cmd.Dir = dir
	cmd.Env = r.env
	cmd.Stdout = &out
	cmd.Stderr = &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &complaint, &out)
	}
	return strings.TrimSpace(out.String()), nil
}
