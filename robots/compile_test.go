package robots

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/robotsgen"
)

// forms are the ways in which rules can be packed.
var forms = map[string]func(b *builder) compiled{
	"chunks of one":    func(b *builder) compiled { return b.inOrder(density{1, 0}) },
	"chunks of three":  func(b *builder) compiled { return b.inOrder(density{3, 1}) },
	"few slots":        func(b *builder) compiled { return b.inOrder(density{24, 5}) },
	"a single chunk":   func(b *builder) compiled { return b.inOrder(density{1 << 30, 0}) },
	"runs":             (*builder).inRuns,
	"as compile would": nil,
}

// oneByOne decides without an index.
func oneByOne(ps []pattern, path string) decision {
	var best decision
	for i := range ps {
		if p := &ps[i]; p.matches(path) && (best.line == 0 || p.rank > best.rank || p.rank == best.rank && uint32(p.line) < best.line) {
			best = decision{rank: p.rank, line: uint32(p.line)}
		}
	}
	return best
}

// patternsOf returns the patterns of the only group of a file.
func patternsOf(body string, exact bool) []pattern {
	f := ParseWith([]byte(body), Options{GoogleExact: exact})
	c := collector{file: f, rules: new(Rules)}
	c.named, _ = f.choose(nil)
	c.all()
	return c.patterns
}

// TestAllFormsDecideAlike, as patterns that are tried one by one do.
func TestAllFormsDecideAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	pieces := []string{
		"a", "b", "ab", "ba", "/", "/a", "/b/", "*", "*", "**", "$", "?", "?a=", "%61", "%2A", "%24", "%d0%9a", "\xd0\x9a", "%", "%%361",
		"index.html", "/index.htm", "a_long_stretch_of_a_pattern", ".html", "x",
	}
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.String()
	}
	checked, files := 0, 60
	if os.Getenv("POLITENESS_LONG") != "" {
		files = 400
	}
	for range files {
		var body strings.Builder
		body.WriteString("User-agent: *\n")
		share := text(r.IntN(4)) // so that many share a prefix
		for range 1 + r.IntN(80) {
			body.WriteString([]string{"Allow: ", "Disallow: ", "disallow:", "allow :", "Disallow "}[r.IntN(5)])
			switch r.IntN(4) {
			case 0:
				body.WriteString("/" + share + "*")
			case 1:
				body.WriteString("/" + share)
			case 2:
				body.WriteString("/")
			}
			body.WriteString(text(r.IntN(6)) + "\n")
		}
		for _, exact := range []bool{false, true} {
			norm := &Rules{compiled: compiled{exact: exact}}
			var paths []string
			for range 60 {
				path := "/" + text(r.IntN(7))
				if r.IntN(2) == 0 {
					path = "/" + share + text(r.IntN(7))
				}
				if r.IntN(8) == 0 {
					path += strings.Repeat(text(3), 20)
				}
				paths = append(paths, norm.normal(path))
			}
			for name, form := range forms {
				ps := patternsOf(body.String(), exact)
				all := append([]pattern(nil), ps...)
				c := compile(ps, exact, body.Len())
				if form != nil {
					c = form(newBuilder(patternsOf(body.String(), exact), exact))
				}
				for _, path := range paths {
					checked++
					got, want := c.match(path), oneByOne(all, path)
					if got.line != want.line || got.rank != want.rank {
						t.Fatalf("%s, exact %t: %q decides %d, %d; want %d, %d by\n%s", name, exact, path, got.line, got.rank, want.line, want.rank, body.String())
					}
				}
			}
		}
	}
	t.Logf("%d decisions", checked)
}

// TestSizeIsWhatRulesTake, to the byte; what is small the heap rounds up.
func TestSizeIsWhatRulesTake(t *testing.T) {
	var pairs strings.Builder
	pairs.WriteString("User-agent: *\n")
	for i := range 60_000 {
		fmt.Fprintf(&pairs, "allow:/%c%c\n", '0'+i%200, '0'+i/200%200)
	}
	bodies := map[string][]byte{
		"nothing":              nil,
		"no room for an index": []byte(pairs.String()),
		"extras": []byte("User-agent: FooBot-of-a-long-name\n" + strings.Repeat("Request-rate: 1/5\nVisit-time: 0600-0845\nContent-Usage: /a train-ai=n\nLicense: https://a/l\n", 7) +
			"Content-Signal: ai-train=no, search=yes, ai-input=no\nDisallow: /"),
		"one extra": []byte("User-agent: *\nVisit-time: 0600-0845\nDisallow: /"),
	}
	for _, s := range robotsgen.Shapes {
		bodies[s.Name] = robotsgen.File(s)
	}
	for name, body := range bodies {
		r := ParseWith(body, Options{LenientAgents: true}).Agent("FooBot")
		if got, want := r.compiled.size(), beyond(reflect.ValueOf(r.compiled)); got != want {
			t.Errorf("%s: rules of %d bytes, by size %d", name, want, got)
		}
		if r.extras != nil {
			v := reflect.ValueOf(*r.extras)
			if got, want := r.extras.size(), int(v.Type().Size())+beyond(v); got != want {
				t.Errorf("%s: extras of %d bytes, by size %d", name, want, got)
			}
		}
		v := reflect.ValueOf(*r)
		size := int(v.Type().Size()) + beyond(v)
		rounded := 0
		if size < 32<<10 {
			rounded = size / 8
		}
		if got := r.Size(); got != size+rounded {
			t.Errorf("%s: %d bytes, by Size %d", name, size, got)
		}
	}
}

// beyond returns how many bytes a value holds beside itself.
func beyond(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		return v.Cap() * int(v.Type().Elem().Size()) // none of them holds more
	case reflect.Pointer:
		if !v.IsNil() {
			return int(v.Type().Elem().Size()) + beyond(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += beyond(v.Field(i))
		}
	}
	return n
}

// TestLinesFarDown are told as they are counted.
func TestLinesFarDown(t *testing.T) {
	for _, want := range []int{2, 127, 255, 256, 257, 4000, 65_535, 65_536, 70_000} {
		body := "User-agent: *\nDisallow: /b" + strings.Repeat("\n", want-2) + "Disallow: /a"
		if want == 2 {
			body = "User-agent: *\nDisallow: /a"
		}
		if v := Parse([]byte(body)).Agent("FooBot").Test("/a"); v.Line != want {
			t.Errorf("line %d, want %d", v.Line, want)
		}
	}
}

// TestRecordsAreShort: those of a usual file take their text, the line's number, and little more than
// a byte.
func TestRecordsAreShort(t *testing.T) {
	for _, s := range robotsgen.Shapes {
		body := robotsgen.File(s)
		texts, n := 0, 0
		for _, p := range patternsOf(string(body), false) {
			texts += len(p.text) + 1
			n++
		}
		c := Parse(body).Agent("FooBot").compiled
		beside := float64(len(c.text)-texts)/float64(n) - float64(c.wide)
		t.Logf("%s: %.2f bytes", s.Name, beside)
		if beside > 1 {
			t.Errorf("%s: a record takes %.2f bytes more", s.Name, beside)
		}
	}
}
