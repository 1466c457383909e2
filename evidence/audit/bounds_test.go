package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// feed gives records to an auditor one by one, as if from lines of one log.
func feed(ds ...evidence.Decision) *auditor {
	a := newAuditor()
	feedTo(a, ds...)
	return a
}

func feedTo(a *auditor, ds ...evidence.Decision) {
	if a.run == nil {
		a.run = a.newRun()
	}
	for _, d := range ds {
		a.take(&d, place{line: a.at.line + 1})
	}
}

// turns returns n exchanges on one host, a second apart; without their ends, if
// they are to stay open.
func turns(n int, ends bool) []evidence.Decision {
	var ds []evidence.Decision
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for i := range n {
		d := evidence.Decision{Type: evidence.Started, Host: "h", URL: "http://h/robots.txt", Trip: uint64(i + 1), Attempt: 1, Allowed: true}
		d.Time, d.Start, d.Seq, d.Slots, d.Delay = at, at, uint64(i+1), 1, time.Second
		ds = append(ds, d)
		if ends {
			d.Type, d.Time, d.Duration, d.Status = evidence.Fetched, at.Add(500*time.Millisecond), 500*time.Millisecond, 200
			ds = append(ds, d)
			if i%10 == 0 {
				d.Type, d.Until, d.Allowed = evidence.HostBlocked, d.Time.Add(100*time.Millisecond), false
				ds = append(ds, d)
			}
		}
		at = at.Add(time.Second)
	}
	return ds
}

func TestCheckForgetsWhatIsProved(t *testing.T) {
	a := feed(turns(20_000, true)...)
	h := a.hosts["h"]
	for name, n := range map[string]int{
		"pending": len(h.pending), "inside": len(h.inside), "unsure": len(h.unsure), "open": len(h.open), "recent": len(h.recent),
		"blocks": len(h.blocks), "ended trips": a.trips.ended.Len() / 1000,
	} {
		if n > maxRecent {
			t.Errorf("%s: %d kept", name, n)
		}
	}
	if a.end(); len(a.report.Violations) > 0 {
		t.Error(a.report.Violations[0])
	}
}

func TestCheckBoundsWhatStaysOpen(t *testing.T) {
	a := feed(turns(maxOpen+500, false)...)
	h := a.hosts["h"]
	if len(h.open) > maxOpen || len(h.unsure) > maxOpen || len(h.inside) > maxOpen {
		t.Errorf("%d open, %d unsure, %d inside", len(h.open), len(h.unsure), len(h.inside))
	}
	a.over(a.run)
	a.end()
	if n := a.report.Broken[MissingEnd] + a.tallies[everyStartEnded].open; n < maxOpen+500 {
		t.Errorf("%d of %d starts without an end reported", n, maxOpen+500)
	}
}

// TestCheckFollowsNumbersThatGoBack: a server that a fleet shares may come back with an old dump. The
// starts after it are proved in their order, but that none is missing is open.
func TestCheckFollowsNumbersThatGoBack(t *testing.T) {
	ds := turns(300, true)
	for i := range ds {
		if ds[i].Seq > 100 {
			ds[i].Seq -= 60
		}
	}
	a := feed(ds...)
	a.end()
	if r := a.finish(); r.Proofs.Gaps != 299 || len(r.Violations) > 0 || a.tallies[logWhole].open < 1 {
		t.Errorf("%d gaps, %d open, violations: %v", r.Proofs.Gaps, a.tallies[logWhole].open, r.Violations)
	}
	// The server was lost with a number that had led to no start, and gave it again.
	var lost []evidence.Decision
	for _, d := range turns(300, true) {
		if d.Seq != 95 {
			if d.Seq > 100 {
				d.Seq -= 6
				d.Time, d.Start = d.Time.Add(10*time.Second), d.Start.Add(10*time.Second) // and waited
			}
			lost = append(lost, d)
		}
	}
	a = feed(lost...)
	a.end()
	if r := a.finish(); r.Proofs.Gaps != 298 || len(r.Violations) > 0 || a.tallies[logWhole].open < 1 {
		t.Errorf("%d gaps, %d open, violations: %v", r.Proofs.Gaps, a.tallies[logWhole].open, r.Violations)
	}
	// A start too soon is found all the same.
	for i := range ds {
		if ds[i].Trip == 150 {
			ds[i].Start = ds[i].Start.Add(-100 * time.Millisecond)
		}
	}
	a = feed(ds...)
	a.end()
	if a.report.Broken[BrokenGap] != 1 {
		t.Errorf("violations: %v", a.report.Violations)
	}
}

