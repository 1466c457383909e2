package audit_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
)

// A crawl of two hosts in which something of everything happens.
const eventful = `
	policy pages=9 bytes=9000 maxTime=3600
	site "User-agent: *\nCrawl-delay: 2\nDisallow: /no\n" crawlDelay=2 delay=2
	site "" at=-50 host=b.example
	1    page 1 crawlDelay=2 delay=2 bytes=1000 latency=0.1 waitDelay=0.5 waitSlot=0.25
	1.1  page 2 host=b.example bytes=10 latency=0.2 waitBlock=1
	3.5  refused 3 crawlDelay=2 delay=2 status=429 until=@4.6
	3.7  retry 3
	5.5  start 3 attempt=2 crawlDelay=2 delay=2.5
	5.6  clear 3 attempt=2
	6.5  end 3 attempt=2 latency=0.1 bytes=2000
	7    deny 4 url=/no line=3
	7    rule 5 url=/x
	8    page 6 crawlDelay=2 delay=2 status=302 location=/y bytes=0
	10   page 7 crawlDelay=2 delay=2 url=/y redirects=1 from=6
	12   failed 8 crawlDelay=2 delay=2
	14   failed 9 crawlDelay=2 delay=2 error=reset left=true
	15   warn limit=pages used=5 max=9
	20   page 10 url=https://b.example/10 host=b.example serverDate="Sat, 21 Nov 2026 03:00:20 GMT"
`

const eventfulText = `39 records, 2 hosts, 2026-11-21 02:59:00 to 2026-11-21 03:00:20 UTC

promised: 2 slots a host, 500ms or more between starts, robots.txt obeyed, deny if robots.txt can't be fetched, a refusal blocks the host from 1s to 10m0s (growing as 1, 1, 2, 3, 5 and so on), 9 pages, 9000 bytes, 1h0m0s, 2 further tries

delays kept                    proved 9           gaps between starts
slots kept                     proved 11          starts
sites kept                     nothing to keep    starts, over all ports and names
blocks kept                    proved 1           refusals
allowed by robots.txt          proved 9           starts
verdicts right                 proved 9           decisions, computed again
reservations kept              nothing to keep    decisions, computed again
budget kept                    proved 7           pages
every start ended              proved 11          starts
times agree with the servers'  proved 1           Date headers
log whole                      open 1, proved 38  lines, numbered, not chained

open, log whole:
  the lines aren't chained, so the file could be changed

slowest hosts  starts  latency  min gap  max delay  waited  disallowed  blocks  refusals
b.example      3       133ms    18.9s    500ms      1s      0           0       0 %
a.example      8       100ms    2s       2.5s       750ms   2           1       17 %

Nothing is broken, but not everything is proved: see what is open.
`

func TestVerdictsInTheTextOfAReport(t *testing.T) {
	if got := judge(t, eventful).String(); got != eventfulText {
		t.Errorf("got\n%s", got)
	}
	// The same with a lie in it, two logs, and a line that is none.
	got := judge(t, strings.Replace(eventful, "page 1 crawlDelay=2 delay=2", "page 1 crawlDelay=2 delay=3", 1)+`
		log
		policy by=U
		40 page 1 host=c.example
	`).String()
	for _, want := range []string{
		"43 records, 3 hosts, 2026-11-21 02:59:00 to 2026-11-21 03:00:40 UTC, 2 logs\n",
		"delays kept                    BROKEN 1, proved 8  gaps between starts\n",
		"verdicts right                 open 1, proved 9    decisions, computed again\n",
		"\nopen, verdicts right:\n  the log doesn't have the text of robots.txt (robotscache.Config.RecordText)\n\nopen, log whole:\n",
		"\n1 violation:\n  lines 9 and 15: gap: a.example: 2.5s between two starts, delay in force 3s\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, " more\n") || strings.Contains(got, "is broken") {
		t.Error(got)
	}
	if got := judge(t, usual+"1 page 1\nlog\npolicy\nsite \"\" at=50"); len(got.Promised) != 1 || got.Promise("budget kept").String()+got.Promise("budget kept").Proof != "nothing to keeppages" {
		t.Errorf("without limits, got\n%v", got)
	}
	if got, want := judge(t, "policy robots=ignored retries=0").Promised[0],
		"2 slots a host, 500ms or more between starts, robots.txt ignored, a refusal blocks the host from 1s to 10m0s (growing as 1, 1, 2, 3, 5 and so on)"; got != want {
		t.Errorf("of no limits, got %q, want %q", got, want)
	}
	if got := judge(t, "").String(); got != `0 records, 0 hosts

delays kept                    open 1  gaps between starts
slots kept                     open 1  starts
sites kept                     open 1  starts, over all ports and names
blocks kept                    open 1  refusals
allowed by robots.txt          open 1  starts
verdicts right                 open 1  decisions, computed again
reservations kept              open 1  decisions, computed again
budget kept                    open 1  pages
every start ended              open 1  starts
times agree with the servers'  open 1  Date headers
log whole                      open 1  lines, not numbered
`+openOfNothing+`
Nothing is broken, but not everything is proved: see what is open.
` {
		t.Errorf("of nothing, got\n%s", got)
	}
}

