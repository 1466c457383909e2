// Suite runs parts of the checks and tests of all modules, the commands of each side by side:
//
//	go run ./internal/suite [-j N] [-soak DURATION] PART...
//
// parts.go has the parts. The output of a command is printed in one piece when it has ended. A
// command that fails keeps no other from running. The output of go test -json is counted, and shown
// as go test shows it without -json. A table at the end has a line for each command. Below it stand
// the tests that were skipped, with their reasons, and those that failed. A soak is divided evenly:
// POLITENESS_SOAK has the time that each command lasts.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// soakEnv holds how long a command of a soak lasts.
const soakEnv = "POLITENESS_SOAK"

// A task is a command and its result.
type task struct {
	name, dir string   // as in the table
	command   []string // program and arguments
	env       []string // beside that of the suite, as NAME=VALUE
	live      bool     // its output is shown as it comes, and no other task runs beside it

	report
	err     error
	seconds float64 // until it ended
	cpu     float64 // seconds of one processor, of all its processes
}

func main() {
	jobs := flag.Int("j", 2, "how many commands run at a time")
	soak := flag.Duration("soak", 0, "how long all commands last together")
	flag.Parse()
	tasks, err := tasksOf(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
	if *soak > 0 && len(tasks) > 0 {
		share := *soak * time.Duration(min(*jobs, len(tasks))) / time.Duration(len(tasks))
		if err := os.Setenv(soakEnv, share.Round(time.Second).String()); err != nil {
			fmt.Fprintln(os.Stderr, "suite:", err)
			os.Exit(2)
		}
	}
	begun := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // the table says how far it came
	defer stop()
	run(ctx, os.Stdout, max(1, *jobs), tasks)
	if !summarize(os.Stdout, tasks, time.Since(begun)) {
		os.Exit(1)
	}
}

// tasksOf returns the tasks of the parts with these names.
func tasksOf(names []string) ([]*task, error) {
	r, err := newRepository(".")
	if err != nil {
		return nil, err
	}
	all := strings.Join(slices.Sorted(maps.Keys(parts)), ", ")
	if len(names) == 0 {
		return nil, fmt.Errorf("name one or more of %s", all)
	}
	var tasks []*task
	for _, name := range names {
		part, ok := parts[name]
		if !ok {
			return nil, fmt.Errorf("there is no part %q; there are %s", name, all)
		}
		tasks = append(tasks, part(r)...)
	}
	return tasks, nil
}

// run begins the tasks in their order and returns when all have ended.
func run(ctx context.Context, w io.Writer, jobs int, tasks []*task) {
	if slices.ContainsFunc(tasks, func(t *task) bool { return t.live }) {
		jobs = 1
	}
	var printing sync.Mutex
	var wg sync.WaitGroup
	places := make(chan struct{}, jobs)
	for _, t := range tasks {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			t.run(ctx, w)
			printing.Lock()
			defer printing.Unlock()
			fmt.Fprintf(w, "== %s: %s after %.0f s\n%s", t.title(), t.verdict(), t.seconds, t.text.Bytes())
		})
	}
	wg.Wait()
}

func (t *task) run(ctx context.Context, w io.Writer) {
	cmd := exec.CommandContext(ctx, t.command[0], t.command[1:]...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = filepath.FromSlash(t.dir)
	cmd.Env = append(cmd.Environ(), t.env...) // with the PWD of Dir
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &out
	if t.live {
		fmt.Fprintf(w, "== %s\n", t.title())
		cmd.Stdout = w
		cmd.Stderr = w
	}
	begun := time.Now()
	t.err = cmd.Run()
	t.seconds = time.Since(begun).Seconds()
	if s := cmd.ProcessState; s != nil {
		t.cpu = (s.UserTime() + s.SystemTime()).Seconds()
	}
	t.read(&out)
}

func (t *task) title() string { return strings.TrimSuffix(t.name+" "+t.dir, " .") }

func (t *task) verdict() string {
	if t.err != nil {
		return "FAILED, " + t.err.Error()
	}
	return "ok"
}

// summarize writes the table and reports whether no task failed.
func summarize(w io.Writer, tasks []*task, took time.Duration) bool {
	all := task{seconds: took.Seconds()}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(t *task, title string) {
		counts := "\t\t"
		if t.passed+len(t.skipped)+len(t.failed) > 0 {
			counts = fmt.Sprintf("%d\t%d\t%d", t.passed, len(t.skipped), len(t.failed))
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t  %s\n", counts, t.seconds, t.cpu, title)
	}
	fmt.Fprint(table, "\npassed\tskipped\tfailed\tseconds\tCPU\t\n")
	ok := true
	for _, t := range tasks {
		title := t.title() + ": " + t.verdict()
		if os.Getenv(soakEnv) != "" {
			title = strings.Join(append([]string{title}, t.notes...), ", ")
		}
		row(t, title)
		all.passed += t.passed
		all.skipped = append(all.skipped, t.skipped...)
		all.failed = append(all.failed, t.failed...)
		all.cpu += t.cpu
		ok = ok && t.err == nil
	}
	row(&all, "in all")
	table.Flush()
	for _, s := range all.skipped {
		fmt.Fprintln(w, "skipped:", s)
	}
	for _, f := range all.failed {
		fmt.Fprintln(w, "failed:", f)
	}
	return ok
}
