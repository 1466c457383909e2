package audit_test

import (
	"strings"
	"testing"
)

// TestVerdictsOnQuotasInTheirFields: a quota is what the crawl has read of the fields, which may hold any
// string and may be cut short in the log.
func TestVerdictsOnQuotasInTheirFields(t *testing.T) {
	checkRows(t, usual, closed([]row{
		{"a string with a parameter in it", `1 refused 1 status=200 refusals=0 until=@6.1 quota=5 rateLimit="\"a;t=9999;\";r=0;t=5"`, ``},
		{"fields that were cut short", `1 refused 1 status=200 refusals=0 until=@6.1 quota=5 rateLimit="\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\";r=0[...]"`, ``},
		{"nothing in two digits", `1 refused 1 status=200 refusals=0 until=@6.1 quota=5 rateLimit="\"p\";r=00;t=5"`, ``},
		{"less than nothing, which is nothing", `1 refused 1 status=200 refusals=0 until=@6.1 quota=5 rateLimit="\"p\";r=-0;t=5"`, ``},
		{"a list that isn't one", `1 page 1 rateLimit="\"p\";r=0;t=5, ("`, ``},
		{"a quota that is left out, where the fields have it", `1 page 1 rateLimit="\"p\";r=0;t=5"`, `lines 6 and 7: block: the host asked to be left alone for 5s and wasn't blocked for so long`},
		{"a quota without its fields", `1 page 1 quota=5`, `lines 6 and 7: block: the host asked to be left alone for 5s and wasn't blocked for so long`},
	}))
}

// TestVerdictsOnWhoIsAlone: one request goes alone after a block, and after the fifth answer such as 403.
func TestVerdictsOnWhoIsAlone(t *testing.T) {
	const five = `
		1 page 1 status=403
		3 page 2 status=403
		5 page 3 status=403
		7 page 4 status=403
		9 page 5 status=403
	`
	checkRows(t, usual, closed([]row{
		{"one beside the probe, which is served", `
			1   refused 1 status=429 until=@2.1
			3   allow 2
			3   start 2
			3.5 page 3
			5   clear 2
			5   end 2 latency=2
		`, `lines 10 and 12: block: started 1.4s before the response to a probe`},
		{"one behind a probe that says nothing, which is the next probe", `
			1   refused 1 status=429 until=@2.1
			3   start 2 url=/robots.txt robotsTxt=true
			4   end 2 robotsTxt=true latency=1
			4.1 cleared 3
		`, ``},
		{"one beside that", `
			1   refused 1 status=429 until=@2.1
			3   start 2 url=/robots.txt robotsTxt=true
			3.5 cleared 3 latency=0.2
			4   end 2 robotsTxt=true latency=1
		`, `lines 9 and 11: block: started 400ms before the response to a probe`},
		{"after the fifth 403, alone until it is served", five + `
			11  allow 6
			11  start 6
			13  end 6 latency=2
			13  allow 7
			13  start 7
			13.5 page 8
			15  end 7 latency=2
		`, ``},
		{"but not beside one that had started when the limiter heard of the fifth", strings.Replace(five, "page 5", "page 5 latency=0.6 duration=0.6", 1) + `
			9.7 allow 6
			9.7 start 6
			10.3 page 7 status=407
			12  end 6 status=403 latency=2.3
		`, ``},
		{"and beside another", five + `
			11  allow 6
			11  start 6
			12  page 7
			13  end 6 latency=2
		`, `lines 21 and 23: block: started 900ms before the response to a probe`},
		{"a success that came among them", strings.Replace(five, "7 page 4 status=403", "6.5 page 9\n7 page 4 status=403", 1) + `
			11  allow 6
			11  start 6
			12  page 7
			13  end 6 latency=2
		`, ``},
	}))
}