var openOfNothing = func() (text string) {
	for _, name := range []string{
		"delays kept", "slots kept", "sites kept", "blocks kept", "allowed by robots.txt", "verdicts right", "reservations kept", "budget kept",
		"every start ended", "times agree with the servers'", "log whole",
	} {
		text += "\nopen, " + name + ":\n  the log has no record\n"
	}
	return text
}()

// TestWarningsOfRefusals: a host that refuses more than a tenth of ten answers is named, whatever was kept.
func TestWarningsOfRefusals(t *testing.T) {
	pages := func(n int, refusals ...string) string {
		var b strings.Builder
		for i := range n {
			said := ""
			if i < len(refusals) {
				said = refusals[i]
			}
			fmt.Fprintf(&b, "%d page %d %s\n", 1+2*i, i+1, said)
		}
		return usual + b.String()
	}
	const warning = "\nwarning, over 10 % of the requests were refused:\n  a.example refused "
	for _, c := range []struct{ log, want string }{
		{pages(9), ""},
		{pages(9, "status=429"), ""}, // with robots.txt ten, of which one is a tenth
		{pages(9, "status=429", "status=403"), "20 % of 10 requests: 1 × 429, 1 × 403\n"},
		{pages(8, "status=429", "status=403"), ""}, // too few to say
		{pages(19, "status=503", "status=451", "status=0", "status=200 refused=captcha"), "20 % of 20 requests: 1 × 429, 1 × 403, 1 × 5xx, 1 × no response\n"},
		{pages(19, "status=0 left=true", "status=404", "status=407"), ""},
	} {
		r := judge(t, c.log)
		text := r.String()
		if c.want == "" && strings.Contains(text, "warning") || c.want != "" && !strings.Contains(text, warning+c.want) {
			t.Errorf("want %q in\n%s", c.want, text)
		}
		if b, err := json.Marshal(r.Hosts[0]); err != nil ||
			!strings.Contains(string(b), fmt.Sprintf(`"refusalShare":%v`, r.Hosts[0].RefusalShare)) {
			t.Errorf("%s, %v", b, err)
		}
	}
}

// TestVerdictsNameTenHostsThatRefuse and no more.
func TestVerdictsNameTenHostsThatRefuse(t *testing.T) {
	for n, want := range map[int]string{10: "", 11: "  and 1 more host\n"} {
		r := audit.Report{Hosts: slices.Repeat([]audit.HostReport{{Host: "h.example", Answers: 10, RefusalShare: 0.5}}, n)}
		text := r.String()
		if strings.Count(text, "h.example refused 50 %") != 10 || strings.Contains(text, "more host") != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%d hosts:\n%s", n, text)
		}
	}
}

