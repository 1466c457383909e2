package audit_test

import (
	"fmt"
	"strings"
	"testing"
)

const (
	numbersMissing = "open, log whole: numbers of starts are missing, as those of requests without a response are in a log that was cut off"
	numbersBack    = "open, log whole: the numbers of a host's starts went back, as when a server has lost data: whether starts are missing there isn't known"
	lostAnswers    = "open, blocks kept: responses to others, or acts of an operator, before a log was cut off"
	maybeBack      = " kept: a slot that may have been taken back, without a record of that"
	usedBefore     = "open, log whole: a limiter that was in use before the log begins: the starts before it are in another log"
	stops          = "open, every start ended: the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end"
	answers        = "open, blocks kept: the response to a request that has no end"
	byAPerson      = "open, blocks kept: the effect of a response on a host beside a person"
)

// TestVerdictsOnStartsThatAKillMayHaveTaken: a start that isn't in a log which was cut off was under way
// when that happened, so it had a slot until then, or until that could be taken back.
func TestVerdictsOnStartsThatAKillMayHaveTaken(t *testing.T) {
	checkRows(t, usual, []row{
		{"two beside another on two slots", `
			1   page 1
			2.5 page 2 seq=5
			9   page 3
		`, numbersMissing},
		{"the first of them was given up", `
			1   page 1
			2.4 fail 99 instead=3
			2.5 page 2 seq=5
			9   page 3
		`, numbersMissing},
		{"the second was", `
			1   page 1
			2.4 fail 99 instead=4
			2.5 page 2 seq=5
			9   page 3
		`, numbersMissing},
		{"one behind them was", `
			1   page 1
			2.4 fail 99 instead=6
			2.5 page 2 seq=5
			9   page 3 seq=7
		`, numbersMissing},
		{"the slot of one is lost, long after the start of the third", `
			1   page 1
			2.5 page 2 seq=5
			302 expired seq=3
			303 page 3
		`, numbersMissing},
		{"two so far apart that the first may have lost its slot", `
			1   page 1
			2   page 2 seq=4
			399 page 3
			400 page 4 seq=7
			405 page 5
		`, numbersMissing},
		{"two at the end of the log", `
			1   page 1
			2.5 page 2 seq=5
		`, numbersMissing},
		{"its slot is another's before the log stops", `
			1   page 1
			2.5 allow 2
			2.5 start 2 seq=4
			100 page 3
			200 end 2
		`, numbersMissing},
		{"that of the second, where the first was given up", `
			1   page 1
			2.4 fail 99 instead=3
			2.5 allow 2
			2.5 start 2 seq=5
			100 page 3
			200 end 2
		`, numbersMissing},
		{"one's own, and it is said to have been taken back later", `
			1   page 1
			2.5 allow 2
			2.5 start 2 seq=4
			100 page 3
			302 expired seq=3
			303 end 2
		`, numbersMissing},
		{"as soon as it may have been taken back, if it came right after the start before", `
			1   page 1
			2.5 allow 2
			2.5 start 2 seq=4
			301 page 3
			310 end 2
		`, numbersMissing},
		{"where that is told", `
			1   page 1
			2.5 allow 2
			2.5 start 2 seq=4
			301 expired seq=3
			301 page 3
			310 end 2
		`, numbersMissing},
		{"after so long a pause that its slot may have been taken back before the next start", `
			1   page 1
			301 page 2 seq=9
			310 page 3
		`, numbersMissing},
	})
	checkRows(t, "policy slots=3\nsite \"\"", []row{{"the slots of two", `
		1   page 1
		2.5 allow 2
		2.5 start 2 seq=5 slots=3
		100 page 3 slots=3 duration=50
		110 page 4 slots=3
		200 end 2
	`, numbersMissing}})
	checkRows(t, "policy slots=2000000000\nsite \"\"", []row{{"a thousand million, on as many slots", `
		1   page 1
		2.5 page 2 seq=1000000000 slots=2000000000
		100 page 3 slots=2000000000
	`, numbersMissing}})
	checkRows(t, "policy slots=0\nsite \"\"", []row{{"many, where nobody says how many slots there are", `
		1   page 1
		2.5 page 2 seq=40 slots=0
		100 page 3 slots=0
	`, numbersMissing}})
	checkRows(t, "policy slots=1\nsite \"\" at=0 seq=2 slots=1", []row{{"the first of all, which may have lost its slot long before the second", `
		5   page 2 slots=1
	`, numbersMissing}})
	checkRows(t, "policy slots=1\nsite \"\" slots=1", []row{
		{"one on the only slot", `
			1   page 1 slots=1
			2.5 page 2 slots=1 seq=4
			9   page 3 slots=1
		`, `lines 6 and 9: sequence: start 3 is missing`},
		{"one that may have lost the only slot", `
			1   page 1 slots=1
			301 page 2 slots=1 seq=4
			309 page 3 slots=1
		`, numbersMissing},
		{"one on the only slot, at the end of the log", `
			1   page 1 slots=1
			2.5 page 2 slots=1 seq=4 duration=1
		`, numbersMissing},
	})
	checkRows(t, "policy leaseTTL=0\nsite \"\"", []row{{"two, where no slot is taken back", `
		1   page 1
		999 page 2 seq=5
		2000 page 3
	`, numbersMissing}})
	checkRows(t, "policy leaseTTL=0 slots=1\nsite \"\" slots=1", []row{{"one on the only slot, which is never taken back", `
		1   page 1 slots=1
		999 page 2 seq=4 slots=1
		2000 page 3 slots=1
	`, `lines 6 and 9: sequence: start 3 is missing`}})
}

