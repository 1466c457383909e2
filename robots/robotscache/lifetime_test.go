package robotscache

import (
	"net/http"
	"testing"
	"time"
)

func TestLifetime(t *testing.T) {
	tests := []struct {
		control []string
		age     string
		want    time.Duration // 0: the server doesn't say
	}{
		{nil, "", 0},
		{[]string{""}, "", 0},
		{[]string{"public"}, "", 0},
		{[]string{"max-age=7200"}, "", 2 * time.Hour},
		{[]string{"public, Max-Age=7200, must-revalidate"}, "", 2 * time.Hour},
		{[]string{`max-age="7200"`}, "", 2 * time.Hour},
		{[]string{"max-age = 7200"}, "", 2 * time.Hour},
		{[]string{"max-age=60"}, "", 5 * time.Minute},
		{[]string{"max-age=0"}, "", 5 * time.Minute},
		{[]string{"max-age=604800"}, "", 24 * time.Hour},
		{[]string{"max-age=99999999999999999999"}, "", 24 * time.Hour},
		{[]string{"max-age=9223372036854775807"}, "", 24 * time.Hour},
		{[]string{"max-age=-1"}, "", 0},
		{[]string{"max-age=1.5"}, "", 0},
		{[]string{"max-age="}, "", 0},
		{[]string{"max-age"}, "", 0},
		{[]string{"s-maxage=7200"}, "", 0},
		{[]string{"x-max-age=7200"}, "", 0},
		{[]string{`ext="a, max-age=60", max-age=7200`}, "", 2 * time.Hour},
		{[]string{`ext="a\", max-age=60", max-age=7200`}, "", 2 * time.Hour},
		{[]string{`ext="never closed, max-age=7200`}, "", 0},
		{[]string{"no-cache"}, "", 5 * time.Minute},
		{[]string{`no-cache="Set-Cookie", max-age=7200`}, "", 2 * time.Hour},
		{[]string{"max-age=7200, no-store"}, "", 5 * time.Minute},
		{[]string{"max-age=7200, max-age=3600"}, "", time.Hour},
		{[]string{"max-age=7200", "max-age=3600"}, "", time.Hour},
		{[]string{"max-age=7200"}, "3600", time.Hour},
		{[]string{"max-age=7200"}, "99999999999999999999", 5 * time.Minute},
		{[]string{"max-age=7200"}, "soon", 2 * time.Hour},
		{nil, "3600", 0},
	}
	for _, tt := range tests {
		h := http.Header{"Cache-Control": tt.control}
		if tt.age != "" {
			h.Set("Age", tt.age)
		}
		got, ok := lifetime(h)
		if got != tt.want || ok != (tt.want != 0) {
			t.Errorf("lifetime(%q, Age %q) = %v, %v; want %v", tt.control, tt.age, got, ok, tt.want)
		}
	}
}

func FuzzCacheControl(f *testing.F) {
	for _, s := range []string{"max-age=7200", `a="b,c\"", max-age=1`, `"\`, "no-cache=,no-store", "max-age=18446744073709551616"} {
		f.Add(s, "17")
	}
	f.Fuzz(func(t *testing.T, control, age string) {
		h := http.Header{"Cache-Control": {control}, "Age": {age}}
		d, ok := lifetime(h)
		if ok && (d < minTTL || d > maxTTL) || !ok && d != 0 {
			t.Fatalf("lifetime(%q, %q) = %v, %v", control, age, d, ok)
		}
		// Another line can only shorten it.
		h.Add("Cache-Control", "no-store")
		if d, ok := lifetime(h); !ok || d != minTTL {
			t.Fatalf("with no-store, lifetime(%q) = %v, %v", control, d, ok)
		}
	})
}
