package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/internal/contexts"

	"github.com/go-politeness/politeness/hostlimit"
)

// Refusals is the state of a key by the responses of its host. It has the block, the refusals in a
// row and the learned delay. It is for implementers of [hostlimit.Limiter]. It is a plain value
// without a lock and a clock. Times count from any moment before the first one. The zero value is
// the key of a host that has not refused. A key goes through these states:
//
//	state    event                               next     why
//	open     refusal                             blocked  until Retry-After, or by the policy; may teach
//	open     unsure: 5xx, 408, 425, no response  blocked  Fibonacci steps, at most 5 min or Cap
//	open     403 and the like, number InARow     waiting  the next one shows a ban, or forbidden pages
//	open     Reset, or Retry-After from 300 on   paused   nothing is left of the host's rate limit
//	paused   Until has passed                    open     the host has not refused: no probe
//	blocked  Until has passed                    waiting  for a request to probe
//	waiting  a request starts                    probed   the others wait for its response
//	waiting  Forgive has passed                  open     the refusals are too long ago to count
//	probed   success                             open     every request continues
//	probed   refusal                             blocked  for longer: one more refusal in a row
//	probed   unsure or 403, after a refusal      blocked  for longer: one more refusal in a row
//	probed   unsure, the page that was refused   waiting  the next page shows whether only this page fails
//	probed   unsure, another page                blocked  for longer: one more in a row
//	probed   403, after InARow of them           blocked  a ban: 60 s, doubling to 10 min, then 4 h
//	probed   another response, or none observed  waiting  the next request probes
//	any      refusal of an earlier request       same     until its Retry-After, if later; not counted
//	any      Reset, or Retry-After from 300 on   same     until then, if later; not counted
//	any      refusal that is found late          blocked  Revise: as if it had been no success
//	any      Block                               blocked  by an operator: only Clear lifts it
//	any      Clear                               open
//
// An earlier request is one that started before the block was set. Its refusal also counts until
// that block is lifted, if it is of unsure responses, or of InARow such as 403. The limiter itself
// knows which request probes. Outside of Config.Windows a key waits as if it were blocked, in any
// state.
type Refusals struct {
	Until time.Duration `json:",omitzero"` // end of the block, 0 if there is none
	SetAt uint64        `json:",omitzero"` // number of the last request that started before the block was set
	Cause string        `json:",omitzero"` // cause of the block, as in HostState.BlockedBy
	Alone bool          `json:",omitzero"` // requests start one at a time, each a probe, until one succeeds

	Row       int  `json:",omitzero"` // refusals in a row, at most 255, those of one block counted once
	Unsure    int  `json:",omitzero"` // unsure responses in a row, at most 255
	Forbidden int  `json:",omitzero"` // 403, its like and unknown words in a row, since the last success or check
	Bans      int  `json:",omitzero"` // bans in a row
	Checking  bool `json:",omitzero"` // the next answer shows a ban, or forbidden pages

	Learned time.Duration `json:",omitzero"` // delay that refusals have taught, 0 if there is none
	Lessons int           `json:",omitzero"` // number of times that refusals have made the delay longer
	Failed  bool          `json:",omitzero"` // there were failures before, of a page or of the host
	Rested  time.Duration `json:",omitzero"` // sum of the blocks of this row of refusals, or of the last one
	Stated  bool          `json:",omitzero"` // the last of them was as long as its Retry-After
	Took    time.Duration `json:",omitzero"` // Rested of the last row that was the host's, see lift and prove
	lesson
	trial
	suspicion
}

// InARow is the number of refusals in a row of any kind, as Effect and HostState have it.
func (s *Refusals) InARow() int { return s.Row + s.Unsure + s.Bans }

// A Turn describes the request whose Outcome a Limiter observes. It is for implementers.
type Turn struct {
	Now    time.Duration    // when the response came
	Number uint64           // number of the request, in the order of starts
	Last   uint64           // number of the last request that has started
	Probe  bool             // no other request could start beside it
	Delay  *hostlimit.Delay // limits of the key's delay
	Gap    time.Duration    // delay in force
	Since  time.Duration    // time since the first start of the key, the last lesson, or an idle time
	Served int              // successes in that time, this one included
}

// An answer is one call of Observe: an Outcome, its request, and the effect that it has.
type answer struct {
	rules   *Rules
	outcome *hostlimit.Outcome
	turn    *Turn
	meaning Meaning
	earlier bool // the request started before the block was set
	stopped bool // an operator's block applies to the key
	effect  hostlimit.Effect
}

// asks returns for how long the host itself asks to be left alone.
func (a *answer) asks() time.Duration { return a.rules.asked(a.outcome) }

// mayBeABan reports whether pauses in a row get longer after the longest of the policy. Without a
// response the user may be offline, and no request renews a ban.
func (a *answer) mayBeABan() bool { return a.rules.grows && a.outcome.Status != 0 }