func TestCheckBoundsWhatIsOutOfOrder(t *testing.T) {
	ds := turns(lag+10, true)[1:] // the first start is missing
	a := feed(ds...)
	if n := len(a.hosts["h"].pending); n > lag {
		t.Errorf("%d starts wait for the first", n)
	}
	if a.report.Broken[MissingStart] != 1 {
		t.Errorf("violations: %v", a.report.Violations)
	}
}

func TestCheckWaitsForAStartThatIsLoggedLate(t *testing.T) {
	// The first request is answered after all others: its records come last.
	ds := turns(lag, true)
	late := ds[0].Trip
	var first, others []evidence.Decision
	for _, d := range ds {
		if d.Trip == late {
			first = append(first, d)
		} else {
			others = append(others, d)
		}
	}
	a := feed(append(others, first...)...)
	a.end()
	if r := a.finish(); r.Proofs.Gaps != lag-1 || r.Broken[MissingStart]+r.Broken[BrokenGap] != 0 {
		t.Errorf("%d gaps, violations: %v", r.Proofs.Gaps, r.Violations)
	}
}

// TestCheckHearsOfTurnsInVain: a turn that led to no start leaves a hole in the numbers, unless another
// start has got its number after all.
func TestCheckHearsOfTurnsInVain(t *testing.T) {
	const n = 20
	for name, c := range map[string]struct {
		vain, late, missing int
	}{
		"nobody has got it":                      {vain: 3},
		"said of another start":                  {vain: 4, missing: 1},
		"another start has got it":               {vain: 3, late: 1},
		"another start, logged after the others": {vain: 3, late: n},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuditor()
			ds := turns(n, true)
			third := slices.IndexFunc(ds, func(d evidence.Decision) bool { return d.Seq == 3 })
			feedTo(a, ds[:third]...)
			feedTo(a, evidence.Decision{Type: evidence.Waiting, Host: "h", Time: ds[third].Time, Allowed: true, Instead: uint64(c.vain)})
			start := ds[third : third+2]
			rest := ds[third+2:]
			if c.late == 1 {
				rest = slices.Concat(start, rest)
			} else if c.late > 1 {
				rest = slices.Concat(rest, start)
			}
			feedTo(a, rest...)
			a.end()
			open := a.tallies[logWhole].open
			if r := a.finish(); r.Broken[MissingStart] != c.missing || len(r.Violations) != c.missing || open > 0 != (c.late == 0 && c.missing == 0) {
				t.Errorf("%d open, violations: %v", open, r.Violations)
			}
		})
	}
}

func TestCheckBoundsBlocks(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	var ds []evidence.Decision
	for range 10 * maxBlocks {
		ds = append(ds, evidence.Decision{Type: evidence.HostBlocked, Host: "h", Time: at, Until: at.Add(time.Hour)})
	}
	if n := len(feed(ds...).hosts["h"].blocks); n > maxBlocks {
		t.Errorf("%d blocks kept", n)
	}
}

func TestCheckBoundsTrips(t *testing.T) {
	tr := newTrips()
	for i := range uint64(maxTrips + 10) {
		tr.put(tripKey{i, i}, verdict{})
		tr.end(&evidence.Decision{Trip: i, Attempt: 1})
	}
	if tr.open.Len() != maxTrips || !tr.full {
		t.Errorf("%d trips kept", tr.open.Len())
	}
	if tr.open.Contains(tripKey{5, 5}) {
		t.Error("the oldest trip is remembered")
	}
	if n := tr.ended.Len(); n > lately {
		t.Errorf("%d ended trips kept", n)
	}
	// A start whose verdict is forgotten is left open, not called a violation.
	a := newAuditor()
	a.trips = tr
	feedTo(a, evidence.Decision{Type: evidence.Started, Host: "h", URL: "http://h/", Trip: 5, Attempt: 1, Allowed: true})
	if a.report.Proofs.OpenVerdicts != 1 || len(a.report.Violations) > 0 {
		t.Errorf("%+v", a.report)
	}
}

func TestCheckForgetsTripsThatAreOver(t *testing.T) {
	for attempt := range 2 { // 0: a log of others, whose records don't number their tries
		tr := newTrips()
		first := evidence.Decision{Trip: 1, Attempt: 1, URL: "http://h/retried"}
		tr.put(keyOfTrip(&first), verdict{})
		tr.retry(&first)
		tr.leave(&first) // it is to be tried again
		for i := range uint64(10 * lately) {
			d := evidence.Decision{Trip: i + 2, Attempt: attempt, URL: "http://h/"}
			tr.put(keyOfTrip(&d), verdict{})
			tr.leave(&d)
			if _, ok := tr.get(keyOfTrip(&d)); !ok {
				t.Fatal("a trip is forgotten as soon as it is over")
			}
		}
		if tr.open.Len() != 1 || tr.over.Len() > lately || tr.full {
			t.Errorf("%d trips, %d over, full %t", tr.open.Len(), tr.over.Len(), tr.full)
		}
		if _, ok := tr.get(keyOfTrip(&first)); !ok {
			t.Error("a trip that is to be tried again is forgotten")
		}
	}
}

