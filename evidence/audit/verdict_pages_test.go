package audit_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestVerdictsOnBudgets: nothing is spent past a limit, whoever names it, and what is spent is counted
// anew: a navigation is one page, with all its redirects and tries.
func TestVerdictsOnBudgets(t *testing.T) {
	var rules strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&rules, "3 rule %d\n", 10+i)
	}
	checkRows(t, "policy pages=2\nsite \"\"", []row{
		{"as many pages as there are", `
			1   page 1
			2   page 2
		`, ``},
		{"one more", `
			1   page 1
			2   page 2
			3   page 3
		`, `line 12: budget: 3 of 2 pages`},
		{"one that was given back", `
			1   page 1
			2   failed 2
			3   page 3
		`, ``},
		{"one that failed is spent", `
			1   page 1
			2   down 2 status=0 error=reset until=@3
			3.2 page 3
		`, `line 13: budget: 3 of 2 pages`},
		{"a second try costs nothing", `
			1   refused 1 status=500 until=@2.1
			1.2 retry 1
			2.2 start 1 attempt=2
			2.4 end 1 attempt=2
			3   page 3
		`, ``},
		{"a second try without a first", `
			1   page 1
			2   page 2
			3   page 3 attempt=2
		`, `line 12: budget: 3 of 2 pages`},
		{"a third try without a second", `
			1   refused 1 status=500 until=@2.1
			1.2 retry 1
			2.2 start 1 attempt=3
			2.4 end 1 attempt=3
			3   page 3
		`, `line 13: budget: 3 of 2 pages`},
		{"a request that is sent again costs nothing", `
			1   allow 1
			1   start 1
			2   resent 1
			2.2 end 1
			3   page 2
		`, ``},
		{"unless it was never sent", `
			1   page 1
			2   page 2
			3   allow 3
			3   resent 3
			3.2 end 3
		`, `line 12: budget: 3 of 2 pages`},
		{"a redirect costs nothing", `
			1   page 1 status=302 location=/two
			2   page 2 url=/two redirects=1 from=1
			3   page 3
		`, ``},
		{"its answer is logged later", `
			1   allow 1
			1   start 1
			2   page 2 url=/two redirects=1 from=1
			1.2 end 1 status=302 location=/two
			3   page 3
		`, `open, budget kept: a redirect that isn't in the log before the request that follows it`},
		{"a redirect that no response gave", `
			1   page 1 status=302 location=/three
			2   page 2 url=/two redirects=1 from=1
			3   page 3
		`, `line 12: budget: 3 of 2 pages`},
		{"two that two answers gave", `
			1   page 1 status=302 location=/two
			2   page 2 status=302 location=/three
			3   page 3 url=/two redirects=1 from=1
			4   page 4 url=/three redirects=1 from=2
		`, ``},
		{"two to one page", `
			1   page 1 status=302 location=/two
			2   page 2 status=302 location=/two
			3   page 3 url=/two redirects=1 from=1
			4   page 4 url=/two redirects=1 from=2
		`, ``},
		{"two that one answer gave", `
			1   page 1 status=302 location=/two
			2   page 2 url=/two redirects=1 from=1
			3   page 3 url=/two redirects=1 from=1
			4   page 4
		`, `line 15: budget: 3 of 2 pages`},
		{"two that one answer gave, which is logged later", `
			1   allow 1
			1   start 1
			2   page 2 url=/two redirects=1 from=1
			3   page 3 url=/two redirects=1 from=1
			1.2 end 1 status=302 location=/two
			4   page 4
		`, `open, budget kept: a redirect that isn't in the log before the request that follows it`},
		{"an answer that is no redirect leads nowhere", `
			1   page 1 status=200 location=/two
			2   page 2 url=/two redirects=1 from=1
			3   page 3
		`, `line 12: budget: 3 of 2 pages`},
		{"a redirect to another host, with a query, in another spelling", `
			1   page 1 status=301 location=HTTPS://B.example:443?x=1#top
			2   page 2 host=b.example url=https://b.example/?x=1 redirects=1 from=1
			3   page 3
		`, `
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`},
		{"a redirect without a path", `
			1   page 1 status=308 location=https://a.example
			2   page 2 url=https://a.example/ redirects=1 from=1
			3   page 3
		`, ``},
		{"a redirect with an empty query", `
			1   page 1 status=308 location=/two?
			2   page 2 url=https://a.example/two? redirects=1 from=1
			3   page 3
		`, ``},
		{"a redirect that can't be read", `
			1   page 1 status=308 location=/%zz
			2   page 2
		`, ``},
		{"a redirect to no page", `
			1   page 1 status=308 location=mailto:me@a.example
			2   page 2
		`, ``},
		{"a redirect whose URL isn't whole", `
			1   page 1 status=308 location=/two?key=REDACTED
			2   page 2 url=/two?key=REDACTED redirects=1 from=1
			3   page 3
		`, ``},
		{"a limit that is near, whatever its record says", `
			1   page 1
			1.5 warn limit=pages used=1 max=3
			2   page 2
		`, ``},
		{"a redirect, and a second try, that are remembered over ten thousand pages", `
			1   page 1 status=302 location=/two
			2   refused 2 status=500 until=@3.1
			2.2 retry 2
			` + rules.String() + `
			4   start 2 attempt=2
			4.1 clear 2 attempt=2
			4.2 end 2 attempt=2
			5   page 3 url=/two redirects=1 from=1
		`, ``},
		{"pages of all hosts together", `
			site "" host=b.example at=-50
			1   page 1
			1   page 2 host=b.example
			2   page 3 host=b.example
		`, `line 15: budget: 3 of 2 pages`},
	})
	checkRows(t, "policy pagesPerHost=1\nsite \"\"\nsite \"\" host=b.example", []row{
		{"one of each host", `
			1   page 1
			1   page 2 host=b.example
		`, ``},
		{"two of one", `
			1   page 1
			1   page 2 host=b.example
			2   page 3 host=b.example
		`, `line 15: budget: b.example: 2 of 1 pages_per_host`},
		{"one that was given back", `
			1   page 1
			1   failed 2 host=b.example
			2   page 3 host=b.example
		`, ``},
	})
	checkRows(t, "policy bytes=250\nsite \"\"", []row{
		{"as many bytes as there are", `
			1   page 1
			2   page 2 bytes=150
		`, ``},
		{"one more", `
			1   page 1
			2   page 2 bytes=151
		`, `line 10: budget: 251 of 250 bytes`},
		{"those of robots.txt cost nothing", `
			site "" at=-50 bytes=9000
			1   page 1
		`, ``},
		{"wherever it is fetched from", `
			0   start 1 url=/robots.txt robotsTxt=true
			0.1 end 1 status=301 location=/r bytes=9000
			1   start 3 url=/r robotsTxt=true from=1
			1.1 end 3 bytes=9000
			2   start 2 url=/robots.txt
			2.1 end 2 bytes=9000
		`, ``},
		{"a body of none, once they are spent", `
			1   page 1 bytes=300
			2   page 2 bytes=0
		`, `line 7: budget: 300 of 250 bytes`},
	})
	checkRows(t, "policy maxTime=10\nsite \"\"", []row{
		{"in time, from the first page on", `
			1   page 1
			11.9999 page 2
		`, ``},
		{"too late: records know whole seconds", `
			1   page 1
			12  page 2
		`, `line 9: budget: started 11s after the first page, of 10s`},
		{"too late, and given back", `
			1   page 1
			12  failed 2
		`, ``},
		{"too late for a page only", `
			1   page 1
			site "" at=12
		`, ``},
		{"the clock was put forward", `
			1   page 1
			20  waiting jumped=8.000000001
			20  page 2
		`, `open, budget kept: the clock was put forward, or the computer slept: the budget's time stands still then`},
		{"but not far enough", `
			1   page 1
			20  waiting jumped=8
			20  page 2
		`, `line 10: budget: started 19s after the first page, of 10s`},
		{"at any time", `
			-10 waiting jumped=20
			1   page 1
			20  page 2
		`, `open, budget kept: the clock was put forward, or the computer slept: the budget's time stands still then`},
		{"before the first page, as far as is known", `
			0   waiting
			0.1 waiting jumped=8.000000001
			1   page 1
			20  page 2
		`, `open, budget kept: the clock was put forward, or the computer slept: the budget's time stands still then`},
		{"after a thousand records, too", strings.Repeat("-40 waiting\n", 1000) + `
			1   page 1
			20  waiting jumped=8.000000001
			20  page 2
		`, `open, budget kept: the clock was put forward, or the computer slept: the budget's time stands still then`},
		{"more than a thousand times, a little each", strings.Repeat("2 waiting jumped=0.001\n", 1000) + strings.Repeat("2 waiting jumped=0.08\n", 101) + `
			1   page 1
			20  page 2
		`, `open, budget kept: the clock was put forward, or the computer slept: the budget's time stands still then`},
		{"and put forward once more", `
			1   page 1
			20  waiting jumped=5
			20  waiting jumped=3.000000001
			20  page 2
		`, `open, budget kept: the clock was put forward, or the computer slept: the budget's time stands still then`},
	})
	checkRows(t, "policy pages=1 every=60\nsite \"\"", []row{
		{"a budget that is renewed", `
			1   page 1
			2   page 2
			2   warn limit=pages used=1 max=1 every=60
		`, `open, budget kept: the budget is renewed, and the log doesn't say in which window a page was reserved`},
	})
}

