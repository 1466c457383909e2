// Package robots_test compares robots.txt packages on the same files and paths.
//
//	go test -bench . -benchtime 1s ./robots
//
// Each rival does what its users do with a file that they keep: it is parsed once, the group of the
// agent is looked up once, and paths are tested. grobotstxt has no such step: it reads the file for each URL.
package robots_test

import (
	"bytes"
	"testing"

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

// A rival parses a file for an agent and returns what tests a path.
type rival struct {
	name string
	with func(tb testing.TB, body []byte) func(path string) bool
}

var rivals = []rival{
	{"politeness", func(_ testing.TB, body []byte) func(string) bool {
		rules := robots.Parse(body).Agent(agent)
		return func(path string) bool { return rules.Test(path).Allowed }
	}},
	{"temoto", func(tb testing.TB, body []byte) func(string) bool {
		data, err := robotstxt.FromBytes(body)
		if err != nil {
			tb.Fatal(err)
		}
		return data.FindGroup(agent).Test
	}},
	{"benjaminestes", func(tb testing.TB, body []byte) func(string) bool {
		data, err := benjaminestes.From(200, bytes.NewReader(body))
		if err != nil {
			tb.Fatal(err)
		}
		return data.Tester(agent)
	}},
	{"grobotstxt", func(_ testing.TB, body []byte) func(string) bool {
		text := string(body)
		return func(url string) bool { return grobotstxt.AgentAllowed(text, agent, url) }
	}},
}

// targets returns what the rival is asked: paths, or where it wants them URLs.
func (r rival) targets(body []byte) []string {
	targets := robotsgen.Paths(body, 1024)
	if r.name == "benjaminestes" || r.name == "grobotstxt" {
		for i := range targets {
			targets[i] = origin + targets[i]
		}
	}
	return targets
}

// TestRivalsAgree keeps the comparison fair: those that can be asked for it give nearly
// the same answers. (temoto cuts neither "$" within nor ties as Google does.)
func TestRivalsAgree(t *testing.T) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		ours := rivals[0].with(t, body)
		paths := rivals[0].targets(body)
		for _, r := range rivals[1:] {
			test, targets, differ := r.with(t, body), r.targets(body), 0
			for i := range min(200, len(targets)) {
				if test(targets[i]) != ours(paths[i]) {
					differ++
				}
			}
			if differ > 20 {
				t.Errorf("%s: %s answers %d of 200 otherwise", s.Name, r.name, differ)
			}
		}
	}
}

// BenchmarkCheck is one question to a file that has been parsed.
func BenchmarkCheck(b *testing.B) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		for _, r := range rivals {
			test, targets := r.with(b, body), r.targets(body)
			b.Run(s.Name+"/"+r.name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					test(targets[i&1023])
					i++
				}
			})
		}
	}
}

// BenchmarkParse is parsing a file and compiling the rules of one agent.
func BenchmarkParse(b *testing.B) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		for _, r := range rivals {
			if r.name == "grobotstxt" {
				continue // it keeps nothing
			}
			b.Run(s.Name+"/"+r.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					r.with(b, body)
				}
			})
		}
	}
}
