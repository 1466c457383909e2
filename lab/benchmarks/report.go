package main

import (
	"bytes"
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
)

// A section is one comparison.
type section struct {
	name   string // of the flag -only, of raw benchmarks and plots
	title  string
	rivals []string // each has a row at least
	run    func(*bench) (result, error)
}

// A result is what a section found.
type result struct {
	what   string // is measured
	read   string // how to read it
	limits string // when it doesn't apply
	tables []table
	plots  []figure
	broken int // promises that politeness broke, by the audit of its own evidence
}

// texts has the paragraphs of each section: what is measured, how to read it, its limits.
//
//go:embed texts
var texts embed.FS

// resultOf returns the result of the section of that name, without figures. args are for the verbs
// in the paragraph about what is measured.
func resultOf(name string, args ...any) result {
	text, err := texts.ReadFile("texts/" + name + ".txt")
	if err != nil {
		panic(err) // the section has no text
	}
	paragraphs := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
	}
	r := result{
		what:   paragraphs[0],
		read:   paragraphs[1],
		limits: paragraphs[2],
	}
	if len(args) > 0 {
		r.what = fmt.Sprintf(r.what, args...)
	}
	return r
}

// A figure is one plot, with the text for those who can't see it.
type figure struct {
	name, alt string
	plot      plot.Plot
}

// A table is a table of Markdown. The first cell of a row names the rival.
type table struct {
	caption string
	header  []string
	rows    [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// extend adds a cell to the row of by.
func (t *table) extend(by, cell string) {
	for i, r := range t.rows {
		if r[0] == by {
			t.rows[i] = append(r, cell)
		}
	}
}

func (t *table) write(w *bytes.Buffer) {
	if t.caption != "" {
		fmt.Fprintf(w, "%s\n\n", t.caption)
	}
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.header)
	rule := make([]string, len(t.header))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0] = "---"
	line(rule)
	for _, r := range t.rows {
		line(append(r[:len(r):len(r)], make([]string, len(t.header)-len(r))...))
	}
	w.WriteByte('\n')
}

// write writes the section as Markdown; plots are in the folder beside it.
func (s *section) write(w *bytes.Buffer, r result) {
	fmt.Fprintf(w, "## %s\n\n%s\n\n", s.title, r.what)
	for _, f := range r.plots {
		fmt.Fprintf(w, "![%s](plots/%s.svg)\n\n", f.alt, f.name)
	}
	for i := range r.tables {
		r.tables[i].write(w)
	}
	fmt.Fprintf(w, "**How to read it.** %s\n\n**Where it doesn't hold.** %s\n\n", r.read, r.limits)
}

// groupOf returns a bar for each of all, of which the first is ours.
func groupOf(name string, all []samples) plot.Group {
	group := plot.Group{Name: name}
	for i, s := range all {
		group.Bars = append(group.Bars, plot.Bar{Name: s.by, Value: s.median(), Ours: i == 0})
	}
	return group
}

// raw notes samples in the format of go test -bench, for benchstat.
func (b *bench) raw(name, what string, all []samples) {
	clean := strings.NewReplacer(" ", "-", ",", "", "/", "-")
	for _, s := range all {
		for _, ns := range s.ns {
			fmt.Fprintf(&b.lines, "Benchmark%s/case=%s/by=%s 1 %.2f ns/op %.1f B/op %.2f allocs/op\n",
				name, clean.Replace(what), clean.Replace(s.by), ns, s.bytes, s.allocs)
		}
	}
}

// duration formats nanoseconds to three digits.
func duration(ns float64) string {
	switch {
	case ns < 0:
		return "-" + duration(-ns)
	case ns < 1e3:
		return digits(ns) + " ns"
	case ns < 1e6:
		return digits(ns/1e3) + " µs"
	case ns < 1e9:
		return digits(ns/1e6) + " ms"
	default:
		return digits(ns/1e9) + " s"
	}
}

func size(b float64) string {
	if b < 10_000 {
		return fmt.Sprintf("%.0f B", b)
	}
	return digits(b/1000) + " KB"
}

// digits formats x to three digits.
func digits(x float64) string {
	switch {
	case x >= 100 || x <= -100 || x == 0:
		return fmt.Sprintf("%.0f", x)
	case x >= 10 || x <= -10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// count formats n with a comma before each three digits.
func count(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}

func times(x float64) string { return digits(x) + " ×" }

// verdict says whether a target is met, so that a miss can't be overlooked.
func verdict(ok bool) string {
	if ok {
		return "met"
	}
	return "**missed**"
}
