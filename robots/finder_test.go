package robots

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// randomString makes a string of n of the bytes of.
func randomString(r *rand.Rand, of string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = of[r.IntN(len(of))]
	}
	return string(b)
}

// A finder finds what strings.Index does, and the end of the path where that finds nothing.
func TestFinder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		of := "abcdefgh"[:1+r.IntN(8)]
		path := randomString(r, of, 3+r.IntN(1500))
		f := new(finder)
		f.make(path)
		for range 100 {
			from := r.IntN(len(path))
			s := randomString(r, of, 2+r.IntN(90))
			if r.IntN(2) == 0 {
				at := r.IntN(len(path) - 1)
				s = path[at:min(len(path), at+2+r.IntN(90))]
			}
			// What is sought again, from elsewhere too, is found as at first.
			for _, from := range []int{from, (from + len(path)) / 2, from / 2, from} {
				want := strings.Index(path[from:], s)
				if want < 0 {
					want = len(path) - from
				}
				if got := f.index(path, from, s); got != from+want {
					t.Fatalf("%q in %q from %d: got %d, want %d", s, path, from, got, from+want)
				}
			}
		}
	}
}

// What stands in the path many times in pieces, so that the path has to be gone through, is sought
// only once, whether it is found or not.
func TestFinderGoesThroughThePathOnce(t *testing.T) {
	path := strings.Repeat("aaaaaaab", 65) + strings.Repeat("a", 500)
	other := strings.Repeat("c", len(path)) // what is found in it isn't remembered
	f := new(finder)
	f.make(path)
	for s, want := range map[string]int{
		strings.Repeat("a", 12) + "b": len(path),
		"aaaabaaaaaaab":               3,
	} {
		for _, path := range []string{path, other} {
			for _, from := range []int{1, 2, 3} {
				if got := f.index(path, from, s); got != want {
					t.Errorf("%q from %d: got %d, want %d", s, from, got, want)
				}
			}
		}
	}
}

// Files of many patterns, of which the path is full, are answered as by going through them one
// by one: 15 files, 60 with POLITENESS_LONG=1 (make test).
func TestManyWilds(t *testing.T) {
	files := 15
	if os.Getenv("POLITENESS_LONG") != "" {
		files = 60
	}
	r := rand.New(rand.NewPCG(2, 2))
	for i := range files {
		of := "abcdefgh"[:2+r.IntN(6)]
		var body strings.Builder
		body.WriteString("user-agent: *\n")
		for range 10 + r.IntN(600) {
			fmt.Fprintf(&body, "%s: %s", []string{"allow", "disallow"}[r.IntN(2)], []string{"", "/", "/a"}[r.IntN(3)])
			for range 1 + r.IntN(3) {
				body.WriteString("*" + randomString(r, of, 1+r.IntN(10)))
			}
			body.WriteString([]string{"", "$", "*"}[r.IntN(3)] + "\n")
		}
		file := Parse([]byte(body.String()))
		rules := file.Agent("FooBot")
		c := collector{file: file, rules: &Rules{}, named: everyone}
		c.all()
		for range 20 {
			path := "/" + randomString(r, of, r.IntN(400))
			v := rules.Test(path)
			if rank, line := naive(c.patterns, path); v.Line != line || v.Allowed != rank.allows() {
				t.Fatalf("%d: %s\n%s: got %+v, want line %d", i, body.String(), path, v, line)
			}
		}
	}
}

// TestPathsOfAnyLength: those that are too long for a finder do without, whatever is tried on them.
func TestPathsOfAnyLength(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var body strings.Builder
	body.WriteString("user-agent: *\n")
	for range 400 {
		fmt.Fprintf(&body, "allow: /*%s*%s*c\n", randomString(r, "ab", 1+r.IntN(7)), randomString(r, "ab", 1+r.IntN(4)))
	}
	body.WriteString("disallow: /*aa*b\n")
	all := patternsOf(body.String(), false)
	for name, form := range forms {
		if form == nil {
			continue
		}
		c := form(newBuilder(patternsOf(body.String(), false), false))
		for _, length := range []int{2, 100, 128, 129, 2000, maxFinder - 1, maxFinder, maxFinder + 1, 2 * maxFinder} {
			path := "/" + randomString(r, "ab", length-1)
			if got, want := c.match(path), oneByOne(all, path); got.line != want.line {
				t.Errorf("%s, %d bytes: line %d decides, want %d", name, length, got.line, want.line)
			}
		}
	}
}
