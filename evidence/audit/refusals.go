package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/sfv"
)

// A meaning is what an answer says about its host, by the rules of docs/429.md. They are written
// here anew: what a limiter and its judge shared, neither could find wrong in the other.
type meaning uint8

const (
	silent    meaning = iota // nothing
	served                   // it serves us: a block ends, and the counts of refusals
	unsure                   // it can't serve us, or the page is in trouble of its own
	forbidden                // the page is forbidden, or we are banned
	refusing                 // it wants to be left alone
)

// meaning returns what the record d of an answer says about its host, which asks by Retry-After to
// be left alone for so long.
func (t *transport) meaning(d *evidence.Decision, after int64) meaning {
	s := d.Status
	switch {
	case d.Refused != "" || t.blocksAtOnce(s) || s == 503 && after > 0:
		return refusing
	case s == 0 && d.Left:
		return silent
	case s == 0 && t.policy.Network:
		return refusing
	case s < 0 || s == 407 || s >= 600:
		return silent
	case cant(s):
		return unsure
	case forbids(s):
		return forbidden
	case d.RobotsTxt:
		return silent // hosts serve robots.txt to whom they refuse their pages
	}
	return served
}

// forbids reports whether a status is that of a page that is forbidden, or of a ban.
func forbids(status int) bool {
	return status == 401 || status == 402 || status == 403 || status == 451
}

// cant reports whether a status, 0 for no answer, is that of a host that can't, not of one that
// won't.
func cant(status int) bool {
	return status == 0 || status == 408 || status == 425 || status >= 500
}

// retryAfter reads the Retry-After of an answer that was sent at the given time.
func retryAfter(d *evidence.Decision, sent time.Time) int64 {
	value := strings.Trim(d.RetryAfter, " \t")
	if strings.Trim(value, "0123456789") == "" {
		n, _ := strconv.ParseUint(value, 10, 64)    // the largest number where it is larger; 0 where there is none
		return int64(min(n, 100*365*86400)) * slack // more seconds than any policy grants
	}
	until, _ := httpDate(value, sent)
	return int64(max(0, until.Sub(sent)))
}

// httpDate reads the forms of RFC 9110, section 5.6.7. The second 60 is the one after 59, and two
// digits of a year are those of the latest date that is at most 50 years ahead of now.
func httpDate(s string, now time.Time) (t time.Time, err error) {
	if s = strings.Trim(s, " \t"); len(s) > len("Wednesday, 02-Jan-2006 15:04:05 GMT") {
		s = "" // package time takes any number of spaces for one
	}
	known := strings.Replace(s, ":60 ", ":59 ", 1)
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if t, err = time.Parse(layout, known); err == nil {
			break
		}
	}
	if later := t.AddDate(100, 0, 0); strings.Contains(s, "-") && !later.After(now.AddDate(50, 0, 0)) {
		t = later
	}
	return t.Add(time.Duration(strings.Count(s, ":60 ")) * time.Second), err
}

// quota reads how long a quota with nothing left asks to be left alone: as the record says that it
// was read, or longer where its fields say more.
func quota(d *evidence.Decision, sent time.Time) (wish int64) {
	wish = int64(d.Quota)
	if reset, ok := strings.CutPrefix(d.RateLimit, "remaining=0, reset="); ok {
		n, _ := strconv.ParseInt(reset, 10, 64)
		if n >= 1e9 { // a moment
			n -= sent.Unix()
		}
		if n < 1e9 { // otherwise in milliseconds, which the record is believed
			wish = max(wish, n*slack)
		}
		return wish
	}
	items, _ := sfv.ParseList(d.RateLimit)
	for _, item := range items {
		_, named := item.Value.(string)
		left, _ := item.Params.Get("r")
		reset, _ := item.Params.Get("t")
		if seconds, ok := reset.Value.(int64); ok && named && left.Value == int64(0) {
			wish = max(wish, min(seconds, 1e9)*slack)
		}
	}
	return wish
}

// An answer is one that may change its host's state: each but a plain success. A block that
// nobody's answer in the log has set, but a person or an earlier process, has one too, of no
// exchange.
type answer struct {
	by      *transport
	x       *exchange // nil: nobody's
	at      int64
	place   place // of its record
	meaning meaning
	status  int
	refused string
	wish    int64  // how long the host asks to be left alone
	early   int64  // how much earlier a block may end, as exact as wish is
	after   bool   // whether Retry-After says that, or may, where it isn't whole in the log
	quota   bool   // whether a rate limit has nothing left
	teaches bool   // whether it teaches a delay, if it is a refusal
	block   *block // that it set; nil: none
	cleared bool   // whether it lifted a block
}