// TestVerdictsOnRequestsUnderWayAtAKill: what they were answered isn't known, unless the log tells what
// that did to the host.
func TestVerdictsOnRequestsUnderWayAtAKill(t *testing.T) {
	checkRows(t, usual, []row{
		{"with a start after it", `
			1   allow 1
			1   start 1
			2   page 2
		`, answers + "\n" + stops},
		{"with none", `
			1   page 1
			2   allow 2
			2   start 2
		`, stops},
		{"with a start after it whose number isn't the next", `
			1   allow 1
			1   start 1
			2   page 2 seq=4
		`, answers + "\n" + stops + "\n" + numbersMissing},
		{"an answer within a second of the end, where the record of a block may be lost", `
			1   page 1 status=503
			2.099999999 waiting
		`, lostAnswers},
		{"an answer a second before it", `
			1   page 1 status=503
			2.1 waiting
		`, `lines 6 and 7: block: status 503, after which a host rests for a second, set no block`},
		{"a probe: when its limiter heard of the answer isn't known", `
			1   refused 1 status=429 until=@2.1
			3   allow 2
			3   start 2
			4   page 3
			4.5 clear 2
		`, stops},
		{"a start that may have lifted a block", `
			1   refused 1 status=429 retryAfter=99 until=@100.1
			50  page 2 seq=4
			70  page 3
		`, "open, blocks kept: whether a block was lifted by a start that isn't in the log, or before it by an operator\n" + numbersMissing},
		{"that may have failed, as its page did afterwards", `
			1   allow 1
			1   start 1
			1.5 refused 2 status=503 until=@2.6
			3   page 11 url=/1 status=503
			5   cleared 3
			9   page 4
		`, answers + "\n" + stops},
		{"which has set a block", `
			1   allow 1
			1   start 1
			1.1 block 1 until=@2.1
			3   page 2
		`, stops},
	})
	checkRows(t, "policy ceiling=60 adaptive=Squared\nsite \"\"", []row{{"one that may have been quick, which makes the delay shorter", `
		1   page 1 latency=3 duration=3
		20  allow 2
		20  start 2
		21  page 3
		90  page 4
	`, `
			open, blocks kept: the response to a request that has no end
			open, every start ended: the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end
		`}})
}

