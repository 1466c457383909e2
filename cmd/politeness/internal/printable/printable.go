// Package printable escapes texts that a server may have chosen, so that they are safe on a
// terminal or a page. The library has the same code in an internal package, which no other module
// can import.
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

// Span returns a duration for people, as on the pages: "500 ms", "2 min 5 s".
func Span(d time.Duration) string {
	d = Duration(d)
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d < time.Hour:
		return units(d, time.Minute, "min", time.Second, "s")
	}
	// The smaller unit is rounded before the larger one is split off: there is no "1 h 60 min".
	return units(d.Round(time.Minute), time.Hour, "h", time.Minute, "min")
}

// units returns d in two units. The smaller one is left out if it is 0.
func units(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}
