package robots_test

import (
	"testing"

	"github.com/go-politeness/politeness/internal/robotsgen"
	"github.com/go-politeness/politeness/robots"
	"github.com/jimsmart/grobotstxt"
)

func BenchmarkTest(b *testing.B) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		rules := robots.Parse(body).Agent("FooBot")
		paths := robotsgen.Paths(body, 1024)
		b.Run(s.Name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				rules.Test(paths[i&1023])
				i++
			}
		})
	}
}

func BenchmarkTestGrobotstxt(b *testing.B) {
	for _, s := range robotsgen.Shapes {
		body := string(robotsgen.File(s))
		paths := robotsgen.Paths([]byte(body), 1024)
		for i := range paths {
			paths[i] = "https://example.com" + paths[i]
		}
		b.Run(s.Name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				grobotstxt.AgentAllowed(body, "FooBot", paths[i&1023])
				i++
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		b.Run(s.Name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				robots.Parse(body).Agent("FooBot")
			}
			b.ReportMetric(float64(retained(body))/float64(len(body)), "retained/text")
		})
	}
}

// BenchmarkTestCostly is a check of the largest files, of kinds that are costly to keep.
func BenchmarkTestCostly(b *testing.B) {
	for _, c := range costly {
		body := large(0, c.line)
		rules := robots.Parse(body).Agent("FooBot")
		paths := robotsgen.Paths(append(body, "\nDisallow: /a\n"...), 1024)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				rules.Test(paths[i&1023])
				i++
			}
		})
	}
}
