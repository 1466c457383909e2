package audit_test

import (
	"slices"
	"testing"
	"time"
)

// Runs of one state that follow each other, in one file or in several, are paced as one. Runs that
// share nothing have promised that to nobody: what a site saw of them is told.
func TestVerdictsOnRunsOfOneState(t *testing.T) {
	state := func(before string) string { return "policy state=S delayMin=2 delayMax=2\nsite \"\"\n" + before }
	run := func(how, at, more string) string {
		return how + "\npolicy state=S delayMin=2 delayMax=2 by=U limiter=M timestamp=@" + at + "\n" + more
	}
	short := func(x, y, gap, delay string) string {
		return x + " and " + y + ": gap: " + gap + " between the starts of two runs of one state, delay in force " + delay
	}
	const changedBetween = "the first start of a run, closer to the run before than the delay after its last start: " +
		"limits that have changed since, or a delay that was learned, may explain it"
	first := state("1 page 1 delay=2")
	checkRows(t, first, []row{
		{"two seconds apart", run("log", "1.5", `site "" at=3 seq=1 prev=-`), ``},
		{"a little less", run("log", "1.5", `site "" at=2.999 seq=1 prev=-`), short("lines 6", "9", "1.999s", "2s")},
		{"in two files", run("file", "1.5", `site "" at=2.999 seq=1 prev=-`), short("log 1, line 6", "log 2, line 2", "1.999s", "2s")},
		{"at once", run("log", "1.5", `site "" at=1.519 seq=1 prev=-`), short("lines 6", "9", "519ms", "2s")},
		{"a third run, which follows the second", run("log", "1.5", "site \"\" at=3 seq=1 prev=-\n5 page 2 delay=2\nlog\npolicy state=S delayMin=2 delayMax=2 by=V limiter=N timestamp=@5.3\nsite \"\" at=6.9 seq=1 prev=-"), short("lines 13", "16", "1.9s", "2s")},
		{"at the same time, and the log says so", run("file", "0.5", `site "" at=1.4 seq=1 prev=-`), `
			open, delays kept: 2 limiters asked a.example, 400 ms apart together; neither promised that
		`},
		{"limits that were changed", "log\npolicy state=S by=U limiter=M timestamp=@1.5\nsite \"\" at=2.1 seq=1 prev=-", `open, delays kept: ` + changedBetween},
		{"limits that were changed, too soon", "log\npolicy state=S by=U limiter=M timestamp=@1.2\nsite \"\" at=1.4 seq=1 prev=-", short("lines 6", "9", "400ms", "2s")},
		{"another state", "file\npolicy state=R by=U limiter=M timestamp=@1.5\nsite \"\" at=1.6 seq=1 prev=-", ``},
		{"no state", "file\npolicy by=U limiter=M timestamp=@1.5\nsite \"\" at=1.6 seq=1 prev=-", ``},
	})
	checkRows(t, "policy state=S delayMin=2 delayMax=2 fromEnd=true\nsite \"\"\n1 allow 1\n1 start 1 delay=2\n2 end 1 duration=1", []row{
		{"from the end", "log\npolicy state=S delayMin=2 delayMax=2 fromEnd=true by=U limiter=M timestamp=@2.1\nsite \"\" at=4 seq=1 prev=-", ``},
		{"from the end, too soon", "log\npolicy state=S delayMin=2 delayMax=2 fromEnd=true by=U limiter=M timestamp=@2.1\nsite \"\" at=3.9 seq=1 prev=-", short("lines 6", "9", "2.9s", "2s")},
	})
}

// What a site saw of limiters that share nothing is in the report, whether they were in use at one
// time, which leaves a promise open, or one after the other.
func TestReportSaysWhatASiteSaw(t *testing.T) {
	apart := "2 limiters asked a.example, 1 s apart together; neither promised that"
	r := judge(t, "policy\nsite \"\"\n1 page 1 delay=2\n5 waiting\nfile\npolicy by=U limiter=M timestamp=@0.5\nsite \"\" at=2 seq=1 prev=-")
	if !slices.Contains(r.Promise("delays kept").Why, apart) || r.Hosts[0].MinGap != time.Second || r.Hosts[0].Together != 2 {
		t.Errorf("%v", r)
	}
	r = judge(t, "policy\nsite \"\"\n1 page 1 delay=2\nfile\npolicy by=U limiter=M timestamp=@1.5\nsite \"\" at=2 seq=1 prev=-")
	if !slices.Contains(r.Notes, apart) || r.Promise("delays kept").Open > 0 || r.Hosts[0].MinGap != time.Second {
		t.Errorf("%v", r)
	}
	r = judge(t, "policy slots=1\nsite \"\"\n1 allow 1\n1 start 1 delay=0.1\n1.9 end 1 duration=0.9\n5 waiting\nfile\npolicy by=U limiter=M slots=1 timestamp=@0.5\nsite \"\" at=1.5 seq=1 prev=-")
	if !slices.Contains(r.Promise("slots kept").Why, "2 limiters asked a.example, 2 at once together; neither promised that") {
		t.Errorf("%v", r)
	}
	r = judge(t, "policy\nsite \"\"\n1 refused 1 status=429 retryAfter=60 until=@61.1\n70 waiting\nfile\npolicy by=U limiter=M timestamp=@0.5\nsite \"\" at=9 seq=1 prev=-")
	if !slices.Contains(r.Promise("blocks kept").Why, "2 limiters asked a.example, in spite of a block that one of them knew of, together; neither promised that") {
		t.Errorf("%v", r)
	}
}

// A budget that is kept with the state is one budget of all its runs.
func TestVerdictsOnABudgetOfRuns(t *testing.T) {
	policy := func(more string) string { return "policy state=S pages=3 every=3600 kept=true " + more + "\nsite \"\"" }
	runs := func(how, second string) string {
		return policy("") + "\n1 page 1 window=@0\n3 page 2 window=@0\n" + how + "\n" + policy("by=U limiter=M timestamp=@4") + " at=5 seq=1 prev=-\n" + second
	}
	const broken = `line 19: budget: 4 of 3 pages`
	for _, r := range []row{
		{"three pages", runs("log", "7 page 3 window=@0"), ``},
		{"a fourth page", runs("log", "7 page 3 window=@0\n9 page 4 window=@0"), broken},
		{"a fourth page in the next window", runs("log", "7 page 3 window=@0\n9 page 4 window=@1"), ``},
	} {
		r.check(t)
	}
}
