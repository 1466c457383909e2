package audit_test

import (
	"strings"
	"testing"
)

// TestVerdictsOnRecordsThatCannotBeTrue: a record is held against itself, and those of one request
// against each other.
func TestVerdictsOnRecordsThatCannotBeTrue(t *testing.T) {
	checkRows(t, usual, []row{
		{"no type", `1 waiting type=""`, `line 5: contradiction: a record without a type`},
		{"an end that wasn't allowed", `1 page 1
			2 allow 2
			2 start 2
			2.2 end 2 allowed=false`, `line 10: contradiction: fetched with "allowed": false`},
		{"a failure that was allowed", `
			2 allow 2
			2 start 2
			2.2 fail 2 allowed=true`, `line 7: contradiction: failed with "allowed": true`},
		{"allowed by a rule that refuses", `1 page 1 matchedRule="Disallow: /x"`, `
			lines 4 and 5: verdict: robots.txt decides /1 by no rule, not Disallow: /x
			open, allowed by robots.txt: the verdict can't be decided again
		`},
		{"in any spelling", `1 page 1 matchedRule=" disalow : /x"`, `
			lines 4 and 5: verdict: robots.txt decides /1 by no rule, not  disalow : /x
			open, allowed by robots.txt: the verdict can't be decided again
		`},
		{"or by one that says nothing", `1 page 1 matchedRule="Disallow:"`, `
			lines 4 and 5: verdict: robots.txt decides /1 by no rule, not Disallow:
			open, allowed by robots.txt: the verdict can't be decided again
		`},
		{"refused by a rule that allows", `1 deny 1 matchedRule="Allow: /x"`, `
			lines 4 and 5: verdict: robots.txt allows /1 (no rule)
		`},
		{"recorded before the start", `
			1 allow 1
			0.999999999 start 1 start=@1
			1.2 end 1 duration=0.2
		`, `line 6: contradiction: recorded before its start`},
		{"recorded a second after the start", `
			1 allow 1
			2 start 1 start=@1
			2.2 end 1 duration=0.2
		`, ``},
		{"recorded longer after it", `
			1 allow 1
			2.000000001 start 1 start=@1
			2.2 end 1 duration=0.2
		`, `line 6: contradiction: recorded more than a second after its start`},
		{"without a time, which would prove every gap after it", `
			1 allow 1
			1 start 1 timestamp=- start=-
			1.2 end 1 timestamp=- start=- duration=0.2
		`, `
			line 6: contradiction: a start without its time
			open, log whole: numbers of starts are missing, as those of requests without a response are in a log that was cut off
			open, log whole: a start that the limiter knew of and no log has, as one that was cut off may have had it
		`},
		{"a second connection, recorded late", `
			1 allow 1
			1 start 1
			4 resent 1 start=@2
			4.2 end 1 seq=3 start=@2
		`, `line 7: contradiction: recorded more than a second after its start`},
		{"an end recorded late isn't", `
			1 allow 1
			1 start 1
			9 end 1 duration=0.2 latency=0.1
		`, ``},
		{"two ends of a block", `
			1 refused 1 status=429 until=@2.1 retryAt=@2.2
		`, `line 7: contradiction: two times for the end of one block`},
		{"one", `
			1 refused 1 status=429 until=@2.1 retryAt=@2.1
		`, ``},
		{"headers after the body", `1 page 1 latency=0.3`, `line 7: contradiction: the headers came after the end of the body`},
		{"headers at its end", `1 page 1 latency=0.2`, ``},
		{"a start that doesn't say when it was recorded", `
			1   allow 1
			1   start 1 timestamp=-
			1.2 end 1
		`, ``},
		{"a slot of nobody says how many", `1 page 1 slot=1 slots=0`, ``},
		{"a refusal that may be tried again", `1 rule 1 retryAt=@9`, ``},
		{"a page that isn't refused, but says so", `
			1   allow 1 allowed=false
			1   start 1
			1.2 end 1
		`, `
			lines 4 and 5: verdict: robots.txt allows /1 (no rule)
			line 5: contradiction: robots_allowed with "allowed": false
			lines 5 and 6: robots: fetch of a URL that was refused: https://a.example/1
		`},
		{"a page that is refused, but says that it isn't", `
			1   rule 1 allowed=true
			1   start 1
			1.2 end 1
		`, `
			line 5: contradiction: blocked_by_rule with "allowed": true
			lines 5 and 6: robots: fetch of a URL that was refused: https://a.example/1
		`},
		{"a trip of another Transport has the same number", `
			policy by=U
			1   allow 1 by=T
			1   start 1 by=U
			1.2 end 1 by=U
		`, `line 7: robots: fetch of a URL without a verdict: https://a.example/1`},
		{"a wait below zero", `1 page 1 waitBlock=-0.000000001`, `line 6: contradiction: a time below zero`},
		{"two waits below zero", `1 page 1 waitBlock=-1 waitSlot=-2`, `line 6: contradiction: a time below zero`},
		{"a budget past its limit", `1 over limit=pages used=3 max=2`, `line 5: budget: 3 of 2 pages`},
		{"a budget at its limit", `1 over limit=pages used=2 max=2`, ``},
		{"a budget without a limit", `1 over limit=pages used=2`, ``},
		{"a budget that was passed in time", `1 over limit=time used=3 max=2`, ``},
		{"two times of one start", `
			1 allow 1
			1 start 1
			1.2 end 1 start=@1.1
		`, `lines 6 and 7: contradiction: two records of one request give different starts or numbers`},
		{"two numbers of one start", `
			1 allow 1
			1 start 1
			1.2 end 1 seq=3
		`, `lines 6 and 7: contradiction: two records of one request give different starts or numbers`},
		{"two URLs of one request", `
			1 allow 1
			1 start 1
			1.2 end 1 url=/2
		`, `lines 6 and 7: contradiction: two records of one request give different URLs, hosts, redirects or robotsTxt`},
		{"two numbers of redirects", `
			1 allow 1
			1 start 1
			1.2 end 1 redirects=1
		`, `lines 6 and 7: contradiction: two records of one request give different URLs, hosts, redirects or robotsTxt`},
		{"recorded long before its end", `
			1 allow 1
			1 start 1
			1.2 end 1 duration=1.200000001
		`, `lines 6 and 7: contradiction: recorded 1.000000001s before its end`},
		{"recorded a second before its end", `
			1 allow 1
			1 start 1
			1.2 end 1 duration=1.2
		`, ``},
		{"an end without a start", `1 end 1 seq=7 start=@1`, `line 5: end: fetched without a start`},
		{"a failure without one", `1 fail 1 seq=7 start=@1`, `line 5: end: failed without a start`},
		{"a failure before the start", `1 fail 1`, ``},
		{"two ends", `
			1 page 1
			1.2 end 1
		`, `line 8: end: fetched without a start`},
		{"two policies", `policy slots=3`, `line 5: contradiction: two policies of one Transport`},
		{"the same policy again", `policy`, ``},
		{"limits of one host that the policy rules out", `policy host=a.example slots=1`, `line 5: contradiction: limits of one host, though the policy says that all hosts have the same`},
		{"a block that was set long before the answer", `
			1 allow 1
			1 start 1
			1 block 1 until=@4
			2.2 end 1 status=429 latency=1.100000001
		`, `lines 6 and 8: contradiction: a block was set or lifted at another time than that of the response`},
		{"within a second", `
			1 allow 1
			1 start 1
			1.1 block 1 until=@4
			2.2 end 1 status=429 latency=1.1
		`, ``},
		{"a block that was set long after the end", `
			1 allow 1
			1 start 1
			4.200000001 block 1 until=@9
			1.2 end 1 status=429
		`, `lines 6 and 8: contradiction: a block was set or lifted at another time than that of the response`},
		{"within three seconds, since the limiter may be far away", `
			1 allow 1
			1 start 1
			4.2 block 1 until=@9
			1.2 end 1 status=429
		`, ``},
	})
}

