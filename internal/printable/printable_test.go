package printable_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"plain 'text' \"quoted\" a\\b": "plain 'text' \"quoted\" a\\b",
		"größe 漢字 🤖":                   "größe 漢字 🤖",
		"a\x00b\nc\td\x7f":             `a\x00b\nc\td\x7f`,
		"\x1b]0;owned\x07\x1b[2J":      `\x1b]0;owned\a\x1b[2J`,
		"\u009b31m":                    `\u009b31m`,
		"gpj.\u202eexe\u2066\u200b":    `gpj.\u202eexe\u2066\u200b`,
		"half \xff\xc3":                `half \xff\xc3`,
		"no\u00a0break\ufeff":          `no\u00a0break\ufeff`,
	} {
		if got := printable.Text(in); got != want {
			t.Errorf("Text(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestClipped(t *testing.T) {
	for _, c := range []struct {
		in, want string
		n        int
	}{
		{"short", "short", 5},
		{"longer", "longe...", 5},
		{"\x1b\x1b", `\x1b\x...`, 6},
		{"ééé", "éé...", 5},
	} {
		if got := printable.Clipped(c.in, c.n); got != c.want {
			t.Errorf("Clipped(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

// FuzzText: what comes out can be printed, says the same, and stays as it is.
func FuzzText(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[2J\u202e\xff", `"\\`, "漢\u2028"} {
		f.Add(s, 5)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		text := printable.Text(s)
		if i := strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 {
			t.Errorf("Text(%q) = %q", s, text)
		}
		if again := printable.Text(text); again != text {
			t.Errorf("Text(%q) = %q", text, again)
		}
		n = max(n%1000, 0)
		if clipped := printable.Clipped(s, n); len(clipped) > n+len("...") || printable.Text(clipped) != clipped {
			t.Errorf("Clipped(%q, %d) = %q", s, n, clipped)
		}
	})
}

func TestDuration(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0:                                "0s",
		999:                              "999ns",
		810881:                           "811µs",
		999500:                           "1ms",
		1234567:                          "1.23ms",
		12345678:                         "12.3ms",
		123456789:                        "123ms",
		1234 * time.Millisecond:          "1.23s",
		12345 * time.Millisecond:         "12.3s",
		59951 * time.Millisecond:         "1m0s",
		83*time.Second + time.Nanosecond: "1m23s",
		-810881:                          "-811µs",
		-48*time.Hour - 1:                "-48h0m0s",
	} {
		if got := printable.Duration(in).String(); got != want {
			t.Errorf("%d: %s, want %s", in, got, want)
		}
	}
}
