package promises_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// TestRefusalsInAnyWords: what an answer says blocks its host for as long as it says, and the record
// tells what decided, and in which words; the answer is handed over all the same.
func TestRefusalsInAnyWords(t *testing.T) {
	captcha := errors.New("a captcha")
	for name, c := range map[string]struct {
		status  int
		headers []string
		policy  backoff.Policy // nil: Fibonacci, of which the first step is a second
		block   time.Duration  // 0: none
		reason  string
		limit   string // fields of a rate limit on record
	}{
		"status alone":            {429, nil, nil, time.Second, "by the backoff policy", ""},
		"a short policy":          {429, nil, backoff.Fibonacci{Unit: 500 * time.Millisecond}, 500 * time.Millisecond, "by the backoff policy", ""},
		"Retry-After":             {429, []string{"Retry-After", "60"}, nil, time.Minute, "by Retry-After", ""},
		"Retry-After of 1 s":      {503, []string{"Retry-After", "1"}, nil, time.Second, "by Retry-After", ""},
		"Retry-After, unreadable": {429, []string{"Retry-After", "soon"}, nil, time.Second, "by the backoff policy", ""},
		"Retry-After, too short":  {429, []string{"Retry-After", "9"}, backoff.Refusals{Policy: backoff.Fibonacci{Unit: 10 * time.Second}, AtLeast: true}, 10 * time.Second, "by the backoff policy", ""},
		"RateLimit":               {200, []string{"RateLimit", `"day";r=0;t=30`}, nil, 30 * time.Second, "by RateLimit, which has nothing left", `"day";r=0;t=30`},
		"RateLimit, two lines":    {200, []string{"RateLimit", `"day";r=7;t=9`, "RateLimit", `"hour";r=0;t=30`}, nil, 30 * time.Second, "by RateLimit, which has nothing left", `"day";r=7;t=9, "hour";r=0;t=30`},
		"RateLimit, some left":    {200, []string{"RateLimit", `"day";r=7;t=9`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"}, nil, 0, "", ""},
		"RateLimit, and less":     {429, []string{"RateLimit", `"day";r=0;t=59`}, backoff.Refusals{Policy: backoff.Fibonacci{Unit: time.Minute}, AtLeast: true}, time.Minute, "by the backoff policy", `"day";r=0;t=59`},
		"X-RateLimit":             {200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"}, nil, 30 * time.Second, "by RateLimit, which has nothing left", "remaining=0, reset=30"},
		"RateLimit-Remaining":     {200, []string{"RateLimit-Remaining", "0", "RateLimit-Reset", "30"}, nil, 30 * time.Second, "by RateLimit, which has nothing left", "remaining=0, reset=30"},
		"X-RateLimit, some left":  {200, []string{"X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "30"}, nil, 0, "", ""},
		"both":                    {429, []string{"Retry-After", "9", "RateLimit", `"day";r=0;t=30`}, nil, 9 * time.Second, "by Retry-After", `"day";r=0;t=30`},
		"a challenge":             {403, []string{"Cf-Mitigated", "Challenge"}, nil, time.Second, "by the backoff policy: cf-mitigated: challenge", ""},
		"a challenge of AWS WAF":  {202, []string{"X-Amzn-Waf-Action", "challenge"}, nil, time.Second, "by the backoff policy: x-amzn-waf-action: challenge", ""},
		"a challenge of DataDome": {403, []string{"X-Datadome", "protected"}, nil, time.Second, "by the backoff policy: x-datadome", ""},
		"a page behind DataDome":  {200, []string{"X-Datadome", "protected"}, nil, 0, "", ""},
		"no challenge":            {200, []string{"Cf-Mitigated", "block"}, nil, 0, "", ""},
		"the user's own eye":      {200, []string{"X-Captcha", "1", "Retry-After", "60"}, nil, time.Minute, "by Retry-After: a captcha", ""},
	} {
		cfg := politeness.Config{
			Hosts: hostlimit.Config{Backoff: c.policy},
			IsRefusal: func(resp *http.Response) error {
				if resp.Request.URL.Path == "/robots.txt" {
					t.Error("the user's own eye is for pages")
				}
				if resp.Header.Get("X-Captcha") != "" {
					return captcha
				}
				return nil
			},
		}
		virtually(t, cfg, func(b *bubble) {
			b.site.Robots("User-agent: *\n").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for i := 0; i < len(c.headers); i += 2 {
					w.Header().Add(c.headers[i], c.headers[i+1])
				}
				w.WriteHeader(c.status)
			}))
			b.mustGet("https://example.com/", c.status)
			fetched := b.log.Decisions(evidence.Fetched)[1]
			_, refused, _ := strings.Cut(c.reason, ": ")
			asked := "" // by Retry-After
			if i := slices.Index(c.headers, "Retry-After"); i >= 0 {
				asked = c.headers[i+1]
			}
			if fetched.RetryAfter != asked || fetched.RateLimit != c.limit || fetched.Refused != refused {
				b.Errorf("%s: on record as %q, %q, %q", name, fetched.RetryAfter, fetched.RateLimit, fetched.Refused)
			}
			if c.block == 0 {
				if got := b.log.Decisions(evidence.HostBlocked); len(got) != 0 {
					b.Errorf("%s: %+v", name, got)
				}
				return
			}
			d := b.one(evidence.HostBlocked)
			if length := d.Until.Sub(d.Time); length != c.block || d.Reason != c.reason || d.Status != c.status || d.RateLimit != c.limit {
				b.Errorf("%s: blocked for %v, status %d, %q, as %q", name, length, d.Status, d.Reason, d.RateLimit)
			}
		})
	}
}

// TestTimeoutOfAnError: url.Error.Timeout, by which callers tell what is worth another try, asks it.
func TestTimeoutOfAnError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{politeness.ErrBusy, true},
		{http.ErrHandlerTimeout, false},
		{politeness.ErrDisallowed, false},
		{timeoutError(true), true},
		{timeoutError(false), false},
	} {
		e := &politeness.Error{Stage: politeness.StageRobots, Err: errors.Join(politeness.ErrUnreachable, c.err)}
		if e.Timeout() != c.want {
			t.Errorf("%v: Timeout is %t", c.err, e.Timeout())
		}
	}
}

// A timeoutError is a network's error.
type timeoutError bool

func (e timeoutError) Error() string { return "no response" }
func (e timeoutError) Timeout() bool { return bool(e) }

func TestChallenged(t *testing.T) {
	resp := &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{"X-Amzn-Waf-Action": {"challenge"}}}
	if err := politeness.Challenged(resp); err == nil || err.Error() != "a challenge: x-amzn-waf-action: challenge" {
		t.Errorf("error %v", err)
	}
	resp.Header = http.Header{"Server": {"cloudflare"}}
	if err := politeness.Challenged(resp); err != nil {
		t.Errorf("error %v for a page", err)
	}
}
