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
			http.Header{"Cf-Mitigated": {"Challenge"}},
			hints.Hints{Refused: "cf-mitigated: challenge"},
			hostlimit.Outcome{Refused: "cf-mitigated: challenge"},
		},
		{http.Header{"Cf-Mitigated": {"block"}}, hints.Hints{}, hostlimit.Outcome{}},
	} {
		c.want.Status = 200
		h, o := hints.Read(&http.Response{StatusCode: 200, Header: c.header})
		if h != c.hints || o != c.want {
			t.Errorf("%v: %+v, %+v, want %+v, %+v", c.header, h, o, c.hints, c.want)
		}
	}
}
