package hints_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hints"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		hints  hints.Hints
		want   hostlimit.Outcome
	}{
		{http.Header{}, hints.Hints{}, hostlimit.Outcome{}},
		{http.Header{"Retry-After": {"7"}}, hints.Hints{RetryAfter: "7"}, hostlimit.Outcome{RetryAfter: 7 * time.Second}},
		{http.Header{"Retry-After": {"soon", "5", "9", "1"}}, hints.Hints{RetryAfter: "9"}, hostlimit.Outcome{RetryAfter: 9 * time.Second}},
		{http.Header{"Retry-After": {"soon"}}, hints.Hints{RetryAfter: "soon"}, hostlimit.Outcome{}},
		{http.Header{"Ratelimit": {`"p";r=0;t=30`}}, hints.Hints{RateLimit: `"p";r=0;t=30`}, hostlimit.Outcome{Reset: 30 * time.Second}},
		{http.Header{"Ratelimit": {`"p";r=1;t=30`}}, hints.Hints{}, hostlimit.Outcome{}},
		{
			http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"8"}},
			hints.Hints{RateLimit: "remaining=0, reset=8"},
			hostlimit.Outcome{Reset: 8 * time.Second},
		},
		{
			http.Header{"Retry-After-Ms": {"51932"}},
			hints.Hints{RetryAfter: "51932ms"},
			hostlimit.Outcome{RetryAfter: 52 * time.Second},
		},
		{
			http.Header{"Retry-After": {"1"}, "X-Retry-In": {"2580ms"}},
			hints.Hints{RetryAfter: "2580ms"},
			hostlimit.Outcome{RetryAfter: 3 * time.Second},
		},
		{
			http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"1500, 1600"}},
			hints.Hints{RetryAfter: "2"},
			hostlimit.Outcome{RetryAfter: 2 * time.Second},
		},
		{
			http.Header{"Retry-After-Short": {"1"}, "Retry-After-Long": {"40"}},
			hints.Hints{RetryAfter: "40"},
			hostlimit.Outcome{RetryAfter: 40 * time.Second},
		},
		{
			http.Header{"X-Retry-After": {"86400"}},
			hints.Hints{RetryAfter: "3600"},
			hostlimit.Outcome{RetryAfter: time.Hour},
		},
		{http.Header{"X-Retry-Count": {"7"}, "Retried": {"7"}}, hints.Hints{}, hostlimit.Outcome{}},
		{http.Header{"Retryafter": {"7"}}, hints.Hints{RetryAfter: "7"}, hostlimit.Outcome{RetryAfter: 7 * time.Second}},
		{http.Header{"Retry_after": {"7"}}, hints.Hints{RetryAfter: "7"}, hostlimit.Outcome{RetryAfter: 7 * time.Second}},
		{
			http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset-After-Ms": {"9500"}},
			hints.Hints{RateLimit: "remaining=0, reset=9500ms"},
			hostlimit.Outcome{Reset: 10 * time.Second},
		},
		{
			http.Header{"X-Rate-Limit-Remaining": {"0"}, "X-Rate-Limit-Reset-Ts": {"8"}},
			hints.Hints{RateLimit: "remaining=0, reset=8"},
			hostlimit.Outcome{Reset: 8 * time.Second},
		},
		{
			http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"8"}, "X-Ratelimit-Reset-Date": {"90"}},
			hints.Hints{RateLimit: "remaining=0, reset=8"},
			hostlimit.Outcome{Reset: 8 * time.Second},
		},
		{http.Header{"X-Ratelimit-Reset": {"8"}}, hints.Hints{}, hostlimit.Outcome{}},
		{
			http.Header{"X-Rate-Limit-Remaining": {"0"}, "X-Rate-Limit-Reset": {"8"}},
			hints.Hints{RateLimit: "remaining=0, reset=8"},
			hostlimit.Outcome{Reset: 8 * time.Second},
		},
		{
			http.Header{"Rate-Limit-Remaining": {"0"}, "Rate-Limit-Reset": {"8"}},
			hints.Hints{RateLimit: "remaining=0, reset=8"},
			hostlimit.Outcome{Reset: 8 * time.Second},
		},
		{
			http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset-After": {"1.5"}},
			hints.Hints{RateLimit: "remaining=0, reset=1.5"},
			hostlimit.Outcome{Reset: 2 * time.Second},
		},
		{
			http.Header{
				"X-Ratelimit-Remaining-Short": {"0"}, "X-Ratelimit-Reset-Short": {"3"},
				"X-Ratelimit-Remaining-Long": {"7"}, "X-Ratelimit-Reset-Long": {"60"},
			},
			hints.Hints{RateLimit: "remaining=0, reset=3"},
			hostlimit.Outcome{Reset: 3 * time.Second},
		},
		{
			http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"6m0s"}},
			hints.Hints{RateLimit: "remaining=0, reset=6m0s"},
			hostlimit.Outcome{Reset: 6 * time.Minute},
		},
		{
			http.Header{"Ratelimit-Remaining": {"0;w=60"}, "Ratelimit-Limit": {"100;w=60"}},
			hints.Hints{RateLimit: "remaining=0;w=60, reset="},
			hostlimit.Outcome{Reset: time.Minute},
		},
		{http.Header{"X-Ratelimit-Remaining": {"0"}}, hints.Hints{}, hostlimit.Outcome{}},
		{http.Header{"X-Remaining": {"0"}, "X-Reset": {"8"}}, hints.Hints{}, hostlimit.Outcome{}},
		{
			http.Header{"Ratelimit": {"limit=60, remaining=0, reset=8"}},
			hints.Hints{RateLimit: "limit=60, remaining=0, reset=8"},
			hostlimit.Outcome{Reset: 8 * time.Second},
		},
		{
			http.Header{"Cf-Mitigated": {"Challenge"}},
			hints.Hints{Refused: "cf-mitigated: challenge"},
			hostlimit.Outcome{Refused: "cf-mitigated: challenge"},
		},
	} {
		c.want.Status = 200
		h, o := hints.Read(&http.Response{StatusCode: 200, Header: c.header})
		if h != c.hints || o != c.want {
			t.Errorf("%v: %+v, %+v, want %+v, %+v", c.header, h, o, c.hints, c.want)
		}
	}
}

