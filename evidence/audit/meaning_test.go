package audit

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// TestJudgeReadsAnswersAlike holds the judge's own rules against those of the limiter: for each status,
// by the question and the header, with the policy of the default and of Conservative.
func TestJudgeReadsAnswersAlike(t *testing.T) {
	words := map[meaning]rules.Meaning{
		silent: rules.Silent, served: rules.Success, unsure: rules.Unsure, forbidden: rules.Forbidden, refusing: rules.Refused,
	}
	for _, policy := range []backoff.Refusals{{}, {Statuses: []int{403}, AtLeast: true}} {
		limiter, err := rules.New(hostlimit.Config{Backoff: policy})
		if err != nil {
			t.Fatal(err)
		}
		judge := &transport{policy: &evidence.Policy{AtLeast: policy.AtLeast}}
		for _, status := range policy.Statuses {
			judge.statuses = append(judge.statuses, fmt.Sprint(status))
		}
		for status := -1; status <= 999; status++ {
			for bits := range 64 {
				has := func(bit int) bool { return bits>>bit&1 == 1 }
				o := hostlimit.Outcome{Status: status, Conditional: has(1), Page: has(2), Aside: has(3)}
				if has(0) {
					o.Method = "HEAD"
				}
				if has(4) {
					o.RetryAfter = time.Minute
				}
				if has(5) {
					o.Refused = "a challenge"
				}
				d := &evidence.Decision{Status: status, Method: o.Method, Conditional: o.Conditional, Page: o.Page, RobotsTxt: o.Aside, Refused: o.Refused}
				if status == 0 {
					d.Left = true // an Outcome without an error is that of a caller that left
				}
				want := limiter.Meaning(&o)
				if got := words[judge.meaning(d, int64(o.RetryAfter))]; got != want {
					t.Errorf("%+v, AtLeast %v: the judge takes it for %v, the limiter for %v", o, policy.AtLeast, got, want)
				}
			}
		}
	}
}
