package rules_test

import (
	"fmt"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// A Limiter of one's own compiles its Config once, and keeps a Refusals for each key.
func ExampleRules() {
	checked, err := rules.New(hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}})
	if err != nil {
		panic(err)
	}
	limits, err := checked.Limits("example.com")
	if err != nil {
		panic(err)
	}
	fmt.Println(limits.Concurrency, "slots, a start each", rules.Draw(&limits.Delay))

	var r rules.Refusals
	now := 10 * time.Second // since any moment
	e := r.Observe(checked, hostlimit.Outcome{Status: 429, RetryAfter: time.Minute}, rules.Turn{
		Now: now, Number: 1, Last: 1, Delay: &limits.Delay, Gap: time.Second,
	})
	fmt.Println("blocked:", e.Blocked, "by", r.Cause, "until", r.Until)
	// Output:
	// 2 slots, a start each 1s
	// blocked: true by status 429 until 1m10s
}