// answerOf reads what the record d says of the answer to t.
func (a *auditor) answerOf(t *trip, d *evidence.Decision) answer {
	now := time.Unix(0, t.wall).Add(d.Latency)
	sent, err := httpDate(d.ServerDate, now)
	if err != nil {
		sent = now
	}
	after, left := retryAfter(d, sent), quota(d, sent)
	n := answer{
		by: a.by, x: t.x, at: stamp(d.Time) + a.by.shift, place: a.at, meaning: a.by.meaning(d, after), status: d.Status, refused: strings.Clone(d.Refused),
		wish: cmp.Or(after, left), early: leeway, after: after > 0, quota: left > 0, teaches: d.Status != 503 || d.Refused != "" || a.by.blocksAtOnce(503),
	}
	n.wish = min(n.wish, int64(cmp.Or(a.by.policy.MaxRetryAfter, 24*time.Hour)))
	if !isWhole(d.RetryAfter) || !isWhole(d.ServerDate) {
		n.wish, n.after = 0, true
		a.openEnded(blocksKept, "a Retry-After, or its Date, that isn't whole in the log")
	}
	if strings.Trim(d.RetryAfter, "0123456789") != "" || strings.HasPrefix(d.RateLimit, "remaining=") {
		n.early = slack // a date is as exact as its second
	}
	return n
}

// keep keeps the answer n to the last try of t. The record of a block or of its end tells of it
// first, and that of the exchange's end once more.
func (s *sequence) keep(t *trip, n answer) *answer {
	if t.answer == nil {
		t.answer = new(answer)
		s.answers = append(s.answers, t.answer)
	}
	n.block, n.cleared = t.answer.block, t.answer.cleared
	*t.answer, t.x.answered = n, n.at
	t.x.flags |= kept
	return t.answer
}

// answer takes what the end d of t says of the answer.
func (a *auditor) answer(h *host, t *trip, d *evidence.Decision) {
	x := t.x
	n := a.answerOf(t, d)
	s := h.of(a.by)
	n.at = x.answered
	// Where the clock has jumped ahead during the exchange, the answer came either so long after the
	// start or so long before the end: only a record of what it did to the host tells.
	if late := stamp(d.Time) - t.wall - int64(d.Duration); !d.Time.IsZero() && late > slack {
		if t.answer == nil {
			x.flags |= vague
			a.openIf(n.meaning > served || n.wish > 0, blocksKept, "the clock was put forward, or the computer slept, during a request: when its answer came isn't known")
			return
		}
		n.at = t.answer.at
	}
	if n.meaning == served {
		x.flags |= serves
	}
	if n.meaning > served || n.wish > 0 || t.answer != nil {
		s.keep(t, n)
	}
}

// A block is one that was set, or lifted by a person.
type block struct {
	at          place
	from, until int64
	kind        meaning // what the answer was counted as; silent: it wasn't counted
	row         int     // how many of that kind there were in a row
	hand        bool    // a person did it
	lifts       bool    // it is the end of all blocks before
	restored    bool
}

// kinds are the kinds of blocks, as their records name them.
var kinds = map[string]meaning{"refused": refusing, "unsure": unsure, "ban": forbidden}

// A move is an answer, when it was there. What sets a block comes after the starts at its very
// time.
type move struct {
	at int64
	x  *exchange
	n  *answer // nil: a plain success
}

// rows are how many refusals in a row there were, by kind.
type rows [refusing + 1]int

// A hold is what an answer leaves to the processes that come after, too.
type hold struct {
	from, until int64 // when the last block was set, and the end of the longest
	at          place // of that
	left        bool  // whether refusals of an earlier process may count still
}

// move takes the moves up to the given time.
func (s *sequence) move(until int64) {
	for s.moved < len(s.moves) && s.moves[s.moved].at <= until {
		m := s.moves[s.moved]
		s.moved++
		switch n := m.n; {
		case n == nil:
			s.servedAt(m.x)
		case m.x != nil:
			s.answered(n)
			fallthrough
		default:
			s.set(n.block)
		}
	}
}

