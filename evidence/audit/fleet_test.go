package audit_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/internal/soak"
)

// fleetOf makes of the log of several Transports that share a limiter what they would have written as
// processes of a fleet: each numbers its own starts, and stamps its records by a clock of its own, which is
// ahead by apart at most.
func fleetOf(ds []evidence.Decision, rnd *rand.Rand, apart time.Duration) map[string][]evidence.Decision {
	type number struct {
		host string
		seq  uint64
	}
	type end struct{ start, end time.Time }
	owner := map[number]string{}
	ends := map[string][]end{} // by host
	for _, d := range ds {
		switch d.Type {
		case evidence.Started, evidence.Resent:
			owner[number{d.Host, d.Seq}] = d.Transport
		case evidence.Fetched, evidence.Failed:
			if d.Seq > 0 {
				ends[d.Host] = append(ends[d.Host], end{d.Start, d.Time})
			}
		}
		if d.Instead > 0 {
			owner[number{d.Host, d.Instead}] = d.Transport
		}
	}
	of := map[number]uint64{}
	next := map[string]uint64{}
	for _, n := range slices.SortedFunc(maps.Keys(owner), func(a, b number) int { return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.seq, b.seq)) }) {
		key := owner[n] + " " + n.host
		next[key]++
		of[n] = next[key]
	}
	// from returns the number of the first start of a process from the given one on.
	from := func(by, host string, seq uint64) uint64 {
		first := next[by+" "+host] + 1
		for n, name := range owner {
			if n.host == host && name == by && n.seq >= seq {
				first = min(first, of[n])
			}
		}
		return first
	}
	clocks := map[string]time.Duration{}
	logs := map[string][]evidence.Decision{}
	for _, d := range ds {
		by := d.Transport
		if _, ok := clocks[by]; !ok {
			clocks[by] = time.Duration(rnd.Int64N(int64(apart) + 1))
		}
		start := d.Start
		switch d.Type {
		case evidence.PolicyStated:
			p := *d.Policy
			if d.Policy = &p; d.Host == "" {
				p.Limiter, p.Process = "fleet", "of"+by
			} else if d.Seq > 0 {
				d.Seq = from(by, d.Host, d.Seq)
			}
		case evidence.Started, evidence.Resent:
			d.At, d.Prev = start, time.Time{}
			for _, e := range ends[d.Host] {
				if e.end.Before(start) && e.start.After(d.Prev) {
					d.Prev = e.start
				}
			}
		case evidence.LeaseExpired:
			if d.Seq > 0 {
				n := number{d.Host, d.Seq}
				if d.Of = fmt.Sprint("of", owner[n], "/", of[n]); owner[n] != by {
					d.Seq = 0
				}
			}
		}
		if d.Type != evidence.PolicyStated && d.Seq > 0 {
			d.Seq = of[number{d.Host, d.Seq}]
		}
		if d.Instead > 0 {
			d.Instead = of[number{d.Host, d.Instead}]
		}
		for _, t := range []*time.Time{&d.Time, &d.Start, &d.Until, &d.RetryAt, &d.Window} {
			if !t.IsZero() {
				*t = t.Add(clocks[by])
			}
		}
		logs[by] = append(logs[by], d)
	}
	return logs
}

// fleetAtRandom returns the logs of an honest fleet, by the names of its processes, nil if the seed makes none.
func fleetAtRandom(t *testing.T, seed uint64, apart time.Duration) map[string][]evidence.Decision {
	t.Helper()
	log, breaches, subtle, _ := crawlAtRandom(t, seed)
	if len(breaches) > 0 || subtle || bytes.Contains(log, []byte(`,"jumped":`)) || !check(t, log).OK() {
		return nil // a rude one, or one whose lines tell more than their records
	}
	logs := fleetOf(parse(t, slices.Concat(runsOf(t, log)[0]...)), rand.New(rand.NewPCG(seed, 11)), apart)
	if len(logs) == 1 {
		return nil
	}
	return logs
}

