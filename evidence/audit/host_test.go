package audit_test

import (
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

func TestSlotOfAnExpiredLeaseIsHeldUntilItIsTakenBack(t *testing.T) {
	var s story
	for i := range 4 {
		s.allowed(uint64(i+1), 0)
	}
	expired := func() {
		s.add(evidence.Decision{Type: evidence.LeaseExpired, Time: at(301), Seq: 1}, nil)
		s.started(4, 301)
		s.fetched(4, 1)
	}
	s.started(1, 1)
	s.started(2, 2)
	honest := s
	s.fetched(2, 10)
	expired()
	s.wants(t, "")

	s = honest
	s.started(3, 3)
	s.fetched(2, 10)
	s.fetched(3, 10)
	expired()
	s.wants(t, audit.BrokenConcurrency)
}

func TestEndThatIsPutBackIsFound(t *testing.T) {
	pages(3, 10).wants(t, audit.BrokenConcurrency)
	s := pages(3, 10)
	s[nth(t, s, evidence.Fetched, 0)].Duration = seconds(0.5)
	s.wants(t, audit.BrokenConcurrency)
}

func TestBlockIsLiftedOnlyByWhoStartedAfterIt(t *testing.T) {
	block := func(lift func(*story)) story {
		var s story
		s.allowed(1, 0)
		s.allowed(2, 0)
		s.started(1, 1)
		s.blocked(1, 1.1, 61.1)
		lift(&s)
		s.fetched(1, 0.2, func(d *evidence.Decision) { d.Status = 429 })
		s.started(2, 5)
		s.fetched(2, 0.2)
		return s
	}
	block(func(*story) {}).wants(t, audit.BrokenBlock)
	r := check(t, logtest.Write(t, block(func(s *story) { s.cleared(1, 1.15) })))
	if r.Broken[audit.Contradiction] == 0 || r.Broken[audit.BrokenBlock] == 0 {
		t.Error(r.Violations)
	}
	// A person may.
	block(func(s *story) { s.cleared(0, 1.15, func(d *evidence.Decision) { d.Status, d.Hand = 0, true }) }).wants(t, "")

	// The probe lifts it.
	var s story
	s.allowed(1, 0)
	s.started(1, 1)
	s.blocked(1, 1.1, 3)
	s.fetched(1, 0.2, func(d *evidence.Decision) { d.Status = 429 })
	s.allowed(2, 3)
	s.started(2, 3)
	s.cleared(2, 3.1)
	s.fetched(2, 0.2)
	s.wants(t, "")
}

func TestBlockAtAnotherTimeThanItsAnswerIsFound(t *testing.T) {
	block := func(from float64, body float64) story {
		var s story
		s.allowed(1, 1)
		s.started(1, 1)
		s.blocked(1, from, 61.1)
		s.fetched(1, body, func(d *evidence.Decision) { d.Status = 429 })
		s.allowed(2, 61.1)
		s.started(2, 61.1)
		s.fetched(2, 0.2)
		return s
	}
	block(6, 0.2).wants(t, audit.Contradiction)
	block(90, 0.2).wants(t, audit.Contradiction)
	block(0, 0.2).wants(t, audit.Contradiction)
	block(1.1, 0.2).wants(t, "")
	block(2, 0.2).wants(t, "")   // a limiter that many machines share was asked
	block(3.5, 0.2).wants(t, "") // and slow to answer
	block(9, 10).wants(t, "")    // after the computer has slept, for instance
}

func TestBlockThatWasSetSinceIsNotLifted(t *testing.T) {
	var s story
	s.allowed(1, 0)
	s.allowed(2, 0)
	s.allowed(3, 0)
	s.started(1, 10) // is answered at 11 and slow to log it
	s.started(2, 10.6)
	s.blocked(2, 11.1, 71.1)
	s.fetched(2, 0.6, func(d *evidence.Decision) { d.Status, d.Latency = 429, seconds(0.5) })
	s.cleared(1, 11)
	s.fetched(1, 1.2, func(d *evidence.Decision) { d.Latency = seconds(1) })
	s.wants(t, "")
	s.started(3, 20)
	s.fetched(3, 0.2)
	s.wants(t, audit.BrokenBlock)
}
