package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

// visitsOf is a log of ten requests, ten seconds apart, to /0 ... /9 of a.example, each of which takes
// 0.2 s and brings 100 bytes; and the lines that an Apache whose clock is an hour ahead has of them.
func visitsOf(t *testing.T) (log string, access []string) {
	t.Helper()
	for i := range 10 {
		log += fmt.Sprintf("%d start %d url=/%d agent=TestBot\n%d.2 end %d\n", 10*i, i, i, 10*i, i)
		access = append(access, accessLineOf(10*i+3600, fmt.Sprintf("/%d", i)))
	}
	return write(t, log), access
}

// accessLineOf is a line about a request at some seconds by the site's clock.
func accessLineOf(at int, target string) string {
	return fmt.Sprintf(`192.0.2.1 - - [%s] "GET %s HTTP/1.1" 200 100 "-" "TestBot/1.0"`, moment(fmt.Sprint(at)).Format("02/Jan/2006:15:04:05 -0700"), target)
}

func compare(t *testing.T, log string, access []string, o accesslog.Options) *accesslog.Comparison {
	t.Helper()
	c, err := accesslog.Compare(strings.NewReader(log), o, strings.NewReader(strings.Join(access, "\n")))
	if err != nil && !errors.Is(err, accesslog.ErrNothing) {
		t.Fatal(err)
	}
	return c
}

