package weblink_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/weblink"
)

// TestParse: links as RFC 8288 writes them, and as servers do.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		lines []string
		want  string
	}{
		{[]string{`<https://a/b>; rel="canonical"`}, "https://a/b [canonical]"},
		{[]string{`<https://a/b>;rel=canonical`}, "https://a/b [canonical]"},
		{[]string{"\t< /b > ;\trel = \"NEXT  Canonical\" ; title=x"}, "/b [next canonical]"},
		{[]string{`</a>; rel=prev, </b>; rel=next`, `</c>; rel=last`}, "/a [prev] | /b [next] | /c [last]"},
		{[]string{`, ,</a>; rel=prev,, </b>; rel=next,`}, "/a [prev] | /b [next]"},
		{[]string{`</a,b;c>; title="a, b; c \" <d>"; rel=next, </e>; rel=up`}, "/a,b;c [next] | /e [up]"},
		{[]string{`</a>; rel=next; rel=canonical`}, "/a [next]"}, // the first counts
		{[]string{`</a>; rel=next; anchor="#chapter"`}, ""},      // of another context
		{[]string{`</a>; rel=next; anchor=""`}, "/a [next]"},
		{[]string{`</l>; rel="license"; type="application/RSL+xml; charset=utf-8"`}, "/l [license] application/rsl+xml"},
		{[]string{`</l>; rel="license-history"; type="application/rsl+xml"`}, "/l [license-history] application/rsl+xml"},
		{[]string{`</a>`, `</b>; crossorigin; rel=preload`}, "/a [] | /b [preload]"},
		{[]string{`<>; rel=canonical`}, " [canonical]"}, // the page itself
		{[]string{`/a; rel=next`, `<`, `<a`, `</a> rel=next, </b>`, `</c>; rel="next`}, "/a [] | /c [next]"},
		{nil, ""},
	} {
		var got []string
		for _, l := range weblink.Parse(tt.lines) {
			got = append(got, strings.TrimRight(fmt.Sprint(l.Target, " ", l.Rel, " ", l.Type), " "))
		}
		if text := strings.Join(got, " | "); text != tt.want {
			t.Errorf("%q: %q, want %q", tt.lines, text, tt.want)
		}
	}
}

// FuzzParse: no line costs more than its length, or a panic, and each target was in it.
func FuzzParse(f *testing.F) {
	f.Add(`</a>; rel=next; title="a, \" <b>", </c>`)
	f.Fuzz(func(t *testing.T, line string) {
		for _, l := range weblink.Parse([]string{line}) {
			if !strings.Contains(line, l.Target) {
				t.Errorf("%q: %q", line, l.Target)
			}
		}
	})
}
