package audit_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
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
	began := time.Now()
	if r := check(t, b.Bytes()); r.Logs != logs {
		t.Fatal(r)
	}
	if took := time.Since(began); took > 30*time.Second { // a tenth of a second, and minutes where each log costs as much as all before
		t.Errorf("%v for %d logs", took, logs)
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
