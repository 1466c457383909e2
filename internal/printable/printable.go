// Package printable makes texts that servers have had a hand in fit to be shown: in errors, on
// terminals, in reports.
package printable

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// Text returns s with everything escaped, as %q escapes it, that doesn't simply show: control
// characters and with them escape sequences, overrides of the writing direction, what has no
// width, and bytes that aren't UTF-8. A text without any is returned as it is.
func Text(s string) string {
	plain := 0
	for plain < len(s) && ' ' <= s[plain] && s[plain] < 0x7f {
		plain++
	}
	if plain == len(s) {
		return s
	}
	b := append(make([]byte, 0, len(s)+16), s[:plain]...)
	for i := plain; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, `\x`...)
			b = append(b, "0123456789abcdef"[s[i]>>4], "0123456789abcdef"[s[i]&15])
		case strconv.IsPrint(r):
			b = append(b, s[i:i+size]...)
		default:
			quoted := strconv.QuoteRune(r)
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		i += size
	}
	return string(b)
}

// Clipped returns the beginning of [Text] of s, of at most n bytes, and "..." where something was
// left out.
func Clipped(s string, n int) string {
	head := clip(s, n)
	text := Text(head)
	kept := clip(text, n)
	if len(head) < len(s) || len(kept) < len(text) {
		return kept + "..."
	}
	return kept
}

// clip returns as many whole characters of s as n bytes hold.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Duration rounds d to what a person reads: to three digits, or to seconds from a minute on.
func Duration(d time.Duration) time.Duration {
	if d.Abs() >= time.Minute {
		return d.Round(time.Second)
	}
	unit := time.Nanosecond
	for d.Abs() >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}
