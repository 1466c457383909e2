package audit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestWhatAStatusMeans: the judge reads a status as docs/429.md does. Between five answers that forbid and
// one more, it ends their row where it is a success, and not where it says nothing.
func TestWhatAStatusMeans(t *testing.T) {
	const (
		success = ""
		nothing = "line 24: block: 6 responses such as 403 in a row set no block"
		forbids = "line 21: block: 6 responses such as 403 in a row set no block"
		unsure  = ", after which a host rests for a second, set no block"
		refusal = "lines 21 and 22: block: "
	)
	for said, want := range map[string]string{
		"status=100": success, "status=200": success, "status=302": success, "status=400": nothing,
		"status=401": forbids, "status=402": forbids, "status=403": forbids, "status=404": success, "status=405": nothing, "status=406": forbids,
		"status=407": nothing, "status=408": unsure, "status=409": nothing, "status=410": success, "status=418": forbids, "status=420": forbids, "status=424": nothing, "status=425": unsure, "status=426": nothing,
		"status=428": nothing, "status=429": refusal, "status=430": forbids, "status=450": forbids, "status=451": forbids, "status=452": forbids,
		"status=499": forbids, "status=501": unsure, "status=500": unsure, "status=503": unsure, "status=599": unsure,
		"status=600": forbids, "status=999": forbids, "status=-1": nothing,
		"status=400 page=true": forbids, "status=405 page=true conditional=true": nothing, "status=409 page=true": forbids,
		"status=406 conditional=true": nothing, "status=403 conditional=true": forbids,
		"status=503 retryAfter=0": unsure, "status=503 retryAfter=1": refusal, "status=500 retryAfter=1": unsure,
		"status=200 refused=captcha": refusal, "status=404 refused=captcha": refusal,
		"status=0": unsure, "status=0 left=true": nothing, "status=500 left=true": unsure,
		"status=200 robotsTxt=true": nothing, "status=404 robotsTxt=true": nothing, "status=500 robotsTxt=true": unsure, "status=429 robotsTxt=true": refusal,
	} {
		what := ""
		if strings.Contains(said, "robotsTxt") {
			what = " url=/robots.txt robotsTxt=true"
		}
		log := usual + `
			1 page 1 status=403
			3 page 2 status=403
			5 page 3 status=403
			7 page 4 status=403
			9 page 5 status=403
			11 allow 6` + what + `
			11 start 6` + what + `
			11.2 end 6 ` + said + `
			20 page 7 status=403
			9999 closed
		`
		got := strings.Join(verdictOf(judge(t, log)), "\n")
		if want == success && got != "" || !strings.Contains(got, want) || strings.Contains(want, "in a row") && got != want {
			t.Errorf("%s: got %q, want %q", said, got, want)
		}
	}
}

// TestARefusalFoundLateIsOpen: no log shows what the text of a page said. Its block is kept all the
// same, and the row goes on.
func TestARefusalFoundLateIsOpen(t *testing.T) {
	const (
		isOpen    = `open, blocks kept: a refusal that the crawl has found in the body of a response`
		intoBlock = "lines 8 and 10: block: started 4s before the end of a block\n" + isOpen
		found     = "1 page 1\n2 block late=true refused=captcha kind=refused refusals=1 status=200 until="
	)
	checkRows(t, usual, closed([]row{
		{"a start into it", found + "@9\n5 page 2", intoBlock},
		{"a start after it", found + "@3\n5 page 2", isOpen},
	}))
}

// TestARetryAfterHoldsOnAnyStatus: a host that names a time is left alone for it, whatever the answer
// counts as otherwise. On a page that was served, and on a redirect to another host, it means nothing.
func TestARetryAfterHoldsOnAnyStatus(t *testing.T) {
	const broken = "lines 6 and 7: block: the host asked to be left alone for 9s and wasn't blocked for so long"
	var rows []row
	for _, c := range []struct{ status, want string }{
		{"200", ""}, {"303", ""}, {"403", broken}, {"404", broken}, {"413", broken}, {"420", broken}, {"999", broken},
	} {
		rows = append(rows, row{c.status, "1 page 1 status=" + c.status + " retryAfter=9", c.want})
	}
	checkRows(t, usual, closed(rows))
}

