package audit_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/cputime"
	"github.com/go-politeness/politeness/internal/logtest"
)

// TestRedirectsOfManyHosts: where an answer leads is remembered until that is asked for, however many
// hosts have been asked before.
func TestRedirectsOfManyHosts(t *testing.T) {
	const hosts, between = 20_000, 50 // hosts in all, and those that are asked between the steps of one
	ds := []evidence.Decision{{Type: evidence.PolicyStated, Allowed: true, Time: at(0), Policy: &evidence.Policy{
		ID: "abcdef0123456789", UserAgent: "TestBot/1.0", Product: "TestBot", HostKey: "host", Slots: 2, Robots: "obeyed",
		RobotsTTL: time.Hour, Unreachable: "deny", LeaseTTL: time.Hour, Backoff: "fibonacci", Pages: 1,
	}}}
	trips := map[string]uint64{} // the last of each host
	ask := func(host, path, location string, seq uint64) {
		now := at(float64(len(ds)))
		d := evidence.Decision{
			Type: evidence.Started, Time: now, Start: now, Trip: uint64(len(ds)), Attempt: 1, Seq: seq, Slot: 1, Slots: 2,
			Host: host, URL: "https://" + host + path, Allowed: true, RobotsTxt: true, From: trips[host],
		}
		trips[host] = d.Trip
		ds = append(ds, d)
		d.Type, d.Slot, d.Slots, d.Status = evidence.Fetched, 0, 0, 404
		if location != "" {
			d.Status, d.Location = 302, location
		}
		ds = append(ds, d)
	}
	for i := range hosts + 2*between {
		name := func(i int) string { return fmt.Sprintf("h%d.example", i) }
		if i < hosts {
			ask(name(i), "/robots.txt", "/rules", 1)
		}
		if j := i - between; j >= 0 && j < hosts {
			ask(name(j), "/rules", "", 2)
		}
		if j := i - 2*between; j >= 0 {
			ds = append(ds, evidence.Decision{
				Type: evidence.RobotsFetched, Time: at(float64(len(ds))), Host: name(j), URL: "https://" + name(j) + "/robots.txt", Trip: trips[name(j)],
				Allowed: true, RobotsTxt: true, Hops: 1, Location: "https://" + name(j) + "/rules", Status: 404, TTL: time.Hour,
			})
		}
	}
	for i := range ds {
		ds[i].Transport = "abcdef"
	}
	if r := check(t, logtest.Write(t, ds)); !r.OK() {
		t.Errorf("%d violations, such as %v", len(r.Violations), r.Violations[0])
	}
}

// TestManyLogsInAFileTakeTheirTimeOnce: a crawler that is started each minute has half a million a year.
func TestManyLogsInAFileTakeTheirTimeOnce(t *testing.T) {
	const logs = 80_000
	var b bytes.Buffer
	for i := range logs {
		fmt.Fprintf(&b, `{"type":"waiting","by":"%d","allowed":true,"n":1}`+"\n", i)
	}
	took := cputime.Of(func() {
		if r := check(t, b.Bytes()); r.Logs != logs {
			t.Fatal(r)
		}
	})
	if took > 30*time.Second { // a tenth of a second, and minutes where each log costs as much as all before
		t.Errorf("%v for %d logs", took, logs)
	}
}

// TestNoLogHoldsTheJudgeUp: what takes long to judge is as long to write.
func TestNoLogHoldsTheJudgeUp(t *testing.T) {
	policy := func(slots int, statuses string) string {
		return fmt.Sprintf(`{"type":"policy","by":"T","allowed":true,"timestamp":"2026-11-21T03:00:00Z","policy":{"id":"T","limiter":"L","slots":%d,"leaseTTL":0.000001,`+
			`"adaptive":"Fixed","hostKey":"host","robots":"obeyed","statuses":%q}}`+"\n", slots, statuses)
	}
	each := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"\n", i+1)
		}
		return b.String()
	}
	const (
		record  = `{"type":%q,"by":"T","trip":%%[1]d,"url":"https://h/","host":"h","allowed":true,"timestamp":"2026-11-21T03:00:0%d.%%09[1]dZ",%s}`
		isThere = `"url":"https://h/robots.txt","host":"h","allowed":true,"status":200,`
	)
	started := fmt.Sprintf(record, "started", 0, `"seq":%[1]d`)
	text := policy(2, "") + `{"type":"robots_fetched","by":"T",` + isThere + `"text":"User-agent: *` + strings.Repeat(`\nallow:/`, 200_000) + `"}` + "\n"
	nanosPerByte := func(log string) float64 {
		took := cputime.Of(func() { check(t, []byte(log)) })
		return float64(took) / float64(len(log))
	}
	usualLog := policy(2, "") + each(50_000, fmt.Sprintf(record, "waiting", 0, `"hold":"slot"`))
	// The processor may be slower during one measurement, hardly during three.
	timesUsual := func(log string) float64 {
		least := math.Inf(1)
		for range 3 {
			least = min(least, nanosPerByte(log)/nanosPerByte(usualLog))
			if least < 10 {
				break
			}
		}
		return least
	}
	for name, log := range map[string]string{
		"statuses":         policy(2, strings.Repeat("9,", 1<<20)) + each(10_000, fmt.Sprintf(record, "fetched", 0, `"status":404`)),
		"agents":           text + each(10_000, fmt.Sprintf(record, "robots_allowed", 0, `"agent":"A%[1]d"`)),
		"copies confirmed": text + each(2000, `{"type":"robots_revalidated","by":"T",`+isThere+`"trip":%[1]d}`+"\n"+fmt.Sprintf(record, "robots_allowed", 0, `"line":2`)),
		"patterns":         text + each(20_000, `{"type":"robots_allowed","by":"T","trip":%d,"url":"https://h/REDACTED","host":"h","allowed":true}`),
		"purposes":         policy(2, "") + `{"type":"fetched","by":"T","trip":1,"host":"h","allowed":true,"purposes":"` + strings.Repeat("a, ", 1<<20) + `","preferences":"` + strings.Repeat("b", 1<<20) + `"}` + "\n",
		"slots":            policy(1e9, "") + each(100_000, started),
		"answers beside others": policy(1e6, "") + each(60_000, started) +
			each(60_000, fmt.Sprintf(record, "fetched", 1, `"seq":%[1]d,"status":200,"latency":1,"rateLimit":"\"p\";r=0;t=1"`)),
	} {
		times := timesUsual(log + `{"type":"log_closed","allowed":true}` + "\n")
		if times > 30 { // ten at most, and fifty or more where the judge looks at everything again and again
			t.Errorf("%s: a byte takes %.0f times as long as usual", name, times)
		}
	}
}

func TestAReportNamesAThousandPolicies(t *testing.T) {
	var b bytes.Buffer
	for i := range 1500 {
		fmt.Fprintf(&b, `{"type":"policy","by":"%d","allowed":true,"policy":{"pages":%d},"n":1}`+"\n", i, i)
	}
	if r := check(t, b.Bytes()); len(r.Promised) != 1000 {
		t.Error(len(r.Promised))
	}
}