// TestVerdictsOnAccessLogsInWords: each way in which the two logs may differ, as a reader is told of it.
func TestVerdictsOnAccessLogsInWords(t *testing.T) {
	log, access := visitsOf(t)
	const other = "nothing was compared: no line of the access log is a request of TestBot: it is the log of another host or day, or the crawler has another User-Agent (Options.Agent, -agent).\n"
	const same = "The evidence has every request that the site saw of this crawler.\n"
	closer := func(gap int) string {
		return fmt.Sprintf("The site saw requests to a.example %d s apart, and the evidence has them 10 s apart at least.\n", gap)
	}
	const clock = "The site's clock is 1h0m0s ahead.\n"
	with := func(i int, line ...string) []string {
		return append(append(append([]string{}, access[:i]...), line...), access[i+1:]...)
	}
	for _, c := range []struct {
		name   string
		access []string
		want   string
	}{
		{"the same", access, "10 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock + same},
		{
			"one a second late, as times are rounded", with(3, accessLineOf(3631, "/3")),
			"10 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock + same,
		},
		{
			"one missing from the evidence", append([]string{accessLineOf(3605, "/secret")}, access...),
			"11 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock +
				"1 request missing from the evidence.\n" + closer(5) +
				"\nmissing from the evidence:\n  2026-11-21 04:00:05  GET a.example/secret: line 1, from 192.0.2.1\n",
		},
		{
			"two missing", append([]string{accessLineOf(3605, "/secret"), accessLineOf(3606, "/secret")}, access...),
			"12 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock +
				"2 requests missing from the evidence.\n" + closer(1) +
				"\nmissing from the evidence:\n  2026-11-21 04:00:05  GET a.example/secret: line 1, from 192.0.2.1\n" +
				"  2026-11-21 04:00:06  GET a.example/secret: line 2, from 192.0.2.1\n",
		},
		{
			"one older than the evidence, one newer", append([]string{accessLineOf(3594, "/old"), accessLineOf(3696, "/new")}, access...),
			"12 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock +
				"2 requests before or after all of the evidence.\n" + closer(6) +
				"\nbefore or after all of the evidence:\n  2026-11-21 03:59:54  GET a.example/old: line 1, from 192.0.2.1\n" +
				"  2026-11-21 04:01:36  GET a.example/new: line 2, from 192.0.2.1\n",
		},
		{
			"a little older, a little newer", append([]string{accessLineOf(3595, "/old"), accessLineOf(3695, "/new")}, access...),
			"12 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock +
				"2 requests missing from the evidence.\n" + closer(5) +
				"\nmissing from the evidence:\n  2026-11-21 03:59:55  GET a.example/old: line 1, from 192.0.2.1\n" +
				"  2026-11-21 04:01:35  GET a.example/new: line 2, from 192.0.2.1\n",
		},
		{
			"one that the site never saw", with(4),
			"9 requests of this crawler in the access log, 10 requests in the evidence for that time; 9 are the same.\n" + clock +
				"1 request of the evidence never seen by the site.\n" + same +
				"\nof the evidence never seen by the site:\n  2026-11-21 03:00:40  GET a.example/4: record 9\n",
		},
		{
			"another status", with(4, strings.Replace(access[4], " 200 ", " 404 ", 1)),
			"10 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock +
				"1 request with another status in the evidence.\n" +
				"\nwith another status in the evidence:\n  2026-11-21 04:00:40  GET a.example/4: line 5 says 404; record 9 says 200\n",
		},
		{
			"a smaller size, as of a body that was compressed", with(4, strings.Replace(access[4], " 100 ", " 60 ", 1)),
			"10 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock + same,
		},
		{
			"the same page once more", slices.Concat(access, []string{accessLineOf(3675, "/4")}),
			"11 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock +
				"1 request missing from the evidence.\n" + closer(5) +
				"\nmissing from the evidence:\n  2026-11-21 04:01:15  GET a.example/4: line 11, from 192.0.2.1\n",
		},
		{
			"the same page twice at once", slices.Concat(access, []string{accessLineOf(3642, "/4")}),
			"11 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock +
				"1 request missing from the evidence.\n" + closer(2) +
				"\nmissing from the evidence:\n  2026-11-21 04:00:42  GET a.example/4: line 11, from 192.0.2.1\n",
		},
		{
			"a log that ends before the last request", append(with(9), strings.Replace(accessLineOf(3687, "/x"), "TestBot", "OtherBot", 1)),
			"9 requests of this crawler in the access log, 9 requests in the evidence for that time; 9 are the same.\n" + clock + same,
		},
		{
			"requests of others only",
			[]string{
				strings.Replace(accessLineOf(-100, "/x"), "TestBot", "OtherBot", 1), strings.Replace(accessLineOf(30, "/x"), "TestBot", "OtherBot", 1),
			},
			"0 requests of this crawler in the access log, 3 requests in the evidence for that time; 0 are the same.\n" +
				"3 requests of the evidence never seen by the site.\n" + other +
				"\nof the evidence never seen by the site:\n  2026-11-21 03:00:00  GET a.example/0: record 1\n  2026-11-21 03:00:10  GET a.example/1: record 3\n" +
				"  2026-11-21 03:00:20  GET a.example/2: record 5\n",
		},
		{
			"requests to another host only",
			[]string{"b.example " + accessLineOf(-100, "/x"), "b.example " + strings.Replace(accessLineOf(30, "/x"), "TestBot", "OtherBot", 1)},
			"1 request of this crawler in the access log, 0 requests in the evidence for that time; 0 are the same.\n" +
				"1 request before or after all of the evidence.\n" +
				"nothing was compared: the site saw 1 request of TestBot, and none is in the evidence.\n" +
				"\nbefore or after all of the evidence:\n  2026-11-21 02:58:20  GET b.example/x: line 1, from 192.0.2.1\n",
		},
		{
			"a line that can't be read", append([]string{"nonsense"}, access...),
			"10 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock +
				"1 line of the access log in no known format.\n" + same,
		},
		{
			"others' requests", append([]string{strings.Replace(accessLineOf(3605, "/x"), "TestBot", "OtherBot", 1)}, access...),
			"10 requests of this crawler in the access log, 10 requests in the evidence for that time; 10 are the same.\n" + clock + same,
		},
		{"nothing", nil, "0 requests of this crawler in the access log, 0 requests in the evidence for that time; 0 are the same.\nnothing was compared: the access log is empty.\n"},
	} {
		got := compare(t, log, c.access, accesslog.Options{})
		// The seal, a record that doesn't say when it was made, and what is no record change nothing.
		more := log + write(t, `
			9000 log_closed
			1 waiting timestamp=-
		`) + `{"type":"started","host":"a.example","url":"https://a.example/z","agent":"OtherBot","timestamp":"2026-11-21T03:00:01Z","trip":`
		if also := compare(t, more, c.access, accesslog.Options{}); also.String() != got.String() {
			t.Errorf("%s: with a seal, got\n%s", c.name, also)
		}
		if got.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
		b, err := json.Marshal(got)
		var told struct {
			OK     bool    `json:"ok"`
			Offset float64 `json:"offset"`
		}
		if err != nil || json.Unmarshal(b, &told) != nil || told.OK != got.OK() || told.Offset != got.Offset.Seconds() {
			t.Errorf("%s: %s, %v", c.name, b, err)
		}
	}
	if c := compare(t, log, append([]string{strings.Replace(accessLineOf(3605, "/x"), "TestBot", "OtherBot", 1)}, access...), accesslog.Options{Agent: "OTHERbot"}); c.Requests != 1 || c.Outside.N != 1 {
		t.Errorf("the requests of another agent: %v", c)
	}
	// A finding of each of thirty is told by twenty of them.
	var many []string
	for i := range 30 {
		many = append(many, accessLineOf(3605, fmt.Sprintf("/secret/%d", i)))
	}
	text := compare(t, log, slices.Concat(many, access), accesslog.Options{}).String()
	if strings.Count(text, "GET a.example/secret") != 20 || !strings.Contains(text, "\n  and 10 more\n") {
		t.Errorf("got\n%s", text)
	}
	if text := compare(t, log, slices.Concat(many[:20], access), accesslog.Options{}).String(); strings.Count(text, "GET a.example/secret") != 20 || strings.Contains(text, " more\n") {
		t.Errorf("got\n%s", text)
	}
	for i := range 1000 {
		many = append(many, accessLineOf(3605, fmt.Sprintf("/secret/%d", i)))
	}
	if c := compare(t, log, slices.Concat(many, access), accesslog.Options{}); c.Missing.N != 1030 || len(c.Missing.First) != 1000 {
		t.Errorf("%d missing, %d told", c.Missing.N, len(c.Missing.First))
	}
}

// TestVerdictsOnLinesOfAccessLogs: every part of a line is read, in each server's way to write it.
func TestVerdictsOnLinesOfAccessLogs(t *testing.T) {
	const stamp = "[21/Nov/2026:03:00:00 +0000]"
	log := write(t, `
		0 start 1 url=/x agent=TestBot
		0.2 end 1
	`)
	for _, c := range []struct{ line, want string }{
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`192.0.2.1 - - [21/Nov/2026:05:30:00 +0230] "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + `"GET /x HTTP/1.1"  200  100 "-""TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x" 200 100 "-" "testbot/2"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET https://a.example/x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`name 192.0.2.1 - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "POST /x HTTP/1.1" 200 100 "-" "TestBot"`, "another"},
		{`192.0.2.1 - - ` + stamp + ` "GET /y HTTP/1.1" 200 100 "-" "TestBot"`, "another"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x?q HTTP/1.1" 200 100 "-" "TestBot"`, "another"},
		{`192.0.2.1 - - ` + stamp + ` "GET /http://y HTTP/1.1" 200 100 "-" "TestBot"`, "another"},
		{`192.0.2.1 - - ` + stamp + ` "GET" 200 100 "-" "TestBot"`, "another"},
		{`192.0.2.1 - - ` + stamp + ` "" 400 0 "-" "TestBot"`, "another"},
		{`a.example:443 192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`a.example 2001:db8::1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`b.example 192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`b.example 192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 404 100 "-" "TestBot"`, "another"},
		{`b.example 192.0.2.1 - - ` + stamp + ` "GET /y HTTP/1.1" 200 100 "-" "TestBot"`, "another"},
		{`192.0.2.1 192.0.2.2 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`name john doe x ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 999 "-" "TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 - "-" "TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 201 100 "-" "TestBot"`, "status"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 0 100 "-" "TestBot"`, "status"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 999 100 "-" "TestBot"`, "status"},
		{`192.0.2.1 - - ` + stamp + ` "\x47ET /x HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "Test\x42ot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "\"\\" "\"TestBot\""`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "\t\n\r\x0b\v" "TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "NoTestBot TestBot-x TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x y HTTP/1.1" 200 100 "-" "TestBot"`, "matched"},
		{`host.name - - ` + stamp + ` "GET http://a.example/x HTTP/1.1" 200 1 "" "x TestBot \"y\" \\"`, "matched"},
		{`a.example:443 2001:db8::1 - - ` + stamp + ` "GET /x HTTP/2.0" 200 1 "-" "TestBot" 0.1 "a" rt=0.2`, "matched"},
		{`[2001:db8::1]:443 192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 - "-" "TestBot"`, "matched"},
		{`192.0.2.1 - jo[e ` + stamp + ` "GET /x HTTP/1.1" 200 - "-" "TestBot"`, "matched"},
		{`192.0.2.1 - \"x\" ` + stamp + ` "GET /x HTTP/1.1" 200 - "-" "TestBot"`, "matched"},
		{`192.0.2.1 - [20/Nov/2026:03:00:00 +0000] ` + stamp + ` "GET /x HTTP/1.1" 200 - "-" "TestBot"`, "matched"},
		{`192.0.2.1 - - ` + stamp + ` "-" 408 - "-" "TestBot"`, "another"},
		{`192.0.2.1 - - ` + stamp + ` "\x16\x03\x01" 400 150 "-" "TestBot"`, "another"},

		{`192.0.2.1 - - [yesterday] "GET /x HTTP/1.1" 200 1 "-" "TestBot"`, "unreadable"},
		{`192.0.2.1 - - [99/Nov/2026:03:00:00 +0000] "GET /x HTTP/1.1" 200 1 "-" "TestBot"`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 1`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 99999999999999999999 1 "-" "TestBot"`, "unreadable"},
		{`a b c ` + stamp + ` "GET /x HTTP/1.1\`, "unreadable"},
		{"nonsense", "unreadable"},
		{"[", "unreadable"},
		{strings.Repeat("x", 20<<20), "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 1000 100 "-" "TestBot"`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" -1 100 "-" "TestBot"`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 -1 "-" "TestBot"`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 x "-" "TestBot"`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-"`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 - "TestBot"`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot\`, "unreadable"},
		{`192.0.2.1 - - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot\x4`, "unreadable"},
		{`192.0.2.1 - ` + stamp + ` "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "unreadable"},
		{`192.0.2.1 - - 21/Nov/2026:03:00:00 +0000 "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "unreadable"},
		{`192.0.2.1 - - [21/Nov/2026:03:00:00 +0000 "GET /x HTTP/1.1" 200 100 "-" "TestBot"`, "unreadable"},
		{stamp, "unreadable"},
	} {
		got := compare(t, log, []string{c.line}, accesslog.Options{})
		want := accesslog.Comparison{Lines: 1, Requests: 1, Evidence: 1, Matched: 1}
		switch c.want {
		case "another":
			want.Evidence, want.Matched, want.Missing.N = 0, 0, 1
		case "status":
			want.Status.N = 1
		case "unreadable":
			want = accesslog.Comparison{Lines: 1, Unreadable: 1}
		}
		is := [...]int{got.Lines, got.Unreadable, got.Requests, got.Evidence, got.Matched, got.Missing.N, got.Outside.N, got.Status.N, got.Unseen.N}
		should := [...]int{want.Lines, want.Unreadable, want.Requests, want.Evidence, want.Matched, want.Missing.N, want.Outside.N, want.Status.N, want.Unseen.N}
		if is != should {
			t.Errorf("%.200s:\ngot  %v\nwant %v (%s)", c.line, is, should, c.want)
		}
	}
}

// TestVerdictsOnClocksOfSites: how far the site's clock is ahead is what most requests agree on, the least of
// several that as many agree on; and which end of a request it notes is the one that agrees better.
func TestVerdictsOnClocksOfSites(t *testing.T) {
	feed := func(at ...int) (lines []string) {
		for _, s := range at {
			lines = append(lines, accessLineOf(s, "/feed"))
		}
		return lines
	}
	log := write(t, `
		0 start 1 url=/feed agent=TestBot
		0.2 end 1
	`)
	for _, c := range []struct {
		at   []int
		want time.Duration
	}{
		{[]int{30, -90}, 30 * time.Second},
		{[]int{-30, 90}, -30 * time.Second},
		{[]int{30, -28}, -28 * time.Second},
		{[]int{30, -30}, 30 * time.Second},
		{[]int{28, -30}, 28 * time.Second},
		{[]int{29, -29}, 29 * time.Second},
		{[]int{90, 30}, 30 * time.Second},
		{[]int{-90, -30}, -30 * time.Second},
		{[]int{30, -90, -90}, -90 * time.Second},
		{[]int{0}, 0},
	} {
		for range 10 { // whatever the order of a map
			got := compare(t, log, feed(c.at...), accesslog.Options{})
			if (got.Offset-c.want).Abs() > time.Second || got.Matched != 1 {
				t.Errorf("%v: %v ahead, want %v", c.at, got.Offset, c.want)
				break
			}
		}
	}

	var evidence, atStart, atEnd string
	for i := range 10 {
		took := 1 + 7*i%5
		evidence += fmt.Sprintf("%d.5 start %d url=/%d agent=TestBot\n%d.5 end %d\n", 20*i, i, i, 20*i+took, i)
		ahead := 4
		if i > 5 {
			ahead = 5
		}
		atStart += accessLineOf(20*i+ahead, fmt.Sprintf("/%d", i)) + "\n"
		atEnd += accessLineOf(20*i+took+ahead, fmt.Sprintf("/%d", i)) + "\n"
	}
	log = write(t, evidence)
	if got := compare(t, log, []string{atStart}, accesslog.Options{}); (got.Offset-3500*time.Millisecond).Abs() > time.Second || got.Matched != 10 {
		t.Errorf("noted at the start: %+v", got)
	}
	if got := compare(t, log, []string{atEnd}, accesslog.Options{}); (got.Offset-3500*time.Millisecond).Abs() > time.Second || got.Matched != 10 {
		t.Errorf("noted at the end: %+v", got)
	}

	// Requests that take about as long as each other agree well at their ends, too.
	evidence, atStart = "", ""
	for i := range 10 {
		evidence += fmt.Sprintf("%d start %d agent=TestBot\n%d end %d\n", 20*i, i, 20*i+1+i%2, i)
		atStart += accessLineOf(20*i+i%3/2, fmt.Sprintf("/%d", i)) + "\n"
	}
	if got := compare(t, write(t, evidence), []string{atStart}, accesslog.Options{}); got.Matched != 10 {
		t.Errorf("noted at the start, of requests that take a second or two: %+v", got)
	}

	// A site that notes ends a second late, now and then.
	evidence, atEnd = "", ""
	for i := range 10 {
		took := 1 + 7*i%5
		evidence += fmt.Sprintf("%d start %d agent=TestBot\n%d end %d\n", 20*i, i, 20*i+took, i)
		atEnd += accessLineOf(20*i+took+i%3/2, fmt.Sprintf("/%d", i)) + "\n"
	}
	if got := compare(t, write(t, evidence), []string{atEnd}, accesslog.Options{}); got.Matched != 10 {
		t.Errorf("noted at the end, or a second later: %+v", got)
	}

	// Requests that are noted at their ends, and take longer than the gaps between them.
	evidence, atEnd = "", ""
	for i := range 10 {
		took := 45 + 7*i%5
		evidence += fmt.Sprintf("%d start %d url=/%d agent=TestBot\n%d end %d\n", 20*i, i, i, 20*i+took, i)
		atEnd += accessLineOf(20*i+took, fmt.Sprintf("/%d", i)) + fmt.Sprintf(" %d.000\n", took)
	}
	if got := compare(t, write(t, evidence), []string{atEnd}, accesslog.Options{}); got.Matched != 10 {
		t.Errorf("long requests: %+v", got)
	}
	// A log of several hosts, of which one is asked for.
	both := append(feed(0), "b.example "+accessLineOf(5, "/x"), "a.example "+accessLineOf(6, "/x"))
	if got := compare(t, log, both, accesslog.Options{Host: "a.example"}); got.Requests != 2 {
		t.Errorf("%+v", got)
	}

	// A request that the evidence has twice, and the site once.
	twice := write(t, `
		0 start 1 url=/feed agent=TestBot
		0.2 end 1
		2 start 2 url=/feed agent=TestBot
		2.2 end 2
		60 start 3 url=/last agent=TestBot
		60.2 end 3
	`)
	others := strings.Replace(accessLineOf(-60, "/"), "TestBot", "OtherBot", 1)
	if got := compare(t, twice, []string{others, accessLineOf(0, "/feed"), accessLineOf(60, "/last")}, accesslog.Options{}); got.Matched != 2 || got.Unseen.N != 1 {
		t.Errorf("%v", got)
	}

	// Bodies that the evidence has none of, and a path that looks like a URL.
	log = write(t, `
		-10 start 9 url=/go/http://b.example/ agent=TestBot
		-9.8 end 9
		0 start 1 url=/feed agent=TestBot
		0.2 end 1 bytes=0
		10 start 2 url=/head method=HEAD agent=TestBot
		10.2 end 2 bytes=0
		20 start 3 url=/failed agent=TestBot
		20.2 fail 3 status=200 bytes=7
		30 start 4 url=/reset agent=TestBot
		30.2 fail 4
	`)
	access := []string{accessLineOf(-10, "/go/http://b.example/"), accessLineOf(0, "/feed"), strings.Replace(accessLineOf(10, "/head"), "GET", "HEAD", 1), accessLineOf(20, "/failed"), accessLineOf(30, "/reset")}
	got := compare(t, log, access, accesslog.Options{})
	if got.Matched != 5 || got.Status.N != 0 {
		t.Errorf("%v", got)
	}
}

// TestClocksInWords: no clock is -1 s ahead, and a second is none in a log of whole seconds.
func TestClocksInWords(t *testing.T) {
	log := write(t, `
		0 start 1 url=/feed agent=TestBot
		0.2 end 1
	`)
	for offset, want := range map[int]string{
		0:   "The two clocks agree within a second.",
		-1:  "The two clocks agree within a second.",
		40:  "The site's clock is 40s ahead.",
		-40: "The site's clock is 40s behind.",
	} {
		got := compare(t, log, []string{accessLineOf(offset, "/feed")}, accesslog.Options{}).Sentences()
		if !slices.Contains(got, want) {
			t.Errorf("%d s: %q, want %q", offset, got, want)
		}
	}
}

// TestWholeSecondsSetTheClock: a log that knows only those has each request up to a second early.
// Three of these agree all the same, and outvote two that agree exactly on another offset.
func TestWholeSecondsSetTheClock(t *testing.T) {
	var log string
	var access []string
	for i, site := range []int{0, 10, 20, 130, 140} {
		fraction := []int{0, 4, 8, 0, 0}[i]
		log += fmt.Sprintf("%d.%d start %d url=/%d agent=TestBot\n%d.%d end %d\n", 10*i, fraction, i, i, 10*i, fraction+1, i)
		access = append(access, accessLineOf(site, fmt.Sprintf("/%d", i)))
	}
	if got := compare(t, write(t, log), access, accesslog.Options{}); got.Offset.Abs() > 3*time.Second || got.Matched != 3 {
		t.Errorf("%v ahead: %+v", got.Offset, got)
	}
}

// TestTheClockIsSetTheSameWayEachTime: pages that were asked for equally often, at a site whose clock drifts,
// vote for one offset or another. Which of them vote mustn't differ from run to run.
func TestTheClockIsSetTheSameWayEachTime(t *testing.T) {
	var log string
	var access []string
	for i := range 60 {
		log += fmt.Sprintf("%d start %d url=/%d agent=TestBot\n%d.5 end %d\n", 100*i, i, i/2, 100*i, i)
		access = append(access, accessLineOf(110*i, fmt.Sprintf("/%d", i/2)))
	}
	evidence := write(t, log)
	first := compare(t, evidence, access, accesslog.Options{})
	for range 20 {
		if got := compare(t, evidence, access, accesslog.Options{}); got.Offset != first.Offset {
			t.Fatalf("%v ahead, and before %v", got.Offset, first.Offset)
		}
	}
}

// TestVerdictsOnTimesOfAccessLogs: two records of one request may be five seconds apart, by clocks that the other
// requests have set right.
func TestVerdictsOnTimesOfAccessLogs(t *testing.T) {
	log, access := visitsOf(t)
	for late, want := range map[int]int{-6: 9, -5: 10, 0: 10, 5: 10, 6: 9} {
		lines := slices.Clone(access)
		lines[8] = accessLineOf(3680+late, "/8")
		got := compare(t, log, lines, accesslog.Options{})
		if got.Matched != want || got.Missing.N != 10-want || got.Unseen.N != 10-want || (got.Offset-time.Hour).Abs() > time.Second {
			t.Errorf("%d s late: %v", late, got)
		}
	}

	// Eight pages that were asked for once, and nine that were asked for in secret too, a minute before: what the
	// clock is set by is the eight, as of two requests either may be the one of the evidence.
	log, access = "", nil
	for i := range 17 {
		log += fmt.Sprintf("%d start %d agent=TestBot\n%d.2 end %d\n", 100+10*i, i, 100+10*i, i)
		if access = append(access, accessLineOf(100+10*i, fmt.Sprintf("/%d", i))); i >= 8 {
			access = append(access, accessLineOf(40+10*i, fmt.Sprintf("/%d", i)))
		}
	}
	if got := compare(t, write(t, log), access, accesslog.Options{}); got.Matched != 17 || got.Missing.N != 9 || got.Offset.Abs() > time.Second {
		t.Errorf("secret requests a minute before: %v", got)
	}
}

// TestVerdictsOnRequestsThatOverlap: of two requests of one page at once, the site may note the shorter one
// between the start and the end of the other.
func TestVerdictsOnRequestsThatOverlap(t *testing.T) {
	log := `
		200 start 20 url=/feed agent=TestBot
		220 start 21 url=/feed agent=TestBot
		222 end 21
		260 end 20
	`
	var others []string
	for i := range 8 {
		log += fmt.Sprintf("%d start %d agent=TestBot\n%d.2 end %d\n", 10*i, i, 10*i, i)
		others = append(others, accessLineOf(10*i, fmt.Sprintf("/%d", i)))
	}
	log = write(t, log)
	for name, at := range map[string][2]int{"starts": {200, 220}, "ends": {222, 260}} {
		access := append(others, accessLineOf(at[0], "/feed"), accessLineOf(at[1], "/feed"))
		if got := compare(t, log, access, accesslog.Options{}); got.Matched != 10 || !got.OK() {
			t.Errorf("noted at their %s: %v", name, got)
		}
		access = append(access, accessLineOf(221, "/feed"))
		if got := compare(t, log, access, accesslog.Options{}); got.Missing.N != 1 {
			t.Errorf("noted at their %s, and a third one: %v", name, got)
		}
	}
}

// Eight pages that were asked for once set the clock, so that a feed whose times are a minute late in the evidence
// doesn't.
func TestVerdictsOnEvidenceThatLiesAboutTheTimesOfAFeed(t *testing.T) {
	log, access := "", []string{}
	for i := range 8 {
		log += fmt.Sprintf("%d start %d agent=TestBot\n%d.2 end %d\n", 10*i, i, 10*i, i)
		access = append(access, accessLineOf(10*i, fmt.Sprintf("/%d", i)))
	}
	for i := 10; i < 20; i++ {
		log += fmt.Sprintf("%d start %d url=/feed agent=TestBot\n%d.2 end %d\n", 100*i+60, i, 100*i+60, i)
		access = append(access, accessLineOf(100*i, "/feed"))
	}
	if got := compare(t, write(t, log), access, accesslog.Options{}); got.Matched != 8 || got.Missing.N != 10 || got.Offset.Abs() > time.Second {
		t.Errorf("%v", got)
	}
}

// TestVerdictsOnEvidenceOfManyCrawlers: the requests of the first 64 crawlers that the evidence names are looked for.
func TestVerdictsOnEvidenceOfManyCrawlers(t *testing.T) {
	log := "0 start 1 agent=bot-0-\n0.2 end 1\n"
	for i := range 70 {
		log += fmt.Sprintf("1 waiting agent=bot-%d-\n", i)
	}
	by := func(i int) string {
		return strings.Replace(accessLineOf(i, fmt.Sprintf("/%d", i)), "TestBot", fmt.Sprintf("Bot-%d-", i), 1)
	}
	log = write(t, log)
	if got := compare(t, log, []string{by(0), by(1), by(62), by(63), by(64), by(69)}, accesslog.Options{}); got.Requests != 4 {
		t.Errorf("%v", got)
	}
}

// TestNothingComparedIsNoOK: two logs that have nothing in common, or that can't be read, say nothing of
// the crawler. Neither is an OK.
func TestNothingComparedIsNoOK(t *testing.T) {
	log, access := visitsOf(t)
	other := func(agent string) (lines []string) {
		for _, l := range access {
			lines = append(lines, strings.Replace(l, "TestBot/1.0", agent, 1))
		}
		return lines
	}
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	fmt.Fprint(z, strings.Join(access, "\n"))
	z.Close()
	half := compressed.String()[:compressed.Len()/2]
	for name, c := range map[string]struct {
		access []string
		want   string
	}{
		"an empty log":                     {nil, "the access log is empty"},
		"another program's log":            {strings.Split(log, "\n"), "20 of 20 lines are in no format"},
		"a log in a format of its own":     {append(slices.Repeat([]string{"x"}, 11), access...), "11 of 21 lines are in no format"},
		"another product token":            {other("OtherBot/1.0"), "no line of the access log is a request of TestBot"},
		"a token that has ours in it":      {other("ATestBot/1.0"), "no line of the access log is a request of TestBot"},
		"ours twice in one word":           {other("TestBotTestBot/1.0"), "no line of the access log is a request of TestBot"},
		"and one that goes on behind ours": {other("TestBot-Video/1.0"), "no line of the access log is a request of TestBot"},
		"another page":                     {[]string{accessLineOf(0, "/x")}, "the site saw 1 request of TestBot, and none is in the evidence"},
	} {
		got, err := accesslog.Compare(strings.NewReader(log), accesslog.Options{}, strings.NewReader(strings.Join(c.access, "\n")))
		if !errors.Is(err, accesslog.ErrNothing) || !strings.Contains(err.Error(), c.want) || got == nil || got.OK() {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if c := compare(t, log, append(slices.Repeat([]string{"x"}, 10), access...), accesslog.Options{}); !c.OK() || c.Matched != 10 {
		t.Errorf("a log of which half is in a format of its own: %v", c)
	}
	if c, err := accesslog.Compare(strings.NewReader(log), accesslog.Options{}, strings.NewReader(half)); err == nil {
		t.Errorf("half a compressed log: %v", c)
	}
	if c := compare(t, log, other("ATestBot/1.0"), accesslog.Options{Agent: "testbot"}); !c.OK() {
		t.Errorf("a part of the User-Agent that the caller gives: %v", c)
	}
	// A line that isn't a decision names no crawler.
	if c := compare(t, log+"{\"agent\":\"OtherBot\"}\n", append(other("OtherBot/1.0"), access...), accesslog.Options{}); c.Requests != 10 {
		t.Errorf("%d requests: %v", c.Requests, c)
	}
}

// TestLogsMayBeCompressed: either may be, and each of several files by itself.
func TestLogsMayBeCompressed(t *testing.T) {
	log, access := visitsOf(t)
	zip := func(text string) io.Reader {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		fmt.Fprint(z, text)
		z.Close()
		return &b
	}
	access = append(access, accessLineOf(3695, "/secret"))
	c, err := accesslog.Compare(zip(log), accesslog.Options{}, strings.NewReader(strings.Join(access[4:], "\n")), zip(strings.Join(access[:4], "\n")))
	if err != nil || c.Matched != 10 || c.Missing.N != 1 || c.Missing.First[0].File != 1 || c.Missing.First[0].Line != 7 {
		t.Errorf("%v, %v", c, err)
	}
	if text := c.String(); !strings.Contains(text, "GET a.example/secret: file 1, line 7, from 192.0.2.1") {
		t.Error(text)
	}
}

// TestCaddysLogsAreRead: in JSON, which name their host, and when a request ended, to the microsecond.
func TestCaddysLogsAreRead(t *testing.T) {
	log, _ := visitsOf(t)
	var access []string
	for i := range 10 {
		stamp := fmt.Sprintf("%.6f", float64(moment(fmt.Sprint(10*i)).Add(200*time.Millisecond).UnixMicro())/1e6)
		switch i {
		case 8:
			stamp = `"2026-11-21T03:01:20.200Z"`
		case 9:
			stamp = `"2026-11-21T04:01:30.200+0100"`
		}
		access = append(access, fmt.Sprintf(`{"level":"info","ts":%s,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.1","remote_port":"4711",`+
			`"client_ip":"192.0.2.9","proto":"HTTP/2.0","method":"GET","host":"a.example","uri":"/%d","headers":{"User-Agent":["TestBot/1.0"],"Accept-Encoding":["gzip"]},`+
			`"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"","duration":0.200000123,"size":99999,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Encoding":["gzip"]}}`, stamp, i))
	}
	c := compare(t, log, access, accesslog.Options{})
	if !c.OK() || c.Matched != 10 || c.Offset.Abs() > time.Second || c.Unreadable != 0 {
		t.Error(c)
	}
	secret := strings.Replace(access[3], `"uri":"/3"`, `"uri":"/secret"`, 1)
	if c := compare(t, log, append(access, secret), accesslog.Options{}); c.Missing.N != 1 || c.Missing.First[0].Address != "192.0.2.9" {
		t.Error(c)
	}
	bad := []string{`{"level":"info","ts":1,"msg":"server running"}`, `{"request":{"method":"GET"}}`, `{`, strings.Replace(access[0], `"ts":`, `"ts":-`, 1)}
	if c := compare(t, log, append(access, bad...), accesslog.Options{}); c.Unreadable != 4 || !c.OK() {
		t.Error(c)
	}
}

// TestARefusalIsNotHiddenByLeaving: a crawler that says of a 429 that its caller had left slows down for
// nothing, and one that says of a request that it never sent it saves a page of its budget.
func TestARefusalIsNotHiddenByLeaving(t *testing.T) {
	log, access := visitsOf(t)
	lines := strings.Split(log, "\n")
	ended := func(i int, as func(d *evidence.Decision)) string {
		var d evidence.Decision
		if err := d.UnmarshalJSON([]byte(lines[2*i+1])); err != nil {
			t.Fatal(err)
		}
		d.Type, d.Allowed, d.Status, d.Bytes, d.Duration, d.Latency = evidence.Failed, false, 0, 0, 0, 0
		as(&d)
		changed := slices.Clone(lines)
		changed[2*i+1] = string(d.AppendJSON(nil))
		return strings.Join(changed, "\n")
	}
	gaveUp := ended(3, func(d *evidence.Decision) { d.Left, d.Err = true, "context canceled" })
	unsent := ended(3, func(d *evidence.Decision) { d.Reason = "the budget is spent" })
	failed := ended(3, func(d *evidence.Decision) { d.Err = "connection reset" })
	killed := strings.Join(slices.Delete(slices.Clone(lines), 7, 8), "\n")
	answered := ended(3, func(d *evidence.Decision) { d.Left, d.Status = true, 429 })
	refused := slices.Clone(access)
	refused[3] = strings.Replace(refused[3], " 200 ", " 429 ", 1)
	for name, c := range map[string]struct {
		log                string
		access             []string
		left, unsent, seen int
	}{
		"left, and served":                   {gaveUp, access, 0, 0, 10},
		"left, and refused":                  {gaveUp, refused, 1, 0, 10},
		"left after the refusal":             {answered, refused, 0, 0, 10},
		"in the evidence behind no record":   {"nonsense\n{}\n" + gaveUp, refused, 1, 0, 10},
		"never sent, and served":             {unsent, access, 0, 1, 10},
		"never sent, and refused":            {unsent, refused, 0, 1, 10},
		"never sent, and not seen":           {unsent, slices.Delete(slices.Clone(access), 3, 4), 0, 0, 9},
		"a connection that broke, and a 200": {failed, access, 0, 0, 10},
		"a connection that broke, and a 429": {failed, refused, 1, 0, 10},
		"a process that was killed, a 429":   {killed, refused, 0, 0, 10},
	} {
		got := compare(t, c.log, c.access, accesslog.Options{})
		if got.Left.N != c.left || got.Unsent.N != c.unsent || got.Matched != c.seen || got.OK() != (c.left+c.unsent == 0) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestALineOfAnotherHostIsTold: a client may choose what proxies write before its address, and with that
// the virtual host that a line seems to name.
func TestALineOfAnotherHostIsTold(t *testing.T) {
	log, access := visitsOf(t)
	hidden := func(before string) string { return before + accessLineOf(3605, "/hidden") }
	for _, c := range []struct {
		before             string
		missing, elsewhere int
	}{
		{"203.0.113.7, ", 1, 0},
		{"203.0.113.7, 198.51.100.1, ", 1, 0},
		{"b.example, ", 1, 0},
		{"unknown, 198.51.100.1, ", 1, 0},
		{"a.example ", 1, 0},
		{"b.example ", 0, 1},
	} {
		got := compare(t, log, append([]string{hidden(c.before)}, access...), accesslog.Options{Host: "a.example"})
		told := strings.Contains(got.String(), "\n1 request of this crawler in lines of another host.\n")
		if got.Missing.N != c.missing || got.Elsewhere != c.elsewhere || told != (c.elsewhere > 0) || got.Matched != 10 {
			t.Errorf("%s: %v", c.before, got)
		}
		if c.missing > 0 && strings.HasSuffix(got.Missing.First[0].Address, ",") {
			t.Errorf("%s: an address %q", c.before, got.Missing.First[0].Address)
		}
	}
}