func TestVerdictsOnRefusalsWithoutABlock(t *testing.T) {
	rests := func(status int) string {
		return fmt.Sprintf("lines 6 and 7: block: status %d, after which a host rests for a second, set no block", status)
	}
	checkRows(t, usual, closed([]row{
		{"429 sets no block", `1 page 1 status=429`, `lines 6 and 7: block: status 429, which is a refusal here, set no block`},
		{"nor does what is refused in other words", `1 page 1 refused=captcha`, `lines 6 and 7: block: a response that refuses (captcha), which is a refusal here, set no block`},
		{"a start is held against the block that wasn't set", `
			1   page 1 status=429 retryAfter=9
			3   page 2
			11  page 3
		`, `
			lines 6 and 7: block: status 429, which is a refusal here, set no block
		`},
		{"one that was sent before the refusal's end was logged is, too", `
			1   allow 1
			1   start 1
			5   page 2
			6   end 1 status=429 retryAfter=9
		`, `
			lines 6 and 10: block: status 429, which is a refusal here, set no block
		`},
		{"but not within a second of the answer", `
			1   allow 1
			1   start 1
			2.1 page 2
			2.2 end 1 status=429 retryAfter=9
		`, `lines 6 and 10: block: status 429, which is a refusal here, set no block`},
	}))
	checkRows(t, "policy network=true\nsite \"\"", closed([]row{
		{"no response is a refusal by the policy", `1 page 1 status=0`, `lines 6 and 7: block: an exchange without a response, which is a refusal here, set no block`},
		{"unless the caller gave it up", `1 page 1 status=0 left=true`, ``},
	}))
	checkRows(t, "policy statuses=x,403,520-522,-7,7-,530-529,1000,999\nsite \"\"", closed([]row{
		{"a status of the policy", `1 page 1 status=403`, `lines 6 and 7: block: status 403, which is a refusal here, set no block`},
		{"the first of a range", `1 page 1 status=520`, `lines 6 and 7: block: status 520, which is a refusal here, set no block`},
		{"the last of a range", `1 page 1 status=522`, `lines 6 and 7: block: status 522, which is a refusal here, set no block`},
		{"the largest", `1 page 1 status=999`, `lines 6 and 7: block: status 999, which is a refusal here, set no block`},
		{"before a range", `1 page 1 status=519`, rests(519)},
		{"behind a range", `1 page 1 status=523`, rests(523)},
		{"in no range", `1 page 1 status=530`, rests(530)},
		{"in half a range", `1 page 1 status=0`, strings.Replace(rests(0), "status 0", "an exchange without a response", 1)},
	}))
	checkRows(t, "policy statuses=0-1\nsite \"\"", closed([]row{
		{"a range that begins at 0", `1 page 1 status=0`, `lines 6 and 7: block: an exchange without a response, which is a refusal here, set no block`},
	}))
}

