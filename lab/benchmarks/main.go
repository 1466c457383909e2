// Command benchmarks compares politeness with the alternatives that Go crawlers use, each with its
// real code. It writes the tables and figures to RESULTS.md and plots/:
//
//	go run .           # all of it, under ten minutes
//	go run . -short    # each once, in seconds, to the standard output: does it run?
//	go run . -only robots,hosts -out /tmp/results
//	go run . -only scale -update # replaces that section of RESULTS.md alone
//
// The alternatives are measured in turn, round by round, so that other load of the machine affects
// them alike. Still, run it on a machine that does nothing else.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func main() {
	if os.Getenv(serverEnv) != "" {
		serveScale()
		return
	}
	short := flag.Bool("short", false, "run everything once, in a few seconds, and print the report")
	only := flag.String("only", "", "sections to run, separated by commas; empty: all")
	update := flag.Bool("update", false, "replace the sections of -only in the RESULTS.md that is there, and no others")
	out := flag.String("out", ".", "folder that RESULTS.md, raw.txt and plots/ are written to; not with -short")
	flag.Parse()
	if err := run(*short, *update, *only, *out); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// A bench says how long to measure.
type bench struct {
	rounds  int
	batch   time.Duration // of one contender in one round
	delays  []time.Duration
	pacing  map[time.Duration]time.Duration // how long to watch each delay
	callers int
	storm   time.Duration
	hosts   int // of the limiters alone
	crawled int // of whole crawlers
	refetch int

	manyHosts           int           // at once, of whole crawlers
	crawlWarm, crawlFor time.Duration // before and while their pages are counted

	redisFree string // how long, or how often, limiters on Redis are asked for free hosts

	requests    int // over HTTP, in one round
	robotsHosts int
	lineCount   int // of a log

	lines bytes.Buffer // in the format of go test -bench
}

func fullBench() *bench {
	return &bench{
		rounds: 20,
		batch:  25 * time.Millisecond,
		delays: []time.Duration{20 * time.Millisecond, 100 * time.Millisecond},
		pacing: map[time.Duration]time.Duration{
			20 * time.Millisecond:  6 * time.Second,
			100 * time.Millisecond: 12 * time.Second,
		},
		callers:     64,
		storm:       2500 * time.Millisecond,
		hosts:       1_000_000,
		crawled:     10_000,
		refetch:     2000,
		manyHosts:   1000,
		crawlWarm:   time.Second,
		crawlFor:    4 * time.Second,
		redisFree:   "3s",
		requests:    1000,
		robotsHosts: 10_000,
		lineCount:   1_000_000,
	}
}

func shortBench() *bench {
	return &bench{
		rounds:      1,
		batch:       time.Microsecond,
		delays:      []time.Duration{20 * time.Millisecond},
		pacing:      map[time.Duration]time.Duration{20 * time.Millisecond: 200 * time.Millisecond},
		callers:     8,
		storm:       300 * time.Millisecond,
		hosts:       1000,
		crawled:     100,
		refetch:     10,
		manyHosts:   100,
		crawlWarm:   100 * time.Millisecond,
		crawlFor:    100 * time.Millisecond,
		redisFree:   "100x",
		requests:    10,
		robotsHosts: 100,
		lineCount:   1000,
	}
}

func sections() []section {
	return []section{
		robotsSection(),
		overheadSection(),
		pacingSection(),
		stormSection(),
		hostsSection(),
		crawlsSection(),
		redisSection(),
		scaleSection(),
	}
}

func run(short, update bool, only, out string) error {
	b := fullBench()
	if short {
		b = shortBench()
	}
	chosen := sections()
	if only != "" {
		names := strings.Split(only, ",")
		chosen = slices.DeleteFunc(chosen, func(s section) bool { return !slices.Contains(names, s.name) })
		if len(chosen) != len(names) {
			return fmt.Errorf(
				"-only %s: want some of robots, overhead, pacing, storm, hosts, crawls, redis, scale",
				only)
		}
	}
	begin := time.Now()
	before := loadAverage()
	var body bytes.Buffer
	var figures []figure
	var written [][]byte // of body, by section
	for i := range chosen {
		s := &chosen[i]
		fmt.Fprintf(os.Stderr, "%s ... ", s.name)
		started := time.Now()
		r, err := s.run(b)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintln(os.Stderr, time.Since(started).Round(time.Millisecond))
		from := body.Len()
		s.write(&body, r)
		written = append(written, bytes.Clone(body.Bytes()[from:]))
		figures = append(figures, r.plots...)
	}
	if update {
		return replaceSections(out, written, figures, before)
	}
	var report bytes.Buffer
	if short {
		fmt.Fprint(&report, "> A short run: everything once. Its times mean nothing.\n\n")
	}
	head(&report, time.Since(begin), before)
	met := bytes.Count(body.Bytes(), []byte(verdict(true)+" |"))
	missed := bytes.Count(body.Bytes(), []byte(verdict(false)+" |"))
	fmt.Fprintf(&report, "Of %d targets %d are met; the tables say which aren't.\n\n", met+missed, met)
	report.Write(body.Bytes())
	if short {
		_, err := os.Stdout.Write(report.Bytes())
		return err
	}
	return b.save(out, &report, figures)
}