// TestEachBlockIsCountedOnce: one that an earlier process was told is another one only where it is
// longer, and what lifts a block is none.
func TestEachBlockIsCountedOnce(t *testing.T) {
	const refused = usual + "1 refused 1 status=429 retryAfter=9 until=@10.1\n"
	const next = refused + "log\npolicy\nsite \"\" at=20\n"
	for log, want := range map[string]int{
		refused: 1,
		refused + "2 block hand=true until=@5 status=0": 2,
		refused + "2 clear hand=true status=0":          1,
		next + "4 block restored=true until=@10.1":      1,
		next + "4 block restored=true until=@11":        2,
		usual + "4 block restored=true until=@11":       1,
	} {
		if got := judge(t, log).Hosts[0].Blocks; got != want {
			t.Errorf("%d blocks, want %d, in\n%s", got, want, log)
		}
	}
}

func TestVerdictsInFigures(t *testing.T) {
	r := judge(t, eventful)
	for i, want := range []audit.HostReport{
		{
			Host: "a.example", Starts: 8, Pages: 4, Bytes: 3300, Disallowed: 2, Blocks: 1, Answers: 6, Refused: audit.RefusalCounts{TooMany: 1}, RefusalShare: 1.0 / 6,
			MinGap: 2 * time.Second, MaxDelay: 2500 * time.Millisecond, Wait: 750 * time.Millisecond, Latency: 100 * time.Millisecond,
		},
		{
			Host: "b.example", Starts: 3, Pages: 2, Bytes: 210, Answers: 3,
			MinGap: 18900 * time.Millisecond, MaxDelay: 500 * time.Millisecond, Wait: time.Second, Latency: 400 * time.Millisecond / 3,
		},
	} {
		if r.Hosts[i] != want {
			t.Errorf("got %+v, want %+v", r.Hosts[i], want)
		}
	}
	for i, want := range []int{9, 11, 0, 1, 9, 9, 0, 7, 11, 1, 38} {
		if p := r.Promises[i]; p.Proved != want {
			t.Errorf("got %+v, want %d", p, want)
		}
	}
	if len(r.Promised) != 1 || !strings.HasPrefix(r.Promised[0], "2 slots a host, ") {
		t.Errorf("%q", r.Promised)
	}
	if p := r.Promise("delays kept"); p.Proved != 9 {
		t.Errorf("%+v", p)
	}
	if r.Lines != 39 || r.Logs != 1 || !r.OK() || r.Complete() {
		t.Errorf("%d lines, %d logs", r.Lines, r.Logs)
	}
}