// TestVerdictsOnTriesBeyondThePolicy: a request is tried as often as the policy says, and a try isn't sent over
// and over.
func TestVerdictsOnTriesBeyondThePolicy(t *testing.T) {
	const two = `
		1   refused 1 status=500 until=@2.1
		1.2 retry 1
		2.2 start 1 attempt=2
		2.3 block 1 attempt=2 status=500 until=@3.3 refusals=2
		2.4 end 1 attempt=2 status=500
		2.4 retry 1 attempt=2
		4   start 1 attempt=3
		4.1 clear 1 attempt=3
		4.2 end 1 attempt=3
	`
	resent := "1 allow 1\n1 start 1\n"
	for _, at := range []string{"2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		resent += at + " resent 1\n"
	}
	checkRows(t, "policy retries=2\nsite \"\"", closed([]row{{"a third try", two, ``}}))
	checkRows(t, "policy retries=1\nsite \"\"", closed([]row{{"a third try of two", two, `line 14: budget: try 3 of a request, of 2`}}))
	checkRows(t, usual, closed([]row{
		{"sent ten times", resent + "11 end 1", ``},
		{"sent eleven times", resent + "11 resent 1\n12 end 1", `line 16: budget: a request that was sent more than 10 times in one try`},
	}))
}

// TestVerdictsOnWhatIsTakenOut: leaving out a field proves no more than leaving it in.
func TestVerdictsOnWhatIsTakenOut(t *testing.T) {
	checkRows(t, usual, closed([]row{
		{"the Date", `1 page 1 noDate=-`, `open, times agree with the servers': a response without its Date, and no record that the server sent none`},
		{"the number", `1 page 1 seq=0`, `open, log whole: starts without numbers: whether some are missing isn't known`},
		{"the start before, which its number shows as well", `1 page 1 prev=-`, ``},
		{"the start before, which had ended within a second", `-58.9 page 1 seq=0 prev=-`, `open, log whole: starts without numbers: whether some are missing isn't known`},
	}))
	checkRows(t, "policy process=P\nsite \"\" at=-50", closed([]row{{"the start before, in a fleet", `1 page 1 prev=-`, `
		open, delays kept: a start of a fleet without its stamp by the limiter's clock (at), as while the server can't be reached
	`}}))
	checkRows(t, "policy process=P\nsite \"\" prev=-", closed([]row{{"and with its clock", `1 page 1 at=@1 prev=-`, `
		open, delays kept: a start of a fleet without its stamp by the limiter's clock (at), as while the server can't be reached
		open, log whole: a start that doesn't say which one was before it on its host (prev)
	`}}))
	checkRows(t, "policy limiter=-\nsite \"\"", closed([]row{
		{"the limiter", `1 page 1`, `open, log whole: a policy that doesn't name its limiter: the Transports of one log are taken to share one`},
	}))
	checkRows(t, "policy robotsText=true\nsite \"User-agent: *\\nDisallow: /no\\n\"", closed([]row{
		{"robots.txt", `1 page 1 host=b.example`, `
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`},
		{"nothing", `1 page 1`, ``},
		{"another robots.txt that no exchange brought", `
			0   robots text="" status=200
			1   page 1 url=/no
		`, `
			line 5: verdict: robots_fetched without the exchange that it came of
		`},
	}))
}

