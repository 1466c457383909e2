package audit_test

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

// run is the log of one run: a story that begins anew.
func run(tell func(s *story)) story {
	var s story
	tell(&s)
	return s
}

// TestCheckProvesAcrossRuns: what one run is told binds the next, whether their logs are in one file or in
// several.
func TestCheckProvesAcrossRuns(t *testing.T) {
	every := func(delay float64) func(*evidence.Decision) {
		return func(d *evidence.Decision) { d.Delay, d.CrawlDelay = seconds(delay), seconds(delay) }
	}
	slow := func(s *story, t, delay float64) {
		s.allowed(1, t)
		s.started(1, t, every(delay))
		s.fetched(1, 0.2)
	}
	refused := run(func(s *story) { s.refused(1, 1, 1000) })
	restored := func(s *story, met, until float64) {
		s.blocked(0, met, until, func(d *evidence.Decision) { d.Status, d.Kind, d.Refusals, d.Restored = 0, "", 0, true })
	}
	page := func(at float64) story { return run(func(s *story) { s.page(1, at) }) }
	for name, c := range map[string]struct {
		runs []story
		want audit.Kind
	}{
		"waits for the end":        {[]story{refused, page(1000.5)}, ""},
		"forgets the block":        {[]story{refused, page(500)}, audit.BrokenBlock},
		"forgets it in a third":    {[]story{refused, run(func(s *story) { s.waiting(300) }), page(500)}, audit.BrokenBlock},
		"tells of it, and forgets": {[]story{refused, run(func(s *story) { restored(s, 400, 1000); s.page(1, 500) })}, audit.BrokenBlock},
		"tells of it, and waits":   {[]story{refused, run(func(s *story) { restored(s, 400, 1000); s.page(1, 1000.5) })}, ""},
		"block that was lifted": {[]story{
			run(func(s *story) { s.refused(1, 1, 5); s.probed(2, 6) }), page(6.7),
		}, ""},
		"long delay kept":            {[]story{run(func(s *story) { slow(s, 1, 3600) }), run(func(s *story) { slow(s, 3602, 3600) })}, ""},
		"long delay forgotten":       {[]story{run(func(s *story) { slow(s, 1, 3600) }), run(func(s *story) { slow(s, 60, 3600) })}, audit.BrokenGap},
		"long delay forgotten later": {[]story{run(func(s *story) { slow(s, 1, 3600) }), run(func(s *story) { s.waiting(30) }), page(60)}, audit.BrokenGap},
		"short delay isn't kept":     {[]story{run(func(s *story) { slow(s, 1, 30) }), run(func(s *story) { slow(s, 2, 30) })}, ""},
	} {
		var file []byte
		var files []io.Reader
		for _, s := range c.runs {
			log := logtest.Write(t, s)
			file = append(file, log...)
			files = append(files, bytes.NewReader(log))
		}
		for how, logs := range map[string][]io.Reader{"one file": {bytes.NewReader(file)}, "several": files} {
			r, err := audit.Check(logs...)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && !r.OK() || c.want != "" && r.Broken[c.want] != 1 {
				t.Errorf("%s, %s: want %q, got %v", name, how, c.want, r.Violations)
			}
		}
	}
}

// TestCheckTakesAClockThatWasSetBack between two runs: the second can't keep the end that the first has told.
func TestCheckTakesAClockThatWasSetBack(t *testing.T) {
	first := run(func(s *story) {
		s.page(1, 3000)
		s.refused(2, 90_000, 93_600)
	})
	second := run(func(s *story) {
		s.blocked(0, 4000, 7600, func(d *evidence.Decision) { d.Status, d.Kind, d.Refusals, d.Restored = 0, "", 0, true })
		s.page(1, 7601)
	})
	if r := check(t, slices.Concat(logtest.Write(t, first), logtest.Write(t, second))); !r.OK() {
		t.Error(r)
	}
}

// TestEachProcessNumbersFromOne: what a log lacks of its starts at the beginning is missing, whatever another
// log before it has.
func TestEachProcessNumbersFromOne(t *testing.T) {
	pages := func(from, to int) story {
		return run(func(s *story) {
			for i := from; i <= to; i++ {
				s.page(uint64(i), float64(2*i))
			}
			for i := range *s {
				if d := &(*s)[i]; d.Seq > 0 { // a story numbers from 1
					d.Seq += uint64(from - 1)
				}
			}
		})
	}
	for name, next := range map[string]story{"goes on": pages(4, 6), "one is missing": pages(5, 7), "begins in the middle of what was": pages(2, 3)} {
		r := check(t, slices.Concat(logtest.WriteWith(t, pages(1, 3), evidence.LogConfig{Chained: true}), logtest.WriteWith(t, next, evidence.LogConfig{Chained: true})))
		if r.Broken[audit.MissingStart] == 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
}
