package sitemap

import (
	"math/rand/v2"
	"net/mail"
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
	for _, text := range []string{"", "yesterday", "1997-13", "1997-02-30", "99999-01-01", strings.Repeat("9", 4000)} {
		if got, _ := parseTime(text); !got.IsZero() {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestLastModAsSitesWriteIt: rows 14 and 17 of what other crawlers' users have reported, and their kin.
func TestLastModAsSitesWriteIt(t *testing.T) {
	const day = 24 * time.Hour
	const (
		second = "2018-02-21T13:31:28Z"
		minute = "2018-02-21T13:31:00Z"
		date   = "2018-02-21T00:00:00Z"
	)
	for _, test := range []struct {
		text      string
		want      string
		precision time.Duration
	}{
		{"2018-02-21T13:31:28+0000", second, 0},
		{"2018-02-21T14:31:28+01", second, 0},
		{"2018-02-21T13:31", minute, time.Minute},
		{"2018-02-21 13:31", minute, time.Minute},
		{"2018-02-21Z", date, day},
		{"2018-02-21+01:00", "2018-02-20T23:00:00Z", day},
		{"2018-02Z", "2018-02-01T00:00:00Z", 28 * day},
		{"2018-02-21 13:31:28 UTC", second, 0},
		{"2018-02-21 13:31:28 +0000 UTC", second, 0},
		{"2018-02-21 13:31:28.25 +0000 UTC", "2018-02-21T13:31:28.25Z", 0},
		{"2018-02-21T13:31:28,250Z", "2018-02-21T13:31:28.25Z", 0},
		{"2018-02-21 14:31:28 +0100", second, 0},
		{"2018-02-21 08:53:11 AM", "2018-02-21T08:53:11Z", 0},
		{"2018-02-21 12:53:11 a.m.", "2018-02-21T00:53:11Z", 0},
		{"2018-02-21 1:31:28 PM EST", "2018-02-21T18:31:28Z", 0},
		{"2018-02-21T12:00 pm", "2018-02-21T12:00:00Z", time.Minute},
		{"2018-2-5", "2018-02-05T00:00:00Z", day},
		{"2018/02/05", "2018-02-05T00:00:00Z", day},
		{"2018/02/21 13:31:28", second, 0},
		{"2018.02.21", date, day},
		{"20180221", date, day},
		{"20180221T133128Z", second, 0},
		{"20180221T143128+0100", second, 0},
		{"20180221133128", second, 0},
		{"20180221T1331Z", minute, time.Minute},
		{"Wed Feb 21 13:31:28 UTC 2018", second, 0},
		{"Wed Feb 21 13:31:28 EST 2018", "2018-02-21T18:31:28Z", 0},
		{"Wed Feb 21 14:31:28 +0100 2018", second, 0},
		{"Wed Feb 21 13:31:28 2018", second, 0},
		{"Wed Feb  1 13:31:28 2018", "2018-02-01T13:31:28Z", 0},
		{"Wed Feb 21 2018 14:31:28 GMT+0100 (CET)", second, 0},
		{"Feb 21, 2018 1:31:28 PM", second, 0},
		{"February 21, 2018", date, day},
		{"Wed, 21 Feb 2018", date, day},
		{"21 Feb 2018", date, day},
		{"21 Sept. 2018", "2018-09-21T00:00:00Z", day},
		{"Wed, 21 Feb 18 13:31:28 GMT", second, 0},
		{"21 Feb 97 13:31 GMT", "1997-02-21T13:31:00Z", time.Minute},
		{"Wednesday, 21-Feb-18 13:31:28 GMT", second, 0},
		{"Wed, 21 Feb 2018 14:31:28 +0100 (CET)", second, 0},
		{"Wed,  21\n Feb 2018 13:31:28 UT", second, 0},
		{"2018-02-21T14:31:28+01:00[Europe/Berlin]", second, 0},
		{"1519219888", second, 0},
		{"1519219888250", "2018-02-21T13:31:28.25Z", 0},
		{"2018-02-20T24:00:00Z", date, 0},
		{"2018-02-20T24:00Z", date, time.Minute},
		{"2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z", 0},
		{"0001-01-01T00:00:00", "0001-01-01T00:00:00Z", 0},

		// Zones of RFC 822, and others with one meaning.
		{"Wed, 21 Feb 2018 13:31:28 EST", "2018-02-21T18:31:28Z", 0},
		{"Wed, 21 Feb 2018 13:31:28 edt", "2018-02-21T17:31:28Z", 0},
		{"Wed, 21 Feb 2018 13:31:28 CST", "2018-02-21T19:31:28Z", 0},
		{"Wed, 21 Feb 2018 13:31:28 PDT", "2018-02-21T20:31:28Z", 0},
		{"Wed, 21 Feb 2018 13:31:28 CEST", "2018-02-21T11:31:28Z", 0},
		{"Wed, 21 Feb 2018 13:31:28 NPT", "2018-02-21T07:46:28Z", 0},
		{"Wed, 21 Feb 2018 13:31:28 Z", second, 0},

		// Those with several, and unknown ones: the time in all zones.
		{"Wed, 21 Feb 2018 13:31:28 BST", "2018-02-20T23:31:28Z", 26 * time.Hour},
		{"Wed, 21 Feb 2018 13:31:28 A", "2018-02-20T23:31:28Z", 26 * time.Hour},
		{"2018-02-21T13:31 XYZZY", "2018-02-20T23:31:00Z", 26*time.Hour + time.Minute},
		{"2018-02-21 13:31:28 Europe/Berlin", "2018-02-20T23:31:28Z", 26 * time.Hour},
	} {
		want, err := time.Parse(time.RFC3339Nano, test.want)
		if err != nil {
			t.Fatal(err)
		}
		got, precision := parseTime(test.text)
		if !got.Equal(want) || precision != test.precision {
			t.Errorf("%q: %v for %v, want %v for %v", test.text, got, precision, want, test.precision)
		}
	}
	for _, text := range []string{
		"02/05/2018", "soon", "2018-02-21T25:00Z", "2018-02-21T24:01Z", "2018-02-21T13:60Z", "2018-02-21T13:31:61Z",
		"2018-02-21T13:31:28+99:00", "2018-00-10", "2018-02-00", "31 Jun 2018", "21 Foo 2018", "2018-02-21 0:10 AM", "123456789",
		"21 févr. 2018", "2018-W08", "2018-052", "0000-00-00 00:00:00", "P1D",
	} {
		if got, _ := parseTime(text); !got.IsZero() {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestLastModHasNoZoneOfTheMachine: package time takes an abbreviation for the machine's own zone
// where that has it.
func TestLastModHasNoZoneOfTheMachine(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	for _, zone := range []*time.Location{time.FixedZone("EST", 10*3600), time.FixedZone("XYZ", 3600), time.UTC} {
		time.Local = zone
		for text, want := range map[string]string{
			"Wed, 21 Feb 2018 13:31:28 EST": "2018-02-21T18:31:28Z",
			"Wed, 21 Feb 2018 13:31:28 XYZ": "2018-02-20T23:31:28Z",
			"2018-02-21 13:31:28":           "2018-02-21T13:31:28Z",
			"1519219888":                    "2018-02-21T13:31:28Z",
		} {
			got, _ := parseTime(text)
			if got.UTC().Format(time.RFC3339) != want {
				t.Errorf("%q in %v: %v, want %s", text, zone, got, want)
			}
		}
	}
}

// TestAChangeInAnUnknownZoneIsStale: the copy may be older than the change, or not.
func TestAChangeInAnUnknownZoneIsStale(t *testing.T) {
	for text, want := range map[string]bool{
		"Wed, 21 Feb 2018 13:31:28 EST": true,
		"Wed, 21 Feb 2018 13:31:28 GMT": false,
		"Wed, 21 Feb 2018 13:31:28 BST": true,
		"Mon, 19 Feb 2018 13:31:28 BST": false,
	} {
		entry := item{lastMod: text}.entry("https://example.com/", false)
		fetched := time.Date(2018, 2, 21, 15, 0, 0, 0, time.UTC)
		if got := entry.Stale(fetched, fetched.AddDate(0, 0, 7)); got != want {
			t.Errorf("%q: stale is %t", text, got)
		}
	}
}

// TestLastModAsPackageMailReadsIt: with an offset in digits the two agree.
func TestLastModAsPackageMailReadsIt(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	layouts := []string{
		time.RFC1123Z, "Mon, 2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04 -0700", "2 Jan 06 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 -0700 (MST)",
	}
	for range 2000 {
		zone := time.FixedZone("X", 60*(random.IntN(1600)-720))
		at := time.Unix(random.Int64N(2e9), 0).In(zone)
		text := at.Format(layouts[random.IntN(len(layouts))])
		want, err := mail.ParseDate(text)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := parseTime(text)
		if !got.Equal(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func FuzzLastMod(f *testing.F) {
	for _, text := range []string{
		"2018-02-21", "2018-02-21T13:31:28.5+01:00", "Wed, 21 Feb 2018 13:31:28 EST", "Feb 21, 2018 1:31 PM", "20180221T133128Z",
		"Wed Feb 21 13:31:28 EST 2018", "1519219888250", "2018-02-21 13:31:28 +0000 UTC", "0-0-0", "2018-02-21T24:00[x]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, precision := parseTime(text)
		if precision < 0 || precision > 367*24*time.Hour+26*time.Hour || got.Year() < -1 || got.Year() > 10_001 {
			t.Errorf("%q: %v for %v", text, got, precision)
		}
		want, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
		if err == nil && (!got.Equal(want) || precision != 0) {
			t.Errorf("%q: %v for %v, want %v", text, got, precision, want)
		}
	})
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
