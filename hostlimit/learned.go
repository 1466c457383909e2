package hostlimit

import (
	"math"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// A bare 503, another 5xx or no answer may be the word of a rate limit that nobody knows, or the
// trouble of one page. Five sentences tell them apart, and say what is learned:
//
//  1. After such a refusal the host rests for a second, longer with each further one in a row, and
//     then one request asks again, the refused page first.
//  2. Refused again while the page right after it is served, it is that page's own trouble: it isn't
//     asked again, counts nothing and slows nobody.
//  3. Served, the refusal was the host's: three such close together, or one at a delay that was
//     refused before, make the delay longer: the larger of 1.5 times the delay in force and the time
//     per page served since the last lesson, pauses included, at most four times the delay.
//  4. Where nobody asks again, five refusals more than a third of the pages served teach the same;
//     a 429 teaches at once, at the first of a series.
//  5. A page that is served 20 s after the last lesson or step makes the delay 2 % shorter, doubling
//     every five steps to 16 %, until a refusal; what a ban has taught, after three minutes.

// A lesson is how a delay was learned.
type lesson struct {
	Lessons  int           `json:",omitzero"` // number of times that refusals have made the delay longer
	TaughtAt time.Duration `json:",omitzero"` // delay in force at the last lesson
	EasedAt  time.Duration `json:",omitzero"` // time of the last lesson, or the last step that made the delay shorter
	Steps    int           `json:",omitzero"` // such steps since the last refusal
	Slow     bool          `json:",omitzero"` // a ban has taught it
	Asked    time.Duration `json:",omitzero"` // sum of the Retry-After since the last lesson
}

// A suspicion is what tells pages from their host: which were refused, and what came of it.
type suspicion struct {
	Suspects [8]suspect `json:",omitzero"` // pages refused last, the latest first
	Pending  uint64     `json:",omitzero"` // page that was refused twice; the next answer tells whose trouble it is
	Served   uint64     `json:",omitzero"` // page that was served last, since the first refusal
	Own      int        `json:",omitzero"` // pages found to be in trouble of their own since a new page was served
	Excess   int        `json:",omitzero"` // refusals of new pages, more than a third of the successes, in thirds
	Proofs   int        `json:",omitzero"` // suspects that were served, less a tenth of the successes, in tenths
	Taught   bool       `json:",omitzero"` // Excess has taught since the last success
}

// A suspect is a page that was refused.
type suspect struct {
	Resource uint64 `json:",omitzero"`
	Lesson   int32  `json:",omitzero"` // Lessons when it was refused
	Asked    bool   `json:",omitzero"` // it was asked again alone, and refused, since the last success
	Own      bool   `json:",omitzero"` // its trouble is its own
}

const (
	half, whole = 2, 1 // parts of the delay in force by which a lesson makes it longer
	// banRow is the number of refusals in a row from which on the host bans for a minute, which each
	// request renews: limits by the minute refuse fewer, and from quotaRow on quotas by the hour more.
	banRow, quotaRow = 10, 14
	// longestPause bounds the pause after an unsure answer, as a shorter Cap of the policy does.
	longestPause = 5 * time.Minute
	// mostOwn is how many pages in a row may be in trouble of their own: half a site may be down.
	mostOwn = 200
)

// suspect learns from an unsure answer, which asks for that long a pause itself.
func (s *Refusals) suspect(r *Rules, e *Effect, o *Outcome, asked time.Duration, t Turn, earlier bool) {
	page := s.page(o.Resource)
	if e.Own = page != nil && page.Own; e.Own {
		return
	}
	if page != nil && !page.Asked && t.Probe && !earlier {
		page.Asked, s.Pending = true, o.Resource
		return
	}
	if s.Pending != 0 && !earlier {
		s.Pending = 0 // two pages in a row: the host's trouble
		s.Unsure++
		if o.Resource == s.Served {
			s.Proofs += 14 // for sure; an outage alone teaches nothing
		}
	}
	if page == nil && o.Resource != 0 {
		copy(s.Suspects[1:], s.Suspects[:])
		s.Suspects[0] = suspect{Resource: o.Resource, Lesson: int32(s.Lessons)}
	}
	s.Steps = 0
	if earlier {
		return
	}
	s.Unsure = min(s.Unsure+1, math.MaxUint8)
	if page == nil {
		s.Excess += 3
		if !s.Taught && (s.Excess >= 5*3 || s.Excess >= 2*3 && s.Learned > 0 && s.Own == 0) {
			s.Taught = true
			s.teach(t, half)
		}
	}
	pause := backoff.Fibonacci{Cap: longestPause}.Delay(s.Unsure)
	if s.Own > mostOwn {
		pause += time.Duration(math.Exp2(min(float64(s.Own-mostOwn)/20, 10)) * float64(time.Second))
	}
	s.block(e, "unsure", s.Unsure, o, max(asked, min(pause, longestPause, r.longest)), t)
}

// served learns from a success, and reports whether it has ended a block or a row of refusals.
func (s *Refusals) served(resource uint64, t Turn, earlier bool) (cleared bool) {
	if !earlier {
		cleared = s.Alone
		if s.Row >= banRow && s.Row < quotaRow {
			s.teach(t, whole)
			s.Slow = s.Learned > 0
		}
		s.Until = 0
		s.Cause = ""
		s.Alone = false
		s.Checking = false
		s.Row = 0
		s.Unsure = 0
		s.Forbidden = 0
		s.Bans = 0
	}
	s.Excess = max(0, s.Excess-1)
	s.Proofs = max(0, s.Proofs-1)
	s.Taught = false
	if !earlier || s.Pending == resource {
		for i := range s.Suspects {
			s.Suspects[i].Asked = false
		}
		if s.Pending != 0 && s.Pending != resource {
			if page := s.page(s.Pending); page != nil {
				page.Own = s.Own < mostOwn
			}
			s.Own, s.Excess = s.Own+1, max(0, s.Excess-3)
		}
		s.Pending = 0
	}
	if resource != s.Served {
		s.Served, s.Own = resource, 0
	}
	if page := s.page(resource); page != nil {
		lesson := page.Lesson
		*page = suspect{}
		s.Proofs += 10
		if lesson == int32(s.Lessons) && (s.Proofs >= 25 || s.TaughtAt > 0 && t.Gap <= s.TaughtAt+s.TaughtAt*3/20) {
			s.Proofs = 0
			s.teach(t, half)
		}
	}
	s.ease(t)
	return cleared
}

// page returns the suspect of that resource, or nil.
func (s *Refusals) page(resource uint64) *suspect {
	for i := range s.Suspects {
		if resource != 0 && s.Suspects[i].Resource == resource {
			return &s.Suspects[i]
		}
	}
	return nil
}

// teach makes the delay longer: the one in force and its part more.
func (s *Refusals) teach(t Turn, part time.Duration) {
	if !t.Delay.Adaptive.Learns() {
		return
	}
	ceiling, inForce := t.Delay.Ceiling, t.Gap
	if inForce <= t.Delay.Max { // it was drawn at random
		inForce = t.Delay.Min + (t.Delay.Max-t.Delay.Min)/2
	}
	inForce = min(max(inForce, s.Learned, time.Millisecond), ceiling) // more than nothing, of which the half is nothing
	delay := inForce + min(inForce/part, ceiling-inForce)
	perPage := min(max(0, t.Since-s.Asked)/time.Duration(max(1, t.Served)), ceiling)
	if inForce <= ceiling/4 {
		perPage = min(perPage, 4*inForce)
	}
	s.Learned = max(s.Learned, delay, perPage)
	s.lesson = lesson{Lessons: s.Lessons + 1, TaughtAt: inForce, EasedAt: t.Now}
	s.Excess = 0
}

// ease makes the delay shorter, after a success.
func (s *Refusals) ease(t Turn) {
	step, percent := 20*time.Second, min(16, 2<<(min(s.Steps, 15)/5))
	if s.Slow {
		step, percent = 3*time.Minute, 2
	}
	learns := t.Delay.Adaptive.Learns() // else it did under other limits
	if s.Learned == 0 || learns && t.Now-s.EasedAt < step {
		return
	}
	s.EasedAt, s.Steps = t.Now, s.Steps+1
	s.Learned = min(s.Learned-s.Learned/100*time.Duration(percent), t.Delay.Ceiling)
	if !learns || s.Learned <= max(t.Delay.Min, time.Microsecond) { // below that 2 % are nothing
		s.Learned, s.lesson = 0, lesson{Lessons: s.Lessons}
	}
}
