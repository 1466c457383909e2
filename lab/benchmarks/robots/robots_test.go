package robots

import (
	"testing"

	"github.com/go-politeness/politeness/internal/robotsgen"
)

func (r Rival) with(tb testing.TB, body []byte) func(string) bool {
	tb.Helper()
	test, err := r.With(body)
	if err != nil {
		tb.Fatalf("%s: %v", r.Name, err)
	}
	return test
}

// TestRivalsAgree keeps the comparison fair: those that can be asked for it give nearly
// the same answers. (temoto cuts neither "$" within nor ties as Google does.)
func TestRivalsAgree(t *testing.T) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		ours := Rivals[0].with(t, body)
		paths := Rivals[0].Targets(body, 1024)
		for _, r := range Rivals[1:] {
			test := r.with(t, body)
			targets := r.Targets(body, 1024)
			differ := 0
			for i := range 200 {
				if test(targets[i]) != ours(paths[i]) {
					differ++
				}
			}
			if differ > 20 {
				t.Errorf("%s: %s answers %d of 200 otherwise", s.Name, r.Name, differ)
			}
		}
	}
}

// BenchmarkCheck is one question to a file that has been parsed.
func BenchmarkCheck(b *testing.B) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		for _, r := range Rivals {
			test := r.with(b, body)
			targets := r.Targets(body, 1024)
			b.Run(s.Name+"/"+r.Name, func(b *testing.B) {
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
		for _, r := range Rivals {
			if !r.Keeps {
				continue
			}
			b.Run(s.Name+"/"+r.Name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					r.with(b, body)
				}
			})
		}
	}
}
