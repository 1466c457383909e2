package robotsgen

import (
	"bytes"
	"slices"
	"testing"
)

// The shapes are those of the files that the benchmarks' figures are given for.
func TestShapes(t *testing.T) {
	want := map[string]int{"small": 1 << 10, "medium": 14 << 10, "medium-w": 31 << 10, "large": 450 << 10}
	for _, s := range Shapes {
		body := File(s)
		if size := want[s.Name]; len(body) < size*9/10 || len(body) > size*11/10 {
			t.Errorf("%s: %d bytes, want about %d", s.Name, len(body), size)
		}
		if n := bytes.Count(body, []byte("llow: ")); n != s.Rules+1 {
			t.Errorf("%s: %d rules, want %d", s.Name, n, s.Rules+1)
		}
		if !bytes.Equal(body, File(s)) || !slices.Equal(Paths(body, 50), Paths(body, 50)) {
			t.Errorf("%s: not the same twice", s.Name)
		}
	}
}