// set takes the block b, unless it is nil.
func (s *sequence) set(b *block) {
	if b == nil {
		return
	}
	if b.restored && s.from > b.from {
		s.until = 0 // the clock was set back in between: only the end that was restored could be kept
	}
	if !b.lifts && (!b.restored || b.until > s.until) {
		s.h.report.Blocks++
	}
	switch {
	case b.kind > silent:
		if s.row[b.kind] = b.row; b.kind == refusing {
			s.row[unsure] = 0
		}
		s.alone = true
	case b.hand, b.restored:
		s.a.openIf(s.alone || b.lifts && s.until > b.from, blocksKept, "what a person, or an earlier process, has done to a host that had refused: its record doesn't say how the count of refusals goes on")
		if s.row, s.alone = (rows{}), false; b.lifts {
			s.until = 0
		}
	}
	if b.until > s.until {
		s.until, s.at = b.until, b.at
	}
	s.probe = nil // the block is newer than it
	if s.from = b.from; b.kind > silent || b.hand {
		s.forbidden = 0
		s.full = 0
		s.doubt = max(s.doubt, b.from+s.late)
	}
}

// block judges that x didn't start during a block, nor beside a probe.
func (s *sequence) block(x *exchange) {
	switch {
	case s.until <= x.start:
	case s.hidden > s.from || s.limiter.local <= x.start:
		s.a.openEnded(blocksKept, "whether a block was lifted by a start that isn't in the log, or before it by a person")
	default:
		s.violation(BrokenBlock, fmt.Sprintf("started %v before the end of a block", time.Duration(s.until-x.start)), s.at, s.a.place(x))
	}
	if p := s.probe; p != nil && x.start < p.answered-leeway && s.isAlone(p) && !s.lacks(p.answered) {
		s.violation(BrokenBlock, fmt.Sprintf("started %v before the answer to a probe", time.Duration(p.answered-leeway-x.start)), s.a.place(p), s.a.place(x))
	}
	if s.probe = nil; s.alone && !s.forgiven(x, x.start) || s.full != 0 && x.start > s.full+leeway {
		s.probe = x
	}
	if x.flags&vague != 0 || x.fate == cutOff && x.flags&kept == 0 { // it may have been served, or failed, any time
		s.doubt = never
		s.forbade = max(s.forbade, x.end)
		s.failed[x.resource] = max(0, s.failed[x.resource])
	}
}

// isAlone reports whether the probe p was alone until its answer: its slot can't have been taken
// back before, and when that answer came is known.
func (s *sequence) isAlone(p *exchange) bool {
	safe := s.a.safe(p)
	return p.fate == ended && p.flags&vague == 0 && (safe == 0 || p.answered-p.start <= safe-slack)
}

// forgiven reports whether the refusals before x may be too long ago to count at the given time.
func (s *sequence) forgiven(x *exchange, at int64) bool {
	return at-s.until >= int64(s.a.named[x.by].policy.Forgive)-slack
}

// lacks reports whether an answer that the limiter knew by then may be missing, or what a person
// did, which leaves open what the next answer had to do to the host.
func (s *sequence) lacks(at int64) bool {
	if s.limiter.cut >= at {
		return false
	}
	s.a.openEnded(blocksKept, "what others were answered, or a person did, before a log was cut off")
	return true
}

// wrong reports what is wrong with what the answer n did to the host, or didn't.
func (s *sequence) wrong(kind Kind, n *answer, detail string) {
	s.violation(kind, detail, s.a.place(n.x), n.place)
}