// TestVerdictsOnJumpsOfTheClock: the clock was put forward during a request, or the computer slept: when
// its answer came isn't known.
func TestVerdictsOnJumpsOfTheClock(t *testing.T) {
	checkRows(t, usual, closed([]row{
		{"a refusal whose block tells when", `
			1   allow 1
			1   start 1
			11  block 1 until=@12
			11  end 1 status=429 duration=0.2 latency=0.1
		`, ``},
		{"a refusal that no block tells of", `
			1   allow 1
			1   start 1
			11  end 1 status=429 duration=0.2 latency=0.1
		`, `open, blocks kept: the clock was put forward, or the computer slept, during a request: the time of its response isn't known`},
		{"a failure", `
			1   allow 1
			1   start 1
			11  end 1 status=500 duration=0.2 latency=0.1
		`, `open, blocks kept: the clock was put forward, or the computer slept, during a request: the time of its response isn't known`},
		{"a quota that is used up", `
			1   allow 1
			1   start 1
			11  end 1 duration=0.2 latency=0.1 rateLimit="\"p\";r=0;t=5"
		`, `open, blocks kept: the clock was put forward, or the computer slept, during a request: the time of its response isn't known`},
		{"a success", `
			1   allow 1
			1   start 1
			11  end 1 duration=0.2 latency=0.1
		`, ``},
		{"a failure of a page that has failed during the jump", `
			1   allow 1 url=/x
			1   start 1 url=/x
			11  end 1 status=500 duration=0.2 latency=0.1
			13  page 2 url=/x status=500
		`, `
			open, blocks kept: the clock was put forward, or the computer slept, during a request: the time of its response isn't known
			open, blocks kept: whether a failure of a page that had failed before is only that page's
		`},
		{"a failure beside a 403 that came during the jump", `
			1   allow 1
			1   start 1
			10.5 allow 2
			10.5 start 2
			11  end 1 status=403 duration=0.2 latency=0.1
			11.2 end 2 status=500 latency=0.6
		`, `
			open, blocks kept: the clock was put forward, or the computer slept, during a request: the time of its response isn't known
			open, blocks kept: whether a request was in flight while responses such as 403 were checked for a ban
		`},
		{"no more than a second", `
			1   allow 1
			1   start 1
			2.2 end 1 status=429 duration=0.2 latency=0.1
		`, `lines 6 and 7: block: status 429, which is a refusal here, set no block`},
		{"a success may have come late, and ended the row of answers that forbid", `
			1 page 1 status=403
			3 page 2 status=403
			5 allow 7
			5 start 7
			5.9 page 3 status=403
			8 page 4 status=403
			9 end 7 duration=0.2 latency=0.1
			10.5 page 5 status=403
			12 page 6 status=403
		`, ``},
	}))
}

