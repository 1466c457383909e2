package caching

import (
	"net/http"
	"testing"
	"time"
)

// headers makes a header of pairs of names and values.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestLifetime(t *testing.T) {
	const (
		unknown = -1
		date    = "Sun, 06 Nov 1994 08:49:37 GMT"
		later   = "Sun, 06 Nov 1994 09:49:37 GMT"
	)
	tests := []struct {
		about  string
		header http.Header
		want   time.Duration
	}{
		{"nothing", headers(), unknown},
		{"max-age", headers("Cache-Control", "max-age=3600"), time.Hour},
		{"Age is taken off", headers("Cache-Control", "max-age=3600", "Age", "600"), 50 * time.Minute},
		{"of a list of ages the first", headers("Cache-Control", "max-age=3600", "Age", "600, 0"), 50 * time.Minute},
		{"older than its life", headers("Cache-Control", "max-age=60", "Age", "600"), 0},
		{"Age abc", headers("Cache-Control", "max-age=3600", "Age", "abc"), time.Hour},
		{"Age -5", headers("Cache-Control", "max-age=3600", "Age", "-5"), time.Hour},
		{"Age 7.0", headers("Cache-Control", "max-age=3600", "Age", "7.0"), time.Hour},
		{"max-age=0", headers("Cache-Control", "max-age=0"), 0},
		{"no-cache", headers("Cache-Control", "no-cache"), 0},
		{"no-store", headers("Cache-Control", "private, no-store"), 0},
		{"no-cache beside max-age", headers("Cache-Control", "no-cache, max-age=3600"), 0},
		{"no-cache of one field", headers("Cache-Control", `no-cache="Set-Cookie", max-age=3600`), time.Hour},
		{"s-maxage alone", headers("Cache-Control", "s-maxage=3600"), unknown},
		{"s-maxage beside max-age", headers("Cache-Control", "s-maxage=3600, max-age=60"), time.Minute},
		{"Expires", headers("Expires", later, "Date", date), time.Hour},
		{"Expires less Age", headers("Expires", later, "Date", date, "Age", "600"), 50 * time.Minute},
		{"Expires 0", headers("Expires", "0", "Date", date), 0},
		{"Expires -1", headers("Expires", "-1", "Date", date), 0},
		{"Expires empty", headers("Expires", "", "Date", date), 0},
		{"two digits in RFC 1123", headers("Expires", "Sun, 06 Nov 94 09:49:37 GMT", "Date", date), 0},
		{"RFC 850", headers("Expires", "Sunday, 06-Nov-94 09:49:37 GMT", "Date", date), time.Hour},
		{"asctime", headers("Expires", "Sun Nov  6 09:49:37 1994", "Date", date), time.Hour},
		{"Date as RFC 850", headers("Expires", later, "Date", "Sunday, 06-Nov-94 08:49:37 GMT"), time.Hour},
		{"two spaces", headers("Expires", "Sun, 06  Nov 1994 09:49:37 GMT", "Date", date), 0},
		{"an hour of one digit", headers("Expires", "Sun, 06 Nov 1994 9:49:37 GMT", "Date", date), 0},
		{"an hour of one digit in RFC 850", headers("Expires", "Sunday, 06-Nov-94 9:49:37 GMT", "Date", date), 0},
		{"two spaces in asctime", headers("Expires", "Sun  Nov  6 09:49:37 1994", "Date", date), 0},
		{"another zone", headers("Expires", "Sun, 06 Nov 1994 09:49:37 CET", "Date", date), 0},
		{"Expires before Date", headers("Expires", date, "Date", later), 0},
		{"two Expires", headers("Expires", later, "Expires", "Mon, 07 Nov 1994 09:49:37 GMT", "Date", date), 0},
		{"Expires without Date, long ago", headers("Expires", later), 0},
		{"max-age wins over Expires", headers("Cache-Control", "max-age=60", "Expires", later, "Date", date), time.Minute},
		{"max-age wins over Expires 0", headers("Cache-Control", "max-age=60", "Expires", "0"), time.Minute},
		{"a malformed max-age leaves Expires", headers("Cache-Control", "max-age=x", "Expires", later, "Date", date), time.Hour},
		{"very long", headers("Cache-Control", "max-age=99999999999"), longest * time.Second},
		{"longer than 64 bits", headers("Cache-Control", "max-age=99999999999999999999999"), longest * time.Second},
		{"a very old answer", headers("Cache-Control", "max-age=60", "Age", "99999999999999999999999"), 0},
		{"quoted", headers("Cache-Control", `max-age="3600"`), time.Hour},
		{"upper case", headers("Cache-Control", "MAX-AGE=3600"), time.Hour},
		{"a fraction", headers("Cache-Control", "max-age=3600.5"), unknown},
		{"negative", headers("Cache-Control", "max-age=-3600"), unknown},
		{"with a plus", headers("Cache-Control", "max-age=+3600"), unknown},
		{"empty", headers("Cache-Control", "max-age="), unknown},
		{"of two the shorter", headers("Cache-Control", "max-age=3600, max-age=60"), time.Minute},
		{"of two lines the shorter", headers("Cache-Control", "max-age=60", "Cache-Control", "max-age=3600"), time.Minute},
		{"in another name", headers("Cache-Control", "x-max-age=60"), unknown},
		{"in a string", headers("Cache-Control", `ext="a, max-age=60", max-age=3600`), time.Hour},
		{"behind an escaped quote", headers("Cache-Control", `ext="a\", max-age=60", max-age=3600`), time.Hour},
	}
	for _, tt := range tests {
		got, ok := Lifetime(tt.header)
		want := max(tt.want, 0)
		if got != want || ok != (tt.want != unknown) {
			t.Errorf("%s: Lifetime is %v, %v; want %v", tt.about, got, ok, tt.want)
		}
	}
}