// answered holds what was done to the host against the answer n.
func (s *sequence) answered(n *answer) {
	x, b := n.x, n.block
	if s.alone && s.forgiven(x, n.at) {
		s.row = rows{}
		s.alone = false
		s.forbidden = 0
		s.full = 0
	}
	switch {
	case n.cleared && n.meaning != served:
		s.wrong(Contradiction, n, "a block was lifted by an answer that is none of a host that serves us")
	case n.cleared && s.until > n.at && x.start <= s.from:
		s.violation(Contradiction, "a block was lifted by a request that had started before it", cmp.Or(s.at, n.place), s.a.place(x), n.place)
	case n.cleared:
		s.lift()
	}
	m := n.meaning
	counted := b != nil && b.kind > silent
	newer := x.start > s.from
	if m > served && newer && s.row[refusing] > 0 {
		m = refusing // while refusals count, only probes start
	}
	if m == served {
		if s.servedAt(x); b != nil && newer {
			s.lift()
		}
	}
	if b != nil && m <= served && (counted || !n.quota) {
		s.wrong(Contradiction, n, "a block was set by an answer that asks for none")
	}
	if m <= served && !n.quota {
		return
	}
	s.a.tested(blocksKept)
	asked, failed := s.failed[x.resource]
	own := failed && asked <= s.served && (asked > 0 || x == s.probe) // its page's trouble may be its own
	if m == unsure {
		if s.failed[x.resource] = asked; own && asked == 0 && !counted {
			s.failed[x.resource] = n.at
		}
	}
	if counted {
		s.count(n, m)
		return
	}
	longest, beside := s.beside(n)
	switch {
	case m <= served, beside, m == unsure && own:
	case m == forbidden:
		s.forbid(n)
	case m == unsure && s.forbade >= x.start:
		s.a.openEnded(blocksKept, "whether a request was in flight when answers such as 403 were to be told from a ban")
	case m == unsure && failed:
		s.a.openEnded(blocksKept, "whether a failure of a page that had failed before is its own trouble")
	case s.lacks(n.at):
	default:
		why := "which is a refusal here"
		if m == unsure {
			why = "after which a host rests for a second"
		}
		s.wrong(BrokenBlock, n, n.words()+", "+why+", set no block")
	}
	if b != nil {
		longest = max(longest, b.until)
	}
	if n.wish > 0 && (n.quota || m == refusing && beside) && max(s.until, longest) < n.at+n.wish-min(n.early, n.wish) && !s.lacks(n.at) {
		s.wrong(BrokenBlock, n, fmt.Sprintf("the host asked to be left alone for %v and wasn't blocked for so long", time.Duration(n.wish)))
	}
}

// lift ends the blocks, and the rows of refusals.
func (s *sequence) lift() { s.until, s.row, s.alone, s.left, s.probe = 0, rows{}, false, false, nil }

func (n *answer) words() string {
	switch {
	case n.refused != "":
		return "an answer that refuses (" + n.refused + ")"
	case n.status == 0:
		return "an exchange without an answer"
	}
	return fmt.Sprintf("status %d", n.status)
}

// beside reports whether the answer n is a part of a block that another one, or a person, has set
// while its request was in flight, and when the longest of these ends.
func (s *sequence) beside(n *answer) (longest int64, ok bool) {
	i, _ := slices.BinarySearchFunc(s.moves, n.x.start+1, func(m move, at int64) int { return cmp.Compare(m.at, at) })
	for last := i + 2*maxOpen; i < len(s.moves) && s.moves[i].at <= n.at+s.late+1; i++ {
		if i == last {
			s.a.openEnded(blocksKept, "what an answer did to a host beside a thousand others")
			return never, true
		}
		o := s.moves[i].n
		if o == nil || o.block == nil || o == n || o.x != nil && o.x.start > n.at+leeway {
			continue
		}
		longest, ok = max(longest, o.block.until), true
		s.a.openIf(o.block.hand, blocksKept, "what an answer did to a host beside a person")
	}
	return longest, ok
}

// count holds the block that the answer n set as one of a row against that row and the policy. m is
// what that answer had to be counted as.
func (s *sequence) count(n *answer, m meaning) {
	b, row := n.block, 1
	if n.x.start > s.from {
		row = min(s.row[b.kind]+1, 255)
	}
	switch {
	case b.kind == m, b.kind == refusing && (s.row[refusing] > 0 || s.left || n.after && n.status == 503):
	case b.kind == refusing && b.row > 1: // a server may have come back with old data
		s.a.openEnded(blocksKept, "a block that counts as one more refusal after some that aren't in the log")
	case !s.lacks(n.at):
		s.wrong(Contradiction, n, n.words()+" was counted as another kind of refusal than it is")
	}
	if b.row < row && !s.lacks(n.at) {
		s.wrong(Contradiction, n, fmt.Sprintf("refusal %d in a row, after %d", b.row, row-1))
	}
	least, known := n.least()
	s.a.openIf(!known, blocksKept, "how long a refusal blocks is a policy of the user's")
	if b.until < n.at+least-min(n.early, least) {
		s.wrong(BrokenBlock, n, fmt.Sprintf("a refusal that blocks for %v set a block of %v", time.Duration(least), time.Duration(b.until-n.at)))
	}
	factor := map[meaning]float64{refusing: 1.5, forbidden: 2}[b.kind]
	if limits := s.h.limits(n.x); limits.learned && b.row == 1 && (b.kind == refusing && n.teaches || b.kind == forbidden) {
		taught := s.taughtUntil(b.from)
		s.taught, s.taughtAt = max(taught, min(factor*max(float64(limits.DelayMin), taught), float64(limits.Ceiling))), b.from
	}
}