// TestVerdictsOnWhoSharesALimiter: Transports that name one limiter promise the same of it, and a start that it
// knew of is in some log.
func TestVerdictsOnWhoSharesALimiter(t *testing.T) {
	checkRows(t, "policy\nsite \"\"", closed([]row{
		{"the same limits", `policy by=U`, ``},
		{"other limits", `policy by=U slots=3`, `lines 1 and 5: contradiction: other limits than those of another Transport that has the same limiter`},
		{"other limits of another limiter", `policy by=U slots=3 limiter=M`, ``},
		{"of the same process", "policy by=U process=P limiter=M\npolicy by=V process=P limiter=M slots=3", `
			lines 5 and 6: contradiction: other limits than those of another Transport that has the same limiter
		`},
		{"of another process, which was started with others", "policy by=U process=P limiter=M\npolicy by=V process=Q limiter=M slots=3", `
			open, delays kept: processes that share a limiter and state different limits
		`},
		{"a start that it knew of", `
			1 page 1
			3 page 2 prev=@1
		`, ``},
		{"a start that isn't there", `
			1 page 1
			3 page 2 prev=@2
		`, `line 9: sequence: the limiter knew of a start 1s before this one, which no log has`},
		{"one that names itself", `
			1 page 1
			3 page 2 prev=@3
		`, `line 9: sequence: the limiter knew of a start 0s before this one, which no log has`},
		{"one that was given up for another", `
			1   page 1
			2   page 2 prev=@1.5
			2.7 page 3 instead=4 insteadAt=@1.5 seq=5
		`, ``},
		{"one that isn't there, beside one that was given up", `
			1   page 1
			2   page 2 prev=@1.4
			2.7 page 3 instead=4 insteadAt=@1.5 seq=5
		`, `line 9: sequence: the limiter knew of a start 600ms before this one, which no log has`},
		{"one that was given up, without its stamp", `
			1   page 1
			2   page 2 prev=@1.5
			2.7 page 3 instead=4 seq=5
		`, `line 9: sequence: the limiter knew of a start 500ms before this one, which no log has`},
		{"one that was given up, which two name", `
			1   page 1
			2   page 2 prev=@1.5
			2.7 page 3 prev=@1.5 instead=4 insteadAt=@1.5 seq=5
		`, ``},
		{"a block that it knew of", `
			1 page 1
			3 page 2 blockedUntil=@3.5
		`, `line 9: block: started 500ms before the end of a block that its limiter knew`},
		{"a block that it knew to be over", `
			1 page 1
			3 page 2 blockedUntil=@3
		`, ``},
		{"a clock that nobody else has", `1 page 1 at=@9`, `line 6: contradiction: a stamp by another clock, though no other process shares the limiter`},
	}))
	checkRows(t, "policy\nsite \"\"", []row{{"a start that isn't there, in a log that was cut off", `
		1 page 1
		3 page 2 prev=@2
	`, `open, log whole: a start that the limiter knew of and no log has, as one that was cut off may have had it`}})
	checkRows(t, "policy process=P\nsite \"\" at=-50", []row{{"a start without the clock of its limiter", `1 page 1`, `
		open, delays kept: a start of a fleet without its stamp by the limiter's clock (at), as while the server can't be reached
	`}})
}

// TestVerdictsOnWindowsOfABudget: a budget that is renewed is kept in each of its windows.
func TestVerdictsOnWindowsOfABudget(t *testing.T) {
	checkRows(t, "policy pages=1 every=60\nsite \"\"", closed([]row{
		{"a page in each", `
			1  page 1 window=@0
			61 page 2 window=@60
		`, ``},
		{"two in one", `
			1  page 1 window=@0
			61 page 2 window=@0
		`, `line 9: budget: 2 of 1 pages`},
		{"one that begins with its page", `1 page 1 window=@1`, ``},
		{"one that begins by the clock of the budget's server, which is ahead", `31 page 1 window=@60`, ``},
		{"a window to come", `1 page 1 window=@60`, `line 6: contradiction: a page of a window that hadn't begun`},
	}))
}

// TestVerdictsOnWhereARedirectLeads: a request that follows one says whose.
func TestVerdictsOnWhereARedirectLeads(t *testing.T) {
	checkRows(t, "policy pages=1\nsite \"\"", closed([]row{
		{"of a trip", `
			1   page 1 status=302 location=/two
			2   page 2 url=/two redirects=1 from=1
		`, ``},
		{"of another trip", `
			1   page 1 status=302 location=/two
			2   page 2 url=/two redirects=1 from=9
		`, `line 9: budget: 2 of 1 pages`},
		{"of none", `
			1   page 1 status=302 location=/two
			2   page 2 url=/two redirects=1
		`, `line 9: budget: 2 of 1 pages`},
		{"where its URL was cut short", `
			1   page 1 status=302 location=/two[...]
			2   page 2 url=/twotwo redirects=1 from=1
		`, `open, budget kept: a redirect whose URL isn't whole`},
	}))
}
