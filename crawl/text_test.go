package crawl

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/weblink"

	"github.com/go-politeness/politeness/robots"
)

// digestOf returns the digest of a page of HTML.
func digestOf(page string) digest {
	h := htmlReader{metas: robots.NewMetaScanner(), most: 10}
	h.read(strings.NewReader(page), weblink.HTML)
	return h.digest
}

const challenge = `<!doctype html><title>Just a moment...</title><script>var id = "8f3a";</script>
<p>Checking your browser before you proceed to the site of the shop.</p> <p>Ray ID: <b>8f3a2bcd17</b>, 12:00:05</p>`

// TestDigest: pages are alike by their words, whatever ids, numbers and white space they carry.
func TestDigest(t *testing.T) {
	one := digestOf(challenge)
	for page, alike := range map[string]bool{
		strings.ReplaceAll(challenge, "8f3a", "77c0"):                         true,
		strings.ReplaceAll(challenge, "12:00:05", "9:15"):                     true,
		strings.ReplaceAll(challenge, " ", "\n\t "):                           true,
		strings.ReplaceAll(challenge, "<p>", "<!-- x --><p class=y>"):         true,
		strings.ReplaceAll(challenge, "var id", "let other"):                  true,
		challenge + "<template>more</template><noscript>and more</noscript>":  true,
		strings.ReplaceAll(challenge, "browser", "visit"):                     false,
		strings.ReplaceAll(challenge, "<p>Ray", "<p>more words</p><p>Ray"):    false,
		strings.ReplaceAll(challenge, "Just a moment...", "A page of a shop"): false,
		"": false,
	} {
		if got := digestOf(page).words == one.words; got != alike {
			t.Errorf("alike %t, want %t:\n%s", got, alike, page)
		}
	}
}

// TestDigestLines: a line is the text of a block, with each row of digits as one.
func TestDigestLines(t *testing.T) {
	lines := func(page string) []uint32 { return digestOf(page).lines }
	want := lines("<p>one two</p><p>page 1</p>")
	for _, page := range []string{
		"<div>one\n <b>two</b></div>page 17", "one two<br>page 2", "<ul><li>one <a href=x>two</a><li>page&#32;300</ul>", "<table><tr><td>one two<td>page 1</table>",
	} {
		if got := lines(page); !slices.Equal(got, want) {
			t.Errorf("%s: %x, want %x", page, got, want)
		}
	}
	if got := lines("<p>one<p>two page 1"); slices.Equal(got, want) || len(got) != 2 {
		t.Errorf("other lines are the same: %x", got)
	}
	if got := lines(strings.Repeat("<p>", 1000)); len(got) != 0 {
		t.Errorf("%d lines without text", len(got))
	}
}

// FuzzDigest: a text is summed up alike, however it comes in pieces between its words.
func FuzzDigest(f *testing.F) {
	f.Add("Ray ID: 8f3a2bcd17 é\x00", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		var whole, pieces digest
		whole.write([]byte(text))
		whole.endLine()
		at = max(0, min(at, len(text)))
		at = strings.LastIndexAny(text[:at], " \n") + 1
		pieces.write([]byte(text[:at]))
		pieces.write([]byte(text[at:]))
		pieces.endLine()
		if whole.words != pieces.words || !slices.Equal(whole.lines, pieces.lines) {
			t.Fatalf("%+v, in pieces %+v", whole, pieces)
		}
	})
}