// TestCheckBoundsRedirectsWithoutAnAnswer: a request that claims a redirect costs no page if an answer that leads
// there is logged later, which the auditor can't tell of more than it remembers.
func TestCheckBoundsRedirectsWithoutAnAnswer(t *testing.T) {
	for more := range 2 {
		a := newAuditor()
		for i := range maxRedirects + more {
			d := evidence.Decision{Type: evidence.Started, URL: fmt.Sprintf("http://h/%d", i), Attempt: 1, Redirects: 1}
			if a.costsAPage(&d, nil, tripAudit{}, false) {
				t.Fatal("a page")
			}
		}
		if open := a.tallies[budgetKept].open; len(a.by.followed) != maxRedirects || open != more {
			t.Errorf("%d requests are remembered, and %d of %d are open", len(a.by.followed), open, maxRedirects+more)
		}
	}
}

func TestPromiseNamesEightReasonsAndCountsAll(t *testing.T) {
	a := newAuditor()
	for i := range 10 {
		a.openEnded(delaysKept, fmt.Sprintf("reason %d", i%9))
	}
	if p := a.promised()[delaysKept]; p.Open != 10 || len(p.Why) != 8 || p.Why[7] != "reason 7" {
		t.Errorf("%+v", p)
	}
}

func TestCheckFindsABlockThatIsLoggedLate(t *testing.T) {
	ds := turns(3, true)
	late := evidence.Decision{Type: evidence.HostBlocked, Host: "h", Time: ds[3].Start.Add(-time.Millisecond), Until: ds[3].Start.Add(time.Millisecond)}
	a := feed(append(ds, late)...)
	if a.report.Broken[BrokenBlock] != 1 {
		t.Errorf("violations: %v", a.report.Violations)
	}
}

func TestCheckTellsLeasesApart(t *testing.T) {
	ds := turns(3, false)
	for i := range ds {
		ds[i].Slots = 2
	}
	own := ds[1]
	own.Type, own.Allowed = evidence.LeaseExpired, false // names the second exchange by its number
	a := feed(ds[0], ds[1], own, ds[2])
	h := a.hosts["h"]
	if h.open[exchangeKey{seq: 1}].expired || !h.open[exchangeKey{seq: 2}].expired {
		t.Error("the wrong lease has expired")
	}
	// Told once more after the end of the exchange, it changes nothing.
	end, again := ds[1], own
	end.Type, end.Duration, end.Status = evidence.Fetched, time.Hour, 200
	end.Time = end.Start.Add(time.Hour)
	again.Seq = 0
	feedTo(a, end, again)
	if h.open[exchangeKey{seq: 1}].expired || h.open[exchangeKey{seq: 3}].expired {
		t.Error("a lease has expired because another one had")
	}
	if len(a.report.Violations) > 0 {
		t.Error(a.report.Violations)
	}
}

