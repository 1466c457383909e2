package revisit

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The cases are those of the design, by their numbers. These are in other files:
//
//   - 11 to 13: transport_test.go, of a Transport; crawl/revisit_test.go, of a crawl.
//   - 16 to 20: internal/caching too.
//   - 30 to 32, 39: crawl/revisit_test.go.
//   - 33, 34: kill_test.go and upgrade_test.go of crawl/sqlitequeue.
//   - 36: crawl/pgqueue/again_test.go.
//   - 37, 38, 41: crawl/sqlitequeue/revisits_test.go.
//   - 40: crawl/sitemap/seen_test.go.
//   - 42: crawl/month_test.go, evidence/audit/revisits_test.go.
//
// Case 35, the memory of ten million URLs, was measured once.

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const hour = time.Hour

// httpTime is noon and some time, as a header has it.
func httpTime(after time.Duration) string { return noon.Add(after).Format(http.TimeFormat) }

// headers makes a header of pairs of names and values.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// A history is a page and the answers to it.
type history struct {
	t    *testing.T
	s    Schedule
	page Page
	last Change
	due  time.Time
}

// answer takes an answer some time after noon. Text and words are hashes.
func (h *history) answer(after time.Duration, status int, text, words uint32, header http.Header) {
	h.t.Helper()
	if header.Get("Date") == "" {
		header.Set("Date", httpTime(after))
	}
	at := noon.Add(after)
	conditional := h.page.Conditions(http.Header{}, at)
	a := Answer{Time: at, Status: status, Header: header, Text: text, Words: words, Conditional: conditional}
	h.page, h.last, h.due = h.s.Next(h.page, a)
	if h.due != h.page.Due {
		h.t.Errorf("due %v, and the page says %v", h.due, h.page.Due)
	}
}

// conditions returns the conditions of a request some time after noon.
func (h *history) conditions(after time.Duration) (none, since string) {
	header := http.Header{}
	h.page.Conditions(header, noon.Add(after))
	return header.Get("If-None-Match"), header.Get("If-Modified-Since")
}

func (h *history) wantConditions(after time.Duration, none, since string) {
	h.t.Helper()
	if n, s := h.conditions(after); n != none || s != since {
		h.t.Errorf("If-None-Match %q, If-Modified-Since %q; want %q, %q", n, s, none, since)
	}
}

func (h *history) wantChange(want Change) {
	h.t.Helper()
	if h.last != want {
		h.t.Errorf("change %q, want %q", h.last, want)
	}
}

// wantDue expects the page to be due some time after noon, to the minute.
func (h *history) wantDue(after time.Duration) {
	h.t.Helper()
	if got := h.due.Sub(noon); (got - after).Abs() > time.Minute {
		h.t.Errorf("due after %v, want %v", got, after)
	}
}

func (h *history) wantEarliest(after time.Duration) {
	h.t.Helper()
	if got := h.page.Earliest.Sub(noon); got != after {
		h.t.Errorf("not before %v, want %v", got, after)
	}
}

// hours is a number of hours.
func hours(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }

