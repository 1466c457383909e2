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
	{"seconds", "120", "", 120 * time.Second, true},
	{"zero", "0", "", 0, true},
	{"leading zeros", "0007", "", 7 * time.Second, true},
	{"white space", " \t30 ", "", 30 * time.Second, true},
	{"seconds don't mind the date", "30", "Sun, 06 Nov 1994 08:00:00 GMT", 30 * time.Second, true},
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

	{"a count below those of Unix times", "999999999", "", 999999999 * time.Second, true},
	{"Unix time", "784111777", "", 784111777 * time.Second, true}, // of 1994, and a count all the same
	{"fraction", "1.5", "", 2 * time.Second, true},
	{"fraction of nothing", "7.0", "", 7 * time.Second, true},
	{"long fraction", "292.052427053", "", 293 * time.Second, true},
	{"fraction that begins with its point", ".5", "", time.Second, true},
	{"unit", "10s", "", 10 * time.Second, true},
	{"unit as a word", "10 Seconds", "", 10 * time.Second, true},
	{"minutes", "5 mins", "", 5 * time.Minute, true},
	{"milliseconds", "580ms", "", time.Second, true},
	{"several units", "1h30m", "", 90 * time.Minute, true},
	{"several words", "1 hour 30 minutes", "", 90 * time.Minute, true},
	{"ISO 8601 duration", "PT1M30S", "", 90 * time.Second, true},
	{"hours, minutes and seconds", "00:01:30.5", "", 91 * time.Second, true},
	{"a long one of these", "30:00:00", "", 30 * time.Hour, true},
	{"minutes and seconds", "01:30", "", 0, false},
	{"a part that is no number", "00:x:30", "", 0, false},
	{"unit of no time", "10 kg", "", 0, false},
	{"list", "10, 20", "", 20 * time.Second, true},
	{"list with a word", "soon, 20", "", 20 * time.Second, true},
	{"list of dates", "Sun, 06 Nov 1994 08:49:47 GMT, Sun, 06 Nov 1994 08:49:37 GMT", "", 20 * time.Second, true},
	{"quotes", `"30"`, "", 30 * time.Second, true},
	{"parameter", "30;comment=busy", "", 30 * time.Second, true},
	{"comment", "120 (maintenance)", "", 2 * time.Minute, true},

	{"RFC 3339", "1994-11-06T08:49:37Z", "", 10 * time.Second, true},
	{"RFC 3339 with a fraction", "1994-11-06T08:49:37.123Z", "", 10123 * time.Millisecond, true},
	{"RFC 3339 with an offset", "1994-11-06T09:49:37+01:00", "", 10 * time.Second, true},
	{"ISO 8601 without a zone", "1994-11-06 08:49:37", "", 10 * time.Second, true},
	{"ISO 8601 with a word for a zone", "1994-11-06 08:49:37 UTC", "", 10 * time.Second, true},
	{"ISO 8601, basic", "19941106T084937Z", "", 10 * time.Second, true},
	{"UTC", "Sun, 06 Nov 1994 08:49:37 UTC", "", 10 * time.Second, true},
	{"offset", "Sun, 06 Nov 1994 08:49:37 +0000", "", 10 * time.Second, true},
	{"offset ahead", "Sun, 06 Nov 1994 09:49:37 +0100", "", 10 * time.Second, true},
	{"offset behind", "Sun, 06 Nov 1994 03:49:37 -0500", "", 10 * time.Second, true},
	{"no zone", "Sun, 06 Nov 1994 08:49:37", "", 10 * time.Second, true},
	{"no weekday", "06 Nov 1994 08:49:37 GMT", "", 10 * time.Second, true},
	{"a day of one digit", "Sun, 6 Nov 1994 08:49:37 GMT", "", 10 * time.Second, true},
	{"another case", "sun, 06 nov 1994 08:49:37 gmt", "", 10 * time.Second, true},
	{"year of two digits without hyphens", "Sun, 06 Nov 94 08:49:37 GMT", "", 10 * time.Second, true},
	{"hyphens and four digits", "Sun, 06-Nov-1994 08:49:37 GMT", "", 10 * time.Second, true},
	{"JavaScript", "Sun Nov 06 1994 08:49:37 GMT+0000 (Coordinated Universal Time)", "", 10 * time.Second, true},
	{"the command date", "Sun Nov  6 08:49:37 UTC 1994", "", 10 * time.Second, true},
	{"twelve hours", "Sun, 06 Nov 1994 12:49:37 AM", "Sun, 06 Nov 1994 00:49:27 GMT", 10 * time.Second, true},
	{"another zone", "Sun, 06 Nov 1994 03:49:37 EST", "", 10 * time.Second, true},
	{"RFC 850, another zone", "Sunday, 06-Nov-94 03:49:37 EST", "", 10 * time.Second, true},
	{"a zone that isn't known", "Sun, 06 Nov 1994 08:49:37 XYZ", "", 10 * time.Second, true},
	{"a zone that isn't one", "Sun, 06 Nov 1994 08:49:37 @4", "", 0, false},
	{"a year of three digits", "Sun, 06 Nov 994 08:49:37 GMT", "", 0, false},
	{"no time of day", "Sun, 06 Nov 1994", "", 0, false},
	{"two times of day", "Sun, 06 Nov 1994 08:49:37 08:49:38", "", 0, false},
	{"too long", "Sun, 06 Nov 1994 08:49:37 " + strings.Repeat("x", 1<<20), "", 0, false},

	{"empty", "", "", 0, false},
	{"blank", " ", "", 0, false},
	{"negative", "-1", "", 0, false},
	{"signed", "+1", "", 0, false},
	{"exponent", "1e3", "", 0, false},
	{"hexadecimal", "0x10", "", 0, false},
	{"digits of another script", "\u0661\u0662", "", 0, false},
	{"word", "soon", "", 0, false},
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

// A number from 1e9 on is a Unix time, one from 1e12 on is in milliseconds.
func TestRetryAfterReadsUnixTimes(t *testing.T) {
	now := time.Date(2026, time.November, 28, 9, 18, 27, 500e6, time.UTC)
	for value, want := range map[string]time.Duration{
		"1795857537":                   30 * time.Second,
		"1795857537.910254":            31 * time.Second,
		"1795857537000":                30 * time.Second,
		"1795857500":                   0, // it has passed
		"1000000000":                   0,
		"999999999":                    999999999 * time.Second,
		"1000000000000000":             most,
		"9223372036854775807":          most,
		strings.Repeat("9", 400):       most,
		"0." + strings.Repeat("9", 80): time.Second,
	} {
		d, ok := backoff.RetryAfter(value, "Sat, 28 Nov 2026 09:18:27 GMT", now)
		if !ok || d != want {
			t.Errorf("%s: %v, %v; want %v", value, d, ok, want)
		}
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
