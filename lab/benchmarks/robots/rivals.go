// Package robots asks robots.txt packages the same questions about the same files.
//
//	go test -bench . ./robots
//
// Each package works as with a file that is kept: it parses the file once, looks up the agent's
// group once, and then tests paths. Only grobotstxt has no such step, and reads the file for each
// URL.
package robots

import (
	"bytes"

	benjaminestes "github.com/benjaminestes/robots/v2"
	"github.com/jimsmart/grobotstxt"
	"github.com/temoto/robotstxt"

	"github.com/go-politeness/politeness/internal/robotsgen"
	"github.com/go-politeness/politeness/robots"
)

const (
	agent  = "FooBot"
	origin = "https://example.com"
)

// A Rival parses a file for an agent and returns what tests a target.
type Rival struct {
	Name  string
	With  func(body []byte) (test func(target string) bool, err error)
	URLs  bool // wants whole URLs as targets, not paths
	Keeps bool // parses once; false: reads the file for each question
}

// Rivals are this project's package, first, and the others.
var Rivals = []Rival{
	{"politeness", func(body []byte) (func(string) bool, error) {
		rules := robots.Parse(body).Agent(agent)
		return func(path string) bool { return rules.Test(path).Allowed }, nil
	}, false, true},
	{"temoto", func(body []byte) (func(string) bool, error) {
		data, err := robotstxt.FromBytes(body)
		if err != nil {
			return nil, err
		}
		return data.FindGroup(agent).Test, nil
	}, false, true},
	{"benjaminestes", func(body []byte) (func(string) bool, error) {
		data, err := benjaminestes.From(200, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return data.Tester(agent), nil
	}, true, true},
	{"grobotstxt", func(body []byte) (func(string) bool, error) {
		text := string(body)
		return func(url string) bool { return grobotstxt.AgentAllowed(text, agent, url) }, nil
	}, true, false},
}

// Targets returns n of what the rival is asked about the file: the same for all.
func (r Rival) Targets(body []byte, n int) []string {
	targets := robotsgen.Paths(body, n)
	if r.URLs {
		for i := range targets {
			targets[i] = origin + targets[i]
		}
	}
	return targets
}