// TestReadOfA429: a 429 tells that nothing is left, so the reset alone is the wait.
func TestReadOfA429(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"a reset":                     {http.Header{"X-Ratelimit-Reset": {"8"}}, 8 * time.Second},
		"in milliseconds":             {http.Header{"X-Rate-Limit-Reset-Ms": {"7001"}}, 8 * time.Second},
		"more was asked than is left": {http.Header{"X-Ratelimit-Remaining": {"-3"}, "X-Ratelimit-Reset": {"8"}}, 8 * time.Second},
		"a quota with another name":   {http.Header{"X-Ratelimit-Remaining-Minute": {"0"}, "Ratelimit-Reset": {"8"}}, 8 * time.Second},
		"a day has something left": {http.Header{
			"X-Ratelimit-Remaining-Minute": {"0"}, "X-Ratelimit-Remaining-Day": {"500"}, "X-Ratelimit-Reset-Day": {"40000"},
		}, time.Minute},
		"a day has nothing left": {http.Header{
			"X-Ratelimit-Remaining-Minute": {"3"}, "X-Ratelimit-Remaining-Day": {"0"}, "X-Ratelimit-Limit-Day": {"500"},
		}, time.Hour},
		"two windows are empty": {http.Header{
			"X-Ratelimit-Remaining-Second": {"0"}, "X-Ratelimit-Remaining-Minute": {"0"},
		}, time.Minute},
		"a window without a length": {http.Header{
			"X-Ratelimit-Remaining-Short": {"0"}, "X-Ratelimit-Remaining-Long": {"7"}, "X-Ratelimit-Reset-Long": {"60"},
		}, 0},
		"one reset of two is another's": {http.Header{
			"X-Ratelimit-Remaining-Short": {"0"}, "X-Ratelimit-Remaining-Long": {"7"}, "X-Ratelimit-Reset-Long": {"60"},
			"X-Ratelimit-Reset": {"5"},
		}, 5 * time.Second},
		"something is left":              {http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Reset": {"8"}}, 0},
		"something is left of a new one": {http.Header{"Ratelimit": {`"a";r=5;t=8`}, "X-Ratelimit-Reset": {"8"}}, 0},
		"a reset that has passed":        {http.Header{"X-Ratelimit-Reset": {"1000000000"}}, 0},
		"no time":                        {http.Header{"X-Ratelimit-Reset": {"soon"}}, 0},
		"at most an hour":                {http.Header{"X-Ratelimit-Reset": {"86400"}}, time.Hour},
		"a reset of something else":      {http.Header{"X-Password-Reset": {"8"}}, 0},
	} {
		h, o := hints.Read(&http.Response{StatusCode: 429, Header: c.header})
		if o.Reset != c.want || (h.RateLimit == "") != (c.want == 0) {
			t.Errorf("%s: %v, %q, want %v", name, o.Reset, h.RateLimit, c.want)
		}
		if _, o := hints.Read(&http.Response{StatusCode: 200, Header: c.header}); o.Reset > 0 {
			t.Errorf("%s: %v with status 200", name, o.Reset)
		}
	}
}