// TestVerdictsOnTheLengthOfABlock: a block lasts from the answer on, which comes 0.1 s after its start,
// for as long as the host asks or the policy has it; a limiter's clock is forgiven a tenth of a second, and
// a date the second that it is exact to.
func TestVerdictsOnTheLengthOfABlock(t *testing.T) {
	const date, dateOf = "Sat, 21 Nov 2026 03:00:", "Sat, 21 Nov 2026 "
	for _, c := range []struct {
		policy, refusal, want string
		long                  float64 // seconds
		date                  bool
	}{
		{policy: "", refusal: "", long: 1},
		{policy: "", refusal: "refusals=2", long: 1},
		{policy: "", refusal: "refusals=3", long: 2},
		{policy: "", refusal: "refusals=4", long: 3},
		{policy: "", refusal: "refusals=7", long: 13},
		{policy: "", refusal: "refusals=40", long: 600},
		{policy: "backoffStep=10 backoffCap=25", refusal: "refusals=3", long: 20},
		{policy: "backoffStep=10 backoffCap=25", refusal: "refusals=4", long: 25},
		{policy: "backoffStep=10 backoffCap=5", refusal: "", long: 5},
		{policy: "backoffCap=0", refusal: "status=503 refusals=3", long: 2},          // no cap
		{policy: "backoffStep=0.04 backoffCap=5", refusal: "until=@1.1", long: 0.04}, // no earlier than at once
		{policy: "backoff=doubling backoffStep=10 backoffCap=100 jitterMin=0.1", refusal: "", long: 11},
		{policy: "backoff=doubling backoffStep=10 backoffCap=100 jitterMin=0.1", refusal: "refusals=2", long: 22},
		{policy: "backoff=doubling backoffStep=10 backoffCap=100 jitterMin=0.1", refusal: "refusals=4", long: 88},
		{policy: "backoff=doubling backoffStep=10 backoffCap=100", refusal: "refusals=5", long: 100},
		{policy: "backoff=doubling backoffStep=10 backoffCap=100", refusal: "refusals=99", long: 100},
		{policy: "backoff=doubling backoffStep=10 backoffCap=5", refusal: "", long: 5},

		{policy: "", refusal: "retryAfter=7", long: 7},
		{policy: "", refusal: `retryAfter=" 7	"`, long: 7, date: true}, // odd spellings are forgiven as dates are
		{policy: "", refusal: "retryAfter=7 refusals=9", long: 7},
		{policy: "atLeast=true", refusal: "retryAfter=7 refusals=9", long: 34},
		{policy: "atLeast=true", refusal: "retryAfter=70 refusals=9", long: 70},
		{policy: "", refusal: "retryAfter=0 refusals=3", long: 2},
		{policy: "maxRetryAfter=50", refusal: "retryAfter=70", long: 50},
		{policy: "maxRetryAfter=50", refusal: "retryAfter=50", long: 50},
		{policy: "maxRetryAfter=0", refusal: "retryAfter=100000", long: 86400},
		{policy: "maxRetryAfter=7200000000", refusal: "retryAfter=7000000000", long: 100 * 365 * 86400, date: true},
		{policy: "maxRetryAfter=7200000000", refusal: "retryAfter=99999999999999999999", long: 100 * 365 * 86400, date: true},
		{policy: "maxRetryAfter=7200000000", refusal: "retryAfter=1000000000000000", long: 100 * 365 * 86400, date: true},
		{policy: "maxRetryAfter=7200000000", refusal: "retryAfter=999999999", long: 999999999},
		{policy: "", refusal: "status=503 retryAfter=8", long: 8},
		{policy: "", refusal: "refused=captcha status=200", long: 1},
		{policy: "backoff=doubling backoffStep=10 backoffCap=100", refusal: "refused=captcha status=500", long: 10},

		{policy: "", refusal: `retryAfter="` + date + `09 GMT"`, long: 7.9, date: true},
		{policy: "", refusal: `retryAfter="Saturday, 21-Nov-26 03:00:09 GMT"`, long: 7.9, date: true},
		{policy: "", refusal: `retryAfter="Sat Nov 21 03:00:09 2026"`, long: 7.9, date: true},
		{policy: "", refusal: `retryAfter="Saturday, 21-Nov-76 03:00:02 GMT"`, long: 1, date: true},     // is of 1976, so the policy says
		{policy: "", refusal: `retryAfter="Saturday, 21-Nov-75 03:00:02 GMT"`, long: 86400, date: true}, // is of 2075
		{policy: "", refusal: `retryAfter="` + date + `60 GMT"`, long: 58.9, date: true},
		{policy: "", refusal: `retryAfter="` + date + `09 GMT" serverDate="` + date + `60 GMT"`, long: 1, date: true}, // past
		{policy: "", refusal: `status=503 retryAfter="` + dateOf + `02:00:09 GMT" serverDate="` + dateOf + `02:00:02 GMT"`, long: 7, date: true},
		{policy: "", refusal: `retryAfter="` + dateOf + `03:50:09 GMT" serverDate="` + dateOf + `03:50:02 GMT"`, long: 7, date: true},
		{policy: "", refusal: `retryAfter="` + dateOf + `03:50:09 GMT" serverDate="	` + dateOf + `03:50:02 GMT "`, long: 7, date: true},
		{policy: "", refusal: `retryAfter="` + dateOf + `02:00:00 GMT"`, long: 1, date: true}, // past
		{policy: "", refusal: `retryAfter=soon`, long: 1, date: true},
		{policy: "", refusal: `retryAfter=7.978`, long: 8, date: true},
		{policy: "", refusal: `retryAfter=60s`, long: 60, date: true},
		{policy: "", refusal: `retryAfter="5, 9"`, long: 9, date: true},
		{policy: "", refusal: `retryAfter=1795230010`, long: 9, date: true},
		{policy: "", refusal: `retryAfter="2026-11-21T03:00:09Z"`, long: 7.9, date: true},
		{policy: "", refusal: `retryAfter="Sat, 21 Nov 2026 03:00:09 UTC"`, long: 7.9, date: true},

		{policy: "", refusal: `rateLimit="remaining=0, reset=30"`, long: 30, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=12.5" quota=12.5`, long: 12.5, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=1795230010"`, long: 9, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=1795230010000" quota=8.9`, long: 8.9, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=1795230010" serverDate="Sat, 21 Nov 2026 03:00:03 GMT"`, long: 7, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=1000000000"`, long: 1, date: true},    // in 2001
		{policy: "", refusal: `rateLimit="remaining=0, reset=1000000000000"`, long: 1, date: true}, // the same
		{policy: "", refusal: `rateLimit="remaining=0, reset=1e999"`, long: 1, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=nan"`, long: 1, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=inf"`, long: 1, date: true},
		{policy: "maxRetryAfter=2000000000", refusal: `rateLimit="remaining=0, reset=999999999"`, long: 3600, date: true},
		{policy: "maxRetryAfter=2000000000", refusal: `rateLimit="remaining=0, reset=999999999999" quota=999999999`, long: 999999999, date: true}, // in 2001, as the record has it
		{policy: "", refusal: `rateLimit="remaining=0, reset=0"`, long: 1, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=-5"`, long: 1, date: true},
		{policy: "", refusal: `rateLimit="remaining=0, reset=soon"`, long: 1, date: true},
		{policy: "", refusal: `rateLimit="\"p\";r=0;t=5"`, long: 5},
		{policy: "", refusal: `rateLimit="\"p\";r=0;t=5, \"q\"; r=0; t=9"`, long: 9},
		{policy: "", refusal: `rateLimit="\"p\";r=3;t=5"`, long: 1},
		{policy: "", refusal: `rateLimit="\"p\";r=0;t=0"`, long: 1},
		{policy: "", refusal: `rateLimit="r=0;t=7"`, long: 1},   // the first is its name
		{policy: "", refusal: `rateLimit="p;r=0;t=7"`, long: 1}, // which is a string
		{policy: "maxRetryAfter=2000000000", refusal: `rateLimit="\"p\";r=0;t=3000000000"`, long: 3600},
		{policy: "", refusal: `rateLimit="limit=60, remaining=0, reset=30"`, long: 30},
		{policy: "", refusal: `rateLimit="limit=60;remaining=0;reset=30"`, long: 30},
		{policy: "", refusal: `rateLimit="limit=60, remaining=0, reset=86400"`, long: 3600},
		{policy: "", refusal: `rateLimit="remaining=0;w=60, reset=" quota=60`, long: 60, date: true},
		{policy: "", refusal: `rateLimit="\"p\";r=0;t=5" retryAfter=7`, long: 7}, // Retry-After goes first
	} {
		early := 0.1
		if c.date {
			early = 1
		}
		early = min(early, c.long)
		log := func(until float64) string {
			refusal := c.refusal
			if !strings.Contains(refusal, "status=") {
				refusal += " status=429"
			}
			refusals := ""
			if !strings.Contains(refusal, "refusals=") {
				refusals = " refusals=1"
			}
			return fmt.Sprintf("policy %s\nsite \"\"\n1 refused 1 until=@%.9f %s%s", c.policy, until, strings.Replace(refusal, "until=@1.1", "", 1), refusals)
		}
		if got := verdictOf(judge(t, log(1.1+c.long-early+0.000001))); len(got) > 0 {
			t.Errorf("%s, %s: blocked for %v s, got %q", c.policy, c.refusal, c.long-early, got)
		}
		got := verdictOf(judge(t, log(1.1+c.long-early-0.000001)))
		if len(got) != 1 || !strings.Contains(got[0], "block: a refusal that blocks for ") {
			t.Errorf("%s, %s: blocked for %v s less a microsecond, got %q", c.policy, c.refusal, c.long-early, got)
		}
	}
}

// TestVerdictsOnARetryAfterThatIsNotWhole: what it asks for isn't known.
func TestVerdictsOnARetryAfterThatIsNotWhole(t *testing.T) {
	const open = `open, blocks kept: a Retry-After, or its Date, that isn't whole in the log`
	checkRows(t, usual, closed([]row{
		{"a count", `1 refused 1 status=503 retryAfter=00000[...] until=@1.2`, open},
		{"which may ask for nothing", `1 refused 1 status=503 retryAfter=00000[...] until=@2.1 kind=unsure`, open},
		{"a date against a Date", `1 refused 1 status=429 retryAfter="Sat, 21 Nov 2026 03:00:09 GMT" serverDate=Sat[...] until=@1.2`, open},
		{"it blocks all the same", `1 page 1 status=429 retryAfter=00000[...]`, `lines 6 and 7: block: status 429, which is a refusal here, set no block` + "\n" + open},
	}))
}

// TestVerdictsOnRefusalsInARow: how many there were is counted anew, since a limiter could count as few as
// it likes, to block for less.
func TestVerdictsOnRefusalsInARow(t *testing.T) {
	checkRows(t, usual, closed([]row{
		{"1, 2, 3", `
			1    refused 1 status=429 until=@2.1
			3    refused 2 status=429 until=@4.1 refusals=2
			5    refused 3 status=429 until=@7.1 refusals=3
		`, ``},
		{"a refusal that isn't counted", `
			1    refused 1 status=429 until=@2.1
			3    refused 2 status=429 until=@4.1 refusals=1
		`, `lines 10 and 12: contradiction: refusal 1 in a row, after 1`},
		{"a block that was lifted in between", `
			1    refused 1 status=429 until=@2.1
			3    cleared 2
			4    refused 3 status=429 until=@5.1
		`, ``},
		{"a block by a person in between, who may have cleared the host before it", `
			1    refused 1 status=429 until=@2.1
			2.5  block hand=true until=@4 status=0
			5    refused 2 status=429 until=@6.1
		`, `open, blocks kept: the effect of an operator, or of an earlier process, on a host that had refused: its record doesn't have the count of refusals`},
		{"a block of another process in between", `
			1    refused 1 status=429 until=@2.1
			2.5  block restored=true until=@4
			5    refused 2 status=429 until=@6.1
		`, `open, blocks kept: the effect of an operator, or of an earlier process, on a host that had refused: its record doesn't have the count of refusals`},
		{"a quiet time that forgives", `
			1    refused 1 status=429 until=@2.1
			1801 refused 2 status=429 until=@1802.1 refusals=1
		`, ``},
		{"a quiet time that is too short to forgive", `
			1    refused 1 status=429 until=@2.1
			1800.999999999 refused 2 status=429 until=@1802.1 refusals=1
		`, `lines 10 and 12: contradiction: refusal 1 in a row, after 1`},
		{"two in flight are one refusal", `
			1    allow 1
			1    start 1
			1.5  allow 2
			1.5  start 2
			1.6  block 1 until=@2.6 refusals=1
			1.7  end 1 status=429 latency=0.6
			1.8  end 2 status=429
			3    refused 3 status=429 until=@4.1 refusals=2
		`, ``},
		{"what the second of two in flight asks for counts", `
			1    allow 1
			1    start 1
			1.5  allow 2
			1.5  start 2
			1.6  block 1 until=@2.6 refusals=1
			1.7  end 1 status=429 latency=0.6
			1.8  end 2 status=429 retryAfter=9
			5    page 3
		`, `
			lines 8 and 11: block: the host asked to be left alone for 9s and wasn't blocked for so long
		`},
		{"and is kept, if it lengthens the block", `
			1    allow 1
			1    start 1
			1.6  allow 2
			1.6  start 2
			1.6  block 1 until=@2.6 refusals=1
			1.7  block 2 until=@10.7 refusals=1
			1.7  end 1 status=429 latency=0.6
			1.8  end 2 status=429 retryAfter=9
			11   page 3
		`, ``},
		{"or if another block is as long", `
			1    allow 1
			1    start 1
			1.5  allow 2
			1.5  start 2
			1.6  block 1 until=@11.6 refusals=1
			1.7  end 1 status=429 latency=0.6
			1.8  end 2 status=429 retryAfter=9
			12   page 3
		`, ``},
		{"the second of two in flight asks for nothing once the block is over", `
			1    allow 1
			1    start 1
			1.5  allow 2
			1.5  start 2
			1.6  block 1 until=@2.6 refusals=1
			1.7  end 1 status=429 latency=0.6
			3    end 2 status=429 latency=1.5
		`, ``},
		{"a block long after the answer isn't that of another in flight", `
			1    allow 1
			1    start 1
			1.5  allow 2
			1.5  start 2
			1.9  end 2 status=429
			9    block 1 until=@11 refusals=1
			9    end 1 status=429 latency=8
			12   page 3
		`, `lines 8 and 9: block: status 429, which is a refusal here, set no block`},
		{"a block of a request that started as its limiter heard of the answer", `
			1    page 1 status=429 latency=0.5 duration=0.5
			1.6  refused 2 status=429 until=@2.7
		`, ``},
		{"a block up to a second after it is, since its limiter may have heard of the other first", `
			1    allow 1
			1    start 1
			1.5  allow 2
			1.5  start 2
			2.6  block 1 until=@11 refusals=1
			2.6  end 2 status=429 latency=0.1
			2.6  end 1 status=429 latency=1.5
			12   page 3
		`, ``},
	}))
}

// TestVerdictsOnAnswersThatForbid: so many in a row, if nothing was between them, are followed by one request
// that tells a ban from forbidden pages.
func TestVerdictsOnAnswersThatForbid(t *testing.T) {
	const five = `
		1 page 1 status=403
		3 page 2 status=401
		5 page 3 status=402
		7 page 4 status=451
		9 page 5 status=403
	`
	const six = five + `11 page 6 status=403
	`
	const unseen = "open, blocks kept: a block that counts as one more refusal after some that aren't in the log"
	checkRows(t, usual, closed([]row{
		{"five", five, ``},
		{"six", six, `line 21: block: 6 responses such as 403 in a row set no block`},
		{"five, and one more when they are forgiven", five + "1808 page 6 status=403", ``},
		{"five, and one more just before that", five + "1807.999999999 page 6 status=403", `line 21: block: 6 responses such as 403 in a row set no block`},
		{"a success as the sixth", five + "11 page 6\n13 page 7 status=403", ``},
		{"a success between them", strings.Replace(six, "7 page 4 status=451", "7 page 4 status=451\n8 page 8 status=404", 1), ``},
		{"an answer between them that says nothing", strings.Replace(six, "7 page 4 status=451", "7 page 4 status=451\n8 page 8 status=407", 1), `line 24: block: 6 responses such as 403 in a row set no block`},
		{"a robots.txt that is served", five + "10 start 8 url=/robots.txt robotsTxt=true\n10.1 end 8 robotsTxt=true\n11 page 6 status=403", `line 23: block: 6 responses such as 403 in a row set no block`},
		{"a ban", strings.Replace(six, "11 page 6", "11 refused 6 until=@71.1", 1), ``},
		{"a ban that is too short", strings.Replace(six, "11 page 6", "11 refused 6 until=@70.9", 1), `lines 21 and 23: block: a refusal that blocks for 1m0s set a block of 59.8s`},
		{"another one is longer", strings.Replace(six, "11 page 6", "11 refused 6 until=@71.1", 1) + "75 refused 7 status=403 refusals=2 until=@195.1", ``},
		{"and not as long as the first", strings.Replace(six, "11 page 6", "11 refused 6 until=@71.1", 1) + "75 refused 7 status=403 refusals=2 until=@135.1", `lines 25 and 27: block: a refusal that blocks for 2m0s set a block of 1m0s`},
		{"nor counted as the first", strings.Replace(six, "11 page 6", "11 refused 6 until=@71.1", 1) + "75 refused 7 status=403 until=@195.1", `lines 25 and 27: contradiction: refusal 1 in a row, after 1`},
		{"a ban that was lifted begins anew", strings.Replace(six, "11 page 6", "11 refused 6 until=@71.1", 1) + "75 cleared 7" + strings.NewReplacer("\t1 page", "\t81 page", "\t3 page", "\t83 page", "\t5 page", "\t85 page", "\t7 page", "\t87 page", "\t9 page", "\t89 page", "11 page 6", "91 refused 6 until=@151.1").Replace(six), ``},
		{"one that counts as a refusal, after some that aren't in the log", `1 refused 1 status=403 kind=refused refusals=3 until=@3.1`, unseen},
		{"that is shorter than any", `1 refused 1 status=403 kind=refused refusals=3 until=@1.9`, "lines 6 and 8: block: a refusal that blocks for 2s set a block of 800ms\n" + unseen},
		{"one that counts as a refusal after none", `
			1 refused 1 status=429 until=@2.1
			3 cleared 2
			5 refused 3 status=403 kind=refused until=@6.1
		`, `lines 14 and 16: contradiction: status 403 was counted as another kind of refusal than it is`},
		{"a 503 without Retry-After that counts as a refusal", `1 refused 1 status=503 kind=refused until=@2.1`, `lines 6 and 8: contradiction: status 503 was counted as another kind of refusal than it is`},
		{"and as the second after none", `
			1 refused 1 status=429 until=@2.1
			3 cleared 2
			5 refused 3 status=403 kind=refused refusals=2 until=@6.1
		`, unseen},
		{"one that counts as a page's own trouble may be", `1 refused 1 status=403 kind=unsure until=@2.1`, `lines 6 and 8: contradiction: status 403 was counted as another kind of refusal than it is`},
		{"a refusal that counts as a ban", `1 refused 1 status=429 kind=ban until=@61.1`, `lines 6 and 8: contradiction: status 429 was counted as another kind of refusal than it is`},
		{"a 429 after a ban is the first of its own", strings.Replace(six, "11 page 6", "11 refused 6 until=@71.1", 1) + "75 refused 7 status=429 until=@76.1", ``},
		{"one that was in flight says nothing new", strings.Replace(six, "9 page 5", "8 allow 6\n8 start 6\n9 page 5", 1)[:len(six)-len("11 page 6 status=403\n\t")+len("8 allow 6\n8 start 6\n")] + "\n11 end 6 status=403 latency=3", ``},
		{"a success in flight may have been between them", strings.Replace(six, "7 page 4", "6 allow 9\n6 start 9\n7 page 4", 1) + "12 end 9 latency=1.1", ``},
		{"a success in flight that came too late for that", strings.Replace(six, "7 page 4", "6 allow 9\n6 start 9\n7 page 4", 1) + "20 end 9 latency=13.9", `line 23: block: 6 responses such as 403 in a row set no block`},
		{"a success within a second of the first may have been before it", `1.4 page 9` + strings.Replace(six, "1 page", "2.4 page", 1), ``},
		{"or of the last", six + "12 page 7", ``},
		{"but not later", six + "12.000000001 page 7", `line 21: block: 6 responses such as 403 in a row set no block`},
		{"a quota between them", five + "11 refused 8 status=407 refusals=0 until=@16.1 rateLimit=\"\\\"p\\\";r=0;t=5\"\n17 page 6 status=403", `line 25: block: 6 responses such as 403 in a row set no block`},
		{"a block a little before the first may be that of all", "0.5 block hand=true until=@0.6 status=0 refusals=0" + six, ``},
	}))
	checkRows(t, `
		policy process=P
		-60 start 9 url=/robots.txt robotsTxt=true at=@-60
		-59 end 9 url=/robots.txt robotsTxt=true
		-59 robots url=/robots.txt robotsTxt=true text="" status=200
	`, closed([]row{
		{"one that counts as one more, where the server of a fleet came back with old data", `
			1 refused 1 status=429 until=@2.1 at=@1
			3 cleared 2 at=@3
			5 refused 3 status=500 kind=refused refusals=2 until=@6.1 at=@5
		`, unseen},
		{"one that counts as the first", `
			1 refused 1 status=429 until=@2.1 at=@1
			3 cleared 2 at=@3
			5 refused 3 status=500 kind=refused until=@6.1 at=@5
		`, `lines 14 and 16: contradiction: status 500 was counted as another kind of refusal than it is`},
	}))
	checkRows(t, "policy inARow=2\nsite \"\"", closed([]row{
		{"two, by the policy", `
			1 page 1 status=403
			3 page 2 status=403
			5 page 3 status=403
		`, `line 12: block: 3 responses such as 403 in a row set no block`},
		{"one", "1 page 1 status=403\n3 page 2 status=403", ``},
	}))
	checkRows(t, "policy inARow=0\nsite \"\"", closed([]row{{"five, unless the policy says so", six, `line 21: block: 6 responses such as 403 in a row set no block`}}))
	checkRows(t, "policy backoff=doubling backoffStep=900 backoffCap=86400\nsite \"\"", closed([]row{
		{"a ban is a minute whatever the policy says of others", strings.Replace(six, "11 page 6", "11 refused 6 until=@71.1", 1), ``},
	}))
	checkRows(t, "policy backoff=own\nsite \"\"", closed([]row{
		{"a policy of the user's", `1 refused 1 status=429 until=@1.2`, `open, blocks kept: how long a refusal blocks is a policy of the user's`},
	}))
}

// TestVerdictsOnPauses: after an answer that may be the word of a rate limit the host rests, unless it was
// found to be the page's own trouble.
func TestVerdictsOnPauses(t *testing.T) {
	const unclear = "open, blocks kept: whether a failure of a page that had failed before is only that page's"
	// A page that is refused, again as the probe, while the next one is served.
	const own = `
		1   refused 1 status=503 until=@2.1
		3   page 11 url=/1 status=503
		5   cleared 3
	`
	checkRows(t, usual, closed([]row{
		{"none", `1 page 1 status=503`, `lines 6 and 7: block: status 503, after which a host rests for a second, set no block`},
		{"none, and a request in it", `
			1   page 1 status=503
			1.9 page 2
		`, `
			lines 6 and 7: block: status 503, after which a host rests for a second, set no block
		`},
		{"no response, too", `1 failed 1 error=reset`, `lines 6 and 7: block: an exchange without a response, after which a host rests for a second, set no block`},
		{"unless the caller left", `1 failed 1 error=cancelled left=true`, ``},
		{"a second, as near as a limiter's clock is", `1 refused 1 status=503 until=@2`, ``},
		{"less", `1 refused 1 status=503 until=@1.999999999`, `lines 6 and 8: block: a refusal that blocks for 1s set a block of 899.999999ms`},
		{"the third in a row", `
			1   refused 1 status=503 until=@2.1
			3   refused 2 status=500 refusals=2 until=@4.1
			5   refused 3 status=408 refusals=3 until=@7.1
		`, ``},
		{"the third in a row, too short", `
			1   refused 1 status=503 until=@2.1
			3   refused 2 status=500 refusals=2 until=@4.1
			5   refused 3 status=408 refusals=3 until=@6.1
		`, `lines 14 and 16: block: a refusal that blocks for 2s set a block of 1s`},
		{"the third in a row, counted as the first", `
			1   refused 1 status=503 until=@2.1
			3   refused 2 status=500 refusals=2 until=@4.1
			5   refused 3 status=408 refusals=1 until=@7.1
		`, `
			lines 14 and 16: contradiction: refusal 1 in a row, after 2
		`},
		{"five minutes at most", `1 refused 1 status=503 refusals=40 until=@301.1`, ``},
		{"and that, where it was refused so often", `1 refused 1 status=503 refusals=40 until=@300.9`, `lines 6 and 8: block: a refusal that blocks for 5m0s set a block of 4m59.8s`},
		{"after a 429 it is a refusal as that is", `
			1   refused 1 status=429 until=@2.1
			3   page 2 status=500
		`, `lines 10 and 11: block: status 500, which is a refusal here, set no block`},
		{"that counts as one", `
			1   refused 1 status=429 until=@2.1
			3   refused 2 status=500 kind=refused until=@4.1 refusals=2
		`, ``},
		{"a 429 after it is the first", `
			1   refused 1 status=500 until=@2.1
			3   refused 2 status=429 until=@4.1
		`, ``},
		{"one that started before a block, or with it, is a part of that", `
			1   allow 1
			1   start 1
			1.5 allow 2
			1.5 start 2
			1.5 block 1 until=@2.5
			1.6 end 1 status=429 latency=0.5
			3   end 2 status=500 latency=1.4
		`, ``},
		{"and not its page's own trouble", `
			1   allow 2
			1   start 2
			1.5 refused 1 status=429 until=@2.6
			3   end 2 status=500 latency=1.9
			4   cleared 3
			6   page 12 url=/2 status=500
		`, unclear},
		{"after a block that was lifted it is one by itself", `
			1   refused 1 status=429 until=@2.1
			3   cleared 2
			4   page 3 status=500
		`, `lines 14 and 15: block: status 500, after which a host rests for a second, set no block`},
		{"and when the refusals are forgiven", `
			1   refused 1 status=429 until=@2.1
			1801.1 page 2 status=500
		`, `lines 10 and 11: block: status 500, after which a host rests for a second, set no block`},
		{"and a quota since doesn't bring them back", `
			1   refused 1 status=429 until=@2.1
			1810 refused 2 status=407 refusals=0 until=@1815.1 rateLimit="\"p\";r=0;t=5"
			1816 refused 3 status=500 until=@1817.1
		`, ``},
		{"and the next one is the second of its own kind", `
			1   refused 1 status=429 until=@2.1
			1810 refused 2 status=500 until=@1811.1
			1812 refused 3 status=500 refusals=2 until=@1813.1
		`, ``},
		{"and after a block of a quota, which was no refusal", `
			1   refused 1 status=200 refusals=0 until=@6.1 rateLimit="\"p\";r=0;t=5"
			7   page 2 status=500
		`, `lines 10 and 11: block: status 500, after which a host rests for a second, set no block`},

		{"the page that was refused, as the probe", own, ``},
		{"asked again, later", own + "7 page 11 url=/1 status=503", ``},
		{"with another quarrel of the host between", own + `
			7   refused 4 status=503 until=@8.1
			9   page 11 url=/1 status=503
			11  cleared 5
		`, ``},
		{"the page after it was refused, too", `
			1   refused 1 status=503 until=@2.1
			3   page 11 url=/1 status=503
			5   refused 3 status=503 refusals=3 until=@7.1
			8   page 11 url=/1 status=503
		`, unclear},
		{"the same page once more", `
			1   refused 1 status=503 until=@2.1
			3   page 11 url=/1 status=503
			5   page 12 url=/1 status=503
		`, unclear},
		{"the same page with another fragment", `
			1   refused 1 status=503 until=@2.1 url=/1#a
			3   page 11 url=/1#b status=503
			5   cleared 3
		`, ``},
		{"the page that was refused, and served since", `
			1   refused 1 status=503 until=@2.1
			3   cleared 11 url=/1
			5   page 12 url=/1 status=503
		`, unclear},
		{"another page as the probe", `
			1   refused 1 status=503 until=@2.1
			3   page 2 status=503
		`, `lines 10 and 11: block: status 503, after which a host rests for a second, set no block`},
		{"a page that another request has under way", `
			1   allow 1
			1   start 1
			2   page 11 url=/1 status=503
			9   end 1
		`, `lines 8 and 9: block: status 503, after which a host rests for a second, set no block`},
		{"one that was in flight when five were forbidden says nothing new, maybe", `
			1   page 1 status=403
			3   page 2 status=403
			5   page 3 status=403
			7   page 4 status=403
			9   page 5 status=403 latency=0.5 duration=0.5
			9.5 allow 6
			9.5 start 6
			10  end 6 status=503 latency=0.5
			12  page 7
		`, "open, blocks kept: whether a request was in flight while responses such as 403 were checked for a ban"},
	}))
}

// TestVerdictsOnProbes: after a block one request starts, and the others wait for its answer.
func TestVerdictsOnProbes(t *testing.T) {
	const probe = `
		1   refused 1 status=429 until=@2.1
		3   allow 2
		3   start 2
	`
	const beside = `lines 10 and 12: block: started 900ms before the response to a probe`
	checkRows(t, usual+probe, closed([]row{
		{"one beside it", `
			4   page 3
			5   clear 2
			5   end 2 latency=2
		`, beside},
		{"one behind it, as near as a limiter's clock is", `
			5   clear 2
			4.9 page 3
			7   end 2 latency=2
		`, ``},
		{"one beside it, until its slot may be taken back", `
			301 page 3
			302 end 2 latency=299
		`, beside},
		{"and then", `
			303 expired seq=3
			303.2 page 3
			310 end 2 latency=300.5
		`, ``},
		{"one beside it, though it loses its connection", `
			4   page 3
			5   resent 2
			6   clear 2
			6   end 2 seq=5 start=@5 duration=1 latency=1
		`, beside},
		{"one beside it, before it loses its connection", `
			4   page 3
			6   resent 2 waitConnect=2
			7   clear 2
			7   end 2 seq=5 start=@6 duration=1 latency=1
		`, beside},
		{"one after it has lost its connection, and before it is sent again", `
			4   page 3
			5   resent 2 waitConnect=1
			6   clear 2
			6   end 2 seq=5 start=@5 duration=1 latency=1
		`, ``},
	}))
	checkRows(t, usual, closed([]row{{"one beside another, after an answer that may be a page's own trouble", `
		1   refused 1 status=503 until=@2.1
		3   page 11 url=/1 status=503
		5   allow 2
		5   start 2
		6   page 3
		7   clear 2
		7   end 2 latency=2
	`, `lines 13 and 15: block: started 900ms before the response to a probe`}}))
}

// TestVerdictsOnALateRefusalOfAFleet: it lengthens the block that another one has set, and isn't counted.
// Where that one's log was cut off it may have been that.
func TestVerdictsOnALateRefusalOfAFleet(t *testing.T) {
	const late = `
		1    refused 1 status=429 retryAfter=1 until=@2.1 refusals=0
		9999 closed
	`
	fleet := func(closed string) string { return "policy by=U\n" + closed + "file\npolicy atLeast=true\nsite \"\"" }
	checkRows(t, fleet(""), []row{
		{"whose first log was cut off", late, lostAnswers},
		{"that asks for nothing", strings.Replace(late, "retryAfter=1 ", "", 1), lostAnswers},
	})
	checkRows(t, fleet("9999 closed by=U\n"), []row{
		{"whose logs are whole", late, `log 2, line 6 and log 2, line 8: block: status 429, which is a refusal here, set no block`},
	})
}

// TestNoCountOfRefusalsHoldsTheJudgeUp: neither steps of nothing, nor less, nor a cap that a sum passes.
func TestNoCountOfRefusalsHoldsTheJudgeUp(t *testing.T) {
	for _, policy := range []string{
		"backoff=fibonacci backoffStep=- backoffCap=1", "backoff=doubling backoffStep=- backoffCap=1", "backoff=fibonacci backoffStep=-1 backoffCap=1",
		"backoff=fibonacci backoffStep=1 backoffCap=9223372036", "backoff=doubling backoffStep=1 backoffCap=9223372036",
	} {
		log := "policy forgive=1800 " + policy + "\nsite \"\"\n1 refused 1 status=429 until=@999999999 refusals=9223372036854775807"
		judged := make(chan struct{})
		go func() {
			judge(t, log)
			close(judged)
		}()
		select {
		case <-judged:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: no verdict", policy)
		}
	}
	checkRows(t, "policy backoff=doubling backoffStep=1 backoffCap=9223372036\nsite \"\"", []row{
		{"a block of a day for one of ten years", `1 refused 1 status=429 until=@86400 refusals=200`, `
			lines 6 and 8: block: a refusal that blocks for 87600h0m0s set a block of 23h59m58.9s
		`},
	})
}
