package printable

import (
	"testing"

	library "github.com/go-politeness/politeness/internal/printable"
)

// TestAsTheLibraryDoes: a text reads the same in an error of the library and in our output.
func TestAsTheLibraryDoes(t *testing.T) {
	for _, s := range []string{
		"", "plain 'text' \"quoted\" a\\b", "größe 漢字 🤖", "a\x00b\nc\td\x7f", "\x1b]0;owned\x07\x1b[2J", "\u009b31m",
		"gpj.\u202eexe\u2066\u200b", "half \xff\xc3", "no\u00a0break\ufeff", "é\x1b\x1béé",
	} {
		if got, want := Text(s), library.Text(s); got != want {
			t.Errorf("Text(%q) = %s, want %s", s, got, want)
		}
		for n := range 12 {
			if got, want := Clipped(s, n), library.Clipped(s, n); got != want {
				t.Errorf("Clipped(%q, %d) = %s, want %s", s, n, got, want)
			}
		}
	}
}
