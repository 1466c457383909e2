package audit_test

import (
	"strings"
	"testing"
)

const noTextOpen = `
	open, allowed by robots.txt: the verdict can't be decided again
	open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
`

const elsewhere = "open, verdicts right: a robots.txt that another process fetched, whose log isn't here"

// TestVerdictsOnCopiesOfRobotsTxt: which text is in force, and what holds where none can be had.
func TestVerdictsOnCopiesOfRobotsTxt(t *testing.T) {
	const no = `"User-agent: *\nDisallow: /no\n"`
	refused := `
		lines %s: verdict: robots.txt refuses /no (Disallow: /no)
		open, allowed by robots.txt: the verdict can't be decided again
	`
	at := func(lines string) string { return strings.Replace(refused, "%s", lines, 1) }
	fetch := func(status string) string {
		return `
			1   start 8 url=/robots.txt robotsTxt=true
			1.1 end 8 status=` + status + `
		`
	}
	failed := func(status string) string {
		return strings.Replace(fetch(status), "1.1 end", "1.1 block 8 until=@2.1 status="+status+"\n1.1 end", 1)
	}
	checkRows(t, "policy\nsite "+no, []row{
		{"a new copy holds at once", `
			site "" at=1
			1.6 page 1 url=/no
		`, ``},
		{"the old copy holds for a second more", `
			site "" at=1
			2.099999999 deny 1 url=/no copy=` + sumOf("User-agent: *\nDisallow: /no\n")[:8] + `
		`, ``},
		{"and no longer", `
			site "" at=1
			2.1 deny 1 url=/no copy=` + sumOf("User-agent: *\nDisallow: /no\n")[:8] + `
		`, `lines 7 and 8: verdict: robots.txt allows /no (no rule)`},
		{"an old copy holds for a second more where none can be had", `
			site "" at=1
			2   start 8 url=/robots.txt robotsTxt=true
			2.1 block 8 until=@3 status=503
			2.1 end 8 status=503
			2.1 gone status=503
			3.0 page 1 url=/no copy=` + sumOf("")[:8] + `
		`, ``},
		{"a copy holds for a day", `86341.1 page 1`, ``},
		{"and no longer than that", `86341.2 page 1`, `
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: a robots.txt that was used for longer than the policy, or RFC 9309, says (the server's Cache-Control isn't in the log)
		`},
		{"a copy that was confirmed", fetch("304") + `
			1.1 again sha256=` + sumOf("User-agent: *\nDisallow: /no\n") + ` status=304
			86341.2 page 1
			86342 page 2 url=/no
		`, at("4 and 11")},
		{"a copy that the log doesn't hold was confirmed", fetch("304") + `
			1.1 again sha256=` + sumOf("x") + ` status=304
			2 page 1
		`, noTextOpen},
		{"an old copy that the policy doesn't let be used", failed("503") + `
			1.1 gone sha256=` + sumOf("User-agent: *\nDisallow: /no\n") + ` status=503 allowed=true
			2.2 page 1
		`, `line 8: contradiction: an old copy of robots.txt is used, which the policy doesn't let`},
		{"none can be had: nothing is allowed", failed("503") + `
			1.1 gone status=503
			2.2 page 1
		`, `
			lines 8 and 9: verdict: robots.txt refuses /1 (Disallow: /)
			open, allowed by robots.txt: the verdict can't be decided again
		`},
		{"and nothing is", failed("503") + `
			1.1 gone status=503
			2.2 deny 1
		`, ``},
		{"the record says that everything is", failed("503") + `
			1.1 gone status=503 allowed=true
			2.2 deny 1
		`, `line 8: contradiction: robots.txt can't be fetched and nothing may be fetched, by the policy, but the record allows it`},
		{"a robots.txt that no exchange brought", `
			1   robots text="" status=200 url=https://b.example/robots.txt host=b.example
			2   page 1 host=b.example
		`, `line 5: verdict: b.example: robots_fetched without the exchange that it came of`},
		{"a fetch of a page of that name brought none", `
			1   allow 8 host=b.example url=/robots.txt
			1   start 8 host=b.example url=/robots.txt
			1.1 end 8
			2   robots text="" status=200 url=https://b.example/robots.txt host=b.example
			3   page 1 host=b.example
		`, `
			line 8: verdict: b.example: robots_fetched without the exchange that it came of
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`},
		{"a robots.txt that doesn't say its status, and that no exchange brought", `
			2   robots text="User-agent: *\nAllow: /\n" url=https://b.example/robots.txt host=b.example
			3   page 1 host=b.example
		`, `line 5: verdict: b.example: robots_fetched without the exchange that it came of`},
		{"a robots.txt of another status than its exchange", fetch("404") + `
			1.1 robots text="" status=200
			2   page 1
		`, `line 7: verdict: robots_fetched of status 200, where the exchange gave 404`},
		{"a robots.txt that came before its exchange ended", `
			1   start 8 url=/robots.txt robotsTxt=true
			2.2 end 8 status=200
			1.1 robots text="" status=200
			3   page 1
		`, `line 7: verdict: robots_fetched of status 200, where the exchange gave 200`},
		{"within a second", `
			1   start 8 url=/robots.txt robotsTxt=true
			2.2 end 8 status=200
			1.2 robots text="" status=200
			3   page 1
		`, ``},
		{"a missing one allows everything", fetch("404") + `
			1.1 robots status=404
			2.2 page 1 url=/no
		`, ``},
		{"an error that isn't the site's refusal of robots.txt doesn't", fetch("429") + `
			1.1 robots status=429
			2.2 page 1 url=/no
		`, `
			lines 5 and 6: block: status 429, which is a refusal here, set no block
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: the log doesn't have the text of robots.txt (robotscache.Config.RecordText)
		`},
		{"nor a server's", failed("500") + `
			1.1 robots status=500
			2.2 page 1 url=/no
		`, noTextOpen},
		{"one whose redirects never end does", fetch("300") + `
			1.1 robots status=300
			2.2 page 1 url=/no
		`, ``},
		{"a text that isn't in the log", fetch("200") + `
			1.1 robots status=200 bytes=9 sha256=` + sumOf("x") + `
			2.2 page 1 url=/no
		`, noTextOpen},
		{"a text with another hash", fetch("200") + `
			1.1 robots text="x" status=200 sha256=` + sumOf("y") + `
			2.2 page 1
		`, "line 7: contradiction: the text of robots.txt doesn't have its SHA-256\n" + noTextOpen},
		{"a text that was cut short has another hash", fetch("200") + `
			1.1 robots text="x" status=200 bytes=2 sha256=` + sumOf("xy") + `
			2.2 page 1
		`, noTextOpen},
		{"a text that is longer than what was hashed", fetch("200") + `
			1.1 robots text="User-agent: *\nAllow: /\n" status=200 bytes=2 sha256=` + sumOf("xy") + `
			2.2 page 1 url=/no
		`, noTextOpen},
		{"by a redirect", `
			1   start 8 url=/robots.txt robotsTxt=true
			1.1 end 8 status=301 location=https://a.example/r
			2   start 9 url=/r robotsTxt=true from=8
			2.1 end 9
			2.1 robots text="" status=200 hops=1 location=https://a.example/r
			3.2 page 1 url=/no
		`, ``},
		{"by a redirect that wasn't followed", `
			1   start 8 url=/robots.txt robotsTxt=true
			1.1 end 8 status=301 location=https://a.example/r
			2.1 robots text="" status=200 hops=1 location=https://a.example/r
			3.2 page 1 url=/no
		`, `line 7: verdict: robots_fetched without the exchange that it came of`},
		{"by a redirect that the origin didn't give", `
			1   start 8 url=/r robotsTxt=true redirects=1
			1.1 end 8
			2.1 robots text="" status=200 hops=1 location=https://a.example/r
			3.2 page 1 url=/no
		`, `
			line 5: robots: marked as a fetch of robots.txt, where none leads: https://a.example/r
			line 7: verdict: robots_fetched without the exchange that it came of
		`},
		{"marked as robots.txt, with a URL that isn't whole", `
			1   start 8 url=/no?x=REDACTED robotsTxt=true
			1.1 end 8
		`, `line 5: robots: marked as a fetch of robots.txt, where none leads: https://a.example/no?x=REDACTED`},
		{"the same behind a redirect that isn't in the log", `
			1   start 8 url=/no[...] robotsTxt=true from=7
			1.1 end 8
		`, `open, allowed by robots.txt: a fetch of robots.txt whose URL isn't whole in the log`},
		{"by no redirect", fetch("200") + `
			1.1 robots text="" status=200 hops=0 location=https://a.example/r
			2.2 page 1 url=/no
		`, ``},
		{"by a redirect whose URL isn't whole", fetch("301 location=/r?x=REDACTED") + `
			2   start 9 url=/r?x=REDACTED robotsTxt=true from=8
			2.1 end 9
			2.1 robots text="" status=200 hops=1 location=https://a.example/r?x=REDACTED
			3.2 page 1 url=/no
		`, ``},
		{"by one that the origin didn't give", fetch("200") + `
			1.1 robots text="" status=200 hops=1 location=https://a.example/r?x=REDACTED
			3.2 page 1 url=/no
		`, `line 7: verdict: robots_fetched without the exchange that it came of`},
		{"one that an earlier process fetched", `
			1.1 robots text="" status=200 restored=true url=https://b.example/robots.txt host=b.example
			2.2 page 1 url=/no host=b.example
		`, elsewhere},
		{"one that an earlier process fetched, as its log shows", `
			log
			policy
			100 robots text="User-agent: *\nDisallow: /no\n" status=200 restored=true start=@-58.9
			102.2 page 1
		`, ``},
		{"one that it fetched before another", `
			log
			policy
			100 robots text="User-agent: *\nDisallow: /no\n" status=200 restored=true start=@-58.899999999
			102.2 page 1
		`, elsewhere},
		{"another than it fetched", `
			log
			policy
			100 robots text="User-agent: *\n" status=200 restored=true start=@-59.9
			102.2 page 1 url=/no
		`, elsewhere},
		{"a copy of two days ago", `
			log
			policy
			200000 robots text="User-agent: *\nDisallow: /no\n" status=200 restored=true start=@-59.9
			200002 page 1
		`, `
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: a robots.txt that was used for longer than the policy, or RFC 9309, says (the server's Cache-Control isn't in the log)
		`},
		{"no response: what can't be asked for", `
			1.1 gone url=https://b.example/robots.txt host=b.example
			2.2 deny 1 host=b.example
		`, ``},
	})
	checkRows(t, "policy unreachable=allow serveStale=true\nsite "+no, []row{
		{"an old copy that the policy lets be used", failed("503") + `
			1.1 gone sha256=` + sumOf("User-agent: *\nDisallow: /no\n") + ` status=503 allowed=true
			2.2 page 1
			3 page 2 url=/no
		`, at("4 and 12")},
		{"none can be had: everything is allowed", failed("503") + `
			1.1 gone status=503 allowed=true
			2.2 page 1 url=/no
		`, `
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: robots.txt couldn't be fetched, and the policy allows everything then
		`},
		{"and something isn't", failed("503") + `
			1.1 gone status=503 allowed=true
			2.2 deny 1 url=/no
		`, `open, verdicts right: robots.txt couldn't be fetched, and the policy allows everything then`},
		{"one that couldn't be asked for", `
			1.1 gone allowed=true url=https://b.example/robots.txt host=b.example
			2.2 page 1 host=b.example
		`, `
			open, allowed by robots.txt: the verdict can't be decided again
			open, verdicts right: robots.txt couldn't be fetched, and the policy allows everything then
		`},
	})
	checkRows(t, "policy", []row{
		{"one that another process fetched, whose log comes later", `
			1.1 robots text="User-agent: *\nDisallow: /no\n" status=200 restored=true start=@0.5
			2.2 deny 1 url=/no
			file
			policy by=U limiter=M
			site "User-agent: *\nDisallow: /no\n" at=1
		`, ``},
		{"whose clock is a minute ahead", `
			1.1 robots text="User-agent: *\nDisallow: /no\n" status=200 restored=true start=@0.5
			2.2 deny 1 url=/no
			file
			policy by=U limiter=M
			site "User-agent: *\nDisallow: /no\n" at=60.4
		`, ``},
		{"or more", `
			1.1 robots text="User-agent: *\nDisallow: /no\n" status=200 restored=true start=@0.499999999
			2.2 deny 1 url=/no
			file
			policy by=U limiter=M
			site "User-agent: *\nDisallow: /no\n" at=60.4
		`, elsewhere},
		{"which has fetched something else", `
			1.1 robots text="User-agent: *\nDisallow: /no\n" status=200 restored=true start=@0.5
			2.2 deny 1 url=/no
			file
			policy by=U limiter=M
			site "User-agent: *\n" at=1
		`, elsewhere},
		{"which has fetched the same again later", `
			1.1 robots text="User-agent: *\nDisallow: /no\n" status=200 restored=true start=@0.5
			2.2 deny 1 url=/no
			file
			policy by=U limiter=M
			site "User-agent: *\nDisallow: /no\n" at=1
			site "User-agent: *\nDisallow: /no\n" at=200
		`, ``},
	})
}