// Observe changes s by o, the outcome of the request of t. The caller sets Effect.Until. If
// s.Lessons has changed, Learned is longer, and the caller begins to count t.Since and t.Served
// anew.
func (s *Refusals) Observe(r *Rules, o hostlimit.Outcome, t Turn) hostlimit.Effect {
	a := answer{rules: r, outcome: &o, turn: &t, meaning: r.Meaning(&o), stopped: s.Stopped(t.Now)}
	a.earlier = s.isEarlier(&a)
	mayBeThePages := a.meaning == Unsure || a.meaning == Forbidden
	if mayBeThePages && s.Row > 0 && !a.earlier {
		// Only probes start while refusals count. A probe that isn't served is refused once more.
		a.meaning = Refused
	}
	if s.InARow() == 0 && a.meaning != Success && a.meaning != Silent {
		s.Rested = 0 // a row may begin
	}
	switch a.meaning {
	case Success:
		a.effect.Cleared = s.serve(&a)
	case Refused:
		if o.Banned && o.Refused != "" {
			s.banNow(&a)
		} else {
			s.refuse(&a)
		}
	case Unsure:
		s.suspect(&a)
	case Forbidden:
		s.forbid(&a)
	case Silent:
		// It may still have a Reset.
	}
	if a.meaning != Refused { // refuse has used it already
		extended := s.extend(&a, r.whyAsked(&o))
		a.effect.Blocked = a.effect.Blocked || extended
	}
	a.effect.Refusals = s.InARow()
	return a.effect
}

// Counts are the rows of refusals that a success ends.
type Counts struct{ row, unsure, bans uint8 }

// Counts returns the rows as they are. A limiter keeps those of before Observe with the request,
// for Revise.
func (s *Refusals) Counts() Counts {
	return Counts{row: uint8(s.Row), unsure: uint8(s.Unsure), bans: uint8(s.Bans)}
}

// Revise is Observe for a refusal that is found after the response was observed as o without
// Refused. before are the Counts of then, and t is the Turn of now, whose Number is that of the
// request. It changes nothing if o.Refused is empty.
func (s *Refusals) Revise(r *Rules, o hostlimit.Outcome, t Turn, before Counts) hostlimit.Effect {
	if o.Refused == "" {
		return hostlimit.Effect{}
	}
	// A block that was set since the start of the request has its own rows: the success didn't end
	// them, as it came from a request of before.
	if t.Number > s.SetAt {
		s.Row = max(s.Row, int(before.row))
		s.Unsure = max(s.Unsure, int(before.unsure))
		s.Bans = max(s.Bans, int(before.bans))
	}
	return s.Observe(r, o, t)
}

// isEarlier reports whether the response of a is old, because its request started before the block
// in force was set. While an operator's block applies, every response counts as old.
func (s *Refusals) isEarlier(a *answer) bool {
	if a.stopped {
		return true
	}
	if a.meaning == Refused && s.Alone && s.Row+s.Bans == 0 {
		// A pause or a check holds the key, not a refusal: this is the first one of a series, and
		// counts even if its request is older.
		return false
	}
	return a.turn.Number <= s.SetAt
}

// refuse counts a refusal, which blocks the key.
func (s *Refusals) refuse(a *answer) {
	o := a.outcome
	if a.earlier {
		// The host has answered several requests in flight by one refusal: that counts once.
		a.effect.Blocked = s.extend(a, causeOf(o))
		return
	}
	// A clear refusal comes from the host. Earlier suspicions don't matter any more.
	s.Row = oneMore(s.Row)
	s.Unsure = 0
	s.Forbidden = 0
	s.Pending = 0
	s.Steps = 0
	// A 503 with Retry-After that the policy doesn't count is maintenance, at any rate of requests.
	aboutTheRate := o.Refused != "" || o.Status == 0 || a.rules.refusals.Counts(o.Status)
	if s.Row == 1 && aboutTheRate {
		s.teach(a.turn, half)
	}
	if s.Row == 1 {
		// teachOnly leaves that time out. If the host refuses again at the end of it, it has asked
		// for too little.
		s.Asked = Add(s.Asked, a.asks())
	}
	stay := a.rules.stay(s.Row, o, &a.effect.StateErr)
	if a.turn.Delay.Adaptive.Learns() {
		stay = s.longerThanLast(stay)
		s.Rested = Add(s.Rested, stay)
		s.Stated = a.rules.heeds(o)
	}
	s.block(a, "refused", s.Row, stay)
}

// longerThanLast returns the length of the next block of a row. stay is the policy's length. If the
// host's last row has taken long, the first block is half of that time, instead of many short
// blocks, and the next ones are quarters.
func (s *Refusals) longerThanLast(stay time.Duration) time.Duration {
	part := s.Took / 4
	if s.Row == 1 {
		part = s.Took / 2
	}
	return max(stay, min(part, longBan))
}