// TestVerdictsOnWhatRobotsTxtAllows: each page needs a verdict that the text of robots.txt gives, and the
// crawl-delay with it.
func TestVerdictsOnWhatRobotsTxtAllows(t *testing.T) {
	const before = "policy\nsite \"User-agent: *\\nDisallow: /no\\nAllow: /no/but\\n\""
	checkRows(t, before, []row{
		{"allowed", `1 page 1 url=/yes`, ``},
		{"allowed by a rule", `1 page 1 url=/no/but line=3 matchedRule="Allow: /no/but"`, ``},
		{"refused", `1 deny 1 url=/no line=2 matchedRule="Disallow: /no"`, ``},
		{"refused where robots.txt allows", `1 deny 1 url=/yes`, `lines 4 and 5: verdict: robots.txt allows /yes (no rule)`},
		{"refused by the user's own rule", `1 rule 1 url=/yes`, ``},
		{"allowed where robots.txt refuses", `1 page 1 url=/no`, `
			lines 4 and 5: verdict: robots.txt refuses /no (Disallow: /no)
			open, allowed by robots.txt: the verdict can't be decided again
		`},
		{"by another line", `1 deny 1 url=/no line=3`, `lines 4 and 5: verdict: robots.txt decides /no on line 2, not 3`},
		{"a second try that is told of when other pages have ended", `
			1   refused 1 status=500 until=@2.1
			2.2 page 2
			3   page 3
			1.2 retry 1
			4   start 1 attempt=2
			4.2 end 1 attempt=2
		`, ``},
		{"no verdict", `
			1   start 1 url=/yes
			1.2 end 1
		`, `line 5: robots: fetch of a URL without a verdict: https://a.example/yes`},
		{"no longer than the verdict on another page", `
			1   page 1
			2   start 2 url=/yes
			2.2 end 2
		`, `line 8: robots: fetch of a URL without a verdict: https://a.example/yes`},
		{"refused, and fetched", `
			1   deny 1 url=/no
			1   start 1 url=/no
			1.2 end 1
		`, `lines 5 and 6: robots: fetch of a URL that was refused: https://a.example/no`},
		{"refused by the user's own rule, and fetched", `
			1   rule 1 url=/yes
			1   start 1 url=/yes
			1.2 end 1
		`, `lines 5 and 6: robots: fetch of a URL that was refused: https://a.example/yes`},
		{"a page that claims to be robots.txt", `
			1   start 1 url=/no robotsTxt=true
			1.2 end 1
		`, `line 5: robots: marked as a fetch of robots.txt, where none leads: https://a.example/no`},
		{"where a robots.txt leads", `
			1   start 1 url=/robots.txt robotsTxt=true
			1.2 end 1 status=301 location=/no
			2   start 3 url=/no robotsTxt=true from=1
			2.2 end 3
		`, ``},
		{"where those of two hosts lead", `
			1   start 1 url=/robots.txt robotsTxt=true
			1.2 end 1 status=301 location=/no
			1   start 2 url=/robots.txt host=b.example robotsTxt=true
			1.2 end 2 status=301 location=/no
			2   start 3 url=/no robotsTxt=true from=1
			2.2 end 3
			2   start 4 url=/no host=b.example robotsTxt=true from=2
			2.2 end 4
		`, ``},
		{"where one leads to nobody knows where", `
			1   start 1 url=/robots.txt robotsTxt=true
			1.2 end 1 status=301 location=/no?x[...]
			2   start 3 url=/no?xxxxxxxxxx robotsTxt=true from=1
			2.2 end 3
		`, ``},
		{"where a page leads, nobody knows where", `
			1   page 1 status=301 location=/no?x=REDACTED
			2   start 2 url=/no robotsTxt=true
			2.2 end 2
		`, `line 8: robots: marked as a fetch of robots.txt, where none leads: https://a.example/no`},
		{"where a page leads", `
			1   page 1 status=301 location=/no
			2   start 2 url=/no robotsTxt=true
			2.2 end 2
		`, `line 8: robots: marked as a fetch of robots.txt, where none leads: https://a.example/no`},
		{"robots.txt needs no verdict", `
			1   start 1 url=/robots.txt?x=1
			1.2 end 1
		`, ``},
		{"a page of the same trip that was allowed longer ago than a second after it", `
			2.1 allow 1
			1   start 1
			1.2 end 1
		`, `lines 5 and 6: contradiction: allowed 1.1s after the start`},
		{"within a second", `
			2   allow 1
			1   start 1
			1.2 end 1
		`, ``},
		{"a URL that was cut short, and no rule is longer", `1 page 1 url=/y[clipped]`, ``},
	})
	checkRows(t, "policy\nsite \"User-agent: *\\nCrawl-delay: 3\\n\"", []row{
		{"the crawl-delay is kept", `
			1   page 1 crawlDelay=3 delay=3
			4   page 2 crawlDelay=3 delay=3
		`, ``},
		{"it is left out of the records", `
			1   page 1
			3.9 page 2 delay=3
		`, `
			lines 6 and 7: contradiction: a delay of 500ms under a crawl-delay of 3s
			lines 6 and 9: gap: 2.9s between two starts, delay in force 3s
		`},
		{"it is left out of the start", `
			1   allow 1 crawlDelay=3
			1   start 1 crawlDelay=0 delay=0.5
			1.1 end 1
		`, `
			lines 6 and 7: contradiction: a delay of 500ms under a crawl-delay of 3s
		`},
	})
	checkRows(t, "policy robots=ignored\nsite \"User-agent: *\\nDisallow: /no\\n\"", []row{
		{"robots.txt is ignored", `1 page 1 url=/no`, `
			open, allowed by robots.txt: robots.txt is ignored, by the policy
			open, verdicts right: robots.txt is ignored, by the policy
		`},
	})
	checkRows(t, "policy lenient=true\nsite \"User-agent: Test*\\nDisallow: /no\\n\"", []row{
		{"a group of another name binds a lenient crawler", `1 page 1 url=/no group=Test*`, `
			lines 4 and 5: verdict: robots.txt refuses /no (Disallow: /no)
			open, allowed by robots.txt: the verdict can't be decided again
		`},
	})
	checkRows(t, "policy product=OtherBot\nsite \"User-agent: TestBot\\nDisallow: /no\\n\"", []row{
		{"the group of another crawler binds nobody else", `1 page 1 url=/no`, ``},
		{"nor does it if a record names that", `
			1 deny 1 url=/no agent=TestBot line=2
			2 page 2 url=/no
			3 deny 3 url=/no agent=TestBot line=2
		`, ``},
	})
}