// replaceSections puts each of written, which begins with its heading, in the place of the section
// of RESULTS.md that has that heading, or before the timings at the end.
func replaceSections(out string, written [][]byte, figures []figure, loadBefore string) error {
	name := filepath.Join(out, "RESULTS.md")
	report, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for _, section := range written {
		heading, rest, _ := bytes.Cut(section, []byte("\n\n"))
		today := time.Now().UTC().Format(time.DateOnly)
		note := fmt.Appendf(nil, "\n\nMeasured by itself on %s, on %s, ", today, cpu())
		note = fmt.Appendf(note, "%d processors for Go, ", runtime.GOMAXPROCS(0))
		note = fmt.Appendf(note, "with a load average of %s before.\n\n", loadBefore)
		report = replaceSection(report, heading, slices.Concat(heading, note, rest))
	}
	if err := savePlots(out, figures); err != nil {
		return err
	}
	return os.WriteFile(name, report, 0o666)
}

func replaceSection(report, heading, section []byte) []byte {
	from := bytes.Index(report, append(bytes.Clone(heading), '\n'))
	if from < 0 {
		end := bytes.Index(report, []byte("## All timings"))
		if end < 0 {
			end = len(report)
		}
		return slices.Insert(report, end, section...)
	}
	to := len(report)
	next := bytes.Index(report[from+1:], []byte("\n## "))
	if next >= 0 {
		to = from + 1 + next + 1
	}
	return slices.Replace(report, from, to, section...)
}

func savePlots(out string, figures []figure) error {
	plots := filepath.Join(out, "plots")
	if err := os.MkdirAll(plots, 0o777); err != nil {
		return err
	}
	for _, f := range figures {
		if err := os.WriteFile(filepath.Join(plots, f.name+".svg"), f.plot.SVG(), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// save writes all that was found to the folder out.
func (b *bench) save(out string, report *bytes.Buffer, figures []figure) error {
	if err := savePlots(out, figures); err != nil {
		return err
	}
	raw := filepath.Join(out, "raw.txt")
	lines := fmt.Sprintf("goos: %s\ngoarch: %s\n", runtime.GOOS, runtime.GOARCH) +
		"pkg: github.com/go-politeness/politeness/lab/benchmarks\n" +
		fmt.Sprintf("cpu: %s\n%s", cpu(), b.lines.String())
	if err := os.WriteFile(raw, []byte(lines), 0o666); err != nil {
		return err
	}
	if b.lines.Len() > 0 {
		stat, err := benchstat(raw)
		if err != nil {
			return err
		}
		report.WriteString("## All timings, by benchstat\n\n" +
			"Medians with 95 % confidence intervals of `raw.txt`; percentages compare with politeness.\n\n" +
			"<details>\n<summary>benchstat</summary>\n\n")
		fmt.Fprintf(report, "```text\n%s```\n\n</details>\n", stat)
	}
	return os.WriteFile(filepath.Join(out, "RESULTS.md"), report.Bytes(), 0o666)
}

// benchstat compares the columns of the raw benchmarks, with the version that this repository pins.
func benchstat(raw string) ([]byte, error) {
	cmd := exec.CommandContext(context.Background(), "go", "tool", "-modfile=../../tools/go.mod",
		"benchstat", "-table", ".name", "-row", "/case", "-col", "/by", raw)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

//go:embed texts/head.txt
var headText string

// head says when, where and on what all was measured.
func head(w *bytes.Buffer, took time.Duration, loadBefore string) {
	today := time.Now().UTC().Format(time.DateOnly)
	fmt.Fprintf(w, headText,
		took.Round(time.Second), today,
		cpu(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		loadBefore, loadAverage(),
		versions())
}

func cpu() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // Linux only; elsewhere the kind of processor must do
	for line := range strings.Lines(string(info)) {
		if key, name, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(name)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg") // as above
	f := strings.Fields(string(load))
	if len(f) < 3 {
		return "unknown"
	}
	return strings.Join(f[:3], ", ")
}

// rivalModules are the ends of the paths of the rivals' modules.
var rivalModules = []string{
	"robots/v2", "robotstxt", "grobotstxt", "x/time", "failsafe-go", "go-retryablehttp", "colly/v2", "fetchbot",
}

// versions names the rivals' modules as they were built.
func versions() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "unknown versions"
	}
	var s []string
	for _, m := range info.Deps {
		for _, name := range rivalModules {
			if strings.HasSuffix(m.Path, "/"+name) {
				s = append(s, m.Path+" "+m.Version)
			}
		}
	}
	return cmp.Or(strings.Join(s, ", "), "unknown versions")
}