func TestCases(t *testing.T) {
	const old = "Sat, 29 Nov 2025 12:00:00 GMT" // a year before noon
	hourly := Schedule{Min: hour}
	for name, tt := range map[string]struct {
		s Schedule
		f func(h *history)
	}{
		"1 both conditions, byte for byte": {hourly, func(h *history) {
			h.wantConditions(0, "", "")
			h.answer(0, 200, 1, 1, headers("ETag", `"a b"`, "Last-Modified", "sat, 29 nov 2025 12:00:00 gmt"))
			h.wantConditions(hour, `"a b"`, "sat, 29 nov 2025 12:00:00 gmt")
		}},
		"2 a weak tag, an unquoted one, one that is too long, one that can't be sent": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `W/"x"`))
			h.wantConditions(hour, `W/"x"`, "")
			h.answer(hour, 200, 2, 2, headers("ETag", `x`))
			h.wantConditions(2*hour, `x`, "")
			h.answer(2*hour, 200, 3, 3, headers("ETag", `"`+strings.Repeat("x", 298)+`"`))
			h.wantConditions(3*hour, "", "")
			h.answer(3*hour, 200, 4, 4, headers("ETag", "\"\x01\""))
			h.wantConditions(4*hour, "", "")
		}},
		"3 the same body and a new tag": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`, "Last-Modified", old))
			h.answer(hour, 200, 1, 1, headers("ETag", `"2"`, "Last-Modified", httpTime(0)))
			h.wantChange(Same)
			h.wantConditions(2*hour, `"2"`, httpTime(0))
		}},
		"4 the same Last-Modified, another tag": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`, "Last-Modified", old))
			h.answer(hour, 200, 2, 2, headers("ETag", `"2"`, "Last-Modified", old))
			h.wantConditions(2*hour, `"2"`, old)
		}},
		"5 a 304 with another tag, and one without": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `W/"1"`, "Last-Modified", old))
			h.answer(hour, 304, 0, 0, headers("ETag", `"1"`))
			h.wantChange(Same)
			h.wantConditions(2*hour, `"1"`, old)
			h.answer(2*hour, 304, 0, 0, headers())
			h.wantConditions(3*hour, `"1"`, old)
		}},
		"6 a 304 with another lifetime, and one without": {Schedule{Min: time.Minute}, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`, "Cache-Control", "max-age=3600"))
			h.answer(hour, 304, 0, 0, headers("Cache-Control", "public"))
			h.wantEarliest(2 * hour)
			h.answer(2*hour, 304, 0, 0, headers("Cache-Control", "max-age=120"))
			h.wantEarliest(2*hour + 2*time.Minute)
			h.answer(3*hour, 304, 0, 0, headers())
			h.wantEarliest(3*hour + 2*time.Minute)
		}},
		"7 the tag of Apache with deflate": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"x-gzip"`))
			h.wantConditions(hour, `"x-gzip", "x"`, "")
			h.answer(hour, 200, 2, 2, headers("ETag", `W/"x-gzip"`))
			h.wantConditions(2*hour, `W/"x-gzip", W/"x"`, "")
			h.answer(2*hour, 200, 3, 3, headers("ETag", `"x-br"`))
			h.wantConditions(3*hour, `"x-br", "x"`, "")
		}},
		"8 a Last-Modified as young as the answer": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("Last-Modified", httpTime(-time.Second)))
			h.wantConditions(hour, "", "")
			h.answer(hour, 200, 2, 2, headers("Last-Modified", httpTime(hour), "ETag", `"x"`))
			h.wantConditions(2*hour, `"x"`, httpTime(hour))
			h.answer(2*hour, 200, 3, 3, headers("Last-Modified", httpTime(2*hour-2*time.Second)))
			h.wantConditions(3*hour, "", httpTime(2*hour-2*time.Second))
		}},
		"9 a Last-Modified in no known form": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("Last-Modified", "yesterday"))
			h.wantConditions(hour, "", "yesterday")
			h.wantDue(hours(12.96))
		}},
		"10 errors leave the validators, a page that was gone is asked for whole": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`, "Last-Modified", old))
			for i, status := range []int{429, 500, 503, 0, 403, 418, 999} {
				h.answer(time.Duration(i+1)*hour, status, 0, 0, headers("ETag", `"error"`))
				h.wantChange("")
				h.wantConditions(20*hour, `"1"`, old)
			}
			h.answer(21*hour, 404, 0, 0, headers())
			h.wantChange(Gone)
			h.wantConditions(50*hour, "", "")
			if h.page.ETag != `"1"` {
				h.t.Errorf("the tag is %q", h.page.ETag)
			}
		}},
		"10 an answer that the conditions may have led to: the next request has none": {hourly, func(h *history) {
			for _, status := range []int{400, 412, 416, 428} {
				h.answer(0, 200, 1, 1, headers("ETag", `"1"`, "Last-Modified", old))
				h.answer(hour, status, 0, 0, headers())
				h.wantChange("")
				h.wantConditions(2*hour, "", "")
				h.answer(2*hour, 200, 1, 1, headers("ETag", `"1"`, "Last-Modified", old))
				h.wantChange(Same)
				h.page = Page{}
			}
		}},
		"5 a 304 whose Last-Modified is the time of the response": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("Last-Modified", old))
			h.answer(hour, 304, 0, 0, headers("Last-Modified", httpTime(hour)))
			h.wantConditions(2*hour, "", old)
			h.answer(2*hour, 304, 0, 0, headers("Last-Modified", httpTime(0)))
			h.wantConditions(3*hour, "", httpTime(0))
		}},
		"14 for ever 304": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`))
			h.answer(89*day, 304, 0, 0, headers())
			h.wantConditions(90*day-1, `"1"`, "")
			h.wantConditions(90*day, "", "")
		}},
		"15 a 304 that nobody asked for": {hourly, func(h *history) {
			h.answer(0, 304, 0, 0, headers("ETag", `"1"`))
			h.wantChange("")
			h.wantConditions(hour, "", "")
			h.answer(hour, 200, 1, 1, headers("ETag", `"1"`))
			h.wantChange(New)
			h.answer(91*day, 304, 0, 0, headers("ETag", `"1"`))
			h.wantChange("")
			h.wantConditions(91*day, "", "")
		}},
		"16 to 18 and 20 freshness": {Schedule{Min: time.Minute}, func(h *history) {
			for header, want := range map[string]time.Duration{
				"max-age=3600":                         hour,
				"max-age=0":                            time.Minute,
				"no-cache, max-age=3600":               time.Minute,
				"no-store":                             time.Minute,
				`no-cache="Set-Cookie", max-age=3600`:  hour,
				"s-maxage=3600":                        time.Minute,
				"max-age=99999999999":                  30 * day,
				`MAX-AGE="3600"`:                       hour,
				"max-age=3600.5":                       time.Minute,
				"max-age=3600, max-age=600":            10 * time.Minute,
				"max-age=30, stale-while-revalidate=9": time.Minute,
			} {
				one := history{t: h.t, s: h.s}
				one.answer(0, 200, 1, 1, headers("Cache-Control", header))
				one.wantEarliest(want)
			}
			h.answer(0, 200, 1, 1, headers("Cache-Control", "max-age=3600", "Age", "600"))
			h.wantEarliest(50 * time.Minute)
			h.page = Page{}
			h.s.IgnoreFresh = true
			h.answer(0, 200, 1, 1, headers("Cache-Control", "max-age=3600"))
			h.wantEarliest(time.Minute)
		}},
		"19 and 21 Expires, by the server's clock": {Schedule{Min: time.Minute}, func(h *history) {
			h.answer(0, 200, 1, 1, headers("Expires", httpTime(3*hour), "Date", httpTime(2*hour)))
			h.wantEarliest(hour)
			h.page = Page{}
			h.answer(0, 200, 1, 1, headers("Last-Modified", httpTime(-22*hour), "Date", httpTime(2*hour)))
			h.wantDue(time.Duration(4.9 * float64(time.Minute) * 7.746)) // the root of 1 min × 24 h
		}},
		"22 first seen": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers())
			h.wantChange(New)
			h.wantDue(hours(12.96))
			h.page = Page{}
			h.answer(0, 200, 1, 1, headers("Last-Modified", old))
			h.wantDue(hours(93.6))
			h.page = Page{}
			h.answer(0, 200, 1, 1, headers("Last-Modified", httpTime(-hour)))
			h.wantDue(hour)
			h.page = Page{}
			h.answer(0, 200, 1, 1, headers("Last-Modified", httpTime(-24*hour)))
			h.wantDue(hours(4.9))
		}},
		"23 changed between two visits": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers())
			h.answer(48*hour, 200, 2, 2, headers())
			h.wantChange(Changed)
			h.wantDue(48*hour + hours(4.9))
			// A Last-Modified says when, and an older one than the visit before is none.
			h.answer(96*hour, 200, 3, 3, headers("Last-Modified", httpTime(87*hour)))
			h.wantDue(99 * hour)
			h.answer(144*hour, 200, 4, 4, headers("Last-Modified", old))
			h.wantDue(144*hour + hours(4.9))
		}},
		"24 a fixed interval": {Schedule{Min: hour, Max: hour}, func(h *history) {
			h.answer(0, 200, 1, 1, headers("Last-Modified", old))
			h.wantDue(hour)
			h.answer(hour, 200, 1, 1, headers("Last-Modified", old, "Cache-Control", "max-age=7200"))
			h.wantDue(3 * hour)
		}},
		"25 the clock was set back": {hourly, func(h *history) {
			h.answer(365*day, 200, 1, 1, headers())
			h.answer(0, 200, 1, 1, headers())
			h.wantDue(hour)
			if h.page.EarliestBy(noon.Add(-365*day)) != (time.Time{}) {
				h.t.Error("a visit in a year holds requests off")
			}
			h.page = Page{}
			h.answer(0, 200, 1, 1, headers())
			if got := h.page.EarliestBy(noon.Add(-time.Second)); !got.Equal(noon.Add(hour)) {
				h.t.Errorf("a clock that is a second off: not before %v", got)
			}
		}},
		"26 a hint": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("Last-Modified", old))
			due, ok := h.page.Hinted(noon.Add(10 * time.Minute))
			if !ok || !due.Equal(noon.Add(hour)) {
				h.t.Errorf("due %v, %v", due, ok)
			}
			if _, ok := h.page.Hinted(noon); ok {
				h.t.Error("what was there at the visit is news")
			}
			if _, ok := (Page{}).Hinted(noon); ok {
				h.t.Error("a page that was never had is hinted")
			}
		}},
		"27 hints that lie": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`, "Last-Modified", old))
			for i := range 3 {
				_, ok := h.page.Hinted(noon.Add(1000 * hour))
				if ok != (i < 2) {
					h.t.Errorf("hint %d is heard: %t", i, ok)
				}
				h.answer(time.Duration(2*i+2)*hour, 304, 0, 0, headers())
			}
			h.answer(50*day, 304, 0, 0, headers()) // its time had come
			if _, ok := h.page.Hinted(noon.Add(10_000 * hour)); ok {
				h.t.Error("a hint is heard after a visit that wasn't hinted")
			}
			h.answer(80*day, 200, 2, 2, headers("ETag", `"2"`, "Last-Modified", old))
			h.wantChange(Changed)
			if _, ok := h.page.Hinted(noon.Add(10_000 * hour)); !ok {
				h.t.Error("no hint is heard after a change")
			}
		}},
		"28 lastmod of today's date": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("Last-Modified", old))
			if _, ok := h.page.Hinted(noon.Truncate(day)); ok {
				h.t.Error("the page was visited today")
			}
		}},
		"29 gone": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`))
			at := time.Duration(0)
			for i, pause := range []time.Duration{1 * day, 3 * day, 9 * day, 27 * day} {
				h.answer(at, 404, 0, 0, headers())
				want := Same
				if i == 0 {
					want = Gone
				}
				h.wantChange(want)
				at += pause
				h.wantDue(at)
			}
			h.answer(at, 410, 0, 0, headers())
			if !h.due.IsZero() {
				h.t.Errorf("due %v", h.due)
			}
			if due, ok := h.page.Hinted(noon.Add(at + 10*day)); !ok || due.Before(noon.Add(at+hour)) {
				h.t.Errorf("hinted: %v, %v", due, ok)
			}
			h.answer(at+11*day, 200, 1, 1, headers())
			h.wantChange(New)
			h.wantDue(at + 11*day + hours(12.96))
			h.answer(at+12*day, 404, 0, 0, headers())
			h.wantChange(Gone)
			h.wantDue(at + 13*day)
			h.page = Page{}
			h.answer(0, 404, 0, 0, headers())
			h.wantChange("")
			h.wantDue(day)
		}},
		"30 and 31 text and words": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers())
			h.answer(24*hour, 200, 1, 1, headers())
			h.wantChange(Same)
			h.answer(48*hour, 200, 2, 1, headers())
			h.wantChange(Changed)
			// A is 9 days: the clock on the page doesn't bring it back sooner.
			h.wantDue(48*hour + hours(14.7))
		}},
		"a page that is down is asked for rarely": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`, "Last-Modified", old))
			h.answer(4*hour, 503, 0, 0, headers())
			h.wantDue(6 * hour)
			h.answer(16*hour, 0, 0, 0, headers())
			h.wantDue(20 * hour)
		}},
		"moved for good, and back": {hourly, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`))
			h.answer(hour, 301, 0, 0, headers("Location", "/a"))
			h.wantChange(Moved)
			h.wantDue(hour + 30*day)
			h.wantConditions(2*hour, "", "")
			h.answer(31*day, 308, 0, 0, headers("Location", "/a"))
			h.wantChange("")
			h.answer(62*day, 200, 1, 1, headers())
			h.wantChange(New)
		}},
		"a redirect that may be lifted": {hourly, func(h *history) {
			h.answer(0, 302, 0, 0, headers("Location", "/a"))
			h.wantChange("")
			h.wantDue(hours(12.96))
			h.answer(24*hour, 302, 0, 0, headers("Location", "/b"))
			h.wantDue(24*hour + hours(3.46))
			h.answer(48*hour, 200, 1, 1, headers("ETag", `"1"`))
			h.wantChange(New)
			h.answer(72*hour, 302, 0, 0, headers("Location", "/login"))
			h.answer(96*hour, 200, 1, 1, headers("ETag", `"1"`))
			h.wantChange(Same)
		}},
		"never again": {Schedule{}, func(h *history) {
			h.answer(0, 200, 1, 1, headers("ETag", `"1"`))
			if !h.due.IsZero() {
				h.t.Errorf("due %v", h.due)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.f(&history{t: t, s: tt.s})
		})
	}
}

