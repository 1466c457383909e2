// Package printable makes texts that servers have had a hand in fit to be shown on a terminal or a
// page. The library has the same in an internal package, on which no other module may rely.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Text returns s with everything escaped, as %q escapes it, that doesn't simply show: control
// characters and with them escape sequences, overrides of the writing direction, characters without
// a width, and bytes that aren't UTF-8.
func Text(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteString(s[:size])
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// Clipped returns the beginning of [Text] of s, of at most n bytes, and "..." if something was left
// out.
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

// Duration rounds d to three digits, or to seconds from a minute on.
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