// TestVerdictsOnDates: the server's clock runs as ours does, as far as its Date headers tell.
func TestVerdictsOnDates(t *testing.T) {
	date := func(clock string) string { return ` serverDate="Sat, 21 Nov 2026 ` + clock + ` GMT"` }
	const disagrees = "open, times agree with the servers': a Date header that disagrees with those before it: a cache, or several machines, or the log's times aren't true"
	const more = "open, times agree with the servers': a server whose Date is more than an hour away from the log's times"
	checkRows(t, usual, []row{
		{"an hour ahead", `
			1 page 1` + date("04:00:01") + `
			30 page 2` + date("04:00:30"), ``},
		{"an hour ahead to the second", `1 page 1 latency=0` + date("04:00:01"), ``},
		{"an hour behind to the second", `1 page 1` + date("02:00:00"), ``},
		{"more than an hour ahead", `1 page 1 latency=0` + date("04:00:02"), more},
		{"more than an hour behind", `1 page 1` + date("01:59:59"), more},
		{"seven seconds early", `
			1 page 1 latency=0` + date("03:00:01") + `
			30 page 2` + date("03:00:23"), disagrees},
		{"six seconds early, which may be five and a 5000th of the time between", `
			1 page 1 latency=0` + date("03:00:01") + `
			30.00580116 page 2 latency=0` + date("03:00:24"), ``},
		{"six seconds late, which may be as many", `
			1 page 1 latency=0` + date("03:00:01") + `
			29.99420116 page 2 latency=0` + date("03:00:36"), ``},
		{"seven seconds late", `
			1 page 1` + date("03:00:01") + `
			30 page 2` + date("03:00:37"), disagrees},
		{"a slow answer may be dated late", `
			1 page 1` + date("03:00:01") + `
			30 page 2 latency=4 duration=4` + date("03:00:40"), ``},
		{"drifting a little with each answer", `
			1 page 1` + date("03:00:01") + `
			43200 page 2` + date("15:00:13"), ``},
		{"too far in all", `
			1 page 1` + date("03:00:01") + `
			30 page 2` + date("03:00:35") + `
			60 page 3` + date("03:01:10"), disagrees},
		{"no date", `1 page 1 serverDate=yesterday`, ``},
	})
}