// TestReadOfAFailureWithNothingLeft: a 5xx of a host with nothing left of its rate limit is the host's,
// also if it states no time.
func TestReadOfAFailureWithNothingLeft(t *testing.T) {
	none := http.Header{"X-Ratelimit-Remaining": {"0"}}
	for _, c := range []struct {
		status int
		header http.Header
		want   string
	}{
		{503, none, "x-ratelimit-remaining: 0"},
		{500, none, "x-ratelimit-remaining: 0"},
		{503, http.Header{"X-Ratelimit-Remaining": {"1"}}, ""},
		{503, http.Header{"X-Ratelimit-Remaining": {"-1"}}, ""},
		{503, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"8"}}, ""},
		{503, http.Header{"X-Ratelimit-Remaining": {"0"}, "Retry-After": {"8"}}, ""},
		{200, none, ""},
		{404, none, ""},
		{429, none, ""},
	} {
		h, o := hints.Read(&http.Response{StatusCode: c.status, Header: c.header})
		if o.Refused != c.want || h.Refused != c.want {
			t.Errorf("%d with %v: %q, want %q", c.status, c.header, o.Refused, c.want)
		}
	}
}

// A response without such fields, which nearly all are, costs no memory.
func TestReadAllocatesNothing(t *testing.T) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{
		"Date": {"Sat, 28 Nov 2026 09:18:27 GMT"}, "Content-Type": {"text/html"}, "Etag": {`"1"`},
		"X-Ratelimit-Remaining": {"59"}, "X-Ratelimit-Reset": {"30"}, "Vary": {"Accept-Encoding"},
	}}
	if n := testing.AllocsPerRun(100, func() { hints.Read(resp) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRead(b *testing.B) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{
		"Date": {"Sat, 28 Nov 2026 09:18:27 GMT"}, "Content-Type": {"text/html"}, "Etag": {`"1"`},
		"Server": {"nginx"}, "Last-Modified": {"Sat, 28 Nov 2026 09:18:27 GMT"}, "Vary": {"Accept-Encoding"},
		"Cache-Control": {"no-cache"}, "Content-Length": {"1000"}, "Connection": {"keep-alive"},
	}}
	b.ReportAllocs()
	for b.Loop() {
		hints.Read(resp)
	}
}

func TestChallenge(t *testing.T) {
	for _, c := range []struct {
		name, value string
		status      int
		want        string
	}{
		{"Cf-Mitigated", "challenge", 403, "cf-mitigated: challenge"},
		{"Cf-Mitigated", " Challenge", 200, "cf-mitigated: challenge"},
		{"Cf-Mitigated", "block", 403, ""},
		{"Cf-Mitigated", "", 403, ""},
		{"X-Amzn-Waf-Action", "challenge", 202, "x-amzn-waf-action: challenge"},
		{"X-Amzn-Waf-Action", "captcha", 405, "x-amzn-waf-action: captcha"},
		{"X-Amzn-Waf-Action", "challenge captcha", 202, ""},
		{"X-Amzn-Waf-Action", "count", 200, ""},
		{"X-Vercel-Mitigated", "challenge", 429, "x-vercel-mitigated: challenge"},
		{"X-Vercel-Mitigated", "deny", 403, ""},
		{"X-Datadome", "protected", 403, "x-datadome"},
		{"X-Datadome", "", 401, "x-datadome"},
		{"X-Datadome", "protected", 200, ""},
		{"X-Datadome", "protected", 404, ""},
		{"X-Dd-B", "1", 403, "x-dd-b"},
		{"X-Px-Blocked", "1", 403, "x-px-blocked: 1"},
		{"X-Px-Blocked", "0", 200, ""},
		{"X-Frame-Options", "challenge", 403, ""},
	} {
		resp := &http.Response{StatusCode: c.status, Header: http.Header{c.name: {c.value}}}
		if got := hints.Challenge(resp); got != c.want {
			t.Errorf("%s: %s with status %d: %q, want %q", c.name, c.value, c.status, got, c.want)
		}
		if o := hints.Outcome(resp); o.Refused != c.want {
			t.Errorf("%s: %s with status %d: the Outcome has %q", c.name, c.value, c.status, o.Refused)
		}
	}
}