// TestAllocs: a log asks for each answer, so it must cost nothing.
func TestAllocs(t *testing.T) {
	for _, h := range []http.Header{
		headers("Cache-Control", `public, MAX-AGE="3600", no-cache="Set-Cookie"`, "Age", "600"),
		headers("Cache-Control", "max-age=9999999999999999999999"),
		headers("Expires", "Sun, 06 Nov 1994 09:49:37 GMT", "Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
		headers("Expires", "Sunday, 06-Nov-94 09:49:37 GMT", "Date", "Sun Nov  6 09:49:37 1994"),
		headers("Expires", "0"),
		headers("Expires", "-1", "Cache-Control", "must-revalidate, post-check=0, pre-check=0"),
	} {
		if n := testing.AllocsPerRun(100, func() { _, _ = Lifetime(h) }); n != 0 {
			t.Errorf("Lifetime(%v) allocates %v times", h, n)
		}
	}
}

func FuzzLifetime(f *testing.F) {
	for _, s := range []string{"max-age=7200", `a="b,c\"", max-age=1`, `"\`, "no-cache=,no-store", "max-age=18446744073709551616"} {
		f.Add(s, "17", "Sun, 06 Nov 1994 09:49:37 GMT", "Sunday, 06-Nov-94 09:49:37 GMT")
	}
	f.Fuzz(func(t *testing.T, control, age, expires, date string) {
		h := headers("Cache-Control", control, "Age", age, "Expires", expires, "Date", date)
		d, ok := Lifetime(h)
		if !ok || d < 0 || d > longest*time.Second {
			t.Fatalf("Lifetime(%q) = %v, %v", h, d, ok)
		}
		// Another line can only shorten it.
		h.Add("Cache-Control", "no-store")
		if d, ok := Lifetime(h); !ok || d != 0 {
			t.Fatalf("with no-store, Lifetime(%q) = %v, %v", h, d, ok)
		}
	})
}