// TestVerdictsOnConsent: what robots.txt states about the use of a page is read again, and nothing that is
// reserved is handed over.
func TestVerdictsOnConsent(t *testing.T) {
	const before = "policy purposes=train\nsite \"User-agent: *\\nContent-Signal: ai-train=no, search=yes\\nDisallow: /no\\n\""
	const stated = ` preferences="train refused (Content-Signal, line 2), search granted (Content-Signal, line 2)"`
	const granted = ` preferences="search granted (Content-Signal, line 2)"`
	checkRows(t, before, []row{
		{"a page that is reserved, and refused", `1 reserved 1 purposes=train` + stated, ``},
		{"and fetched all the same", `
			1 reserved 1 purposes=train` + stated + `
			1 start 1
			1.2 end 1
		`, `lines 5 and 6: robots: fetch of a URL that was refused: https://a.example/1`},
		{
			"a page that is reserved, and allowed", `1 allow 1 purposes=train` + stated,
			`lines 4 and 5: consent: allowed to train, which robots.txt reserves: train refused (Content-Signal, line 2), search granted (Content-Signal, line 2)`,
		},
		{"a page that is reserved for another purpose", `1 allow 1 purposes=search` + stated, `
			line 5: consent: a page for "search" by a crawler whose pages are for "train"
		`},
		{"preferences that robots.txt doesn't state", `1 allow 1 purposes=train` + granted, `
			lines 4 and 5: consent: robots.txt states "train refused (Content-Signal, line 2), search granted (Content-Signal, line 2)" about /1, not "search granted (Content-Signal, line 2)"
		`},
		{"none where robots.txt states some", `1 allow 1 purposes=train`, `
			lines 4 and 5: consent: robots.txt states "train refused (Content-Signal, line 2), search granted (Content-Signal, line 2)" about /1, not ""
		`},
		{"a page refused that isn't reserved", `
			site "User-agent: *\nContent-Signal: search=yes\n" at=-50
			1 reserved 1 purposes=train` + granted, `lines 7 and 8: consent: reserved, though robots.txt reserves none of train`},
		{"the copy before may have decided", `
			site "User-agent: *\nContent-Signal: search=yes\n" at=0.5
			1 reserved 1 purposes=train copy=` + sumOf("User-agent: *\nContent-Signal: ai-train=no, search=yes\nDisallow: /no\n")[:8] + stated, ``},
		{"a copy that isn't in force any more can't have", `
			site "User-agent: *\nContent-Signal: search=yes\n" at=0.5
			5 reserved 1 purposes=train` + stated, `
			lines 7 and 8: consent: robots.txt states "search granted (Content-Signal, line 2)" about /1, not "train refused (Content-Signal, line 2), search granted (Content-Signal, line 2)"
		`},
		{"the new copy may have, from the beginning", `
			site "User-agent: *\nContent-Signal: search=yes\n" at=0.5
			1 allow 1 purposes=train` + granted, ``},
		{"a page that a header reserves, and handed over", `
			1 allow 1 purposes=train preferences=""
			1 start 1
			1.2 end 1 purposes=train preferences="train refused (Tdm-Reservation)"
		`, `
			lines 4 and 5: consent: robots.txt states "train refused (Content-Signal, line 2), search granted (Content-Signal, line 2)" about /1, not ""
			line 7: consent: a page handed over to train: train refused (Tdm-Reservation)
		`},
		{"a URL that isn't whole", `1 allow 1 purposes=train url=/1?k=REDACTED` + stated, `
			open, reservations kept: a URL, or preferences, that aren't whole in the log
		`},
		{"preferences that aren't whole", `1 allow 1 purposes=train preferences="train refused[...]"`, `
			open, reservations kept: a URL, or preferences, that aren't whole in the log
		`},
		{"a group of another name, by a policy that says whether it counts", `1 reserved 1 purposes=train group=Test*` + stated, ``},
		{"the group of its own name, in any case", `1 reserved 1 purposes=train group=testbot` + stated, ``},
		{"a robots.txt that isn't in the log", `1 reserved 1 purposes=train host=b.example` + stated, `
			open, reservations kept: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`},
	})
	checkRows(t, "policy overrides=true purposes=train\nsite \"\"", []row{
		{"limits of one host say nothing of purposes", `
			policy host=a.example adaptive=Fixed slots=1 delayMin=0.5
			1 page 1 purposes=train
		`, ``},
	})
	checkRows(t, "policy purposes=\"train, ground\"\nsite \"\"", []row{
		{"a page that a header reserves, and that is refused then", `
			1 allow 1 purposes="train, ground"
			1 start 1
			1.1 reserved 1 status=200 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
			1.2 end 1 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
		`, ``},
		{"two of them at once", `
			1 allow 1 purposes="train, ground"
			1 start 1
			2 allow 2 purposes="train, ground"
			2 start 2
			2.1 reserved 1 status=200 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
			2.1 reserved 2 status=200 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
			2.2 end 1 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
			2.2 end 2 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
		`, ``},
		{"refused once, handed over in the next try", `
			1 allow 1 purposes="train, ground"
			1 start 1
			1.1 reserved 1 status=200 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
			1.2 end 1 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
			1.2 retry 1
			2 start 1 attempt=2
			2.2 end 1 attempt=2 purposes="train, ground" preferences="ground refused (Tdm-Reservation)"
		`, `line 11: consent: a page handed over to ground: ground refused (Tdm-Reservation)`},
		{"granted", `
			1 allow 1 purposes="train, ground"
			1 start 1
			1.2 end 1 purposes="train, ground" preferences="ground granted (Tdm-Reservation), search refused (x)"
		`, ``},
	})
}

