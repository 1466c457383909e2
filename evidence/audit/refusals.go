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

// meaning returns what the record d of an answer says about its host.
func (t *transport) meaning(d *evidence.Decision) meaning {
	s := d.Status
	switch {
	case d.Refused != "" || t.statuses[s]:
		return refusing
	case s == 503 && retryAfter(d, d.Time) > 0:
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

// retryAfter reads the Retry-After of an answer that came at the given time.
func retryAfter(d *evidence.Decision, at time.Time) int64 {
	value := strings.Trim(d.RetryAfter, " \t")
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		n, _ := strconv.ParseUint(value, 10, 64) // the largest number where it is larger
		return int64(min(n, longestWish)) * slack
	}
	until, ok := httpDate(value, at)
	if !ok {
		return 0
	}
	if sent, ok := httpDate(strings.Trim(d.ServerDate, " \t"), at); ok {
		at = sent
	}
	return int64(max(0, until.Sub(at)))
}

// longestWish is more seconds than any wish that a policy grants.
const longestWish = 100 * 365 * 86400

// httpDate reads the forms of RFC 9110, section 5.6.7. Two digits of a year are those of the latest
// one that is at most 50 years ahead.
func httpDate(s string, now time.Time) (time.Time, bool) {
	leap := strings.Contains(s, ":60 ")
	s = strings.Replace(s, ":60 ", ":59 ", 1)
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if strings.Contains(layout, "-06 ") {
			t = t.AddDate((now.UTC().Year()+50-t.Year())/100*100, 0, 0)
			if t.After(now.AddDate(50, 0, 0)) {
				t = t.AddDate(-100, 0, 0)
			}
		}
		if leap {
			t = t.Add(time.Second)
		}
		return t, true
	}
	return time.Time{}, false
}

