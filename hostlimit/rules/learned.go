package rules

import (
	"math"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// A bare 503, another 5xx or no response may come from an unknown rate limit, or from a page that
// always fails. These rules separate the two, and learn a delay:
//
//  1. After such a refusal, the host rests for a second, and longer after each further one in a row.
//     Then one request is sent, for the refused page.
//  2. If the page is refused again and the next page is served, only this page fails. It isn't
//     fetched again, isn't counted, and makes no delay longer.
//  3. If the page is served, the host has refused. The delay gets longer after three such refusals
//     close together, after one at a delay that was refused before, or if the first refusals of a
//     host end after a second. The new delay is the larger of 1.5 times the delay in force and the
//     time per page served since the last lesson, with pauses, at most four times the delay in
//     force. A Retry-After may mean maintenance, so only the second within an hour counts.
//  4. If no page is fetched again, five refusals more than a third of the pages served make the
//     delay longer. A 429 does so immediately, at the first of a series.
//  5. If a page is served 20 s after the last lesson or step, the delay gets 2 % shorter. The step
//     doubles every five steps up to 16 %, until a refusal. After a ban, the delay gets 2 % shorter
//     each three minutes.
//  6. Lessons are taken back if they have changed nothing when the delay has become eight times as
//     long. At least two of them must have been as long as a page took to be served. Then there is
//     no lesson for an hour, or until 20 pages in a row were served. If 20 pages are served with
//     half the share of refusals, the lessons help and stay.

// A lesson is how a delay was learned.
type lesson struct {
	TaughtAt time.Duration `json:",omitzero"` // delay in force at the last lesson
	EasedAt  time.Duration `json:",omitzero"` // time of the last lesson, or the last step that made the delay shorter
	Steps    int           `json:",omitzero"` // such steps since the last refusal
	Slow     bool          `json:",omitzero"` // a ban has taught it
	Asked    time.Duration `json:",omitzero"` // sum of the Retry-After since the last lesson
	RestedAt time.Duration `json:",omitzero"` // Turn.Since of the last one with a Retry-After, not its page's
}

// A trial is a series of lessons of answers that aren't sure. It shows whether a longer delay makes
// refusals fewer.
type trial struct {
	From    time.Duration `json:",omitzero"` // delay in force before its first lesson; 0: none is under way
	Before  time.Duration `json:",omitzero"` // Refusals.Learned of then
	Share   int           `json:",omitzero"` // percent of refusals between its first two lessons, plus 1
	Refused int           `json:",omitzero"` // unsure answers since the last lesson
	Full    int           `json:",omitzero"` // lessons that were as long as a page took to be served
	Vain    int           `json:",omitzero"` // pages to be served in a row until the next lesson
	VainAt  time.Duration `json:",omitzero"` // time of the last lessons taken back
}

// A suspicion separates pages that always fail from a host that refuses. It has the refused pages,
// and counts of the responses since.
type suspicion struct {
	Suspects [8]suspect `json:",omitzero"` // pages refused last, the latest first
	Pending  uint64     `json:",omitzero"` // page that was refused twice; the next response shows whether only it fails
	Served   uint64     `json:",omitzero"` // page that was served last, since the first refusal
	Own      int        `json:",omitzero"` // pages found to fail alone since a new page was served
	Excess   int        `json:",omitzero"` // refusals of new pages, more than a third of the successes, in thirds
	Proofs   int        `json:",omitzero"` // suspects that were served, less the successes, in thirtieths
	Taught   bool       `json:",omitzero"` // Excess has taught since the last success
}

// A suspect is a page that was refused.
type suspect struct {
	Resource uint64 `json:",omitzero"`
	Lesson   int32  `json:",omitzero"` // Lessons when it was refused
	Asked    bool   `json:",omitzero"` // it was asked again alone, and refused, since the last success
	Own      bool   `json:",omitzero"` // only this page fails
	Rests    bool   `json:",omitzero"` // the refusal had a Retry-After
}

// Pauses and bans. A pause after an unclear response lasts a second, and longer after each further
// one in a row, up to longestPause, or up to the policy's Cap if that is shorter. Bans begin with
// shortestBan and double, up to longBan. If the host has refused twice after the longest pause or
// ban, the further ones double, up to longestBan.
const (
	longestPause = 5 * time.Minute
	shortestBan  = time.Minute
	longBan      = 10 * time.Minute
	longBans     = 6 // in a row, until two of them were longBan
	longestBan   = 4 * time.Hour
	// mostOfUnsure is the longest Took of a row of unsure answers, as of a window. Pages that fail
	// alone may also follow each other.
	mostOfUnsure = 20 * time.Second
)

// banOf returns the length of the n-th ban in a row.
func banOf(n int) time.Duration {
	if n <= longBans {
		return backoff.Doubling{Start: shortestBan, Cap: longBan}.Delay(n)
	}
	return outlasted(longBan, n-longBans)
}

// outlasted returns the n-th pause after two of the longest, which were refused. A ban that each
// request begins anew, and that is longer than longest, would never end otherwise.
func outlasted(longest time.Duration, n int) time.Duration {
	return backoff.Doubling{Start: 2 * longest, Cap: longestBan}.Delay(n)
}

// stepOf returns the n-th of steps, which continue to grow after two of the longest.
func stepOf(steps backoff.Fibonacci, n int) time.Duration {
	if n <= 2 || steps.Delay(n-2) < steps.Cap {
		return steps.Delay(n)
	}
	first := n - 2 // of the longest
	for first > 1 && steps.Delay(first-1) == steps.Cap {
		first--
	}
	return outlasted(steps.Cap, n-first-1)
}

// Lessons: rule 3. After a ban the delay is doubled.
const (
	half, whole = 2, 1 // the delay gets longer by the delay in force, divided by this
	mostTimes   = 4
)

// Proofs of rule 3, counted in thirtieths.
const (
	proof      = 30 // a suspect is served
	proofFades = 3  // for each page served, so that only those close together add up
	// proofFadesLater is for a host with a learned delay, where refusals are rarer.
	proofFadesLater = 1
	enoughProofs    = 75 // three, of which the pages between them have taken less than half a one
	// sureProof is for a page that was refused twice, when then a page that was served before is
	// refused too. One outage brings it and, at its end, one proof: together less than
	// enoughProofs, so that an outage alone teaches nothing.
	sureProof = 42
	// sameDelay is the most by which a delay may be longer, in percent, and still count as one that
	// was refused before. Easing ends a little above it.
	sameDelay = 15
)

// maintenance is the time within which a second refusal with Retry-After counts, see rule 3.
const maintenance = time.Hour

// Trials: rule 6.
const (
	longTrial = 8 // times the delay before the trial
	// unchanged is the least percentage of the former share of refusals that counts as no change. The
	// share is computed from a dozen responses.
	unchanged = 80
	// enoughFull is the number of lessons that were as long as a page took to be served. A limit of
	// ten a minute refuses 44 % of the requests at a delay of one second and 39 % at three, which is
	// hardly less. At six, after these lessons, it refuses none.
	enoughFull = 2
	afterVain  = 20
	// nextTrial is how long a host that bans after ten pages waits, as it never serves 20 in a row.
	nextTrial = time.Hour
	// helped is how many times smaller the share of refusals must be if the lessons have helped.
	helped = 2
	// vainPause is the shortest rest until then, because the delay doesn't help.
	vainPause = 8 * time.Second
)

// Excess of rule 4, counted in thirds. Two refusals are enough for a host with a learned delay and
// without pages that always fail, because it is known to refuse by rate.
const (
	refusal       = 3 // a new page is refused
	refusalFades  = 1 // for each page served
	enoughExcess  = 5 * refusal
	enoughOfKnown = 2 * refusal
)

// Easing: rule 5.
const (
	easeAfter    = 20 * time.Second
	easeAfterBan = 3 * time.Minute
	easing       = 2 // percent
	easeDoubles  = 5 // steps after which the percentage doubles
	mostDoubled  = 3 // times: to 16 %
)

// Rows of refusals that are bans. Ten to thirteen 429 in a row are a ban for a minute that each
// request renews. The delay afterwards is two to four times as long. Limits by the minute refuse
// fewer in a row, and quotas by the hour refuse more.
const (
	banRow   = 10
	quotaRow = 14
)

// If many pages fail and no new page is served between them, half of the site may be down. After
// mostOwn such pages, no further page counts as failing alone, and the pause doubles with every
// ownDoubles.
const (
	mostOwn     = 200
	ownDoubles  = 20
	mostDoubles = 10
)

// suspect learns from an unsure answer.
func (s *Refusals) suspect(a *answer) {
	resource := a.outcome.Resource
	page := s.page(resource)
	if page != nil && page.Own {
		a.effect.Own = true
		return
	}
	if page != nil && !page.Asked && a.turn.Probe && !a.earlier {
		// Only this page was refused again. Nothing pauses, because the response to the next
		// request, for another page, shows whether the host refuses.
		page.Asked = true
		s.Pending = resource
		return
	}
	if s.Pending != 0 && !a.earlier {
		s.blameHost(resource)
	}
	if page == nil && resource != 0 {
		copy(s.Suspects[1:], s.Suspects[:])
		s.Suspects[0] = suspect{Resource: resource, Lesson: int32(s.Lessons), Rests: a.rules.heeds(a.outcome)}
	}
	s.Steps = 0
	s.Refused = min(s.Refused+1, math.MaxInt16)
	if s.Vain > 0 {
		s.Vain = afterVain
	}
	if a.earlier {
		return // the pause that was set since then covers this response too
	}
	s.Unsure = oneMore(s.Unsure)
	if page == nil { // else the page was counted at its first refusal
		s.exceed(a.turn)
	}
	s.Asked = Add(s.Asked, a.asks()) // teachOnly leaves that time out
	pause := s.pause(a)
	if a.turn.Delay.Adaptive.Learns() {
		pause = max(pause, min(s.asLastRow(), a.rules.longest))
		s.Rested = Add(s.Rested, pause)
	}
	s.block(a, "unsure", s.Unsure, pause)
}

// asLastRow returns how long the next pause lasts at least, by the last row of refusals. The first
// pause in a row may be for a page that fails alone. From the second on, the host may refuse until
// a window ends, as it has done before.
func (s *Refusals) asLastRow() time.Duration {
	if s.Unsure == 1 {
		return 0
	}
	return min(s.Took, mostOfUnsure) / 2
}

// blameHost finds that the refusals of Pending were the host's: another page, resource, is refused
// right after it.
func (s *Refusals) blameHost(resource uint64) {
	s.Pending = 0
	s.Unsure++ // for the response that set Pending and paused nothing
	if resource == s.Served {
		s.Proofs += sureProof
	}
}

// exceed counts the refusal of a new page, for crawlers that never ask a refused page again.
func (s *Refusals) exceed(t *Turn) {
	s.Excess += refusal
	enough := enoughExcess
	if s.Learned > 0 && s.Own == 0 {
		enough = enoughOfKnown
	}
	if s.Excess >= enough && !s.Taught { // once in a row: a longer outage isn't a lower rate
		s.Taught = true
		s.tryLonger(t)
	}
}

// pause returns for how long an unsure answer holds the key.
func (s *Refusals) pause(a *answer) time.Duration {
	pause := backoff.Fibonacci{Cap: longestPause}.Delay(s.Unsure)
	if s.Own > mostOwn {
		doubled := min(float64(s.Own-mostOwn)/ownDoubles, mostDoubles)
		pause += time.Duration(math.Exp2(doubled) * float64(time.Second))
	}
	if s.Vain > 0 {
		pause = max(pause, vainPause)
	}
	pause = min(pause, longestPause, a.rules.longest)
	if a.mayBeABan() {
		pause = max(pause, stepOf(backoff.Fibonacci{Cap: longestPause}, s.Unsure))
	}
	return max(a.asks(), pause)
}

// serve learns from a success, and reports whether it has ended a block or a row of refusals.
func (s *Refusals) serve(a *answer) (cleared bool) {
	resource := a.outcome.Resource
	isQuick := s.Unsure <= 1 && s.Row+s.Bans == 0
	if !a.earlier {
		cleared = s.Alone
		s.lift(a.turn)
	}
	s.Excess = max(0, s.Excess-refusalFades)
	fades := proofFades
	if s.Learned > 0 {
		fades = proofFadesLater
	}
	s.Proofs = max(0, s.Proofs-fades)
	s.Vain = max(0, s.Vain-1)
	s.Taught = false
	if !a.earlier || s.Pending == resource {
		s.acquitHost(resource)
	}
	if resource != s.Served {
		s.Served = resource
		s.Own = 0
	}
	if page := s.page(resource); page != nil {
		s.prove(page, isQuick, a.turn)
	}
	s.ease(a.turn)
	return cleared
}

// lift ends the block and every row of refusals.
func (s *Refusals) lift(t *Turn) {
	if banRow <= s.Row && s.Row < quotaRow {
		s.teach(t, whole)
		s.Slow = s.Learned > 0
	}
	s.Until = 0
	s.Cause = ""
	s.Alone = false
	s.Checking = false
	wasRight := s.Row == 1 && s.Stated // the Retry-After of the only block
	if s.Row > 0 && !wasRight {
		s.Took = s.Rested
	}
	s.Stated = false
	s.Row = 0
	s.Unsure = 0
	s.Forbidden = 0
	s.Bans = 0
}

// acquitHost decides that only the page Pending fails, because another page, resource, is served
// right after it.
func (s *Refusals) acquitHost(resource uint64) {
	for i := range s.Suspects {
		s.Suspects[i].Asked = false
	}
	if s.Pending != 0 && s.Pending != resource {
		if page := s.page(s.Pending); page != nil {
			page.Own = s.Own < mostOwn
		}
		s.Failed = true
		s.Own++
		s.Excess = max(0, s.Excess-refusal) // its refusal wasn't the host's
	}
	s.Pending = 0
}

// prove takes the suspect page, which is served now, as a proof that its refusal was the host's.
// isQuick says that the first request after the refusal has shown it.
func (s *Refusals) prove(page *suspect, isQuick bool, t *Turn) {
	was := *page
	*page = suspect{}
	if s.Took <= mostOfUnsure {
		s.Took = min(s.Rested, mostOfUnsure) // the row of page was the host's
	}
	isFirst := !s.Failed
	s.Failed = true
	s.Proofs += proof
	if was.Lesson != int32(s.Lessons) { // else an earlier refusal has taught already
		return
	}
	refusedBefore := s.TaughtAt > 0 && t.Gap <= s.TaughtAt+s.TaughtAt*sameDelay/100
	enough := refusedBefore || s.Proofs >= enoughProofs
	rests := was.Rests
	switch {
	case enough:
	case rests:
		again := s.RestedAt > 0 && s.RestedAt <= t.Since && t.Since-s.RestedAt <= maintenance
		s.RestedAt = max(1, t.Since)
		if !again {
			return
		}
	case !isFirst || !isQuick:
		return
	}
	s.Proofs = 0
	lessons := s.Lessons
	s.tryLonger(t)
	if rests && s.Lessons != lessons {
		s.RestedAt = 1 // t.Since begins anew
	}
}

// tryLonger makes the delay longer after answers that aren't sure, unless that has changed nothing.
func (s *Refusals) tryLonger(t *Turn) {
	waits := s.Vain > 0 && t.Now-s.VainAt < nextTrial
	if waits || !t.Delay.Adaptive.Learns() {
		return
	}
	s.Vain = 0
	inForce := s.inForce(t)
	share := 1 + 100*s.Refused/(s.Refused+max(0, t.Served)+1)
	if s.Share > 0 && share <= s.Share/helped && t.Served >= afterVain {
		s.trial = trial{}
	}
	switch {
	case s.From == 0:
		s.From = max(inForce, 1)
		s.Before = s.Learned
	case s.Share == 0:
		s.Share = share
	}
	isLong := inForce/longTrial >= s.From && s.Full >= enoughFull
	if isLong && share >= s.Share*unchanged/100 {
		s.takeBack(t)
		return
	}
	s.teachOnly(t, half)
}

// takeBack takes the lessons of a trial back: the refusals have nothing to do with the pace.
func (s *Refusals) takeBack(t *Turn) {
	s.Learned = min(s.Learned, s.Before)
	s.lesson = lesson{EasedAt: t.Now, RestedAt: s.RestedAt}
	s.trial = trial{Vain: afterVain, VainAt: t.Now}
	s.Excess = 0
}

// ForgetPages forgets by which pages and lessons s was learned. A Store keeps the rest, that is the
// block, the counters, and the learned delay.
func (s *Refusals) ForgetPages() {
	s.lesson = lesson{Slow: s.Slow}
	s.trial = trial{}
	s.Failed = false
	s.Rested = 0
	s.Stated = false
	s.Took = 0
	s.suspicion = suspicion{}
}

// page returns the suspect of that resource, or nil.
func (s *Refusals) page(resource uint64) *suspect {
	if resource == 0 { // not known
		return nil
	}
	for i := range s.Suspects {
		if s.Suspects[i].Resource == resource {
			return &s.Suspects[i]
		}
	}
	return nil
}

// teach is teachOnly after answers in clear words, or a ban.
func (s *Refusals) teach(t *Turn, part time.Duration) {
	if !t.Delay.Adaptive.Learns() {
		return
	}
	s.trial = trial{} // such lessons aren't in doubt
	s.teachOnly(t, part)
}

// inForce returns the delay in force.
func (s *Refusals) inForce(t *Turn) time.Duration {
	inForce := t.Gap
	if inForce <= t.Delay.Max { // it was drawn at random: the mean counts
		inForce = t.Delay.Min + (t.Delay.Max-t.Delay.Min)/2
	}
	inForce = max(inForce, s.Learned, time.Millisecond) // more than 0, because half of 0 is 0
	return min(inForce, t.Delay.Ceiling)
}

// teachOnly makes the delay longer: the one in force and its part more.
func (s *Refusals) teachOnly(t *Turn, part time.Duration) {
	ceiling := t.Delay.Ceiling
	inForce := s.inForce(t)
	longer := inForce + min(inForce/part, ceiling-inForce) // ceiling may be the longest Duration

	// The time in which the host itself asked for a rest is no time per page.
	perPage := max(0, t.Since-s.Asked) / time.Duration(max(1, t.Served))
	perPage = min(perPage, ceiling)
	most := perPage
	if inForce <= ceiling/mostTimes {
		most = mostTimes * inForce
	}
	if perPage <= most {
		s.Full++
	}
	s.Learned = max(s.Learned, longer, min(perPage, most))
	s.Lessons++
	s.lesson = lesson{TaughtAt: inForce, EasedAt: t.Now}
	s.Refused = 0
	s.Excess = 0
}

// ease makes the delay shorter, after a success.
func (s *Refusals) ease(t *Turn) {
	if s.Learned == 0 {
		return
	}
	if !t.Delay.Adaptive.Learns() { // the delay was learned under other limits
		s.forget()
		return
	}
	after := easeAfter
	percent := easing << min(s.Steps/easeDoubles, mostDoubled)
	if s.Slow {
		after = easeAfterBan
		percent = easing
	}
	if t.Now-s.EasedAt < after {
		return
	}
	s.EasedAt = t.Now
	s.Steps++
	s.Learned = min(s.Learned-s.Learned/100*time.Duration(percent), t.Delay.Ceiling)
	if s.Learned <= max(t.Delay.Min, time.Microsecond) { // below a microsecond 2 % are nothing
		s.forget()
	}
}

// forget forgets the learned delay. Lessons stays: by it suspects know whether they were refused
// since.
func (s *Refusals) forget() {
	s.Learned = 0
	s.lesson = lesson{RestedAt: s.RestedAt}
	s.trial = trial{Vain: s.Vain, VainAt: s.VainAt}
}
