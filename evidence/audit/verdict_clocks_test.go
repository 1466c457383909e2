package audit_test

import "testing"

// TestVerdictsByTheClockOfALimiter: what a process of a fleet writes is judged by the clock of their
// limiter, here 100 s ahead, and that clock is held against the process's own.
func TestVerdictsByTheClockOfALimiter(t *testing.T) {
	const (
		process = "policy process=P slots=1 clock=100\nsite \"\"\n"
		two     = "concurrency: 2 in flight on 1 slot"
		noStamp = "open, delays kept: a start of a fleet without its stamp by the limiter's clock (at), as while the server can't be reached"
		drifts  = "open, times agree with the servers': the clock of a limiter that runs otherwise than that of the log"
	)
	checkRows(t, process, closed([]row{
		{"a slot until its end, by clocks that may differ by a 5000th and a microsecond", `
			1   allow 1
			1   start 1
			2   end 1
			1.999799 page 2
		`, ``},
		{"and no sooner", `
			1   allow 1
			1   start 1
			2   end 1
			1.999798 page 2
		`, "lines 6 and 9: " + two},
		{"a slot that was taken back", `
			1   allow 1
			1   start 1
			302 expired seq=2
			302 page 2
			400 end 1
		`, ``},
		{"a block and its probe", `
			1   refused 1 status=429 until=@2.1
			3   cleared 2
		`, ``},
		{"a limiter that was in use before", `1 page 1 prev=@39.9`, usedBefore},
		{"a clock that runs otherwise, by a second", `
			1   page 1
			3   page 2 at=@104
		`, ``},
		{"by more", `
			1   page 1
			3   page 2 at=@104.000000001
		`, drifts},
		{"a start without the server, which has none of its slots", `
			1   allow 1
			1   start 1
			1.6 page 2 at=-
			3   page 3
			9   end 1
		`, "lines 6 and 11: " + two + "\n" + noStamp},
	}))
	checkRows(t, process, closed([]row{
		{"starts without the server, which knows nothing of their gaps, nor they of those before", `
			1   page 1
			1.3 page 2 at=-
			1.6 page 3
		`, noStamp},
	}))
	checkRows(t, process+"1 allow 1\n1 start 1\n20 waiting\nfile\npolicy by=U process=Q slots=1 clock=0\nsite \"\" at=90", closed([]row{
		{"the slot of a request that was under way at a kill, of a process with another clock", `118.9 page 2`, `
			log 1, line 6 and log 2, line 6: ` + two + `
		` + answers + "\n" + stops},
	}))
	checkRows(t, process+"1 refused 1 status=429 retryAfter=9 until=@10.1\n9999 closed\nfile\npolicy by=U process=Q slots=1 clock=0\nsite \"\" at=90", closed([]row{
		{"a block that the server was told of, and who can't reach it wasn't", `105 page 2 at=-`, noStamp + `
			open, blocks kept: whether a block was lifted by a start that isn't in the log, or before it by an operator
		`},
	}))
	checkRows(t, process+"1 page 1 delay=100\n9999 closed\nfile\npolicy by=U limiter=M timestamp=@101", closed([]row{
		{"two limiters at one time", `site "" at=150 seq=1 prev=-`, `
			open, delays kept: 2 limiters asked a.example, 49 s apart together; neither promised that
		`},
	}))
	checkRows(t, "policy\nsite \"\"\n1 page 1\n60 waiting\nfile\npolicy by=U limiter=M\nsite \"\" at=1.4 seq=1 prev=-\n3 refused 5 status=429 retryAfter=96 until=@99.1\nfile\npolicy by=V limiter=N timestamp=@50", closed([]row{
		{"a block after these, which binds the next process", `site "" at=60 seq=1 prev=-`, `
			log 2, line 7 and log 3, line 2: block: started 39.1s before the end of a block
			open, delays kept: 2 limiters asked a.example, 400 ms apart together; neither promised that
		`},
	}))
}
