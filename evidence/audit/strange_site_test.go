package audit_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/robots"
)

// A strangeSite answers as it likes. Without a Date of its own the answer has the right one.
type strangeSite func(r *http.Request) (status int, h http.Header, body string)

func (s strangeSite) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(50 * time.Millisecond) // virtual
	status, h, body := s(r)
	if h = h.Clone(); h == nil {
		h = http.Header{}
	}
	if h["Date"] == nil {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	return &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: r, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// judgeStrange fails the test if the log of a crawl of a strange site is broken. The crawl begins at
// midnight of 1 January 2000.
func judgeStrange(t *testing.T, name string, site strangeSite, purposes []robots.Purpose, urls ...string) {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		sink := logtest.New(t, &log, evidence.LogConfig{Chained: true})
		cfg := politeness.Config{UserAgent: "TestBot/1.0 (+https://bot.example/; a@bot.example)", Evidence: sink, Base: site, Purposes: purposes}
		cfg.Robots.RecordText = true
		transport, err := politeness.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range urls {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := (&http.Client{Transport: transport}).Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if r := check(t, log.Bytes()); !r.OK() {
		t.Errorf("%s: %v", name, r.Violations)
	}
}

// TestNoHeaderBreaksAnHonestLog, whatever a server has in it and what its clock says.
func TestNoHeaderBreaksAnHonestLog(t *testing.T) {
	at := func(layout string, d time.Duration) string {
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(layout)
	}
	try := func(status int, h http.Header) {
		t.Helper()
		asked := 0
		judgeStrange(t, http.StatusText(status)+" "+strings.TrimSpace(headerText(h)), func(r *http.Request) (int, http.Header, string) {
			if asked++; r.URL.Path == "/robots.txt" || asked > 2 {
				return 200, nil, ""
			}
			return status, h, "x"
		}, nil, "https://a.example/1", "https://a.example/2", "https://a.example/3")
	}
	for _, status := range []int{503, 429, 403, 200, 500} {
		for _, after := range []string{
			"30", " 30 ", "+30", "-30", "30.5", "0", "00", "99999999999999999999", "30, 60", "0x1e", "٣٠", strings.Repeat("0", 70), strings.Repeat("0", 70) + "30",
			strings.Repeat("9", 80), strings.Repeat("soon ", 20), at(http.TimeFormat, time.Minute), at("Monday, 02-Jan-06 15:04:05 GMT", time.Minute),
			"Saturday, 01-Jan-00 00:01:00 PST", "Sat Jan  1 00:01:00 2000", "Mon, 01 Jan 2000 00:01:00 GMT", at(http.TimeFormat, time.Minute) + strings.Repeat(" ", 80),
			"Sat, 01 Jan 2000 00:00:60 GMT", "Saturday, 01-Jan-00 00:00:60 GMT", "Sat Jan  1 00:00:60 2000", "Sat, 01 Jan 2000 24:01:00 GMT", "Sat, 01          Jan 2000 00:01:00 GMT",
			"Sat, 01 Jan 2099 00:01:00 GMT", "Saturday, 01-Jan-49 00:00:00 GMT", "Saturday, 01-Jan-99 00:01:00 GMT",
		} {
			try(status, http.Header{"Retry-After": {after}})
			try(status, http.Header{"Retry-After": {after, "60"}})
			try(status, http.Header{"Retry-After": {"60", after}})
			for _, date := range []string{
				after, "Fri, 31 Dec 1999 23:00:00 GMT", "Saturday, 01-Jan-00 00:00:30 GMT", "Sat, 01 Jan 2000 00:00:60 GMT", at(http.TimeFormat, 0) + strings.Repeat(" ", 80),
			} {
				try(status, http.Header{"Retry-After": {after}, "Date": {date}})
			}
		}
		for _, ahead := range []time.Duration{-5 * time.Minute, -2 * time.Second, 5 * time.Minute} {
			for _, after := range []time.Duration{-time.Minute, 0, time.Second, 30 * time.Second} {
				try(status, http.Header{"Date": {at(http.TimeFormat, ahead)}, "Retry-After": {at(http.TimeFormat, ahead+after)}})
			}
		}
		for _, left := range []http.Header{
			{"Ratelimit": {`"d";r=0;t=30, "e";r=5;t=100`}},
			{"Ratelimit": {`d;r=0;t=30.5`}},
			{"Ratelimit": {`"` + strings.Repeat("d", 80) + `";r=0;t=30`}},
			{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"30.5"}},
			{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"946684830000"}},
			{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"946684830"}, "Date": {"Sat, 01 Jan 2000 00:00:00 GMT" + strings.Repeat(" ", 80)}},
		} {
			try(status, left)
		}
	}
}

