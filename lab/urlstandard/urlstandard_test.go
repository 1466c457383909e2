package urlstandard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/internal/weblink"
)

// A platformTest is a row of urltestdata.json.
type platformTest struct {
	Input    string
	Base     *string
	Failure  bool
	Protocol string
	Host     string
	Pathname string
	Search   string
	Href     string
}

// platformTests returns the rows of the Web Platform Tests.
func platformTests(t *testing.T) []platformTest {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/nlnwa/whatwg-url").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "urltestdata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	var tests []platformTest
	for _, row := range rows {
		var test platformTest
		if row[0] != '{' { // a comment
			continue
		}
		if err := json.Unmarshal(row, &test); err != nil {
			t.Fatal(err)
		}
		tests = append(tests, test)
	}
	return tests
}

// read returns the URL that a crawl would ask for: that of ref, or that of ref on the page at base.
func read(base, ref string) (string, error) {
	if base == "" {
		return crawl.Normalize(ref)
	}
	page, err := weblink.ParseURL(nil, base)
	if err != nil {
		return "", err
	}
	u, err := weblink.ParseURL(&page, ref)
	if err != nil {
		return "", err
	}
	return crawl.Normalize(u.String())
}

// asked returns href as a crawl spells it: without userinfo, fragment and final dots, and with one
// spelling of its escapes.
func asked(t *testing.T, href string) string {
	t.Helper()
	text, err := crawl.Normalize(href)
	if err != nil && !isNobody(href) {
		t.Fatalf("the standard's own %q: %v", href, err)
	}
	return text
}

// isWeb reports whether an href is of http or https.
func isWeb(href string) bool {
	return strings.HasPrefix(href, "http://") || strings.HasPrefix(href, "https://")
}

// isNobody reports whether no crawl asks the host of an href: one with an empty label, or with
// characters that net/http sends to nobody.
func isNobody(href string) bool {
	u, err := whatwg.Parse(href)
	if err != nil {
		return false
	}
	name := u.Hostname()
	return name == "." || strings.Contains(name, "..") || strings.ContainsAny(name, "{}`")
}

// refusesASCII reports whether err of the oracle is about an ASCII character beside others in a
// name. The standard takes these (UTS 46 without UseSTD3ASCIIRules), and so do Chromium and Node.
func refusesASCII(err error) bool {
	text := fmt.Sprint(err)
	return strings.Contains(text, "disallowed rune U+00") && !isForbiddenASCII(text)
}

// isForbiddenASCII reports whether text names one of the forbidden domain code points.
func isForbiddenASCII(text string) bool {
	for _, c := range "\x00\t\n\r #/:<>?@[\\]^|%\x01\x7f" {
		if strings.Contains(text, fmt.Sprintf("U+%04X", c)) {
			return true
		}
	}
	return false
}

// TestWebPlatformTests: what browsers read as an http or https URL is read as that, and what they
// can't read isn't read.
func TestWebPlatformTests(t *testing.T) {
	rows := 0
	for _, test := range platformTests(t) {
		base := ""
		if test.Base != nil {
			base = *test.Base
		}
		if base != "" && !isWeb(base) {
			continue // no page of a crawl
		}
		rows++
		got, err := read(base, test.Input)
		switch {
		case test.Failure || !isWeb(test.Href):
			if err == nil {
				t.Errorf("%q on %q is %q; want an error (%s)", test.Input, base, got, test.Href)
			}
		case isNobody(test.Href):
		case err != nil:
			t.Errorf("%q on %q: %v; want %q", test.Input, base, err, test.Href)
		case got != asked(t, test.Href):
			t.Errorf("%q on %q is %q, want %q", test.Input, base, got, asked(t, test.Href))
		}
	}
	if rows < 300 {
		t.Errorf("%d rows; the data has more", rows)
	}
}

// TestGeneratedURLs: an implementation of the standard reads random references likewise.
func TestGeneratedURLs(t *testing.T) {
	pieces := []string{
		"http", "https", "HTTP", "ftp", ":", "/", "//", `\`, "///", "?", "#", "@", ".", "..", "%2e", "%2E%2e", "%", "%zz", "%41", "%00",
		"example.com", "EXAMPLE", "münchen.example", "my_shop", "xn--mnchen-3ya", "xn--", "[::1]", "[::", "127.1", "0x7f.1", "256", "1.2.3.4.5",
		"a", "b.html", "8:30", " ", "\t", "\n", "\x01", "\x7f", "é", "'", "\"", "<", ">", "|", "^", "{", "}", "`", ":80", ":443", ":8080", ":x", ":99999",
		"user:pass@", "&", "=", "+", ";", ",", "~", "\u3002", "\u200d", "ß", "ＡＢ",
	}
	bases := []string{"http://example.com/dir/page.html?q=1", "https://example.com/", "http://example.com:8080/a/b/c/", "https://[::1]/x"}
	seed := uint64(1)
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a repeatable test
	different := 0
	for range 200_000 {
		var b strings.Builder
		for range 1 + random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		ref := b.String()
		base := bases[random.IntN(len(bases))]
		got, err := read(base, ref)
		want, wantErr := whatwg.ParseRef(base, ref)
		problem := ""
		switch {
		case refusesASCII(wantErr), wantErr == nil && isNobody(want.Href(true)):
		case wantErr != nil || !isWeb(want.Href(true)):
			if err == nil {
				problem = fmt.Sprintf("is %q; want an error, %v", got, wantErr)
			}
		case err != nil:
			problem = fmt.Sprintf("%v; want %q", err, want.Href(true))
		case got != asked(t, want.Href(true)):
			problem = fmt.Sprintf("is %q, want %q", got, asked(t, want.Href(true)))
		}
		if problem == "" {
			continue
		}
		different++
		if different <= 20 {
			t.Errorf("%q on %q: %s", ref, base, problem)
		}
	}
	if different > 0 {
		t.Errorf("%d are different", different)
	}
}

// The two readings of five references, beside each other.
func BenchmarkReading(b *testing.B) {
	const base = "https://example.com/dir/page.html"
	refs := []string{"other.html", "/a/b/c?q=1#top", "https://www.example.com/some/path", "../up/index.html", "#top"}
	b.Run("weblink", func(b *testing.B) {
		page, err := weblink.ParseURL(nil, base)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			for _, ref := range refs {
				_, _ = weblink.ParseURL(&page, ref)
			}
		}
	})
	b.Run("whatwg-url", func(b *testing.B) {
		page, err := whatwg.Parse(base)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			for _, ref := range refs {
				_, _ = page.Parse(ref)
			}
		}
	})
}
