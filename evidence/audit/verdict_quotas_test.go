package audit_test

import "testing"

// TestVerdictsOnQuotasThatAreUsedUp: a success with nothing left blocks until the quota is reset, and lifts
// the block before.
func TestVerdictsOnQuotasThatAreUsedUp(t *testing.T) {
	checkRows(t, usual, closed([]row{
		{"a block as long as that, and no probe after it", `
			1   refused 1 status=200 refusals=0 until=@6.1 rateLimit="\"p\";r=0;t=5"
			7   allow 2
			7   start 2
			7.5 page 3
			9   end 2 latency=2
		`, ``},
		{"none", `
			1 page 1 rateLimit="\"p\";r=0;t=5"
			4 page 2
		`, `
			lines 6 and 7: block: the host asked to be left alone for 5s and wasn't blocked for so long
		`},
		{
			"one that is too short", `1 refused 1 status=200 refusals=0 until=@5.999999 rateLimit="\"p\";r=0;t=5"`,
			`lines 6 and 8: block: the host asked to be left alone for 5s and wasn't blocked for so long`,
		},
		{"one within a limiter's leeway", `1 refused 1 status=200 refusals=0 until=@6 rateLimit="\"p\";r=0;t=5"`, ``},
		{"a block by an answer that asks for none", `1 refused 1 status=200 until=@6.1`, `lines 6 and 8: contradiction: a block was set by a response that asks for none`},
		{"that isn't counted", `1 refused 1 status=200 refusals=0 until=@6.1`, `lines 6 and 8: contradiction: a block was set by a response that asks for none`},
		{"it ends the row of refusals", `
			1   refused 1 status=429 until=@2.1
			3   refused 2 status=200 refusals=0 until=@8.1 rateLimit="\"p\";r=0;t=5"
			9   refused 3 status=429 until=@10.1 refusals=1
		`, ``},
		{"a Retry-After on a success asks for nothing", `
			1   page 1 status=301 retryAfter=9
			2   page 2
		`, ``},
		{"nor does it end a row that its record doesn't end", `
			1   refused 1 status=429 until=@2.1
			3   page 2 status=301 retryAfter=9
			5   refused 3 status=429 until=@6.1
		`, `lines 13 and 15: contradiction: refusal 1 in a row, after 1`},
		{"a block by another try", `
			1   allow 1
			1   start 1
			1.1 block 1 attempt=2 until=@2.1
			1.2 end 1 status=429
		`, `
			line 7: contradiction: a block was set or lifted by no request
		`},
		{"a block by another URL", `
			1   allow 1
			1   start 1
			1.1 block 1 url=/2 until=@2.1
			1.2 end 1 status=429
		`, `
			lines 6 and 7: contradiction: two records of one request give different URLs, hosts, redirects or robotsTxt
			lines 7 and 8: contradiction: two records of one request give different URLs, hosts, redirects or robotsTxt
		`},
		{"a block by a request that followed a redirect", `
			1   allow 1
			1   start 1
			1.1 block 1 redirects=1 until=@2.1
			1.2 end 1 status=429
		`, `
			lines 6 and 7: contradiction: two records of one request give different URLs, hosts, redirects or robotsTxt
			lines 7 and 8: contradiction: two records of one request give different URLs, hosts, redirects or robotsTxt
		`},
		{"a block by another trip", `
			1   allow 1
			1   start 1
			1.1 block 2 url=/1 until=@2.1
			1.2 end 1 status=429
		`, `
			line 7: contradiction: a block was set or lifted by no request
		`},
		{"a block by a request that was sent again", `
			1   allow 1
			1   start 1
			1.5 resent 1
			1.6 block 1 until=@2.6
			1.7 end 1 seq=3 start=@1.5 duration=0.2 latency=0.1 status=429
		`, ``},
		{"and that says another status", `
			1   allow 1
			1   start 1
			1.5 resent 1
			1.6 block 1 until=@2.6 status=503 kind=refused
			1.7 end 1 seq=3 start=@1.5 duration=0.2 latency=0.1 status=429
		`, `lines 8 and 9: contradiction: status 429 here and 503 there`},
		{"a block that an earlier process was told", `
			1   block restored=true until=@9 status=429
			5   page 2
		`, `lines 5 and 7: block: started 4s before the end of a block`},
		{"a block that an earlier process was told longer", `
			1   refused 1 status=429 retryAfter=9 until=@10.1
			log
			policy
			4   block restored=true until=@5 status=0
			site "" at=6
		`, `lines 7 and 11: block: started 4.1s before the end of a block`},
		{"refusals that go on in the next process", `
			1   refused 1 status=429 until=@2.1
			log
			policy
			site "" at=3
			5   refused 2 status=500 kind=refused refusals=2 until=@6.1
		`, ``},
		{"the same in its older words", `
			1   block until=@9 status=0 reason="restored: status 429"
			5   page 2
		`, `
			line 5: contradiction: a block was set or lifted by no request
			lines 5 and 7: block: started 4s before the end of a block
		`},
		{"lifting what is over does no harm", `
			1   refused 1 status=429 until=@2.1
			3   allow 2
			3   start 2 seq=4
			3.1 clear 2
			2.5 page 3 seq=3
			3.2 end 2
		`, ``},
		{"nor does it lift what came later", `
			1   refused 1 status=429 until=@2.1
			3   allow 2
			3   start 2
			4   refused 3 status=429 retryAfter=9 until=@13.1 refusals=2
			3.1 clear 2
			3.2 end 2
			6   page 4
			14  refused 5 status=429 until=@15.1
		`, `
			lines 13 and 18: block: started 7.1s before the end of a block
			lines 21 and 23: contradiction: refusal 1 in a row, after 2
		`},
		{"a block by a person needs no response", `
			1   page 1
			1.5 block hand=true until=@9 status=0 refusals=0
			5   page 2
		`, `lines 8 and 10: block: started 4s before the end of a block`},
		{"a person lifts what isn't blocked", `
			3   clear hand=true status=0
			5   page 2
		`, ``},
		{"a block by nobody", `
			1   page 1
			1.5 block until=@9 status=0
		`, `line 8: contradiction: a block was set or lifted by no request`},
		{"a block lifted by nobody", `
			1   refused 1 status=429 until=@9 retryAfter=5
			1.5 clear
			5   page 2
		`, `
			lines 7 and 11: block: started 4s before the end of a block
			line 9: contradiction: a block was set or lifted by no request
		`},
		{"a block lifted by a person", `
			1   refused 1 status=429 until=@9 retryAfter=5
			1.5 clear hand=true status=0
			5   page 2
		`, `open, blocks kept: the effect of an operator, or of an earlier process, on a host that had refused: its record doesn't have the count of refusals`},
		{"a block lifted by an answer that fails", `
			1   refused 1 status=429 until=@2.1
			3   cleared 2 status=500
		`, `
			lines 10 and 12: contradiction: a block was lifted by a response that isn't a success
			lines 10 and 12: block: status 500, which is a refusal here, set no block
		`},
		{"a block lifted by a request from before it", `
			1   refused 2 status=429 latency=0.5 duration=0.5 retryAfter=9 until=@10.5
			1.5 allow 1
			1.5 start 1
			2   clear 1
			2   end 1 latency=0.5
			5   page 3
		`, `
			lines 7 and 10 and 12: contradiction: a block was lifted by a request that had started before it
			lines 7 and 14: block: started 5.5s before the end of a block
		`},
		{"and after that was over, which changes nothing any more", `
			1   refused 2 status=429 latency=0.5 duration=0.5 until=@2.5
			1.5 allow 1
			1.5 start 1
			3   clear 1
			3   end 1 latency=1.5
			5   page 3
		`, ``},
		{"another status in the record of the block", `
			1   allow 1
			1   start 1
			1.1 block 1 status=503 kind=refused until=@2.1
			1.2 end 1 status=429
		`, `lines 7 and 8: contradiction: status 429 here and 503 there`},
	}))
}
