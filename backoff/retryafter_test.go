package backoff_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// now is ten seconds before the date of RFC 9110's examples.
var now = time.Date(1994, time.November, 6, 8, 49, 27, 0, time.UTC)

var retryAfters = []struct {
	name, value, date string
	want              time.Duration
	ok                bool
}{
	{"leap second", "Sun, 06 Nov 1994 08:49:60 GMT", "", 33 * time.Second, true},
	{"leap second, RFC 850", "Sunday, 06-Nov-94 08:49:60 GMT", "", 33 * time.Second, true},
	{"leap second, asctime", "Sun Nov  6 08:49:60 1994", "", 33 * time.Second, true},
	{"leap second at the end of a year", "Sat, 31 Dec 1994 23:59:60 GMT", "Sat, 31 Dec 1994 23:59:59 GMT", time.Second, true},
	{"leap second of the host's clock", "Sun, 01 Jan 1995 00:00:10 GMT", "Sat, 31 Dec 1994 23:59:60 GMT", 10 * time.Second, true},
	{"second 61", "Sun, 06 Nov 1994 08:49:61 GMT", "", 0, false},
	{"minute 60", "Sun, 06 Nov 1994 08:60:60 GMT", "", 0, false},
	{"hour 60", "Sun, 06 Nov 1994 60:49:37 GMT", "", 0, false},
	{"leap second of no such day", "Sun, 31 Feb 1994 08:49:60 GMT", "", 0, false},
	{"leap second, another zone", "Sun, 06 Nov 1994 08:49:60 EST", "", 0, false},
	{"seconds", "120", "", 120 * time.Second, true},
	{"zero", "0", "", 0, true},
	{"leading zeros", "0007", "", 7 * time.Second, true},
	{"white space", " \t30 ", "", 30 * time.Second, true},
	{"seconds don't mind the date", "30", "Sun, 06 Nov 1994 08:00:00 GMT", 30 * time.Second, true},
	{"largest that fits", "9223372036", "", 9223372036 * time.Second, true},
	{"smallest that doesn't", "9223372037", "", most, true},
	{"2^63", "9223372036854775808", "", most, true},
	{"2^64+1", "18446744073709551617", "", most, true},
	{"2^70", "1180591620717411303424", "", most, true},
	{"a megabyte of digits", strings.Repeat("9", 1<<20), "", most, true},

	{"IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", "", 10 * time.Second, true},
	{"RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT", "", 10 * time.Second, true},
	{"asctime", "Sun Nov  6 08:49:37 1994", "", 10 * time.Second, true},
	{"skew out, host ahead", "Sun, 06 Nov 1994 10:00:30 GMT", "Sun, 06 Nov 1994 10:00:00 GMT", 30 * time.Second, true},
	{"skew out, host behind", "Sun, 06 Nov 1994 07:00:30 GMT", "Sun, 06 Nov 1994 07:00:00 GMT", 30 * time.Second, true},
	{"skew out, mixed forms", "Sunday, 06-Nov-94 07:00:30 GMT", "Sun Nov  6 07:00:00 1994", 30 * time.Second, true},
	{"date not to be read", "Sun, 06 Nov 1994 08:49:37 GMT", "yesterday", 10 * time.Second, true},
	{"past", "Sun, 06 Nov 1994 08:49:17 GMT", "", 0, true},
	{"past of the host's clock", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT", 0, true},
	{"far past", "Thu, 01 Jan 0001 00:00:00 GMT", "", 0, true},
	{"far future", "Fri, 31 Dec 9999 23:59:59 GMT", "", most, true},
	{"RFC 850, 49 years ahead", "Monday, 01-Jan-44 00:00:00 GMT", "", time.Date(2044, 1, 1, 0, 0, 0, 0, time.UTC).Sub(now), true},
	{"RFC 850, 51 years ahead is past", "Monday, 01-Jan-46 00:00:00 GMT", "", 0, true},

	{"empty", "", "", 0, false},
	{"blank", " ", "", 0, false},
	{"negative", "-1", "", 0, false},
	{"signed", "+1", "", 0, false},
	{"fraction", "1.5", "", 0, false},
	{"exponent", "1e3", "", 0, false},
	{"hexadecimal", "0x10", "", 0, false},
	{"unit", "10s", "", 0, false},
	{"list", "10, 20", "", 0, false},
	{"digits of another script", "\u0661\u0662", "", 0, false},
	{"word", "soon", "", 0, false},
	{"RFC 3339", "1994-11-06T08:49:37Z", "", 0, false},
	{"another zone", "Sun, 06 Nov 1994 08:49:37 EST", "", 0, false},
	{"RFC 850, another zone", "Sunday, 06-Nov-94 08:49:37 EST", "", 0, false},
	{"no such day", "Sun, 31 Feb 1994 08:49:37 GMT", "", 0, false},
	{"NUL", "10\x00", "", 0, false},
}

func TestRetryAfter(t *testing.T) {
	for _, c := range retryAfters {
		if d, ok := backoff.RetryAfter(c.value, c.date, now); d != c.want || ok != c.ok {
			t.Errorf("%s: %v %v, want %v %v", c.name, d, ok, c.want, c.ok)
		}
	}
}

func TestRetryAfterReadsTwoDigitYearsInTheirCentury(t *testing.T) {
	for year, want := range map[int]time.Duration{1999: 24 * time.Hour, 2026: 24 * time.Hour, 2068: 24 * time.Hour, 2069: 24 * time.Hour, 2170: 24 * time.Hour} {
		now := time.Date(year, 3, 1, 12, 0, 0, 0, time.UTC)
		value := now.Add(want).Format("Monday, 02-Jan-06 15:04:05 GMT")
		if d, ok := backoff.RetryAfter(value, "", now); d != want || !ok {
			t.Errorf("%s in %d: %v %v, want %v", value, year, d, ok, want)
		}
	}
}

// The year 2000 has a 29th of February, which 2100 hasn't.
func TestRetryAfterReadsALeapDayOfAFullCentury(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const value, date = "Tuesday, 29-Feb-00 00:00:10 GMT", "Tue, 29 Feb 2000 00:00:00 GMT"
	if d, ok := backoff.RetryAfter(value, date, now); d != 10*time.Second || !ok {
		t.Errorf("%v, %v, want 10s by the host's own clock", d, ok)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, c := range retryAfters {
		if len(c.value) < 100 {
			f.Add(c.value, c.date, now.Unix())
		}
	}
	f.Fuzz(func(t *testing.T, value, date string, unix int64) {
		d, ok := backoff.RetryAfter(value, date, time.Unix(unix%(1<<36), 0))
		if d < 0 || !ok && d != 0 {
			t.Errorf("%v %v", d, ok)
		}
		digits := strings.Trim(value, " \t")
		if all := digits != "" && strings.Trim(digits, "0123456789") == ""; all && (!ok || d%time.Second != 0 && d != most) {
			t.Errorf("%q: %v %v", value, d, ok)
		}
	})
}