// TestVerdictsBesideALogThatIsCutOff: what it may lack excuses nothing that it can't have told of.
func TestVerdictsBesideALogThatIsCutOff(t *testing.T) {
	checkRows(t, "policy by=U fromEnd=true slots=1\nfile\npolicy fromEnd=true slots=1\nsite \"\"", closed([]row{
		{"a gap from an end by which the slot may have been taken back", `
			1   page 1 duration=300.8
			302 page 2
		`, "open, delays" + maybeBack},
		{"a gap from an end by which it can't have been", `
			1   page 1
			1.6 page 2
		`, `log 2, line 6 and log 2, line 9: gap: 400ms between an end and the next start, delay in force 500ms`},
	}))
	checkRows(t, "policy by=U fromEnd=true slots=1 leaseTTL=0\nfile\npolicy fromEnd=true slots=1 leaseTTL=0\nsite \"\"", closed([]row{
		{"a gap from an end, where no slot is taken back", `
			1   page 1 duration=300.8
			302 page 2
		`, `log 2, line 6 and log 2, line 9: gap: 200ms between an end and the next start, delay in force 500ms`},
	}))
	checkRows(t, "policy maxInFlight=2 leaseTTL=0 by=U\nfile\npolicy maxInFlight=2 leaseTTL=0\nsite \"\"\nsite \"\" host=b.example at=-59\nsite \"\" host=c.example at=-58", closed([]row{
		{"a place that is never taken back", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			302 page 3 host=c.example
			303 end 2
			303 end 1
		`, `log 2, line 14 and log 2, line 16: concurrency: 3 in flight on all hosts, 2 at most`},
	}))
	checkRows(t, usual, closed([]row{{"the log before in the same file lacks nothing of the next", `
		1   page 1
		log
		policy
		site "" at=5
		10  page 2 status=429
	`, `lines 13 and 14: block: status 429, which is a refusal here, set no block`}}))
}

// TestVerdictsOnNumbersThatBeginAnew: numbers go on, go back, or begin from 1 once more, as a limiter
// numbers that has forgotten the host.
func TestVerdictsOnNumbersThatBeginAnew(t *testing.T) {
	checkRows(t, usual, closed([]row{
		{"two that changed places within the delay and a second", `
			1   page 1
			2   page 3 seq=4
			3.5 page 2 seq=3
		`, `
			lines 6 and 9: sequence: start 3 is missing
			lines 9 and 12: sequence: start 3 comes after start 4
		`},
		{"two that are further apart: the number was given once more", `
			1   page 1
			2   page 3 seq=4
			3.500000001 page 2 seq=3
		`, `
			lines 6 and 9: sequence: start 3 is missing
			lines 9 and 12: sequence: start 3 comes after start 4
		`},
		{"numbers that were given up only the first time", `
			1   page 1
			2   fail 99 instead=3
			2   fail 99 instead=4
			2.5 page 2 seq=5
			10  page 3 seq=1
			11  page 4 seq=2
			12  page 5 seq=4
			13  page 6 seq=6
		`, `
			lines 17 and 20: sequence: start 3 is missing
			lines 20 and 23: sequence: start 5 is missing
		`},
		{"numbers from 1 again, that get further than before, where a start was given up", `
			1   page 1
			2   fail 99 instead=3
			2.5 page 2 seq=4
			10  page 3 seq=1
			11  page 4 seq=2
			12  page 5 seq=3
			13  page 6 seq=4
			14  page 7 seq=5
		`, ``},
		{"a hole in a log that goes on", `
			1   page 1
			2   closed
			log
			policy
			site "" at=5 seq=3
			6   page 2 seq=5
		`, `
			line 10: sequence: starts 1 to 2 are missing
			lines 10 and 14: sequence: start 4 is missing
		`},
		{"the first number of a log that goes on is logged late", `
			1   page 1
			2   closed
			log
			policy
			site "" at=5 seq=4
			4   page 2 seq=3
		`, `line 14: sequence: starts 1 to 2 are missing`},
	}))
	late := "1 page 1 seq=0\n2 closed\nlog\npolicy\nsite \"\" at=8 seq=2\n"
	for i := 3; i < 80; i++ {
		late += fmt.Sprintf("%d page %d seq=%d\n", 10+i, i, i)
	}
	checkRows(t, "policy\nsite \"\" seq=0", closed([]row{
		{"the first number of the first log with numbers is logged very late", late + "7 page 99 seq=1", `open, log whole: starts without numbers: whether some are missing isn't known`},
	}))
	checkRows(t, "policy ceiling=60 adaptive=Squared\nsite \"\"", closed([]row{
		{"the answer to a request from before is no news to a limiter that has forgotten it", `
			1   allow 1
			1   start 1
			2   page 2
			10  page 3 seq=1
			14  end 1 latency=13
			20  page 4
		`, ``},
	}))
}

// TestVerdictsOnLimitsOfOneHost: each of them holds from its start on, for the starts of its Transport.
func TestVerdictsOnLimitsOfOneHost(t *testing.T) {
	const long, short = "slots=2 delayMin=2 adaptive=Fixed\n", "slots=2 delayMin=0.5 adaptive=Fixed\n"
	checkRows(t, "policy overrides=true\nsite \"\"", []row{
		{"limits that are told after those of a later start", `
			policy host=a.example seq=4 ` + short + `
			policy host=a.example seq=2 ` + long + `
			1   page 1
			2   page 2
		`, `lines 8 and 11: gap: 1s between two starts, delay in force 2s`},
	})
	many := ""
	for i := range 65 {
		many += fmt.Sprintf("policy host=a.example seq=%d %s", 2+i, short)
	}
	checkRows(t, strings.Join([]string{"policy overrides=true by=U", "policy host=a.example seq=1 " + long, "site \"\"", "policy overrides=true", "site \"\" at=-50", many}, "\n"), []row{
		{"limits of one Transport, after another has told of many", `
			1   page 1 by=U
			2   page 2
		`, `lines 76 and 79: gap: 1s between two starts, delay in force 2s`},
	})
}

// TestVerdictsOnAPersonFarFromAnAnswer: who blocks a host by hand excuses an answer at that time, and no
// other.
func TestVerdictsOnAPersonFarFromAnAnswer(t *testing.T) {
	const refusal = "lines 6 and 7: block: status 429, which is a refusal here, set no block"
	checkRows(t, usual, closed([]row{
		{"at that time", "1 page 1 status=429\n2.1 block hand=true until=@10 status=0 refusals=0", byAPerson},
		{"long after", "1 page 1 status=429\n2.2 block hand=true until=@10 status=0 refusals=0", refusal},
		{"before the request", "1 page 1 status=429\n0.999999999 block hand=true until=@10 status=0 refusals=0", refusal + "\nlines 6 and 8: block: started 9s before the end of a block"},
	}))
}

// TestVerdictsOnAnswersThatAKillHasTaken: one that was on its way may have been a success between failures.
func TestVerdictsOnAnswersThatAKillHasTaken(t *testing.T) {
	const other = "policy inARow=2 by=U\nsite \"\" host=b.example\n40 page 1 host=b.example\n41 closed\nfile\n"
	checkRows(t, other+"policy inARow=2\nsite \"\"", []row{
		{"beside answers that forbid", `
			1   allow 1
			1   start 1
			2   page 2 status=403
			3   page 3 status=403
			4   page 4 status=403
			30  rule 5
		`, answers + "\n" + stops},
		{"behind answers that forbid", `
			1   page 1 status=403
			2   page 2 status=403
			3   page 3 status=403
			4   allow 4
			4   start 4
			30  rule 5
		`, "log 2, line 12: block: 3 responses such as 403 in a row set no block\n" + stops},
	})
}

// TestVerdictsOnRecordsOfOneInstant: a block that a person lifts, and a start, at one time are read in the
// order of their records.
func TestVerdictsOnRecordsOfOneInstant(t *testing.T) {
	const blocked = "1 page 1\n2 block hand=true until=@90 status=0\n"
	const lifted = "open, blocks kept: the effect of an operator, or of an earlier process, on a host that had refused: " +
		"its record doesn't have the count of refusals"
	const broken = "lines %s: block: started %s before the end of a block\n" + lifted
	checkRows(t, usual, []row{
		{"lifted, and started", blocked + "10 clear hand=true status=0\n10 page 2", lifted},
		{"started, and lifted", blocked + "10 page 2\n10 clear hand=true status=0", fmt.Sprintf(broken, "8 and 10", "1m20s")},
		{"a nanosecond later", blocked + "10 page 2\n10.000000001 clear hand=true status=0", fmt.Sprintf(broken, "8 and 10", "1m20s")},
		{"blocked, lifted, and started", "1 page 1\n10 block hand=true until=@90 status=0\n10 clear hand=true status=0\n10 page 2", lifted},
		{"started as it was blocked", "1 page 1\n10 block hand=true until=@90 status=0\n10 page 2", ``},
		{"lifted, blocked again, and started later", blocked + "10 clear hand=true status=0\n10 block hand=true until=@90 status=0\n10.000000002 page 2", fmt.Sprintf(broken, "10 and 12", "1m19.999999998s")},
	})
}
