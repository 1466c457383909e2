package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A report is what the output of a command says of tests.
type report struct {
	text    bytes.Buffer // for people
	passed  int          // tests and their parts
	skipped []string     // with their reasons
	failed  []string
	notes   []string // what tests that passed have to say in the table
}

// An event is a line of go test -json; go doc test2json describes it.
type event struct {
	Action, Package, Test, Output string
}

// A test is what is known of a test of a package.
type test struct {
	name string // empty: what the package says by itself
	said strings.Builder
	as   string // pass, skip or fail; empty: it hasn't ended
}

// note begins what a test says in the table; internal/soak writes it.
const note = "soak: "

// read takes in the output of a command. A line that is no event is for people.
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
			t.hear(e.Output)
		case "pass", "skip", "fail":
			t.as = e.Action
			if e.Test == "" {
				r.endPackage(e, packages[e.Package])
			} else {
				r.end(e, t)
			}
		}
	}
}

// end takes in the end of a test.
func (r *report) end(e event, t *test) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "pass":
		r.passed++
		for line := range strings.Lines(t.said.String()) {
			if _, what, ok := strings.Cut(line, note); ok {
				r.notes = append(r.notes, strings.TrimSpace(what))
			}
		}
		t.said.Reset()
	case "skip":
		var why []string
		for line := range strings.Lines(t.said.String()) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "--- SKIP") {
				why = append(why, line)
			}
		}
		r.skipped = append(r.skipped, id+": "+strings.Join(why, " "))
		t.said.Reset()
	case "fail":
		r.failed = append(r.failed, id)
	}
}

// endPackage tells what a package has said, and if it has failed, also what those of its tests have
// that haven't passed: a panic or a time limit leaves tests without an end.
func (r *report) endPackage(e event, tests []*test) {
	var own string
	named := false // a test that has failed
	for _, t := range tests {
		switch {
		case t.name == "":
			own = t.said.String()
		case e.Action == "fail":
			r.text.WriteString(t.said.String())
			named = named || t.as == "fail" || t.as == ""
			if t.as == "" {
				r.failed = append(r.failed, e.Package+" "+t.name)
			}
		}
	}
	r.text.WriteString(own)
	if e.Action == "fail" && !named {
		r.failed = append(r.failed, e.Package)
	}
}

// hear takes in a line, unless go test prints it only with -json.
func (t *test) hear(line string) {
	for _, prefix := range []string{"=== ", "PASS\n", "?   \t", "testing: warning: no tests to run"} {
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
	t.said.WriteString(line)
}