// TestVerdictsOnCopiesThatAreAskedForAgain: a copy that the policy lets be used for a time is used no longer than
// that and the longest wait for a turn, in which the next one is asked for, but what it refuses stays refused.
func TestVerdictsOnCopiesThatAreAskedForAgain(t *testing.T) {
	const open = `
		open, allowed by robots.txt: the verdict can't be decided again
		open, verdicts right: a robots.txt that was used for longer than the policy, or RFC 9309, says (the server's Cache-Control isn't in the log)
	`
	checkRows(t, "policy robotsTTL=50 maxWait=10\nsite \"User-agent: *\\nDisallow: /no\\n\" at=-0.1 ttl=100", []row{
		{"in time", `61 page 1`, ``},
		{"too late", `61.000000001 page 1`, open},
		{"refused, at any time", `90 deny 1 url=/no`, ``},
		{"in time, as the clock was put forward", `
			30  waiting jumped=20
			81  page 1
		`, ``},
		{"too late all the same", `
			30  waiting jumped=20
			81.000000001 page 1
		`, open},
	})
}

// TestVerdictsOnURLsThatAreNotWhole: what was cut out of a URL may have been anything, and so may the
// verdict, unless no rule says anything of what comes there.
func TestVerdictsOnURLsThatAreNotWhole(t *testing.T) {
	const open = `
		open, allowed by robots.txt: the verdict can't be decided again
		open, verdicts right: a URL that isn't whole in the log
	`
	const openVerdict = `open, verdicts right: a URL that isn't whole in the log`
	rules := func(text string, rows ...row) { checkRows(t, "policy\nsite \"User-agent: *\\n"+text+"\"", rows) }
	rules(`Disallow: /p?k=1\nDisallow: /no\n`,
		row{"a rule that goes on behind the cut", `1 page 1 url=/p?k=REDACTED`, open},
		row{"no rule that does", `1 page 1 url=/pp?kk=REDACTED`, ``},
		row{"refused for what is whole", `1 deny 1 url=/no?k=REDACTED`, ``},
		row{"refused for what isn't", `1 deny 1 url=/p?k=REDACTED`, openVerdict},
		row{"allowed, though what is whole is refused", `1 page 1 url=/no?k=REDACTED`, `
			lines 4 and 5: verdict: robots.txt refuses /no?k=REDACTED (Disallow: /no)
			open, allowed by robots.txt: the verdict can't be decided again
		`},
		row{"cut at the end", `1 page 1 url=/p?[...]`, open},
		row{"cut at the end, behind every rule", `1 page 1 url=/p?kk=12345[...]`, ``},
		row{"a URL in the URL", `1 page 1 url=/go/http://x`, ``},
		row{"a cut before a URL in it", `1 page 1 url=/p?k=REDACTED://x`, open},
		row{"a cut after a URL in it", `1 page 1 url=/go/http://xREDACTED`, ``},
		row{"a cut in a URL that is clipped", `1 page 1 url=/p?k=REDACTED&xxxxxxxxxxxxxxx[...]`, open},
	)
	rules(`Disallow: /p?k=1 # 2\n`, row{"a comment behind a rule", `1 page 1 url=/p?k=1REDACTED matchedRule=x`, `
		lines 4 and 5: verdict: robots.txt refuses /p?k=1REDACTED (Disallow: /p?k=1)
		open, allowed by robots.txt: the verdict can't be decided again
	`}, row{"is no part of it", `1 page 1 url=/pp?kkk=REDACTED`, ``})
	rules(`Disallow: /a?k=\n`, row{"a rule that ends just at the cut", `1 page 1 url=/b?k=REDACTED`, ``})
	rules(`Disallow: /a?k=1\n`, row{"a rule that goes on behind it", `1 page 1 url=/a?k=REDACTED`, open},
		row{"a rule for another path", `1 page 1 url=/b?k=REDACTED`, ``})
	rules(`Disallow: /b/*.gif$\n`, row{"a star for another path", `1 page 1 url=/pp?kk=REDACTED`, ``})
	rules(`Disallow: /~x\n`, row{"an escape in the URL", `1 page 1 url=/%7Ex?kk=REDACTED`, open})
	rules(`Disallow: /*@\n`, row{"a star", `1 page 1 url=/pp?kk=REDACTED`, open})
	rules(`Disallow: /p$\n`, row{"an end", `1 page 1 url=/pp?kk=REDACTED`, open})
	rules(`Disallow: /%2\n`, row{"an escape", `1 page 1 url=/pp?kk=REDACTED`, open})
	rules(`Disallow: /no\r`, row{"lines that end in a carriage return", `1 page 1 url=/n[...]`, open})
	rules(`Disallow: /\nAllow: /p?k=1\n`,
		row{"an Allow that goes on behind the cut", `1 page 1 url=/p?k=REDACTED`, open},
		row{"no Allow that does", `1 page 1 url=/pp?kk=REDACTED`, `
			lines 4 and 5: verdict: robots.txt refuses /pp?kk=REDACTED (Disallow: /)
			open, allowed by robots.txt: the verdict can't be decided again
		`},
	)
	rules(` disallow : /p?k=1\n`, row{"a rule in another spelling", `1 page 1 url=/p?k=REDACTED`, open})
	rules(`Disallow /p?k=1\n`, row{"a rule without its colon", `1 deny 1 url=/p?k=REDACTED`, openVerdict})
}