// The same of a log of lies, and of one that leaves much open.
func TestVerdictsInFiguresOfLies(t *testing.T) {
	r := judge(t, `
		policy purposes=train
		site "User-agent: *\nContent-Signal: ai-train=no\nDisallow: /no\n"
		1  page 1 url=/no
		2  deny 2 url=/yes
		2  start 2 url=/yes
		3  end 2 latency=0 duration=1
		4  start 3 url=/yes
		5  end 3 latency=0.2
		6  reserved 4 url=/yes purposes=train preferences="train refused (Content-Signal, line 2)"
		7  allow 5 url=/yes purposes=train preferences="train refused (Content-Signal, line 2)"
		8  allow 6 host=b.example url=/yes purposes=train preferences="train refused (Content-Signal, line 2)"
		9  failed 7 error=reset latency=9 duration=9 left=true
		20 refused 8 status=200 refusals=0 until=@25.1 rateLimit="\"p\";r=0;t=5"
	`)
	for i, want := range []string{
		"proved 5", "proved 6", "nothing to keep", "proved 1", "BROKEN 2, open 1, proved 2", "BROKEN 2, open 1, proved 3", "BROKEN 4, open 1", "nothing to keep", "proved 6",
		"nothing to keep", "open 1, proved 21",
	} {
		if got := r.Promises[i].String(); got != want {
			t.Errorf("%s: got %s, want %s\n%v", r.Promises[i].Name, got, want, r)
		}
	}
	if want := (500 * time.Millisecond / 5); r.Hosts[0].Latency != want || r.Hosts[0].Disallowed != 2 {
		t.Errorf("%+v, want a latency of %v", r.Hosts[0], want)
	}
	if r := judge(t, usual+"1 page 1\n2 failed 2 error=reset latency=0.4 duration=0.5"); r.Hosts[0].Latency != 100*time.Millisecond {
		t.Errorf("%+v, want a latency of 0.1 s, which is that of what was answered", r.Hosts[0])
	}
	if r := judge(t, usual+"1 page 1\n2 waiting timestamp=-"); !r.First.Equal(moment("-60")) || !r.Last.Equal(moment("1.2")) {
		t.Errorf("from %v to %v", r.First, r.Last)
	}
	purposes := judge(t, `
		policy purposes=train
		site ""
		1 allow 1 purposes=train
		2 allow 2 purposes=train
		3 allow 3 purposes=train host=b.example
	`)
	if p := purposes.Promise("reservations kept"); p.Proved != 2 || p.Open != 1 {
		t.Errorf("%+v", p)
	}
	open := judge(t, `
		policy
		1 allow 1
		2 allow 2
	`)
	if p := open.Promise("verdicts right"); p.Proved != 0 || p.Open != 2 || len(p.Why) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestVerdictsNameTheTenSlowestHosts and no more; a thousand violations; eight reasons.
func TestVerdictsNameTheTenSlowestHosts(t *testing.T) {
	log := "policy\n"
	for i := range 12 {
		log += fmt.Sprintf("site \"\" host=h%d.example latency=0.%03d duration=1\n", i, i+1)
	}
	text := judge(t, log).String()
	_, table, _ := strings.Cut(text, "slowest hosts")
	names := regexp.MustCompile(`(?m)^h[0-9]+`).FindAllString(table, -1)
	if want := []string{"h11", "h10", "h9", "h8", "h7", "h6", "h5", "h4", "h3", "h2"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestVerdictsOfAThousandViolationsAreNamed(t *testing.T) {
	for n, want := range map[int]string{1000: "\n1000 violations:\n", 1001: "  and 1 more\n"} {
		text := judge(t, "policy\n"+strings.Repeat("1 fail 1 seq=1\n", n)).String()
		if !strings.Contains(text, want) || strings.Count(text, ": end: a.example: failed without a start\n") != 1000 || strings.Contains(text, " more\n") != (n > 1000) {
			t.Errorf("%d violations: %.2000s", n, text)
		}
	}
}

// TestTheSameLogGetsTheSameReport: which violations are named, and in which order, isn't left to chance.
func TestTheSameLogGetsTheSameReport(t *testing.T) {
	tooMany := "1 over limit=pages_per_host used=1 max=1"
	endless := "policy slots=50\n"
	for i := range 30 {
		tooMany = fmt.Sprintf("0 page %d host=h%d.example\n0.5 page %d host=h%d.example\n", 2*i, i, 2*i+1, i) + tooMany
		for n := range 40 {
			endless += fmt.Sprintf("%d allow %d host=h%d.example\n%d start %d host=h%d.example slots=50\n", n, 40*i+n, i, n, 40*i+n, i)
		}
	}
	for name, log := range map[string]string{
		"a limit that several hosts have passed when it is told": tooMany,
		"more starts without an end than are named":              endless + "9999 closed",
	} {
		first := judge(t, log)
		for range 5 {
			if again := judge(t, log); !reflect.DeepEqual(again, first) {
				t.Errorf("%s: got\n%.1000s\nand then\n%.1000s", name, first, again)
				break
			}
		}
	}
}

// TestTheReportHasFormulasInWords: a reader of the report needn't know the names of Go.
func TestTheReportHasFormulasInWords(t *testing.T) {
	for _, c := range []struct {
		delay hostlimit.Adaptive
		want  string
	}{
		{hostlimit.Fixed, ""},
		{hostlimit.Learned, "longer after refusals"},
		{hostlimit.Squared, "longer after slow responses"},
		{hostlimit.Slower(1), "longer after slow responses"},
		{hostlimit.Throttle(2), "longer after slow responses"},
		{hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(1)), "longer after refusals and slow responses"},
	} {
		promised := strings.Join(judge(t, "policy adaptive=\""+c.delay.String()+"\"").Promised, "")
		for _, not := range []string{"Learned", "Fixed", "Squared", "(1)"} {
			if strings.Contains(promised, not) {
				t.Errorf("%v: %s", c.delay, promised)
			}
		}
		if !strings.Contains(promised, c.want) {
			t.Errorf("%v: %s, want %s", c.delay, promised, c.want)
		}
	}
}