// taughtUntil returns the shortest delay that may be left of what was taught at the given time:
// each 20 s make it 2 % shorter, and twice as much after each five such steps, as far as 16 %.
func (s *sequence) taughtUntil(at int64) float64 {
	least := s.taught
	for i, steps := int64(0), min((at-s.taughtAt)/(20*slack), 1000); i < steps && least >= 1; i++ {
		least *= 1 - float64(min(16, 2<<min(i/5, 3)))/100
	}
	return least
}

// least returns how long the block lasts at least that n set; known is false where the policy is
// the user's own.
func (n *answer) least() (least int64, known bool) {
	p, b := n.by.policy, n.block
	longest := 10 * time.Minute // or the policy's cap, but for bans
	if p.BackoffCap > 0 {
		longest = min(longest, max(time.Second, p.BackoffCap))
	}
	switch {
	case b.kind == unsure: // it may be a page's own trouble
		least = grown(b.row, false, time.Second, min(5*time.Minute, longest))
	case n.after && !p.AtLeast:
	case b.kind == forbidden:
		least = grown(b.row, true, time.Minute, 10*time.Minute)
	case cant(n.status) && n.meaning != refusing:
		least = grown(b.row, false, time.Second, longest)
	case p.Backoff == "fibonacci":
		least = grown(b.row, false, p.BackoffStep, p.BackoffCap)
	case p.Backoff == "doubling":
		least = grown(b.row, true, p.BackoffStep, p.BackoffCap)
		least += int64(p.JitterMin * float64(least))
	default:
		return n.wish, false
	}
	if n.quota || b.kind != unsure {
		least = max(least, n.wish)
	}
	return least, true
}

// grown returns the n-th of steps that double, or are the sum of the two before, as far as most.
func grown(n int, doubles bool, step, most time.Duration) int64 {
	n, most = min(n, 255), min(most, time.Duration(longest)) // records count no further
	for before := time.Duration(0); n > 1 && step < most; n-- {
		if doubles {
			before = step
		}
		before, step = step, step+before
	}
	return int64(min(step, most))
}

// servedAt takes the success of x.
func (s *sequence) servedAt(x *exchange) {
	if _, ok := s.failed[x.resource]; ok {
		s.failed[x.resource] = 0
	}
	s.served = x.answered
	s.forbidden = 0
	s.full = 0
}

// forbid counts the answer n, one such as 403 that set no block. Where several answers came at
// about the same time, in an order that the log doesn't tell, it counts as few as possible.
func (s *sequence) forbid(n *answer) {
	x, p := n.x, n.by.policy
	if n.at-s.forbade >= int64(p.Forgive)-slack {
		s.forbidden, s.full = 0, 0 // they are forgiven
	}
	s.forbade = max(s.forbade, n.at)
	soon := func(m move) bool { return m.at <= n.at+s.late && m.x != nil && m.x.flags&serves != 0 }
	switch {
	case n.at <= max(s.doubt, s.served+s.late), s.full != 0 && x.start <= s.full+leeway, slices.ContainsFunc(s.moves[s.moved:min(len(s.moves), s.moved+maxOpen)], soon):
	case s.full == 0:
		if s.forbidden++; s.forbidden == cmp.Or(p.InARow, 5) {
			s.full = n.at
		}
	case !s.lacks(n.at):
		s.violation(BrokenBlock, fmt.Sprintf("%d answers such as 403 in a row set no block", s.forbidden+1), s.a.place(x))
		s.forbidden, s.full = 0, 0
	}
}

func (s *sequence) violation(kind Kind, detail string, at ...place) {
	s.a.violation(kind, s.h.report.Host, detail, at...)
}
