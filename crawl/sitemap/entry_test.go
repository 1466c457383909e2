package sitemap

import (
	"strings"
	"testing"
	"time"
)

func TestLastModInAllFormsOfW3C(t *testing.T) {
	const day = 24 * time.Hour
	at := func(s string) time.Time {
		u, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for text, want := range map[string]struct {
		t         string
		precision time.Duration
	}{
		"1997":                            {"1997-01-01T00:00:00Z", 365 * day},
		"2024":                            {"2024-01-01T00:00:00Z", 366 * day},
		"1997-07":                         {"1997-07-01T00:00:00Z", 31 * day},
		"1997-07-16":                      {"1997-07-16T00:00:00Z", day},
		"1997-07-16T19:20+01:00":          {"1997-07-16T18:20:00Z", time.Minute},
		"1997-07-16T19:20Z":               {"1997-07-16T19:20:00Z", time.Minute},
		"1997-07-16T19:20:30+01:00":       {"1997-07-16T18:20:30Z", 0},
		"1997-07-16T19:20:30.45+01:00":    {"1997-07-16T18:20:30.45Z", 0},
		" 1997-07-16T19:20:30Z\n":         {"1997-07-16T19:20:30Z", 0},
		"1997-07-16T19:20:30":             {"1997-07-16T19:20:30Z", 0},
		"1997-07-16 19:20:30":             {"1997-07-16T19:20:30Z", 0},
		"Wed, 16 Jul 1997 19:20:30 +0100": {"1997-07-16T18:20:30Z", 0},
		"Wed, 16 Jul 1997 19:20:30 GMT":   {"1997-07-16T19:20:30Z", 0},
	} {
		got, precision := parseTime(text)
		if !got.Equal(at(want.t)) || precision != want.precision {
			t.Errorf("%q: %v for %v, want %v for %v", text, got, precision, want.t, want.precision)
		}
	}
	for _, text := range []string{"", "yesterday", "1997-13", "1997-02-30", "19970716", "99999-01-01", strings.Repeat("9", 4000)} {
		if got, _ := parseTime(text); !got.IsZero() {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestEntryHasWhatTheFileSays(t *testing.T) {
	text := `<urlset>
<url><priority> 0.8</priority><changefreq>Weekly </changefreq><loc>https://example.com/a</loc><lastmod>2026-11-01</lastmod></url>
<url><loc>https://example.com/b</loc><priority>NaN</priority><changefreq>often</changefreq><lastmod>soon</lastmod></url>
<url><loc>https://example.com/c</loc><priority>7</priority></url></urlset>`
	want := []Entry{
		{Loc: "https://example.com/a", LastMod: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Precision: 24 * time.Hour, ChangeFreq: "weekly", Priority: 0.8},
		{Loc: "https://example.com/b", Priority: 0.5},
		{Loc: "https://example.com/c", Priority: 0.5},
	}
	i := 0
	for e, err := range Read(strings.NewReader(text)) {
		if err != nil || i >= len(want) || e != want[i] {
			t.Errorf("entry %d: %+v, %v", i, e, err)
		}
		i++
	}
}

func TestStale(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, test := range []struct {
		what    string
		e       Entry
		fetched time.Time
		want    bool
	}{
		{"nothing is known", Entry{}, now, true},
		{"modified later", Entry{LastMod: now.Add(-time.Hour)}, now.Add(-2 * time.Hour), true},
		{"modified before", Entry{LastMod: now.Add(-2 * time.Hour)}, now.Add(-time.Hour), false},
		{"modified before, whatever the frequency", Entry{LastMod: now.Add(-20 * day), ChangeFreq: "always"}, now.Add(-10 * day), false},
		{"fetched within the day", Entry{LastMod: now.Truncate(day), Precision: day}, now.Add(-time.Hour), true},
		{"fetched after the day", Entry{LastMod: now.Truncate(day).Add(-day), Precision: day}, now.Add(-time.Hour), false},
		{"modified in the future", Entry{LastMod: now.Add(day), ChangeFreq: "daily"}, now.Add(-time.Hour), false},
		{"always", Entry{ChangeFreq: "always"}, now, true},
		{"daily, an hour ago", Entry{ChangeFreq: "daily"}, now.Add(-time.Hour), false},
		{"daily, two days ago", Entry{ChangeFreq: "daily"}, now.Add(-2 * day), true},
		{"never", Entry{ChangeFreq: "never"}, now.Add(-1000 * day), false},
	} {
		if got := test.e.Stale(test.fetched, now); got != test.want {
			t.Errorf("%s: stale is %t", test.what, got)
		}
	}
}
