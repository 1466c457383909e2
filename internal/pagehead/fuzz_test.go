package pagehead

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

// FuzzHead: a page says the same of itself, in whatever pieces its body comes, and whatever its
// coding is said to be.
func FuzzHead(f *testing.F) {
	f.Add("text/html", "", "noindex", "<meta name=robots content=nofollow><meta name=tdm-reservation content=1></head>", 7)
	f.Add("application/xhtml+xml", "gzip", "", "\x1f\x8b\x08\x00", 1)
	f.Add("text/html; charset=utf-16le", "br, gzip", "otherbot: none", "<\x00m\x00e\x00t\x00a\x00", 3)
	f.Fuzz(func(t *testing.T, kind, coding, tag, body string, cut int) {
		header := http.Header{"Content-Type": {kind}, "X-Robots-Tag": {tag}}
		if coding != "" {
			header["Content-Encoding"] = []string{coding}
		}
		whole := new(Head)
		whole.Begin(header, "ExampleBot", robots.Preferences{})
		whole.Write([]byte(body))
		pieces := new(Head)
		pieces.Begin(header, "ExampleBot", robots.Preferences{})
		for rest := body; rest != ""; {
			n := min(max(cut, 1), len(rest))
			pieces.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got, want := pieces.Directives(), whole.Directives(); !reflect.DeepEqual(got, want) {
			t.Errorf("in pieces %+v, whole %+v", got, want)
		}
		if got, want := pieces.Preferences(), whole.Preferences(); !reflect.DeepEqual(got, want) {
			t.Errorf("in pieces %+v, whole %+v", got, want)
		}
	})
}
