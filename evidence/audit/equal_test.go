package audit_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

// decisions reads a log.
func decisions(tb testing.TB, log []byte) (ds []evidence.Decision) {
	tb.Helper()
	for _, line := range logtest.Lines(log) {
		var e evidence.LogLine
		if err := json.Unmarshal(line, &e); err != nil {
			tb.Fatal(err)
		}
		if e.Type != evidence.LogClosed {
			ds = append(ds, e.Decision)
		}
	}
	return ds
}

// mayFollow reports whether a might have come after b, which stands behind it in the log at the same
// time: each request is recorded by its own goroutine, so nothing but chance has put them in order.
// What is of no request, or a robots.txt that many wait for, happened before what comes after it, and
// an answer before the request that follows it.
func mayFollow(a, b *evidence.Decision) bool {
	isRobots := strings.HasPrefix(string(a.Type), "robots_") && a.RobotsTxt || strings.HasPrefix(string(b.Type), "robots_") && b.RobotsTxt
	return a.Time.Equal(b.Time) && !isRobots && a.Trip != 0 && b.Trip != 0 && (a.Trip != b.Trip && a.Trip != b.From || a.Transport != b.Transport)
}

// verdict is what a log's judge says in short.
func verdict(tb testing.TB, ds []evidence.Decision) (states []string, why string) {
	r := check(tb, logtest.Write(tb, ds))
	for _, p := range r.Promises {
		states = append(states, fmt.Sprint(p.Name, p.Broken > 0, p.Open > 0, p.Proved > 0))
	}
	return states, fmt.Sprint(r.Violations)
}

// FuzzOrderOfEqualTimes: in what order the log has what happened at one instant makes no difference to
// the verdict.
func FuzzOrderOfEqualTimes(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, crawl, order uint64) {
		log, _, _, what := crawlAtRandom(t, crawl)
		ds := decisions(t, log)
		want, why := verdict(t, ds)
		rnd := rand.New(rand.NewPCG(order, 1))
		for range 4 * len(ds) {
			if i := rnd.IntN(len(ds) - 1); mayFollow(&ds[i], &ds[i+1]) {
				ds[i], ds[i+1] = ds[i+1], ds[i]
			}
		}
		if got, whyNot := verdict(t, ds); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s\n%v\n%s\nin another order\n%v\n%s", what, want, why, got, whyNot)
		}
	})
}
