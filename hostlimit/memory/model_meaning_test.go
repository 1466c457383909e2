package memory_test

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// TestModelReadsAnswersAlike holds the model's own rules against those of the limiter, for each status,
// by the question and the header: random programs meet few of them.
func TestModelReadsAnswersAlike(t *testing.T) {
	for _, policy := range []backoff.Refusals{{}, {Statuses: []int{403}, AtLeast: true, Network: true}} {
		limiter, err := rules.New(hostlimit.Config{Backoff: policy})
		if err != nil {
			t.Fatal(err)
		}
		p := &program{refusals: limiter.Backoff()}
		for status := 1; status <= 1024; status++ {
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
				if got, want := p.meaning(o), limiter.Meaning(&o); got != want {
					t.Errorf("%+v, AtLeast %v: the model takes it for %v, the limiter for %v", o, policy.AtLeast, got, want)
				}
			}
		}
	}
}

// meaning is what the model makes of an answer, as the cases of model.observe have it.
func (p *program) meaning(o hostlimit.Outcome) rules.Meaning {
	switch {
	case p.refuses(o):
		return rules.Refused
	case p.cannot(o):
		return rules.Unsure
	case p.forbids(o):
		return rules.Forbidden
	case !p.asksWrongly(o) && !o.Aside:
		return rules.Success
	}
	return rules.Silent
}