func checkLogs(t *testing.T, logs ...[]byte) *audit.Report {
	t.Helper()
	readers := make([]io.Reader, len(logs))
	for i, log := range logs {
		readers[i] = bytes.NewReader(log)
	}
	r, err := audit.Check(readers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFleetsWhoseClocksDifferAreProved: gaps, slots and blocks are judged by the clock of their limiter,
// in whatever order the logs are given.
func TestFleetsWhoseClocksDifferAreProved(t *testing.T) {
	fleets, proved := 0, 0
	for seed := range soak.Seeds(t, 40, 400) {
		logs := fleetAtRandom(t, seed, 5*time.Millisecond)
		if logs == nil {
			continue
		}
		fleets++
		var all [][]byte
		for _, name := range slices.Sorted(maps.Keys(logs)) {
			all = append(all, logtest.WriteWith(t, logs[name], evidence.LogConfig{Chained: true}))
		}
		r := checkLogs(t, all...)
		if !r.OK() {
			t.Errorf("seed %d: %v", seed, r.Violations[:min(4, len(r.Violations))])
		}
		slices.Reverse(all)
		if other := checkLogs(t, all...); !reflect.DeepEqual(other.Promises, r.Promises) {
			t.Errorf("seed %d: with the last log first %v (%v), not %v", seed, other.Promises, other.Violations[:min(4, len(other.Violations))], r.Promises)
		}
		if r.Complete() {
			proved++
		} else {
			for _, p := range r.Promises {
				if p.Open > 0 {
					t.Logf("seed %d: %s: %v", seed, p.Name, p.Why)
				}
			}
		}
	}
	if fleets == 0 || proved == 0 {
		t.Errorf("%d of %d fleets are proved", proved, fleets)
	}
	t.Logf("%d of %d fleets are proved", proved, fleets)
}

// TestALogOfAFleetThatIsWithheldIsFound: the starts of the others name those that it has, as far as any came
// after one of its own. Where a log was cut off that may have had them, they are open.
func TestALogOfAFleetThatIsWithheldIsFound(t *testing.T) {
	fleets, found := 0, 0
	for seed := range soak.Seeds(t, 30, 300) {
		logs := fleetAtRandom(t, seed, time.Millisecond)
		if logs == nil {
			continue
		}
		for _, withheld := range slices.Sorted(maps.Keys(logs)) {
			type start struct {
				host string
				at   time.Time
			}
			stamps := map[start]bool{}
			for _, d := range logs[withheld] {
				if !d.At.IsZero() {
					stamps[start{d.Host, d.At}] = true
				}
			}
			var rest, cut [][]byte
			named := false
			for _, name := range slices.Sorted(maps.Keys(logs)) {
				if name == withheld {
					continue
				}
				for _, d := range logs[name] {
					named = named || stamps[start{d.Host, d.Prev}] && d.Instead == 0
				}
				log := logtest.WriteWith(t, logs[name], evidence.LogConfig{Chained: true})
				lines := logtest.Lines(log)
				rest, cut = append(rest, log), append(cut, slices.Concat(lines[:len(lines)-1]...))
			}
			if len(rest) == 0 || !named {
				continue
			}
			fleets++
			if r := checkLogs(t, rest...); r.Broken[audit.MissingStart] > 0 {
				found++
			} else if r.Complete() {
				t.Errorf("seed %d without the log of %s: %v", seed, withheld, r)
			}
			if r := checkLogs(t, cut...); r.Broken[audit.MissingStart] > 0 || r.Complete() {
				t.Errorf("seed %d without the log of %s, and without seals: %v", seed, withheld, r)
			}
		}
	}
	if found == 0 || found < fleets*9/10 {
		t.Errorf("%d of %d withheld logs were found", found, fleets)
	}
	t.Logf("%d of %d withheld logs were found", found, fleets)
}

// TestAnEmptyLogOfAFleetIsOneThatWasCut: as of a process that was killed before it wrote a line.
func TestAnEmptyLogOfAFleetIsOneThatWasCut(t *testing.T) {
	for seed := uint64(0); ; seed++ {
		logs := fleetAtRandom(t, seed, 0)
		if logs == nil {
			continue
		}
		var all [][]byte
		for i, name := range slices.Sorted(maps.Keys(logs)) {
			log := logtest.WriteWith(t, logs[name], evidence.LogConfig{Chained: true})
			if i == 0 {
				log = nil
			}
			all = append(all, log)
		}
		if r := checkLogs(t, all...); !r.OK() || r.Complete() || !strings.Contains(r.String(), "a log without a record beside others") {
			t.Error(r)
		}
		return
	}
}