// oneMore returns n+1, at most the largest number that Refusals count to.
func oneMore(n int) int { return min(n+1, math.MaxUint8) }

// block sets a block that ends with the success of a probe, as the row-th refusal of its kind.
func (s *Refusals) block(a *answer, kind string, row int, stay time.Duration) {
	s.Until = max(s.Until, Add(a.turn.Now, stay))
	s.SetAt = a.turn.Last
	s.Cause = causeOf(a.outcome)
	s.Alone = true
	a.effect.Blocked = true
	a.effect.Kind = kind
	a.effect.Row = row
}

// extend lengthens a block until the time for which the host asks, or sets one that counts as no
// refusal, and reports whether it did.
func (s *Refusals) extend(a *answer, cause string) bool {
	asked := a.asks()
	until := Add(a.turn.Now, asked)
	if asked == 0 || until <= s.Until {
		return false
	}
	s.Until = until
	s.SetAt = a.turn.Last
	if !a.stopped { // an operator's block keeps its cause, so that no response lifts it
		s.Cause = cause
	}
	return true
}

// forbid counts a response such as 403. Forbidden pages and a ban look alike, so number InARow is
// followed by a single request: if the host serves that, the pages were forbidden.
func (s *Refusals) forbid(a *answer) {
	if a.earlier {
		return
	}
	if !s.Checking && s.Bans == 0 {
		s.Forbidden++
		if s.Forbidden >= a.rules.refusals.InARow {
			// The next request goes alone and immediately. On a site with many forbidden pages,
			// pauses would cost time.
			s.Checking = true
			s.Alone = true
			s.Forbidden = 0
			s.Until = max(s.Until, a.turn.Now)
			s.SetAt = a.turn.Last
		}
		return
	}
	s.ban(a)
}

// banNow blocks the key because the crawler reports a ban.
func (s *Refusals) banNow(a *answer) {
	if a.earlier {
		a.effect.Blocked = s.extend(a, causeOf(a.outcome))
		return
	}
	s.Unsure = 0
	s.Pending = 0
	s.ban(a)
}

// ban blocks the key for a ban.
func (s *Refusals) ban(a *answer) {
	s.Checking = false
	s.Forbidden = 0
	s.Bans = oneMore(s.Bans)
	if s.Bans == 1 { // the further ones show that the host still bans, at no rate of requests
		s.teach(a.turn, whole)
		s.Slow = true
	}
	s.EasedAt = a.turn.Now // no step makes the delay shorter during a ban
	ban := banOf(s.Bans)
	s.block(a, "ban", s.Bans, max(ban, a.rules.stay(s.Bans, a.outcome, &a.effect.StateErr)))
}

// causeOf returns the Refusals.Cause of a block that o sets.
func causeOf(o *hostlimit.Outcome) string {
	switch {
	case o.Refused != "":
		return "refused"
	case o.Status == 0:
		return "network error"
	}
	return "status " + strconv.Itoa(o.Status)
}

// Block sets the block of an operator after the start of request number last, with the cause that
// Rules.CheckBlock returned. A block that ends later keeps its end.
func (s *Refusals) Block(until time.Duration, cause string, last uint64) {
	s.Until = max(s.Until, until)
	s.SetAt = last
	s.Cause = cause
}

// Clear lifts the block and forgets the refusals, and reports whether there were any. Learned
// stays.
func (s *Refusals) Clear(now time.Duration) bool {
	cleared := s.Alone || s.Blocks(now)
	// SetAt stays: answers to requests from before the block don't count now either.
	*s = Refusals{
		SetAt:   s.SetAt,
		Learned: s.Learned,
		Lessons: s.Lessons,
		Failed:  s.Failed,
		lesson:  s.lesson,
		trial:   s.trial,
	}
	return cleared
}

// Forgive forgets the refusals if the host has been quiet for long enough, and reports whether it
// did.
func (s *Refusals) Forgive(r *Rules, now time.Duration) bool {
	if !s.Alone || !s.Forgiven(r, now) {
		return false
	}
	return s.Clear(now)
}

// Forgiven reports whether the host has been quiet for long enough for its refusals to be
// forgotten.
func (s *Refusals) Forgiven(r *Rules, now time.Duration) bool {
	return now >= Add(s.Until, r.refusals.Forgive)
}

// Blocks reports whether the key is blocked at now. At its very end a block is over.
func (s *Refusals) Blocks(now time.Duration) bool { return s.Until > now }

// Stopped reports whether that block is an operator's.
func (s *Refusals) Stopped(now time.Duration) bool {
	return strings.HasPrefix(s.Cause, handPrefix) && s.Blocks(now)
}