// quota reads how long a quota with nothing left asks to be left alone: as the record says that it
// was read, or longer where its fields are whole and say more.
func quota(d *evidence.Decision, at time.Time) (wish int64) {
	wish = int64(d.Quota)
	if d.RateLimit == "" || !isWhole(d.RateLimit) { // as nearly always
		return wish
	}
	if rest, ok := strings.CutPrefix(d.RateLimit, "remaining="); ok {
		left, reset, _ := strings.Cut(rest, ", reset=")
		reset = strings.TrimSpace(reset)
		n, err := strconv.ParseFloat(reset, 64)
		switch {
		case err != nil || strings.Trim(reset, "0123456789.") != "" || left != "0":
			return wish
		case n < 1e9:
			return max(wish, int64(n*1e9))
		case n >= 1e12:
			n /= 1000
		}
		if sent, ok := httpDate(strings.Trim(d.ServerDate, " \t"), at); ok {
			at = sent
		}
		return max(wish, int64(min(n-float64(at.UnixNano())/1e9, 1e9)*1e9))
	}
	items, err := sfv.ParseList(d.RateLimit)
	if err != nil {
		return wish
	}
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

// doubling returns the n-th of first, twice that, and so on, as far as the longest step.
func doubling(n int, first, longest time.Duration) time.Duration {
	for ; n > 1 && first < longest; n-- {
		first *= 2
	}
	return min(first, longest)
}

// fibonacci returns the n-th of 1, 1, 2, 3, 5... units, as far as the longest step.
func fibonacci(n int, unit, longest time.Duration) time.Duration {
	a, b := unit, unit
	for ; n > 1 && a < longest; n-- {
		a, b = b, a+b
	}
	return min(a, longest)
}

// leeway is how much earlier than we reckon a block may end: a limiter reads its clock for
// itself.
const leeway = slack / 10

// An answer is one that the host's state may depend on: each but a plain success.
type answer struct {
	x       uint32
	at      int64
	place   place // of its record
	meaning meaning
	sure    bool // whether it came then; otherwise at or before
	status  int
	refused string
	wish    int64 // how long the host asks to be left alone
	early   int64 // how much earlier a block may end, as exact as wish is
	after   bool  // whether Retry-After says that
	quota   bool  // whether a rate limit has nothing left
	teaches bool  // whether it teaches a delay, if it is a refusal
	set     int   // index of the block that it set, from 1
	cleared bool  // whether it lifted a block
}

// answerOf reads what the record d says of the answer to t.
func (a *auditor) answerOf(t *try, d *evidence.Decision) answer {
	n := answer{x: t.x, at: stamp(d.Time) + t.by.shift, place: a.at, sure: true, status: d.Status, refused: strings.Clone(d.Refused)}
	p := t.by.policy
	if p == nil {
		return n
	}
	at := time.Unix(0, t.wall).Add(d.Latency)
	n.meaning = t.by.meaning(d)
	n.wish = retryAfter(d, at)
	n.after = n.wish > 0
	q := quota(d, at)
	if n.quota = q > 0; !n.after {
		n.wish = q
	}
	n.wish = min(n.wish, int64(cmp.Or(p.MaxRetryAfter, 24*time.Hour)))
	n.early = leeway
	if strings.Trim(d.RetryAfter, "0123456789") != "" || strings.HasPrefix(d.RateLimit, "remaining=") {
		n.early = slack // a date is as exact as its second
	}
	n.teaches = d.Status != 503 || d.Refused != "" || t.by.statuses[503]
	return n
}

// answer takes what the end d of x says of the answer.
func (a *auditor) answer(h *host, x *exchange, t *try, d *evidence.Decision, shift int64) {
	h.countAnswer(a.by, d)
	if t.by.policy == nil {
		if d.Status == 429 || d.RetryAfter != "" {
			a.openEnded(blocksKept, noPolicy)
		}
		return
	}
	n := a.answerOf(t, d)
	n.at, n.set, n.cleared = x.answered, t.set, t.cleared
	// Where the clock has jumped ahead during the exchange, the answer came either so long after the
	// start or so long before the end: only a record of what it did to the host tells.
	if late := stamp(d.Time) - t.wall - int64(d.Duration); !d.Time.IsZero() && late > slack {
		if n.at += late; t.moved != 0 {
			n.at = t.moved + shift
		} else {
			n.sure = false
			x.flags |= odd
		}
		x.answered = n.at
	}
	if n.meaning == served {
		x.flags |= serves
		if n.sure && n.wish == 0 && !n.quota && n.set == 0 && !n.cleared {
			return // as nearly always
		}
	}
	if n.meaning == silent && n.sure && n.wish == 0 && n.set == 0 && !n.cleared {
		return
	}
	h.answers = append(h.answers, n)
	x.trouble = uint32(len(h.answers))
}

// countAnswer counts d for the report, the end of a request that was sent.
func (h *host) countAnswer(t *transport, d *evidence.Decision) {
	if d.Status == 0 && d.Left {
		return
	}
	h.report.Answers++
	r := &h.report.Refused
	switch s := d.Status; {
	case s <= 0:
		r.None++
	case cant(s):
		r.Failed++
	case forbids(s):
		r.Forbidden++
	case s == 429 || d.Refused != "" || t.statuses[s]:
		r.TooMany++
	}
}

// A block is one that was set.
type block struct {
	at          place
	by          *transport
	from, until int64
	cleared     int64  // when it was lifted; never where nothing lifted it
	x           uint32 // whose answer set it; none: nobody's in the log
	refusals    int    // in a row, as its record says
	hand        bool
	restored    bool
	answer      answer  // what its record says of that answer
	kind        meaning // of what set it: of the refusals that are counted; silent: not known
	row         int     // how many of that kind there were in a row, as far as that is derived
	before      *block  // the one of the same kind before it in the row; nil: none
	index       int     // in the order of times
	extends     bool    // it lengthens the block before, and isn't counted
}

// A lift is the record that the blocks before it are lifted.
type lift struct {
	at   place
	by   *transport
	time int64
	x    uint32 // whose answer lifted them; none: a person did
	hand bool
}

// An interval is a time in which no request may start.
type interval struct {
	at          place
	from, until int64
	what        string // what ends it; empty: its own end
}

// A suspect is a page that was refused, by an answer that may be the page's own trouble.
type suspect struct {
	page    uint32 // hash of what the URL has behind its host
	asked   bool   // it was asked again alone, and refused, since the last success
	pending bool   // that was so just now: the next answer tells whose trouble it is
	own     bool   // its trouble is its own
}

// maxSuspects is how many suspects of a host are remembered: more than a limiter remembers, which
// has 8, since it may have heard of them in another order.
const maxSuspects = 32

// A series is answers such as 403 in a row, as far as it is sure that there was nothing between
// them. Pages may be forbidden, or we are banned: so the one after them has to tell.
type series struct {
	failures    int
	first, last int64
	full        int64 // when they were so many that the next request had to go alone; 0: they aren't
	told        bool  // whether the one after that was such an answer, too
	at          place // the last of them
}

// refusals are the answers and blocks of a sequence.
type refusals struct {
	answers   []*answer
	blocks    []*block // in the order of their times
	lifts     []lift
	hands     []int64 // when a person blocked or cleared the host
	intervals []interval
	inForce   []interval
	suspects  []*suspect
	run       series
	odd       []*exchange // of which it isn't known when, or whether, they were served
	served    int64       // last time that the host served us
	forbade   int64       // last time that an answer such as 403 came
	banned    bool        // whether there may have been bans: the number of refusals in a row is a sum then
}

// maxBlocks is how many blocks of a host may be in force at once.
const maxBlocks = 64

// judgeAnswers derives from each answer, in the order in which they came, what that had to do to
// the host, and holds what was done against it.
func (s *sequence) judgeAnswers() {
	owed := s.h.owed.blocks
	slices.SortStableFunc(s.blocks, func(b, c *block) int { return cmp.Compare(b.from, c.from) })
	for i, b := range s.blocks {
		if b.index = i; b.hand {
			s.hands = append(s.hands, b.from)
		}
		if b.restored {
			s.banned = true // for all that is known
			// Where the clock was set back in between, only this end could be kept.
			owed = slices.DeleteFunc(owed, func(o interval) bool { return o.from > b.from })
			if slices.ContainsFunc(owed, func(o interval) bool { return o.until >= b.until }) {
				continue
			}
		}
		s.h.report.Blocks++
		s.intervals = append(s.intervals, interval{b.at, b.from, b.until, ""})
	}
	s.lift()
	if !s.overlaps {
		s.intervals = append(s.intervals, owed...)
	}
	if len(s.answers) > 0 || len(s.blocks) > 0 {
		var all []uint32           // those that were answered
		cut := map[uint32]*block{} // whose end isn't in the log
		for _, b := range s.blocks {
			if b.x == none || b.refusals == 0 {
				continue
			}
			if x := s.a.exchanges.at(b.x); x.fate != ended && s.a.named[x.by].policy != nil {
				x.answered, cut[b.x] = b.from, b
				all = append(all, b.x)
			}
		}
		for _, i := range s.xs {
			x := s.a.exchanges.at(i)
			if x.fate == cutOff && x.flags&told == 0 {
				s.odd = append(s.odd, x)
			}
			if x.fate == ended && x.flags&(unsent|again) == 0 && s.a.named[x.by].policy != nil {
				all = append(all, i)
			}
		}
		slices.SortStableFunc(all, func(i, j uint32) int {
			return cmp.Compare(s.a.exchanges.at(i).answered, s.a.exchanges.at(j).answered)
		})
		for _, i := range all {
			switch x := s.a.exchanges.at(i); {
			case cut[i] != nil:
				s.count(cut[i], &cut[i].answer, x)
			case x.trouble > 0:
				s.answered(x, &s.h.answers[x.trouble-1])
			case x.flags&serves != 0:
				s.servedAt(x, x.answered)
			}
		}
		s.convict()
		for _, i := range all {
			s.alone(i)
		}
	}
	slices.SortStableFunc(s.intervals, func(b, c interval) int { return cmp.Compare(b.from, c.from) })
}

// lift lifts the blocks that were cleared.
func (s *sequence) lift() {
	var times []int64
	for _, b := range s.blocks {
		if b.refusals == 0 && b.x != none { // a success that has used up a rate limit: it ends the block before
			times = append(times, b.from)
		}
	}
	slices.SortStableFunc(s.lifts, func(l, m lift) int { return cmp.Compare(l.time, m.time) })
	over := 0 // so many blocks are over by then
	for _, l := range s.lifts {
		times = append(times, l.time)
		if l.hand {
			s.hands = append(s.hands, l.time)
		}
		for over < len(s.intervals) && s.intervals[over].until <= l.time {
			over++
		}
		for i := over; i < len(s.intervals) && s.intervals[i].from <= l.time; i++ {
			switch b := &s.intervals[i]; {
			case b.until <= l.time:
			case b.from == l.time && l.x != none && !s.setBy(l.x): // it came after that
			case l.hand:
				s.a.openEnded(blocksKept, "a block that a person has lifted")
				b.until = l.time
			case l.x != none && s.a.exchanges.at(l.x).start <= b.from:
				s.violation(Contradiction, "a block was lifted by a request that had started before it", b.at, s.a.place(s.a.exchanges.at(l.x)), l.at)
			default:
				b.until = l.time
			}
		}
	}
	slices.Sort(times)
	slices.Sort(s.hands)
	i := 0
	for _, t := range times {
		for ; i < len(s.blocks) && s.blocks[i].from < t; i++ {
			b := s.blocks[i]
			if b.cleared = t; b.refusals > 0 && slices.Contains(s.hands, t) {
				s.a.openEnded(blocksKept, "a person has cleared a host that had refused: the count of its refusals began anew")
			}
		}
	}
}

// setBy reports whether the answer to an exchange set a block.
func (s *sequence) setBy(x uint32) bool {
	t := s.a.exchanges.at(x).trouble
	return t > 0 && s.h.answers[t-1].set > 0
}

// block reports x if it started during a block.
func (s *sequence) block(x *exchange) {
	for len(s.intervals) > 0 && s.intervals[0].from < x.start {
		if s.inForce = append(s.inForce, s.intervals[0]); len(s.inForce) > maxBlocks {
			first := 0
			for i, b := range s.inForce {
				if b.until < s.inForce[first].until {
					first = i
				}
			}
			s.inForce = slices.Delete(s.inForce, first, first+1)
		}
		s.intervals = s.intervals[1:]
	}
	s.inForce = slices.DeleteFunc(s.inForce, func(b interval) bool { return b.until <= x.start })
	for _, b := range s.inForce {
		if s.hidden > b.from || s.limiter.local < x.start {
			s.a.openEnded(blocksKept, "whether a block was lifted by a start that isn't in the log, or before it by a person")
		} else {
			s.violation(BrokenBlock, fmt.Sprintf("started %v before %s", time.Duration(b.until-x.start), cmp.Or(b.what, "the end of a block")), b.at, s.a.place(x))
		}
	}
}

// lacks reports whether an answer before that to x at t may be missing, which leaves open what that
// one had to do to the host.
func (s *sequence) lacks(x *exchange, t int64) bool {
	if s.limiter.cutBeside(x) >= t {
		return false
	}
	s.a.openEnded(blocksKept, "what others were answered before the log of one of them was cut off")
	return true
}

// blockOf returns the block that n set, nil if it set none.
func (s *sequence) blockOf(n *answer) *block {
	if n.set == 0 {
		return nil
	}
	return &s.h.blocks[n.set-1]
}

// upTo returns the blocks that were set up to the given time.
func (s *sequence) upTo(at int64) []*block {
	i, _ := slices.BinarySearchFunc(s.blocks, at, func(b *block, at int64) int {
		if b.from <= at {
			return -1
		}
		return 1
	})
	return s.blocks[:i]
}

// late returns how long after an answer to x the limiter may hear of it.
func (s *sequence) late(x *exchange) int64 {
	if p := s.a.named[x.by].policy; p != nil && p.Process != "" {
		return settling
	}
	return slack
}

// known returns the blocks that the limiter knew when it heard of n, which set a block or nil.
func (s *sequence) known(n *answer, set *block) []*block {
	if set != nil {
		return s.blocks[:set.index]
	}
	return s.upTo(n.at + leeway)
}

// besideOf returns the latest of some blocks that another answer set while x was in flight; nil if
// there is none. The refusal of x is a part of that block.
func (s *sequence) besideOf(n *answer, before []*block) *block {
	start := s.a.exchanges.at(n.x).start
	for i := len(before) - 1; i >= 0 && before[i].from >= start; i-- {
		b := before[i]
		if b.x != n.x && !b.hand && (b.from <= n.at || b.x == none || s.a.exchanges.at(b.x).start <= n.at+leeway) {
			return b
		}
	}
	return nil
}

// blockBefore returns the last of some blocks before the answer n if the host surely counted
// refusals by it when its request started, and it wasn't cleared before the given time, else nil.
// From the end of that block on, requests started one at a time.
func (s *sequence) blockBefore(n *answer, before []*block, cleared int64) *block {
	x := s.a.exchanges.at(n.x)
	for i := len(before) - 1; i >= 0; i-- {
		switch b := before[i]; {
		case b.x == n.x:
		case b.refusals == 0 || b.from >= x.start || b.cleared < cleared || n.at-b.until >= int64(s.a.named[x.by].policy.Forgive)-slack:
			return nil
		default:
			return b
		}
	}
	return nil
}

// count derives how many refusals of its kind in a row the block b is, which n set. A limiter
// counts three: refusals, pauses and bans, and the record has their sum.
func (s *sequence) count(b *block, n *answer, x *exchange) {
	m := n.meaning
	earlier := s.known(n, b)
	before := s.blockBefore(n, earlier, n.at+s.late(x)/10)
	s.banned = s.banned || m == forbidden
	if m == unsure {
		s.suspect(x)
	}
	if m >= unsure && before != nil && before.kind == refusing {
		m = refusing // while refusals count, only probes start
	}
	used := m < refusing && n.quota && before != nil && b.refusals == before.refusals
	if s.besideOf(n, earlier) != nil || used || m < unsure {
		b.extends = true
		if len(earlier) > 0 {
			last := earlier[len(earlier)-1]
			b.kind, b.row = last.kind, last.row
		}
		return
	}
	if before != nil && before.kind == m {
		b.row, b.before = before.row, before
	}
	b.kind = m
	b.row++
	for _, p := range s.suspects { // two pages in a row were refused
		p.pending = p.pending && m != unsure
	}
}

// answered holds what was done to the host against the answer n to x.
func (s *sequence) answered(x *exchange, n *answer) {
	set := s.blockOf(n)
	if set != nil && set.refusals > 0 {
		s.count(set, n, x)
	}
	m := n.meaning
	if !n.sure {
		switch m {
		case served:
			s.odd = append(s.odd, x)
			s.servedAt(x, n.at)
		case unsure:
			s.suspect(x)
		case forbidden:
			s.forbade = max(s.forbade, n.at)
		}
		if m >= unsure || n.wish > 0 {
			s.a.openEnded(blocksKept, "the clock was put forward, or the computer slept, during a request: when its answer came isn't known")
		}
		return
	}
	if n.cleared && m != served {
		s.violation(Contradiction, "a block was lifted by an answer that is none of a host that serves us", s.a.place(x), n.place)
	}
	if set != nil && m <= served && !n.quota {
		s.violation(Contradiction, "a block was set by an answer that asks for none", s.a.place(x), n.place)
	}
	before := s.blockBefore(n, s.known(n, set), n.at+s.late(x)/10)
	switch {
	case m == refusing, m >= unsure && (set != nil && set.kind >= unsure && !set.extends || before != nil && before.kind == refusing):
		s.a.tallies[blocksKept].tested++
		s.mustBlock(x, n, set)
		return
	case m == served:
		s.servedAt(x, n.at)
	case m == unsure && set == nil:
		s.mustPause(x, n, before)
	case m == forbidden:
		s.forbade = max(s.forbade, n.at)
		s.forbid(x, n, set)
	}
	if n.quota {
		s.a.tallies[blocksKept].tested++
		s.mustLast(x, n, set)
	}
}

// alone proves that nothing started beside the i-th exchange until it was answered, if it was a
// probe.
func (s *sequence) alone(i uint32) {
	x := s.a.exchanges.at(i)
	n := &answer{x: i, at: x.answered}
	b := s.blockBefore(n, s.upTo(n.at), x.start)
	safe := s.a.safe(x)
	switch {
	case b == nil || b.kind < unsure || x.flags&odd != 0:
	case x.flags&takenBack != 0 || safe > 0 && n.at-x.start > safe-slack: // its slot may have been taken back
	case s.limiter.cutBeside(x) < n.at: // the block may have been lifted
	default:
		s.impose(x, x.start, min(n.at, b.cleared)-leeway, "the answer to a probe")
	}
}

// longestPause is how long a host rests at most after an answer that may be a page's own trouble.
const longestPause = 5 * time.Minute

// least returns how long the block lasts at least that n set, or had to set; known is false where
// the policy is the user's own.
func (s *sequence) least(p *evidence.Policy, n *answer, set *block) (least int64, known bool) {
	kind, row := refusing, 1
	if set != nil {
		if kind = set.kind; set.refusals > 1 && !s.lacks(s.a.exchanges.at(n.x), set.from) {
			row = set.row
			if !s.banned { // or it is a sum of two
				row = set.refusals
			}
		}
	}
	switch {
	case kind == unsure:
		return int64(fibonacci(row, time.Second, longestPause)), true
	case n.after && !p.AtLeast:
		return n.wish, true
	case kind == forbidden:
		return max(n.wish, int64(doubling(row, time.Minute, 10*time.Minute))), true
	case cant(n.status) && n.meaning != refusing:
		return max(n.wish, int64(fibonacci(row, time.Second, 10*time.Minute))), true
	}
	step, known := stepOf(p, row)
	return max(n.wish, step), known
}

// stepOf returns the least that the n-th refusal in a row blocks by the policy; ok is false where
// the policy is the user's own.
func stepOf(p *evidence.Policy, n int) (least int64, ok bool) {
	switch p.Backoff {
	case "fibonacci":
		return int64(fibonacci(n, p.BackoffStep, p.BackoffCap)), true
	case "doubling":
		step := doubling(n, p.BackoffStep, p.BackoffCap)
		return int64(step + time.Duration(p.JitterMin*float64(step))), true
	}
	return 0, false
}

// mustBlock proves that n, which is a refusal, set a block, or was a part of one.
func (s *sequence) mustBlock(x *exchange, n *answer, set *block) {
	p := s.a.named[x.by].policy
	before := s.known(n, set)
	if set == nil {
		before = s.upTo(n.at + s.late(x))
	}
	other := s.besideOf(n, before)
	least, known := n.wish, true
	if other == nil {
		least, known = s.least(p, n, set)
	}
	if !known {
		s.a.openEnded(blocksKept, "how long a refusal blocks is a policy of the user's")
	}
	switch {
	case set != nil:
		short := func() bool { return set.until < n.at+least-min(n.early, least) }
		if short() && n.wish > 0 && least > n.wish && s.lacks(x, n.at) {
			least = n.wish // it may have asked for more than a block that is missing, as a part of that
		}
		if short() {
			if step, _ := stepOf(p, 1); set.kind == forbidden && set.row == 1 && s.run.full == 0 && set.until >= n.at+step-n.early {
				s.a.openEnded(blocksKept, "whether a block is a ban, or one more refusal after some that aren't in the log")
				return
			}
			s.violation(BrokenBlock, fmt.Sprintf("a refusal that blocks for %v set a block of %v", time.Duration(least), time.Duration(set.until-n.at)),
				s.a.place(x), n.place)
			s.impose(x, n.at+slack, n.at+least, "")
		}
		if b := set.before; b != nil && set.refusals < min(b.refusals+1, 255) && b.cleared > n.at && !s.lacks(x, n.at) && !s.byHand(x, x.start, n.at) {
			s.violation(Contradiction, fmt.Sprintf("refusal %d in a row, after %d", set.refusals, b.refusals), s.a.place(x), n.place)
		}
	case other != nil:
		s.mustLast(x, n, set)
	case s.lacks(x, n.at) || s.byHand(x, x.start, n.at):
	default:
		s.violation(BrokenBlock, n.words()+", which is a refusal here, set no block", s.a.place(x), n.place)
		s.impose(x, n.at+slack, n.at+least, "")
	}
}

func (n *answer) words() string {
	switch {
	case n.refused != "":
		return "an answer that refuses (" + n.refused + ")"
	case n.status == 0:
		return "an exchange without an answer"
	}
	return fmt.Sprintf("status %d", n.status)
}

// byHand reports whether a person has blocked or cleared the host in that time, or may have.
func (s *sequence) byHand(x *exchange, from, to int64) bool {
	if i, _ := slices.BinarySearch(s.hands, from); i < len(s.hands) && s.hands[i]-settling <= to {
		s.a.openEnded(blocksKept, "what an answer did to a host beside a person")
		return true
	}
	if r, last := s.a.runs[x.run], s.xs[len(s.xs)-1]; !r.sealed && (s.a.exchanges.at(last).start <= to || to > r.until()) {
		s.a.openEnded(blocksKept, "whether a person has blocked or cleared a host at the end of a log that was cut off")
		return true
	}
	return false
}

// suspected returns the suspect that x asked for, nil if there is none.
func (s *sequence) suspected(x *exchange) *suspect {
	if i := slices.IndexFunc(s.suspects, func(p *suspect) bool { return p.page == x.resource }); i >= 0 {
		return s.suspects[i]
	}
	return nil
}

// suspect remembers the page that x asked for.
func (s *sequence) suspect(x *exchange) {
	if s.suspected(x) != nil {
		return
	}
	if len(s.suspects) == maxSuspects {
		s.suspects = slices.Delete(s.suspects, 0, 1)
	}
	s.suspects = append(s.suspects, &suspect{page: x.resource})
}

// mustPause proves that n, which may be the word of a rate limit and set no block, needed none: it
// is a part of one, or the page's own trouble. before is the block that its request was the probe
// of.
func (s *sequence) mustPause(x *exchange, n *answer, before *block) {
	p := s.suspected(x)
	s.suspect(x)
	if s.besideOf(n, s.upTo(n.at+s.late(x))) != nil {
		return
	}
	s.a.tallies[blocksKept].tested++
	switch {
	case p != nil && p.own: // asked again it is no news
	case p != nil && !p.asked && before != nil: // the answer to the page after it tells
		p.asked, p.pending = true, true
	case p != nil:
		s.a.openEnded(blocksKept, "whether a failure of a page that had failed before is its own trouble")
	case s.forbade >= x.start:
		s.a.openEnded(blocksKept, "whether a request was in flight when answers such as 403 were to be told from a ban")
	case s.lacks(x, n.at) || s.byHand(x, x.start, n.at):
	default:
		s.violation(BrokenBlock, n.words()+", after which a host rests for a second, set no block", s.a.place(x), n.place)
		s.impose(x, n.at+leeway, n.at+slack, "")
	}
}

// mustLast proves that a block lasts for as long as n asked.
func (s *sequence) mustLast(x *exchange, n *answer, set *block) {
	until := n.at + n.wish - min(n.early, n.wish)
	if set != nil && set.until >= until {
		return
	}
	before := s.upTo(n.at + s.late(x))
	for _, b := range before[max(0, len(before)-maxBlocks):] {
		if b.until >= until {
			return
		}
	}
	if n.wish > 0 && !s.lacks(x, n.at) && !s.byHand(x, x.start, n.at) {
		s.violation(BrokenBlock, fmt.Sprintf("the host asked to be left alone for %v and wasn't blocked for so long", time.Duration(n.wish)), s.a.place(x), n.place)
		s.impose(x, n.at+slack, n.at+n.wish, "")
	}
}

// impose holds the starts against a block that wasn't set, or that what names ends.
func (s *sequence) impose(x *exchange, from, until int64, what string) {
	if until > from {
		s.intervals = append(s.intervals, interval{s.a.place(x), from, until, what})
	}
}

// forbid counts an answer such as 403. Where several answers came at about the same time, in an
// order that the log doesn't tell, it counts as few as possible.
func (s *sequence) forbid(x *exchange, n *answer, set *block) {
	if n.at <= s.served+slack || set != nil {
		return
	}
	if before := s.upTo(n.at + leeway); len(before) > 0 && before[len(before)-1].from >= x.start {
		return // it started before a block, and says nothing new
	}
	if r := &s.run; r.told && n.at > r.last+slack {
		s.convict()
	}
	r := &s.run
	switch {
	case r.full != 0 && x.start <= r.full: // it says nothing new
		return
	case r.full != 0: // it tells: this is a ban
		r.told = true
	case r.failures == 0:
		*r = series{first: n.at}
	}
	r.failures, r.last, r.at = r.failures+1, n.at, s.a.place(x)
	if r.failures == cmp.Or(s.a.named[x.by].policy.InARow, 5) {
		r.full = n.at
	}
}

// tells takes the success that x was answered: it tells whose trouble a page had that was asked
// again.
func (s *sequence) tells(x *exchange) {
	for _, p := range s.suspects {
		p.own = p.page != x.resource && (p.own || p.pending)
		p.asked, p.pending = false, false
	}
}

// servedAt takes the time of a success, the answer to x: answers such as 403 before it, or at about
// that time, are forgotten.
func (s *sequence) servedAt(x *exchange, at int64) {
	s.tells(x)
	s.served = max(s.served, at)
	if at > s.run.last+slack {
		s.convict()
	}
	s.run = series{}
}

// convict reports a full series after which the next request didn't go alone, or that had to set a
// block, unless a block was set or a person was there at about its time.
func (s *sequence) convict() {
	r := s.run
	s.run = series{}
	if r.full == 0 {
		return
	}
	if b := s.upTo(r.last + settling); len(b) > 0 && b[len(b)-1].from > r.first-slack {
		return
	}
	for _, x := range s.odd { // whose success may have come between them
		if x.start <= r.last && (x.answered >= r.first || x.fate == cutOff) {
			return
		}
	}
	x := s.a.exchanges.at(s.xs[len(s.xs)-1])
	if s.lacks(x, r.last) || s.byHand(x, r.first, r.last) {
		return
	}
	if i, _ := slices.BinarySearchFunc(s.xs, r.full+1, s.byStart); i < len(s.xs) {
		x := s.a.exchanges.at(s.xs[i])
		safe := s.a.safe(x)
		if x.start > r.full+leeway && x.fate == ended && x.flags&(unsent|again|odd|takenBack) == 0 && (safe == 0 || x.answered-x.start < safe-slack) {
			s.impose(x, x.start, x.answered-leeway, "the answer that tells a ban from pages that are forbidden")
		}
	}
	if r.told {
		s.violation(BrokenBlock, fmt.Sprintf("%d answers such as 403 in a row set no block", r.failures), r.at)
	}
}
