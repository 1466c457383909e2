package audit_test

import (
	"fmt"
	"testing"
)

// TestVerdictsOnDelaysByResponseTimes: an answer that took so long makes the delay after it so long, by
// the formula of the policy; a shorter gap is broken, once the limiter surely had heard of the answer.
func TestVerdictsOnDelaysByResponseTimes(t *testing.T) {
	const unknown = "open, delays kept: how the delay is moved is believed, not derived"
	const between = "open, delays kept: a start so soon after an answer, or after several at about one time, that the limiter may have reckoned otherwise"
	checkRows(t, "policy ceiling=60 adaptive=Squared\nsite \"\"", []row{
		{"two seconds, squared, from the start after it on", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=0.15
			13  page 3 latency=0.15
			13.5 page 4
		`, ``},
		{"a gap that is too short for it", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=0.15
			12.99999 page 3 latency=0.15
			13.5 page 4
		`, `lines 9 and 12: gap: 3.99999s between two starts, delay by response times 4s`},
		{"the gap that runs while the answer comes", `
			1   page 1 latency=2 duration=2
			5   page 2 latency=0.15
			9   page 3
		`, ``},
		{"too short for it, as soon as the limiter has heard of it", `
			1   page 1 latency=2 duration=2
			4.9 page 2
			9   page 3
		`, between},
		{"and three seconds later there is no doubt", `
			1   page 1 latency=3 duration=3
			9.9 page 2 latency=0.15
			18.9 page 3 latency=0.15
			19.4 page 4
		`, `lines 6 and 9: gap: 8.9s between two starts, delay by response times 9s`},
		{"an answer that came later doesn't count", `
			1   allow 1
			1   start 1
			2   page 2
			9   end 1 latency=8
		`, ``},
		{"an error doesn't make the delay shorter", `
			1   page 1 latency=3 duration=3
			20  page 2 latency=0.1 status=404
			24  page 3
			33  page 4
		`, `lines 9 and 12: gap: 4s between two starts, delay by response times 9s`},
		{"a success does, after the next start", `
			1   page 1 latency=3 duration=3
			20  page 2 latency=0.15
			29  page 3 latency=0.15
			29.5 page 4
		`, ``},
		{"answers to two requests that came at about one time: the longer delay is kept", `
			1    allow 1
			1    start 1
			3    page 2 latency=3 duration=3
			6.05 end 1 latency=5.05
			29   page 3 latency=0.15
			54.51 page 4
		`, ``},
		{"and a gap that is shorter is open", `
			1    allow 1
			1    start 1
			3    page 2 latency=3 duration=3
			6.05 end 1 latency=5.05
			29   page 3 latency=0.15
			54.49 page 4
		`, between},
		{"the clock was put forward during a request: nobody knows when its answer came", `
			1    allow 1
			1    start 1
			9    end 1 duration=3 latency=3
			20   page 2 latency=0.15
			20.5 page 3
		`, between},
		{"an error makes it longer", `
			1   page 1 latency=0.1
			20  refused 2 latency=3 duration=3 status=500 until=@24
			27  page 3
		`, `lines 9 and 13: gap: 7s between two starts, delay by response times 9s`},
		{"status 400 is an error", `
			1   page 1 latency=3 duration=3
			20  page 2 latency=0.15 status=400
			29  page 3 latency=0.15 status=399
			37  page 4
		`, `lines 12 and 15: gap: 8s between two starts, delay by response times 9s`},
		{"and status 399 is none", `
			1   page 1 latency=3 duration=3
			20  page 2 latency=0.15 status=399
			29  page 3 latency=0.15
			29.5 page 4
		`, ``},
		{"no answer doesn't make it shorter", `
			1   page 1 latency=3 duration=3
			20  down 2 status=0 latency=0.15 error=reset until=@21.15
			29  page 3 latency=0.15
			37  page 4
		`, `lines 13 and 16: gap: 8s between two starts, delay by response times 9s`},
		{"as short as the log says that it was", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=0.15
			9.5 page 3
		`, `lines 9 and 12: gap: 500ms between two starts, delay by response times 4s`},
		{"a body that ends after the gap", `
			1   allow 1
			1   start 1
			14  page 2 latency=0.15
			15  page 3 latency=0.15
			30  end 1 latency=3
		`, `lines 8 and 11: gap: 1s between two starts, delay by response times 9s`},
		{"two answers within a millisecond, in an order that nobody knows", `
			1   allow 1
			1   start 1
			3   page 2 latency=1.0005 duration=1.0005
			4   end 1 latency=3
			14  page 3 latency=0.15
			19  page 4
		`, between},
		{"an answer and an error within a millisecond", `
			1   allow 1
			1   start 1
			3   page 2 latency=1.0005 duration=1.0005
			4   block 1 status=500 until=@5
			4   end 1 latency=3 status=500
			14  page 3 latency=0.15
			19  page 4
		`, between},
		{"no answer does, too", `
			1   page 1 latency=0.1
			20  down 2 status=0 latency=3 duration=3 error=timeout until=@24
			27  page 3
		`, `lines 9 and 13: gap: 7s between two starts, delay by response times 9s`},
		{"unless the caller may have left", `
			1   page 1 latency=0.1
			20  failed 2 latency=3 duration=3 error=timeout left=true
			27  page 3
		`, between},
		{"what was never sent says nothing", `
			1   page 1 latency=0.1
			20  failed 2 duration=3
			24  page 3
		`, ``},
		{"a limiter that has forgotten the host begins anew", `
			1   page 1 latency=3 duration=3
			5000 page 2 seq=1 latency=0.15
			5000.5 page 3
		`, ``},
		{"an answer from before that, told after one that came later", `
			1      page 1
			2      allow 2
			2      start 2
			5000   page 3 seq=1 latency=0.15
			5001   allow 4
			5001   start 4
			5001.1 end 2 seq=3 latency=4998.1
			5001.2 end 4 latency=0.15
			5002   page 5
		`, between},
		{"never longer than the ceiling", `
			1   page 1 latency=30 duration=30
			92  page 2 latency=30 duration=30
			152 page 3
			212 page 4
		`, ``},
		{"nor shorter than that", `
			1   page 1 latency=30 duration=30
			92  page 2 latency=30 duration=30
			151.9 page 3
			212 page 4
		`, `lines 9 and 12: gap: 59.9s between two starts, delay by response times 1m0s`},
		{"nor shorter than the least", `
			1   page 1 latency=0.1
			1.4 page 2
		`, `lines 6 and 9: gap: 400ms between two starts, delay in force 500ms`},
	})
	checkRows(t, "policy ceiling=60 adaptive=\"Proportional(3)\"\nsite \"\"", []row{
		{"half way to three times two seconds", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=2 duration=2
			13.625 page 3
		`, ``},
		{"and shorter", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=2 duration=2
			13.5 page 3
		`, between},
		{"half way to nothing", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=0
			12.25 page 3
			13.8 page 4
		`, between},
		{"and shorter, later", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=0.1
			10.5 page 3
		`, `lines 9 and 12: gap: 1.5s between two starts, delay by response times 1.775s`},
	})
	checkRows(t, "policy ceiling=60 adaptive=\"Throttle(0.5)\"\nsite \"\"", []row{
		{"two seconds over a half", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=0.15
			13  page 3 latency=0.15
			15.2 page 4
		`, ``},
		{"and half way back from there", `
			1   page 1 latency=2 duration=2
			9   page 2 latency=0.15
			13  page 3 latency=0.15
			15.1 page 4
		`, `lines 12 and 15: gap: 2.1s between two starts, delay by response times 2.15s`},
	})
	checkRows(t, "policy ceiling=60 adaptive=Squared", []row{
		{"a log that begins in the middle", `
			site "" seq=7 at=-10
			1   page 1 latency=0.15
			1.6 page 2
			9   closed
		`, `
			line 2: sequence: starts 1 to 6 are missing
			` + between},
	})
	checkRows(t, "policy ceiling=60 adaptive=Squared\nsite \"\"\n1 page 1 latency=3 duration=3\nfile\npolicy by=U ceiling=60 adaptive=Squared", []row{
		{"another process, which begins anew", `site "" at=8 seq=1`, ``},
	})
	checkRows(t, "policy ceiling=60 adaptive=Squared fromEnd=true slots=1\nsite \"\"", []row{
		{"from the end of the one before", `
			1   page 1 latency=2 duration=8
			13  page 2 latency=0.15
			17.2 page 3
		`, ``},
		{"too soon after it", `
			1   page 1 latency=2 duration=8
			12.9 page 2 latency=0.15
			17.2 page 3
		`, `lines 6 and 9: gap: 3.9s between two starts, delay by response times 4s`},
	})
	// However many are under way after it, the answer of one before the gap is waited for.
	many := "policy ceiling=60 slots=30 adaptive=Squared\nsite \"\" slots=30\n1 allow 1\n1 start 1 slots=30\n14 page 2 slots=30 latency=0.15\n15 allow 3\n15 start 3 slots=30\n"
	for i := range 20 {
		many += fmt.Sprintf("%d allow %d\n%d start %d slots=30\n", 30+i, 10+i, 30+i, 10+i)
	}
	many += "60 end 1 latency=3\n60 end 3 latency=0.15\n"
	for i := range 20 {
		many += fmt.Sprintf("60 end %d latency=0.15\n", 10+i)
	}
	checkRows(t, many, []row{{"an answer that is logged late", ``, `lines 8 and 11: gap: 1s between two starts, delay by response times 9s`}})
	// But not for ever: after some hundreds of starts what it did is unknown.
	many = "policy ceiling=60 slots=900 adaptive=Squared\nsite \"\" slots=900\n1 allow 1\n1 start 1 slots=900\n"
	for i := range 600 {
		many += fmt.Sprintf("%d page %d slots=900 latency=0.15\n", 70+i, 10+i)
	}
	checkRows(t, many, []row{{"an answer that is logged after all others", `800 end 1 latency=3`, between}})
	for _, adaptive := range []string{"Squared(1)", "Proportional", "Proportional(0)", "Proportional(-1)", "Proportional(x)", "Proportional(inf)", "Throttle(0)", "Longest(Squared, Own)", "Own"} {
		checkRows(t, "policy ceiling=60 adaptive=\""+adaptive+"\"\nsite \"\"", []row{{adaptive, "1 page 1\n1.5 page 2", unknown}})
	}
	checkRows(t, "policy ceiling=0 adaptive=Squared\nsite \"\"", []row{{"without a ceiling", "1 page 1\n1.5 page 2", unknown}})
}
