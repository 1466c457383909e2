package audit_test

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/internal/soak"
)

// runsOf splits a file into the logs that stand in it one after the other, each as its lines.
func runsOf(t *testing.T, file []byte) (runs [][][]byte) {
	t.Helper()
	for _, line := range logtest.Lines(file) {
		var e evidence.LogLine
		if err := e.UnmarshalJSON(line); err != nil {
			t.Fatal(err)
		}
		if e.N == 1 {
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], line)
	}
	return runs
}

// TestNoHonestLogIsBrokenByAKill: what kill -9 leaves of an honest log, which is any beginning of it, is
// open, and neither broken nor proved; with the log of the next run behind it, too.
func TestNoHonestLogIsBrokenByAKill(t *testing.T) {
	for seed := range soak.Seeds(t, 25, 80) {
		log, breaches, subtle, what := crawlAtRandom(t, seed)
		if len(breaches) > 0 || subtle || !check(t, log).OK() {
			continue // it was a rude one
		}
		rnd := rand.New(rand.NewPCG(seed, 5))
		runs := runsOf(t, log)
		for range 12 {
			killed := slices.Concat(runs[0][:1+rnd.IntN(len(runs[0])-1)]...)
			if rnd.IntN(2) == 0 {
				killed = killed[:len(killed)-rnd.IntN(20)]
			}
			files := [][][]byte{{killed}}
			if len(runs) == 2 {
				next := slices.Concat(runs[1]...)
				if bytes.Contains(log, []byte(`"after":`)) { // it names the log as it was before the kill
					closed := func(d evidence.Decision) bool { return d.Type == evidence.LogClosed }
					next = logtest.WriteWith(t, slices.DeleteFunc(parse(t, next), closed), evidence.LogConfig{Chained: true})
				}
				files = append(files, [][]byte{slices.Concat(killed, next)}, [][]byte{killed, next})
			}
			for _, f := range files {
				var readers []io.Reader
				for _, b := range f {
					readers = append(readers, bytes.NewReader(b))
				}
				r, err := audit.Check(readers...)
				if err != nil {
					t.Fatal(err)
				}
				if !r.OK() || r.Complete() {
					t.Errorf("%s\n%d bytes of %d in %d files, %d logs: %v", what, len(killed), len(log), len(f), len(runs), r.Violations)
				}
			}
		}
	}
}

// TestNoHonestFleetIsBrokenByAKill: the same of the logs of a fleet, of which some are cut off anywhere, before
// their first line, too.
func TestNoHonestFleetIsBrokenByAKill(t *testing.T) {
	fleets := 0
	for seed := range soak.Seeds(t, 25, 80) {
		logs := fleetAtRandom(t, seed, 5*time.Millisecond)
		if logs == nil {
			continue
		}
		fleets++
		rnd := rand.New(rand.NewPCG(seed, 5))
		names := slices.Sorted(maps.Keys(logs))
		for range 12 {
			var all [][]byte
			cut := false
			for i, name := range names {
				log := logtest.WriteWith(t, logs[name], evidence.LogConfig{Chained: true})
				if lines := logtest.Lines(log); i == len(names)-1 && !cut || rnd.IntN(2) == 0 {
					cut = true
					log = slices.Concat(lines[:rnd.IntN(len(lines))]...)
				}
				all = append(all, log)
			}
			if r := checkLogs(t, all...); !r.OK() || r.Complete() {
				t.Errorf("seed %d: %v", seed, r.Violations[:min(4, len(r.Violations))])
			}
		}
	}
	if fleets == 0 {
		t.Error("no fleet was among the crawls")
	}
}

// TestASignedLogThatIsCutOffAtACheckpointIsOpen: every line of it is signed, and what came after isn't known.
func TestASignedLogThatIsCutOffAtACheckpointIsOpen(t *testing.T) {
	log, _ := logtest.Signed(t, 20, testKey)
	lines := logtest.Lines(log)
	cut := 1 + slices.IndexFunc(lines, func(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"type":"checkpoint"`)) })
	r, err := trusted.Check(bytes.NewReader(slices.Concat(lines[:cut]...)))
	if err != nil {
		t.Fatal(err)
	}
	if cut == len(lines) || !r.OK() || r.Signed.After > 0 || !strings.Contains(openFor(r, "log whole"), "isn't sealed") {
		t.Errorf("cut after line %d of %d: %v", cut, len(lines), r)
	}
}