// TestVerdictsOnHostKeys: the host of a record is the one of its URL, by the policy's way to make it.
func TestVerdictsOnHostKeys(t *testing.T) {
	foreign := func(url, host string) string {
		return "line 6: contradiction: " + host + ": the URL " + url + " has another host than " + host
	}
	for _, c := range []struct{ key, url, host, want string }{
		{"host", "https://b.example/x", "b.example", "fits"},
		{"host", "https://B.example./x", "b.example", "fits"},
		{"host", "https://b.example:8443/x", "b.example:8443", "fits"},
		{"host", "https://b.example:8443/x", "b.example", "other"},
		{"host", "https://b.example?x", "b.example", "fits"},
		{"host", "https://b.example#x", "b.example", "fits"},
		{"host", "https://b.example/x", "c.example", "other"},
		{"host", "https://www.b.example/x", "b.example", "other"},
		{"host", "https://user@b.example/x", "c.example", "fits"},
		{"host", "https://b%2eexample/x", "c.example", "fits"},
		{"host", "https://b.example/x?k=REDACTED", "c.example", "other"},
		{"host", "https://b.example/x[...]", "c.example", "other"},
		{"host", "https:///x", "c.example", "fits"},
		{"host", "https://b.exam[...]", "c.example", "fits"},
		{"host", "https://REDACTED.example/x", "c.example", "other"},
		{"host", "https://b.example", "c.example", "other"},
		{"host", "b.example/x", "c.example", "fits"},
		{"site", "https://www.b.example/x", "b.example", "fits"},
		{"site", "https://www.b.example:8443/x", "b.example", "fits"},
		{"site", "https://b.example/x", "b.example", "fits"},
		{"site", "https://[2001:db8::1]/x", "[2001:db8::1]", "fits"},
		{"site", "https://[2001:db8::1]:8443/x", "[2001:db8::1]", "fits"},
		{"site", "https://b.example/x", "example", "other"},
		{"site", "https://ab.example/x", "b.example", "other"},
		{"own", "https://b.example/x", "c.example", "fits"},
		{"", "https://b.example/x", "c.example", "fits"},
	} {
		log := "policy hostKey=\"" + c.key + "\"\nsite \"\"\n1 page 1 url=\"" + c.url + "\" host=\"" + c.host + "\""
		if c.key == "" {
			log = strings.Replace(log, `hostKey=""`, `hostKey=`, 1)
		}
		want := ""
		if c.want == "other" {
			want = foreign(c.url, c.host)
		}
		got := ""
		for _, line := range verdictOf(judge(t, log)) {
			if strings.Contains(line, "has another host") {
				got = line
			}
		}
		if got != want {
			t.Errorf("%+v: got %q, want %q", c, got, want)
		}
	}
}
