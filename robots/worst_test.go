package robots_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

type worstFile struct {
	name string
	rule func(r *rand.Rand, i int) string
	path func(r *rand.Rand) string
}

// make makes the file and the path.
func (w worstFile) make() (body []byte, path string) {
	r := rand.New(rand.NewPCG(1, 2))
	body = []byte("user-agent:*\n")
	for i := 0; ; i++ {
		rule := w.rule(r, i)
		if len(body)+len(rule)+len("allow:\n") > 500<<10 {
			return body, "/" + w.path(r)
		}
		body = append(body, "allow:"+rule+"\n"...)
	}
}

// worst are files of 500 KB and paths of 2,000 bytes that cost a matcher as much as can be:
// none of the patterns may be left out by what the path contains, and none matches.
var worst = []worstFile{
	{"random ab, long", abPattern(16, 1), letters("ab")},
	{"random ab, two of 16", abPattern(16, 2), letters("ab")},
	{"random ab, 15", abPattern(15, 1), letters("ab")},
	{"random ab, 12", abPattern(12, 3), letters("ab")},
	{"random ab, 63", abPattern(63, 1), letters("ab")},
	{"random ab, 64", abPattern(64, 1), letters("ab")},
	{"random ab, 100", abPattern(100, 1), letters("ab")},
	{"random ab, 8 and 10", func(r *rand.Rand, i int) string {
		return abPattern(7, 1)(r, i)[:8] + abPattern(11, 1)(r, i)
	}, letters("ab")},
	{"a missing, 4", func(r *rand.Rand, i int) string {
		return fmt.Sprintf("*%c%c%c*aaab", 'a'+i%4, 'a'+i/4%4, 'a'+i/16%4) + abPattern(4, 1)(r, i)[:5]
	}, func(r *rand.Rand) string { return strings.ReplaceAll(letters("abcd")(r), "aaab", "aaaa") }},
	{"long and nearly", func(r *rand.Rand, i int) string {
		return "*" + strings.Repeat("a", 70) + abPattern(12, 1)(r, i)[1:13] + "c"
	}, func(r *rand.Rand) string { return strings.Repeat("a", 1900) + letters("abc")(r)[:99] }},
	{"random abcde, 7 alone", func(r *rand.Rand, i int) string { return anyPattern("abcde", 7, 1)(r, i)[:8] }, letters("abcde")},
	{"random abcdef, 6 alone", func(r *rand.Rand, i int) string { return anyPattern("abcdef", 6, 1)(r, i)[:7] }, letters("abcdef")},
	{"pairs, late then early", func(_ *rand.Rand, i int) string {
		return fmt.Sprintf("*%c%c*%c%c", 'A'+i%20, 'A'+i/20%20, 'a'+i/400%20, 'a'+i/8000%20)
	}, func(*rand.Rand) string {
		var b strings.Builder
		for _, first := range "aA" {
			for i := range rune(500) {
				b.WriteRune(first + i%20)
				b.WriteRune(first + i/20%20)
			}
		}
		return b.String()[:1999]
	}},
	{"late then early", func(r *rand.Rand, i int) string {
		return "*" + letters("cde")(r)[:5] + "*" + letters("abd")(r)[:4]
	}, func(r *rand.Rand) string { return letters("abd")(r)[:1700] + letters("cde")(r)[:299] }},
	{"letters, late then early", func(_ *rand.Rand, i int) string {
		return fmt.Sprintf("*%c*%c*%c", 'A'+i%20, 'A'+i/20%20, 'a'+i/400%20)
	}, func(*rand.Rand) string {
		return strings.Repeat("abcdefghijklmnopqrst", 50) + strings.Repeat("ABCDEFGHIJKLMNOPQRST", 49)
	}},
	{"two words, 24", wordPattern(3, 1), words(250)},
	{"two words, 32", wordPattern(4, 1), words(250)},
	{"two words, 64", wordPattern(8, 1), words(250)},
	{"two words, 100", wordPattern(13, 1), words(250)},
	{"two words, 4 of 24", wordPattern(3, 4), words(250)},
	{"two words, 2 of 40", wordPattern(5, 2), words(250)},
	{"mostly a", func(r *rand.Rand, i int) string {
		return "*" + strings.Repeat("a", 10) + anyPattern("ab", 16, 1)(r, i)[1:]
	}, func(r *rand.Rand) string {
		b := []byte(strings.Repeat("a", 1999))
		for range 60 {
			b[r.IntN(len(b))] = 'b'
		}
		return string(b)
	}},
	{"random ab, 8 many", abPattern(8, 12), letters("ab")},
	{"random abc, 6 many", anyPattern("abc", 6, 60), letters("abc")},
	{"random abcd, 3 many", anyPattern("abcd", 3, 200), letters("abcd")},
	{"pairs", func(_ *rand.Rand, i int) string {
		return fmt.Sprintf("*%c*%c*%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}, func(*rand.Rand) string { return strings.Repeat("z", 1990) + "abc" }},
	{"stars", func(_ *rand.Rand, i int) string { return strings.Repeat("*a", 8000) + fmt.Sprint("*b", i) }, letters("a")},
	{"stars in a row", func(_ *rand.Rand, i int) string { return strings.Repeat("*", 16000) + fmt.Sprint("b", i) }, letters("a")},
	{"a then b", func(_ *rand.Rand, i int) string { return "*" + strings.Repeat("a", 20+i%1000) + "b" }, letters("a")},
	{"last byte differs", func(_ *rand.Rand, i int) string {
		return "*" + strings.Repeat("a", 7) + string(rune('b'+i%20)) + string(rune('b'+i/20%20)) + string(rune('b'+i/400%20))
	}, func(*rand.Rand) string { return strings.Repeat("aaaaaaab", 250) }},
	{"tails", func(_ *rand.Rand, i int) string { return fmt.Sprintf("*a*%db$", i) }, func(*rand.Rand) string { return strings.Repeat("a", 1999) + "b" }},
	{"prefixes", func(_ *rand.Rand, i int) string { return "/" + strings.Repeat("a", i%1000) + "*b" + fmt.Sprint(i) }, letters("a")},
	{"a then b, common", commonPattern(2), commonPath},
	{"a then b, common, many", commonPattern(50), commonPath},
	{"a then b, common, very many", commonPattern(400), commonPath},
	{"from many places, then common", func(_ *rand.Rand, i int) string {
		return "*" + placePairs()[i%300:][:2] + commonPattern(2)(nil, i/300)
	}, func(*rand.Rand) string { return placePairs()[:302] + commonPath(nil)[:1697] }},
	{"random ab, 15, escaped", func(r *rand.Rand, i int) string {
		return strings.TrimSuffix(abPattern(15, 1)(r, i), "*c!") + "*%c3*d"
	}, func(r *rand.Rand) string { return letters("ab")(r)[:1950] + strings.Repeat("%C3", 16) }},
	{"common, escaped", func(r *rand.Rand, i int) string {
		return strings.TrimSuffix(commonPattern(50)(r, i), "*c") + "*%c3*d"
	}, func(r *rand.Rand) string { return commonPath(r)[:1950] + strings.Repeat("%C3", 16) }},
	{"keys under nested prefixes", func(r *rand.Rand, i int) string {
		at := i % 1990
		return "/" + strings.Repeat("a", i/1001) + "*" + manyFours()[at:at+4] + "!"
	}, func(*rand.Rand) string { return strings.Repeat("a", 50) + manyFours()[:1949] }},
	{"prefixes of all, with $", func(_ *rand.Rand, i int) string { return "/" + strings.Repeat("a", i%700) + "*b$" }, letters("a")},
	{"with $", func(_ *rand.Rand, i int) string {
		return fmt.Sprintf("*%c%c*a%c$", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}, func(r *rand.Rand) string { return letters("abcdefghijklmnopqrstuvwxyz")(r) }},
	{
		"many beyond ASCII", func(_ *rand.Rand, i int) string { return strings.Repeat("*é", 330) + fmt.Sprint("*", i%10, "é") },
		func(*rand.Rand) string { return strings.Repeat("%C3%A9", 333) },
	},
	{
		"few beyond ASCII", func(r *rand.Rand, i int) string { return "*" + anyPattern("éa", 9, 1)(r, i)[1:9] + "é" },
		func(*rand.Rand) string { return strings.Repeat("%C3%A9a", 285) },
	},
	{"short, late then early, often", func(_ *rand.Rand, i int) string {
		return fmt.Sprintf("*z*aa*%c%c", 'c'+i%20, 'c'+i/20%20)
	}, func(*rand.Rand) string { return strings.Repeat("a", 300) + "z" + strings.Repeat("ab", 849) }},
	{"nested", func(_ *rand.Rand, i int) string { return "/" + strings.Repeat("a", i) + "$" }, letters("a")},
	{"prefixes of all", func(_ *rand.Rand, i int) string { return "/" + strings.Repeat("a", i%700) + "*b" }, letters("a")},
}

func abPattern(n, segments int) func(*rand.Rand, int) string { return anyPattern("ab", n, segments) }

func anyPattern(of string, n, segments int) func(*rand.Rand, int) string {
	return func(r *rand.Rand, _ int) string {
		var b strings.Builder
		for range segments {
			b.WriteByte('*')
			for range n {
				b.WriteByte(of[r.IntN(len(of))])
			}
		}
		return b.String() + "*c!"
	}
}

// commonPattern makes patterns that begin with one of n stretches, which commonPath has all
// pieces of, each many times.
func commonPattern(n int) func(*rand.Rand, int) string {
	return func(_ *rand.Rand, i int) string {
		x := i / n
		return "*" + strings.Repeat("a", 11+i%n) + fmt.Sprintf("b*%c*%c*%c", 'c'+x%24, 'c'+x/24%24, 'c'+x/576%24)
	}
}

func commonPath(*rand.Rand) string {
	const words = 65 * len("aaaaaaab")
	return strings.Repeat("aaaaaaab", 65) + strings.Repeat("a", 1999-words)
}

// manyFours has other four letters at each of its first places.
func manyFours() string {
	var b strings.Builder
	for i := range 2000 {
		b.WriteByte('a' + byte(i*i*31%997%23))
	}
	return b.String()
}

// placePairs has another pair of letters at each of its first places.
func placePairs() string {
	var b strings.Builder
	for i := range 25 {
		for j := range i {
			b.WriteString(string(rune('A'+i)) + string(rune('A'+j)))
		}
	}
	return b.String()
}

// words makes paths of two words whose parts are all common.
func words(n int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		var b strings.Builder
		for range n {
			b.WriteString([]string{"aaaaaaab", "aaaaaab"}[r.IntN(2)])
		}
		return b.String()[:min(b.Len(), 1999)]
	}
}

// wordPattern makes patterns of such words.
func wordPattern(n, segments int) func(*rand.Rand, int) string {
	return func(r *rand.Rand, _ int) string {
		var b strings.Builder
		for range segments {
			b.WriteString("*" + words(n)(r))
		}
		return b.String() + "*c!"
	}
}

func letters(of string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		b := make([]byte, 1999)
		for i := range b {
			b[i] = of[r.IntN(len(of))]
		}
		return string(b)
	}
}

func BenchmarkWorst(b *testing.B) {
	for _, w := range worst {
		body, path := w.make()
		rules := robots.Parse(body).Agent("FooBot")
		b.Run(w.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.Test(path)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/op")
		})
	}
}