// A Meaning is how an Outcome counts for its host.
type Meaning uint8

// The meanings, from the one that changes nothing to the one that blocks.
const (
	Silent    Meaning = iota // doesn't count for the host
	Success                  // the host serves us
	Unsure                   // the host refuses us, or only this page fails
	Forbidden                // the page is forbidden, or we are banned
	Refused                  // the host wants to be left alone
)

// Meaning returns how o counts for its host. No other code decides over a status.
func (r *Rules) Meaning(o *hostlimit.Outcome) Meaning {
	if o.Refused != "" || r.refusals.Counts(o.Status) {
		return Refused
	}
	switch {
	case o.Status == 0:
		return r.meaningOfNone(o)
	case o.Status == 503 && o.RetryAfter > 0 && r.refusals.AtLeast:
		return Refused // the policy's time comes before the time that the host asks for
	case isAboutTheRequest(o):
		return Silent
	case o.Status < 400, o.Status == 404, o.Status == 410:
		if o.Aside {
			return Silent // its success lifts no block
		}
		return Success
	case o.Status == 408, o.Status == 425, 500 <= o.Status && o.Status < 600:
		return Unsure
	}
	// 403 and the like, and each word that isn't known: the host's rate limiter may have invented
	// it.
	return Forbidden
}

// isAboutTheRequest reports whether the status of o is about the request, and not about the host or
// the page. Another request to the URL may be served.
func isAboutTheRequest(o *hostlimit.Outcome) bool {
	isGet := o.Method == "" || o.Method == "GET"
	switch o.Status {
	case 407: // the word of a proxy on the way
		return true
	case 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 431:
		return true
	case 400, 405, 409: // usual in APIs; package crawl checks such a host with a page that was served before
		return !isGet || o.Conditional || !o.Page
	case 406:
		return !isGet || o.Conditional
	case 501:
		return !isGet
	}
	return o.Status < 0
}

// meaningOfNone returns the meaning of an attempt without a response.
func (r *Rules) meaningOfNone(o *hostlimit.Outcome) Meaning {
	switch {
	case o.Err == nil, contexts.Left(o.Err): // the caller gave up
		return Silent
	case r.refusals.Network:
		return Refused
	}
	return Unsure
}

// String returns "neutral", "ok", "unsure", "forbidden" or "refused".
func (m Meaning) String() string {
	switch m {
	case Success:
		return "ok"
	case Unsure:
		return "unsure"
	case Forbidden:
		return "forbidden"
	case Refused:
		return "refused"
	}
	return "neutral"
}

// asked returns the wait that the host asks for, capped: by Retry-After or else by the reset of its
// rate limit. It is 0 if the host doesn't ask.
func (r *Rules) asked(o *hostlimit.Outcome) time.Duration {
	asked := max(0, o.Reset)
	if r.heeds(o) { // a Retry-After comes before the fields of the rate limit
		asked = o.RetryAfter
	}
	return min(asked, r.refusals.MaxRetryAfter)
}

// heeds reports whether o has a Retry-After that counts. On a page that was served it doesn't: some
// hosts send it with each of them.
func (r *Rules) heeds(o *hostlimit.Outcome) bool {
	isServed := o.Status < 300 && o.Refused == "" && !r.refusals.Counts(o.Status)
	return o.RetryAfter > 0 && !isServed
}

// whyAsked returns the Refusals.Cause of a block for which o asks, and which counts as no refusal.
func (r *Rules) whyAsked(o *hostlimit.Outcome) string {
	if r.heeds(o) {
		return "Retry-After"
	}
	return "rate limit"
}

// Asks reports whether o asks for a wait.
func (r *Rules) Asks(o *hostlimit.Outcome) bool { return r.asked(o) > 0 }

// stay returns the length of the block that o sets as the n-th refusal in a row. The policy is for
// hosts that refuse. A failure with a status that the policy doesn't list gets Fibonacci steps. So
// does a refusal for which the policy panics.
func (r *Rules) stay(n int, o *hostlimit.Outcome, failure *error) (d time.Duration) {
	asked := r.asked(o)
	if r.heeds(o) && !r.refusals.AtLeast {
		return asked // the host knows best
	}
	isDefault := r.grows && o.Status != 0
	if isDefault {
		return max(asked, stepOf(backoff.Fibonacci{}.WithDefaults(), n))
	}
	if r.Meaning(o) == Unsure {
		return max(asked, min(r.longest, backoff.Fibonacci{}.Delay(n)))
	}
	defer func() {
		if p := recover(); p != nil {
			*failure = fmt.Errorf("hostlimit: panic in Delay of %T: %v", r.refusals.Policy, p)
			d = max(asked, backoff.Fibonacci{}.Delay(n))
		}
	}()
	return max(asked, 0, r.refusals.Policy.Delay(n)) // a policy may return anything
}
