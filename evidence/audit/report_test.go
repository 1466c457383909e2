package audit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

// TestReportIsWhatTheRecordsSay, counted once more by the plainest means.
func TestReportIsWhatTheRecordsSay(t *testing.T) {
	records := logtest.Crawl(12, 30)
	type sums struct {
		starts, answers, bytes int64
		latency                time.Duration
	}
	hosts := map[string]*sums{}
	types := map[evidence.Type]int{}
	var first, last time.Time
	for _, d := range records {
		types[d.Type]++
		if first.IsZero() || d.Time.Before(first) {
			first = d.Time
		}
		if d.Time.After(last) {
			last = d.Time
		}
		if d.Host == "" { // the policy
			continue
		}
		h := hosts[d.Host]
		if h == nil {
			h = new(sums)
			hosts[d.Host] = h
		}
		switch d.Type {
		case evidence.Started:
			h.starts++
		case evidence.Fetched:
			h.bytes += d.Bytes
			h.answers++
			h.latency += d.Latency
		}
	}
	r := check(t, logtest.Write(t, records))
	if !r.First.Equal(first) || !r.Last.Equal(last) {
		t.Errorf("from %v to %v, want %v to %v", r.First, r.Last, first, last)
	}
	for typ, n := range types {
		if r.Records[typ] != n {
			t.Errorf("%d records of %s, want %d", r.Records[typ], typ, n)
		}
	}
	if len(r.Hosts) != len(hosts) {
		t.Errorf("%d hosts, want %d", len(r.Hosts), len(hosts))
	}
	for _, h := range r.Hosts {
		want := hosts[h.Host]
		if int64(h.Starts) != want.starts || h.Bytes != want.bytes || h.Latency != want.latency/time.Duration(want.answers) {
			t.Errorf("%+v, want %+v", h, want)
		}
	}

	bySpeed := slices.SortedFunc(slices.Values(r.Hosts), func(a, b audit.HostReport) int { return int(b.Latency - a.Latency) })
	_, table, _ := strings.Cut(r.String(), "slowest hosts")
	_, table, _ = strings.Cut(table, "\n")
	i := 0
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			break
		}
		if fields[0] != bySpeed[i].Host {
			t.Errorf("the %d-th slowest is %s, want %s", i+1, fields[0], bySpeed[i].Host)
		}
		i++
	}
	if i < 3 {
		t.Errorf("only %d hosts are told:\n%s", i, table)
	}
}

// TestReportSaysNothingOfWaitsThatItDoesNotKnow: package crawl waits before it asks for a turn, so
// the records of its crawl have no waits, however long that has waited.
func TestReportSaysNothingOfWaitsThatItDoesNotKnow(t *testing.T) {
	text := (&audit.Report{Hosts: []audit.HostReport{{Host: "example.com", Starts: 3, Latency: time.Second, MinGap: time.Second, MaxDelay: time.Second}}}).String()
	if strings.Contains(text, "0s") || !strings.Contains(text, "1s         -  ") {
		t.Error(text)
	}
}
