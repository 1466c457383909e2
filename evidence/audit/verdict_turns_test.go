package audit_test

import (
	"fmt"
	"testing"
)

// TestVerdictsOnGaps: two starts of a host are never closer than the delay in force, whatever the log
// says of that.
func TestVerdictsOnGaps(t *testing.T) {
	checkRows(t, usual, []row{
		{"as long as the delay", `
			1   page 1
			1.5 page 2
		`, ``},
		{"a nanosecond shorter", `
			1   page 1
			1.499999999 page 2
		`, `lines 6 and 9: gap: 499.999999ms between two starts, delay in force 500ms`},
		{"a delay that is declared away", `
			1   page 1 delay=0
			1.4 page 2 delay=0.1
		`, `lines 6 and 9: gap: 400ms between two starts, delay in force 500ms`},
		{"a longer one that was drawn", `
			1   page 1 delay=2
			2.9 page 2
			4.9 page 3
		`, `lines 6 and 9: gap: 1.9s between two starts, delay in force 2s`},
		{"a crawl-delay that came up during the wait, and the turn wasn't given back", `
			1   page 1
			2   allow 2
			2   start 2 crawlDelay=3 delay=3
			2.2 end 2
		`, `lines 6 and 9: gap: 1s between two starts, delay in force 3s`},
		{"and it was", `
			1   page 1
			2   allow 2
			2   start 2 crawlDelay=3 delay=3
			2.2 fail 2
		`, ``},
		{"and it was kept", `
			1   page 1
			4   allow 2
			4   start 2 crawlDelay=3 delay=3
			4.2 end 2
		`, ``},
		{"and nobody knows whether it was", `
			1   page 1
			1.5 allow 2
			1.5 start 2 crawlDelay=3 delay=3
		`, "open, delays kept: a start that may have been given back unused: it has no end\n" + stops},
		{"a start that doesn't say its delay", `
			1   allow 1
			1   start 1 crawlDelay=3 delay=0
			1.1 end 1
		`, ``},
		{"a delay under the crawl-delay", `
			1   allow 1
			1   start 1 crawlDelay=3 delay=2
			1.1 end 1
		`, `lines 6 and 7: contradiction: a delay of 2s under a crawl-delay of 3s`},
		{"no delay is under a crawl-delay of more than ten years", `
			1   allow 1
			1   start 1 crawlDelay=999999999 delay=315360000
			1.1 end 1
		`, `lines 2 and 6: gap: 1m1s between two starts, delay in force 277777h46m39s`},
		{"but one under ten years is", `
			1   allow 1
			1   start 1 crawlDelay=999999999 delay=315359999
			1.1 end 1
		`, `
			lines 2 and 6: gap: 1m1s between two starts, delay in force 277777h46m39s
			lines 6 and 7: contradiction: a delay of 87599h59m59s under a crawl-delay of 277777h46m39s
`},
		{"starts in the order of their numbers, not of the lines", `
			1   allow 1
			1   allow 2
			2   start 2 seq=3
			1   start 1 seq=2
			2.5 end 2
			2.5 end 1
		`, ``},
		{"starts that aren't numbered, in the order of their times", `
			1   page 1 seq=0
			1.5 page 2 seq=0
			1.9 page 3 seq=0
		`, `
			lines 9 and 12: gap: 400ms between two starts, delay in force 500ms
			open, log whole: starts without numbers: whether some are missing isn't known
		`},
		{"and logged in another order", `
			1.5 page 2 seq=0
			1   page 1 seq=0
			1.9 page 3 seq=0
		`, `
			lines 6 and 12: gap: 400ms between two starts, delay in force 500ms
			open, log whole: starts without numbers: whether some are missing isn't known
		`},
		{"starts whose numbers aren't in the order of their times", `
			1   page 1
			2   page 3 seq=4
			3   page 2 seq=3
			4   page 4 seq=5
		`, `
			lines 9 and 12: sequence: start 3 comes after start 4
			open, log whole: numbers of starts are missing, as those of requests without a response are in a log that was cut off
		`},
		{"another host isn't kept waiting", `
			1   page 1
			1   page 2 host=b.example url=https://a.example/2
			1.1 page 3 host=b.example url=https://a.example/3
		`, `
			line 9: contradiction: b.example: the URL https://a.example/2 has another host than b.example
			lines 9 and 12: gap: b.example: 100ms between two starts, delay in force 500ms
			line 12: contradiction: b.example: the URL https://a.example/3 has another host than b.example
		`},
	})
	checkRows(t, "policy overrides=true\nsite \"\"", []row{
		{"limits of one host from a start on", `
			policy host=a.example seq=4 slots=1 delayMin=2 adaptive=Fixed
			1   page 1
			1.5 page 2
			2   page 3
			3   page 4
		`, `
			lines 13 and 16: gap: 1s between two starts, delay in force 2s
		`},
		{"from the next start on", `
			1   page 1
			2   page 2
			policy host=a.example slots=1 delayMin=2 adaptive=Fixed
			3   page 3
			4   page 4
		`, `
			lines 13 and 16: gap: 1s between two starts, delay in force 2s
		`},
	})
	checkRows(t, "policy fromEnd=true slots=1\nsite \"\"", []row{
		{"from the end", `
			1   page 1
			1.7 page 2
		`, ``},
		{"a nanosecond too soon after the end", `
			1   page 1
			1.699999999 page 2
		`, `lines 6 and 9: gap: 499.999999ms between an end and the next start, delay in force 500ms`},
		{"the end is logged after the next start", `
			1   allow 1
			1   start 1
			1.6 page 2
			1.2 end 1
		`, `lines 6 and 8: gap: 400ms between an end and the next start, delay in force 500ms`},
		{"a turn that was given back has no end", `
			1   failed 1
			1.5 page 2
		`, ``},
		{"a failure has one", `
			1   down 1 status=0 error=reset until=@1.1
			1.5 page 2
		`, `lines 6 and 8: block: a refusal that blocks for 1s set a block of 100ms
			lines 6 and 10: gap: 300ms between an end and the next start, delay in force 500ms`},
		{"an old slot that was taken back", `
			1   allow 1
			1   start 1
			302 expired seq=2
			302 page 2
			303 end 1
		`, ``},
		{"a slot can't be taken back from one that has ended", `
			1   page 1
			1.6 page 2
			302 expired seq=2
		`, `lines 6 and 9: gap: 400ms between an end and the next start, delay in force 500ms`},
		{"nor from one that has ended late", `
			1   page 1 duration=301
			302.2 page 2
			303 expired seq=2
		`, "open, delays" + maybeBack},
		{"one that nobody took back", `
			1   allow 1
			1   start 1
			302 page 2
			303 end 1
		`, "open, delays" + maybeBack + "\nopen, slots" + maybeBack},
	})
}