// TestCheckHearsLateOfASlotTakenBack: whoever gets the slot tells of it, but once its own headers are
// there: later starts, and the end of the exchange that lost the slot, may be in the log by then.
func TestCheckHearsLateOfASlotTakenBack(t *testing.T) {
	policy := evidence.Decision{Type: evidence.PolicyStated, Transport: "T", Allowed: true}
	policy.Policy = &evidence.Policy{Slots: 2, DelayMin: time.Second, LeaseTTL: 5 * time.Second}
	begin := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	turn := func(seq uint64, from, to int) (start, end evidence.Decision) {
		d := evidence.Decision{Transport: "T", Host: "h", URL: "http://h/robots.txt", RobotsTxt: true, Trip: seq, Attempt: 1, Allowed: true, Seq: seq}
		start, end = d, d
		start.Type, start.Time, start.Start, start.Slots, start.Delay = evidence.Started, at(from), at(from), 2, time.Second
		end.Type, end.Time, end.Start, end.Status = evidence.Fetched, at(to), at(from), 200
		end.Duration = at(to).Sub(at(from))
		return start, end
	}
	lost := func(seq uint64, s int) evidence.Decision {
		return evidence.Decision{Type: evidence.LeaseExpired, Transport: "T", Host: "h", Seq: seq, Time: at(s)}
	}
	own := func(end evidence.Decision) evidence.Decision {
		end.Type, end.Allowed, end.Status, end.Duration, end.Start = evidence.LeaseExpired, false, 0, 0, time.Time{}
		return end
	}
	start1, end1 := turn(1, 0, 30)
	start2, end2 := turn(2, 1, 31)
	start3, end3 := turn(3, 10, 40) // takes the slot of 1
	start4, end4 := turn(4, 11, 13) // takes the slot of 2
	ends := []evidence.Decision{end3, end4}
	for name, c := range map[string]struct {
		broken int
		log    []evidence.Decision
	}{
		"while the starts wait for the first": {0, []evidence.Decision{start2, start4, end2, own(end2), lost(1, 10), start3, lost(2, 11), start1, end1, own(end1)}},
		"after later starts":                  {0, []evidence.Decision{start1, start2, start3, start4, lost(1, 10), lost(2, 11), end1, end2}},
		"after the end":                       {0, []evidence.Decision{start1, start2, start3, start4, end1, end2, lost(2, 11), lost(1, 10)}},
		"by its own end alone":                {0, []evidence.Decision{start1, start2, start3, start4, end1, own(end1), end2, own(end2)}},
		"never, of one":                       {1, []evidence.Decision{start1, start2, start3, start4, lost(1, 10), end1, end2}},
		"never":                               {2, []evidence.Decision{start1, start2, start3, start4, end1, end2}},
		"too late":                            {2, []evidence.Decision{start1, start2, start3, start4, lost(1, 20), end1, end2, lost(2, 20)}},
	} {
		a := feed(slices.Concat([]evidence.Decision{policy}, c.log, ends)...)
		a.end()
		if n := len(a.report.Violations); n != c.broken || a.report.Broken[BrokenConcurrency] != n {
			t.Errorf("%s: %d violations, want %d of concurrency: %v", name, n, c.broken, a.report.Violations)
		}
	}

	// The same where the delay counts from the end of the one before.
	policy.Policy = &evidence.Policy{Slots: 1, DelayMin: time.Second, LeaseTTL: 5 * time.Second, FromEnd: true}
	start2, end2 = turn(2, 10, 40)
	start1.Slots, start2.Slots = 1, 1
	for name, c := range map[string]struct {
		broken int
		log    []evidence.Decision
	}{
		"before": {0, []evidence.Decision{start1, lost(1, 10), start2, end1, end2}},
		"late":   {0, []evidence.Decision{start1, start2, end1, lost(1, 10), end2}},
		"never":  {1, []evidence.Decision{start1, start2, end1, end2}},
	} {
		a := feed(append([]evidence.Decision{policy}, c.log...)...)
		a.end()
		if n := a.report.Broken[BrokenGap]; n != c.broken {
			t.Errorf("from the end, %s: %d violations, want %d: %v", name, n, c.broken, a.report.Violations)
		}
	}
}

func TestCheckCutsLinesThatAreTooLong(t *testing.T) {
	in := strings.Repeat("x", 17<<20) + "\n" + string(evidence.Decision{Type: evidence.Retried}.AppendJSON(nil)) + "\n"
	r, err := Check(strings.NewReader(in))
	if err != nil || r.Lines != 2 || r.Broken[Unreadable] != 1 || r.Records[evidence.Retried] != 1 {
		t.Errorf("%d lines, %v, %v", r.Lines, r.Broken, err)
	}
}

func TestCheckKnowsARobotsTxtThatAllowsAll(t *testing.T) {
	for name, d := range map[string]evidence.Decision{
		"not found": {Status: 404},
		"empty":     {Status: 200, SHA256: emptySum},
	} {
		d.Type, d.URL = evidence.RobotsFetched, "http://h/robots.txt"
		if a := feed(d); a.origins[originKey{a.by, "http://h"}].copies[0].kind != asText {
			t.Errorf("%s: not known", name)
		}
	}
	for name, d := range map[string]evidence.Decision{
		"not recorded": {Type: evidence.RobotsFetched, Status: 200, Bytes: 100, SHA256: "00"},
		"unreachable":  {Type: evidence.RobotsUnreachable, Status: 503},
		"busy":         {Type: evidence.RobotsFetched, Status: 429},
	} {
		d.URL = "http://h/robots.txt"
		if a := feed(d); a.origins[originKey{a.by, "http://h"}].copies[0].kind == asText {
			t.Errorf("%s: known", name)
		}
	}
}

func TestCount(t *testing.T) {
	if got := fmt.Sprint(count(1, "host"), ", ", count(2, "host")); got != "1 host, 2 hosts" {
		t.Error(got)
	}
}