func TestValidate(t *testing.T) {
	for s, ok := range map[Schedule]bool{
		{}:                                   true,
		{Min: hour}:                          true,
		{Min: hour, Max: hour}:               true,
		{Min: 60 * day}:                      true,
		{Min: 3600}:                          false,
		{Min: 900 * time.Millisecond}:        false,
		{Min: -hour}:                         false,
		{Min: hour, Max: -1}:                 false,
		{Min: hour, Max: time.Minute}:        false,
		{Max: hour}:                          false,
		{IgnoreFresh: true}:                  false,
		{Min: time.Second, Max: time.Second}: true,
	} {
		if err := s.Validate(); (err == nil) != ok {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// FuzzNext: whatever a server says, and whatever was remembered, nothing is due before Min, nor
// later than the longest of Max, 30 days and 27 days, and no step panics.
func FuzzNext(f *testing.F) {
	f.Add([]byte{1, 0}, 200, `"x"`, "Sat, 29 Nov 2025 12:00:00 GMT", "max-age=9", int64(3600), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, status int, etag, modified, control string, minSeconds, maxSeconds int64) {
		s := Schedule{Min: time.Duration(minSeconds%1e6) * time.Second, Max: time.Duration(maxSeconds%1e7) * time.Second}
		if s.Validate() != nil || s.Min == 0 {
			t.Skip()
		}
		var p Page
		_ = p.UnmarshalBinary(data)
		h := http.Header{"Etag": {etag}, "Last-Modified": {modified}, "Cache-Control": {control}}
		next, _, due := s.Next(p, Answer{Time: noon, Status: status, Header: h, Conditional: true})
		most := max(s.max(), longestFresh, 27*s.Min)
		if !due.IsZero() && (due.Before(noon.Add(s.Min)) || due.After(noon.Add(most))) {
			t.Errorf("due %v after the answer, with %+v", due.Sub(noon), s)
		}
		if next.Earliest.Before(noon.Add(s.Min)) || next.Earliest.After(noon.Add(most)) {
			t.Errorf("not before %v after the answer, with %+v", next.Earliest.Sub(noon), s)
		}
	})
}