// TestVerdictsOnSlots: never more are in flight than the host has slots, whenever ends are logged, and
// whatever the log says of slots.
func TestVerdictsOnSlots(t *testing.T) {
	checkRows(t, usual, []row{
		{"two on two", `
			1   allow 1
			1   start 1
			1.5 allow 2
			1.5 start 2
			2   end 1
			2   page 3
			3   end 2
		`, ``},
		{"three on two", `
			1   allow 1
			1   start 1
			1.5 allow 2
			1.5 start 2
			2   page 3
			1.9 end 1 duration=1.000000001
			3   end 2
		`, `lines 8 and 10: concurrency: 3 in flight on 2 slots`},
		{"three on two, the ends known before", `
			1   allow 1
			1   start 1
			1.5 allow 2
			1.5 start 2
			3   end 2
			2.1 end 1
			2   page 3
		`, `lines 8 and 12: concurrency: 3 in flight on 2 slots`},
		{"three on a hundred that the log claims", `
			1   allow 1
			1   start 1 slots=100
			1.5 allow 2
			1.5 start 2 slots=100
			2   page 3 slots=100
			3   end 1
			3   end 2
		`, `lines 8 and 10: concurrency: 3 in flight on 2 slots`},
		{"slots that aren't told are those of the policy", `
			1   allow 1
			1   start 1 slots=0
			1.5 allow 2
			1.5 start 2 slots=0
			2   page 3 slots=0
			3   end 1
			3   end 2
		`, `lines 8 and 10: concurrency: 3 in flight on 2 slots`},
		{"two on one that the log tells of", `
			1   allow 1
			1   start 1 slots=1
			1.5 page 2 slots=1
			3   end 1
		`, `lines 6 and 8: concurrency: 2 in flight on 1 slot`},
		{"a slot beyond them", `
			1   page 1 slot=2
			2   page 2 slot=3
		`, `line 9: concurrency: slot 3 of 2`},
		{"an end that never comes", `
			1   allow 1
			1   start 1
			1.5 allow 2
			1.5 start 2
			2   page 3
			3   end 1
			9   closed
		`, `
			line 8: end: a start without an end
			lines 8 and 10: concurrency: 3 in flight on 2 slots
		`},
		{"a request that is started again before its end", `
			1   allow 1
			1   start 1
			2   start 1
			3   end 1
		`, `line 6: end: a start without an end`},
		{"a start whose number is in flight", `
			1   allow 1
			1   start 1
			2   allow 2
			2   start 2 seq=2
			3   end 2
		`, `
			lines 6 and 8: sequence: start 2 comes after start 2
			open, blocks kept: the response to a request that has no end
			open, every start ended: the log stops while requests are under way, as after a kill, or where bodies are never closed: these have no end
		`},
		{"a request that goes on over another connection", `
			1   allow 1
			1   start 1
			1.5 resent 1
			2   page 2
			3   end 1 seq=3 start=@1.5 duration=1.5
		`, ``},
		{"a slot that was taken back in time", `
			1    allow 1
			1    start 1
			2    allow 2
			2    start 2
			301  expired seq=2
			301  page 3
			303  end 1
			303  end 2
		`, ``},
		{"a slot that was taken back too soon", `
			1    allow 1
			1    start 1
			2    allow 2
			2    start 2
			299.9 expired seq=2
			301  page 3
			303  end 1
			303  end 2
		`, "open, slots" + maybeBack},
		{"within a second of too soon", `
			1    allow 1
			1    start 1
			2    allow 2
			2    start 2
			300  expired seq=2
			301  page 3
			303  end 1
			303  end 2
		`, ``},
		{"before its start is logged", `
			1    allow 1
			2    allow 2
			2    start 2 seq=3
			301  expired seq=2
			301  page 3 seq=4
			1    start 1 seq=2
			303  end 1
			303  end 2
		`, ``},
		{"while others wait to know whose slots they have", `
			1    allow 1
			1    start 1
			1.5  allow 2
			1.5  start 2
			302  allow 3
			302  start 3
			303  allow 4
			303  start 4
			604  expired seq=5
			604  allow 5
			604  start 5
			302  expired seq=2
			303  expired seq=3
			700  end 1
			700  end 2
			700  end 3
			700  end 4
			700  end 5
		`, ``},
		{"of nobody knows whom", `
			1    allow 1
			1    start 1
			2    allow 2
			2    start 2
			301  expired
			301  page 3
			303  end 1
			303  end 2
			9999 closed
		`, "open, slots" + maybeBack},
		{"of one that has ended, whose slot nobody has any more", `
			1    page 1
			2    page 2
			3    page 3
			4    allow 4
			4    start 4
			5    allow 5
			5    start 5
			310  expired 1 seq=2
			310  page 6
			313  end 4
			313  end 5
		`, "open, slots" + maybeBack},
		{"that frees one slot, not two, of nobody knows whom", `
			1    allow 1
			1    start 1
			2    allow 2
			2    start 2
			302  expired
			302  page 3 duration=5
			304  page 4
			313  end 1
			313  end 2
		`, "open, slots" + maybeBack},
	})
	// One that has ended since, and nobody but the second of those that wait asks for it any more.
	late := "policy slots=1\nsite \"\" slots=1\n1 allow 1\n1 start 1 slots=1\n301.5 allow 2\n301.5 start 2 slots=1\n602 page 3 slots=1 duration=200\n700 end 2\n"
	for i := range 20 {
		late += fmt.Sprintf("%d page %d slots=1\n", 900+i, 10+i)
	}
	checkRows(t, late, []row{{"long after the start that got the slot", `
		602  expired seq=3
		302  expired seq=2
		999  end 1
	`, ``}})
	checkRows(t, "policy leaseTTL=0\nsite \"\"", []row{
		{"no slot is ever taken back, by the policy", `
			1    allow 1
			1    start 1
			2    allow 2
			2    start 2
			9001  page 3
			9003  end 1
			9003  end 2
		`, `lines 8 and 10: concurrency: 3 in flight on 2 slots`},
		{"one that its own request says to have lost, it had before that", `
			1    allow 1
			1    start 1
			2    allow 2
			2    start 2
			100  page 3
			302  expired 1 seq=2
			303  end 1
			303  end 2
		`, `lines 8 and 10: concurrency: 3 in flight on 2 slots`},
	})
	checkRows(t, "policy maxInFlight=2\nsite \"\"\nsite \"\" host=b.example at=-59\nsite \"\" host=c.example at=-58", []row{
		{"two on all hosts", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			2   end 1
			2   page 3 host=c.example
			3   end 2
		`, ``},
		{"three", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			2   page 3 host=c.example
			2.000000001   end 1
			3   end 2
		`, `lines 14 and 16: concurrency: 3 in flight on all hosts, 2 at most`},
		{"a third that took no time, at the instant at which another started", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			1.5 allow 3 host=c.example
			1.5 start 3 host=c.example
			1.5 end 3
			2   end 1
			3   end 2
		`, ``},
		{"three, logged in another order", `
			2   page 3 host=c.example
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			1   allow 1
			1   start 1
			3   end 2
			3   end 1
		`, `lines 12 and 15: concurrency: 3 in flight on all hosts, 2 at most`},
		{"a place that may have been taken back", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			301 page 3 host=c.example
			305 expired seq=2
			306 end 2
			306 end 1
		`, ``},
		{"one that was taken back, and two that weren't", `
			1   allow 1
			1   start 1
			100 allow 2 host=b.example
			100 start 2 host=b.example
			200 allow 3 host=c.example
			200 start 3 host=c.example
			302 expired seq=2
			302 page 4 url=https://a.example/4
			303 end 3
			303 end 2
			303 end 1
		`, `
			lines 14 and 16: concurrency: 3 in flight on all hosts, 2 at most
			lines 16 and 19: concurrency: 3 in flight on all hosts, 2 at most
		`},
		{"one that may have been taken back, and three that can't have been", `
			1   allow 1
			1   start 1
			302 allow 2 host=b.example
			302 start 2 host=b.example
			303 allow 3 host=c.example
			303 start 3 host=c.example
			304 page 4 url=https://a.example/4
			310 expired seq=2
			311 end 3
			311 end 2
			311 end 1
		`, `lines 16 and 18: concurrency: 3 in flight on all hosts, 2 at most`},
		{"a place that can't have been", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			300.999 page 3 host=c.example
			302 expired seq=2
			303 end 2
			303 end 1
		`, `lines 14 and 16: concurrency: 3 in flight on all hosts, 2 at most`},
	})
	checkRows(t, "policy maxInFlight=2 by=U\nfile\npolicy maxInFlight=2\nsite \"\"\nsite \"\" host=b.example at=-59\nsite \"\" host=c.example at=-58", []row{
		{"a place whose loss a log that was cut off may have told of", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			302 page 3 host=c.example
			303 end 2
			303 end 1
			9999 closed
		`, "open, slots" + maybeBack},
		{"a slot whose loss a log that was cut off may have told of", `
			1    allow 1
			1    start 1
			2    allow 2
			2    start 2
			302  page 3
			303  end 1
			303  end 2
			9999 closed
		`, "open, slots" + maybeBack},
		{"a place that can't have been lost", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			300 page 3 host=c.example
			303 end 2
			303 end 1
			9999 closed
		`, `log 2, line 14 and log 2, line 16: concurrency: 3 in flight on all hosts, 2 at most`},
	})
	checkRows(t, "policy maxInFlight=2 by=U\nsite \"\" host=c.example\npolicy maxInFlight=2\nsite \"\" at=-59\nsite \"\" host=b.example at=-58", []row{
		{"three of two Transports, which may have a limiter each", `
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			1.5 page 3 host=c.example by=U
			2.5 end 1
			2.5 end 2
		`, `lines 15 and 17: concurrency: 3 in flight on all hosts, 2 at most`},
		{"three of two Transports whose starts on one host are numbered by each", `
			0.1 page 4 host=c.example seq=1
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			1.5 page 3 host=d.example by=U
			2.5 end 1
			2.5 end 2
		`, `
			lines 18 and 20: concurrency: 3 in flight on all hosts, 2 at most
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`},
		{"three of two Transports, of which one numbers its starts and one doesn't", `
			-40 page 5 host=d.example by=U seq=0
			-30 page 4 host=d.example seq=1
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			1.5 page 3 host=c.example by=U
			2.5 end 1
			2.5 end 2
		`, `
			lines 21 and 23: concurrency: 3 in flight on all hosts, 2 at most
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
			open, log whole: starts without numbers: whether some are missing isn't known
		`},
		{"three of two Transports whose starts are numbered in one row", `
			0.1 page 4 host=c.example
			1   allow 1
			1   start 1
			1.5 allow 2 host=b.example
			1.5 start 2 host=b.example
			1.5 page 3 host=c.example by=U
			2.5 end 1
			2.5 end 2
		`, `
			lines 18 and 20: concurrency: 3 in flight on all hosts, 2 at most
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`},
	})
}

// TestVerdictsOnNumbersOfStarts: a hole in them is a start that was left out.
func TestVerdictsOnNumbersOfStarts(t *testing.T) {
	checkRows(t, "policy\nsite \"\" seq=7 prev=@-60.1", closed([]row{{"those before the log, of a limiter that was in use", ``, usedBefore}}))
	checkRows(t, usual, []row{
		{"one is missing", `
			1   page 1
			2   page 2 seq=4
			3   page 3
			9   closed
		`, `lines 6 and 9: sequence: start 3 is missing`},
		{"several are", `
			1   page 1
			2   page 2 seq=6
			9   closed
		`, `lines 6 and 9: sequence: starts 3 to 5 are missing`},
		{"one is missing, where a kill may have taken it", `
			1   page 1
			2   page 2 seq=4
		`, `open, log whole: numbers of starts are missing, as those of requests without a response are in a log that was cut off`},
		{"one was given up for another", `
			1   page 1
			2   page 2 seq=4 instead=3
			3   page 3
		`, ``},
		{"one was given up for another, which is logged first", `
			1   page 1
			3   page 3 seq=5
			2   page 2 seq=4 instead=3
		`, ``},
		{"one was given up, and started all the same", `
			1   page 1
			2   page 2
			3   page 3 instead=3
		`, `line 9: sequence: start 3 was given up`},
		{"another was given up than the one that is missing", `
			1   page 1
			2   page 2 seq=5 instead=3
			9   closed
		`, `lines 6 and 9: sequence: start 4 is missing`},
		{"a number that was there, of an earlier time", `
			1   page 1
			2   page 2
			1.5 page 3 seq=2
		`, `lines 6 and 12: sequence: start 2 comes after start 2`},
		{"numbers from 1 again: the limiter had forgotten the host", `
			1   page 1
			2   page 2 seq=1
			3   page 3
		`, ``},
		{"the same, too soon: nobody forgets a host that is owed a delay", `
			1   page 1
			1.4 page 2 seq=1
			3   page 3
		`, `lines 6 and 9: gap: 400ms between two starts, delay in force 500ms`},
		{"numbers that went back, as a server's with old data", `
			1   page 1
			2   page 2
			3   page 3
			4   page 4 seq=3
			5   page 5 seq=4
		`, `
			lines 12 and 15: sequence: start 3 comes after start 4
			lines 12 and 18: sequence: start 4 comes after start 4
		`},
		{"logged in another order", `
			1   page 1
			2   page 2
			3   page 3
			5   page 5 seq=4
			4   page 4 seq=3
		`, `
			lines 12 and 15: sequence: start 4 comes after start 4
			lines 12 and 18: sequence: start 3 comes after start 4
		`},
		{"after which holes are found", `
			1   page 1
			2   page 2
			3   page 3
			4   page 4 seq=3
			5   page 5 seq=5
			9   closed
		`, `lines 12 and 15: sequence: start 3 comes after start 4`},
	})
}
