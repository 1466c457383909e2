package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A report is the output of a command: the results of its tests, and text for people.
type report struct {
	text    bytes.Buffer // the output of go test without -json
	passed  int          // number of tests and subtests
	skipped []string     // names, with reasons
	failed  []string     // names
	notes   []string     // for the table, from tests that passed
}

// An event is a line of go test -json; go doc test2json describes it.
type event struct {
	Action, Package, Test, Output string
}

// A test is the output and the result of a test of a package.
type test struct {
	name   string // empty: the package itself
	output strings.Builder
	result string // pass, skip or fail; empty: it hasn't ended
}

// note begins a line of a test's output that belongs into the table; internal/soak writes it.
const note = "soak: "

// read adds the output of a command to r. A line that isn't an event goes to text.
func (r *report) read(out *bytes.Buffer) {
	tests := make(map[[2]string]*test)
	packages := make(map[string][]*test) // in the order in which they began
	for line := range bytes.Lines(out.Bytes()) {
		var e event
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			r.text.Write(line)
			continue
		}
		if e.Action == "build-output" {
			r.text.WriteString(e.Output)
			continue
		}
		t := tests[[2]string{e.Package, e.Test}]
		if t == nil {
			t = &test{name: e.Test}
			tests[[2]string{e.Package, e.Test}] = t
			packages[e.Package] = append(packages[e.Package], t)
		}
		switch e.Action {
		case "output":
			t.add(e.Output)
		case "pass", "skip", "fail":
			t.result = e.Action
			if e.Test == "" {
				r.endPackage(e, packages[e.Package])
			} else {
				r.end(e, t)
			}
		}
	}
}

// end adds the result of t to r.
func (r *report) end(e event, t *test) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "pass":
		r.passed++
		for line := range strings.Lines(t.output.String()) {
			if _, text, ok := strings.Cut(line, note); ok {
				r.notes = append(r.notes, strings.TrimSpace(text))
			}
		}
		t.output.Reset()
	case "skip":
		var why []string
		for line := range strings.Lines(t.output.String()) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "--- SKIP") {
				why = append(why, line)
			}
		}
		r.skipped = append(r.skipped, id+": "+strings.Join(why, " "))
		t.output.Reset()
	case "fail":
		r.failed = append(r.failed, id)
	}
}

// endPackage adds the output of a package to text and, if it failed, the output of its tests that
// haven't passed: a panic or a time limit leaves tests without an end.
func (r *report) endPackage(e event, tests []*test) {
	var own string // output of the package itself
	named := false // a test is to blame
	for _, t := range tests {
		switch {
		case t.name == "":
			own = t.output.String()
		case e.Action == "fail":
			r.text.WriteString(t.output.String())
			named = named || t.result == "fail" || t.result == ""
			if t.result == "" {
				r.failed = append(r.failed, e.Package+" "+t.name)
			}
		}
	}
	r.text.WriteString(own)
	if e.Action == "fail" && !named {
		r.failed = append(r.failed, e.Package)
	}
}

// add adds a line to the output, unless go test prints it only with -json.
func (t *test) add(line string) {
	for _, prefix := range []string{"=== ", "PASS\n", "?   \t", "testing: warning: no tests to run"} {
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
	t.output.WriteString(line)
}