func headerText(h http.Header) string {
	var b strings.Builder
	_ = h.Write(&b)
	return b.String()
}

// TestNoLicenseBreaksAnHonestLog: a site may write into it what looks like a reservation.
func TestNoLicenseBreaksAnHonestLog(t *testing.T) {
	const license = "https://a.example/l, search refused"
	for name, site := range map[string]strangeSite{
		"in robots.txt": func(*http.Request) (int, http.Header, string) {
			return 200, nil, "User-agent: *\nDisallow: /private\nLicense: " + license + "\n"
		},
		"in a header": func(*http.Request) (int, http.Header, string) {
			return 200, http.Header{"Tdm-Policy": {license}}, "User-agent: *\nDisallow: /private\n"
		},
	} {
		judgeStrange(t, name, site, []robots.Purpose{robots.Search}, "https://a.example/page")
	}
}

// TestNoRobotsTxtBreaksAnHonestLog: its text, and rules about what a record of the URL lacks.
func TestNoRobotsTxtBreaksAnHonestLog(t *testing.T) {
	var urls []string
	for _, target := range []string{
		"/", "/a", "/a%2fb", "/a*b", "/%c3%bc", "/a?next=http:/u:secret@h", "/a?next=HTTP:u:secret@h", "/a?x=//u:secret@h", `/a?x=\\u:secret@h`, "/b;REDACTED",
		"/b[...]", "/a$", "/a%24", "/%00", "/a%0a", "/secret", "/a//b", "/a?q=a@b", "//x", "/a?next=https://h/x", "/a?mail=mailto:u:secret@h", "/a?x=:u@secret",
		`/a?x=https:\\u:secret@h/`, "/a?x=ftp:u:secret@h", `/a?x=ftp:/\u:secret@h`,
	} {
		urls = append(urls, "https://a.example"+target)
	}
	for _, text := range []string{
		"User-agent: *\nDisallow: /*secret\n", "User-agent: *\nDisallow: /*u:\n", "User-agent: *\nDisallow: /a?*@\n", "User-agent: *\nDisallow: /\xff\nDisallow: /*\xc3\xbc\nAllow: /\n",
		"User-agent: *\rDisallow: /a\r", "\xef\xbb\xbfUser-agent: *\nDisallow: /a", "User-agent: *\x00\nDisallow: /a\x00b\n", "user-agent *\ndisallow /a\n",
		"User-agent: *\nDisallow: /" + strings.Repeat("a", 20000) + "\nDisallow: /" + strings.Repeat("*a", 200) + "\nDisallow: /a" + strings.Repeat("*", 400) + "\n",
		"User-agent: *\nCrawl-delay: 2\nRequest-rate: 1/3\nDisallow: /a\u2028\n", "User-agent: TestBot\nDisallow: /a\nUser-agent: testbot/2\nDisallow: /b\n",
		"User-agent: *\nDisallow: /a%\nDisallow: /%2\nDisallow: /a*b$\nDisallow: /a$$\n", "User-agent: *\nDisallow: */a\nDisallow: *\nAllow: /$\n",
		"User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /a train-ai=y\nContent-Signal: search=yes, ai-train=no\nLicense: \xff\x01\u2028 https://x:y@z/\n",
	} {
		judgeStrange(t, text[:min(len(text), 40)], func(r *http.Request) (int, http.Header, string) {
			if r.URL.Path == "/robots.txt" {
				return 200, nil, text
			}
			return 200, nil, "x"
		}, nil, urls...)
	}
}