// TestVerdictsAcrossLogs: what a host is owed at the end of a log binds the next one.
func TestVerdictsAcrossLogs(t *testing.T) {
	const first, next = "policy\nsite \"\"\n", "\nlog\npolicy\nsite \"\" at=%\n"
	then := func(at string) string { return strings.Replace(next, "%", at, 1) }
	checkRows(t, first, []row{
		{"a block that is over", `1 refused 1 status=429 retryAfter=100 until=@101.1` + then("101.1"), ``},
		{"a block that isn't", `1 refused 1 status=429 retryAfter=100 until=@101.1` + then("101"), `lines 7 and 10: block: started 100ms before the end of a block`},
		{"a delay of up to a minute is forgotten", `1 page 1 delay=61` + then("30"), ``},
		{"a longer one isn't", `1 page 1 delay=61.000000001` + then("62"), `lines 6 and 9: gap: 1m1s between two starts, delay in force 1m1.000000001s`},
		{"and holds in the third log", `1 page 1 delay=300` + "\nlog\npolicy\n150 waiting" + then("200"), `lines 6 and 11: gap: 3m19s between two starts, delay in force 5m0s`},
		{"a new budget", `1 page 1` + then("30"), ``},
		{"a Transport that goes on keeps to what it learns of crawl-delays", `1 page 1 delay=300` + "\nlog\npolicy by=T limiter=L\nsite \"\" crawlDelay=400 delay=400 at=302", `
			lines 6 and 9: gap: 5m1s between two starts, delay in force 6m40s
			open, delays kept: what a Transport did between two logs that it has records in
			open, budget kept: what a Transport did between two logs that it has records in
		`},
		{"another one begins with it", `1 page 1 delay=300` + "\nlog\npolicy by=U\nsite \"\" crawlDelay=400 delay=400 at=302", ``},
	})
	checkRows(t, "policy pages=1\nsite \"\"", []row{
		{"a new budget", `1 page 1` + "\nlog\npolicy pages=1\nsite \"\" at=30\n40 page 2", ``},
	})
}

// unsaid is the verdict on what a Transport did that hasn't said what it promises.
var unsaid = func() (open string) {
	for _, p := range []string{
		"delays kept", "slots kept", "sites kept", "blocks kept", "allowed by robots.txt", "verdicts right", "reservations kept", "budget kept",
		"every start ended", "times agree with the servers'", "log whole",
	} {
		open += "\nopen, " + p + ": no policy record has the promises"
	}
	return open
}()

// Without a policy nothing was promised, so nothing is proved or broken, but what a record says of itself.
func TestVerdictsWithoutAPolicy(t *testing.T) {
	checkRows(t, "", []row{
		{"a crawl", `site ""
			1 page 1
			1 page 2 status=429`, unsaid},
		{"a record that can't be true", `1 page 1 latency=3`, "line 3: contradiction: the headers came after the end of the body" + unsaid},
		{"the limits of one host", `policy host=a.example seq=1 by=T
			1 page 1`, unsaid},
		{"another Transport", usual + `
			1 page 1
			2 page 2 by=W`, unsaid},
		{"a policy that comes late", `
			1 page 1 by=T
			policy
			site "" at=10`, strings.Replace(unsaid, "open, log whole", `
			open, log whole: numbers of starts are missing, as those of requests without a response are in a log that was cut off
			open, log whole: a start that the limiter knew of and no log has, as one that was cut off may have had it
			open, log whole`, 1)},
	})
}
