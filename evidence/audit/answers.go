package audit

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/sfv"
)

// A meaning is the meaning of a response for its host, by docs/429.md. The rules are written here a
// second time. If the limiter and the auditor shared them, a mistake in them wouldn't show.
type meaning uint8

const (
	silent    meaning = iota // it says nothing about the host
	served                   // the host serves us: a block ends, and the counts of refusals
	unsure                   // the host can't serve us, or only this page fails
	forbidden                // the page is forbidden, or we are banned
	refusing                 // the host wants to be left alone
)

// meaning returns the meaning of a response, of which d is a record. after is its Retry-After.
func (t *transport) meaning(d *evidence.Decision, after int64) meaning {
	status := d.Status
	// With Refusals.AtLeast the policy's time replaces a shorter one that the host asks for.
	unavailable := status == 503 && after > 0 && t.policy.AtLeast
	switch {
	case d.Refused != "" || t.blocksAtOnce(status) || unavailable:
		return refusing
	case status == 0 && d.Left:
		return silent
	case status == 0 && t.policy.Network:
		return refusing
	case status < 0 || speaksOfRequest(d):
		return silent
	case cant(status):
		return unsure
	case status >= 400 && status != 404 && status != 410:
		return forbidden
	case d.RobotsTxt: // hosts serve robots.txt to crawlers that they refuse their pages
		return silent
	}
	return served
}

// speaksOfRequest reports whether the status of d is about the request, and not about the host.
func speaksOfRequest(d *evidence.Decision) bool {
	plain := (d.Method == "" || d.Method == "GET") && !d.Conditional
	switch status := d.Status; {
	case status == 400 || status == 405 || status == 409:
		return !plain || !d.Page
	case status == 406:
		return !plain
	case status == 501:
		return d.Method != "" && d.Method != "GET"
	default:
		return slices.Contains(aboutRequests, status)
	}
}

// aboutRequests are the statuses that are about any request. 407 comes from a proxy.
var aboutRequests = []int{407, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 431}

// forbids reports whether a status is that of a page that is forbidden, or of a ban.
func forbids(status int) bool {
	return status == 401 || status == 402 || status == 403 || status == 451
}

// cant reports whether a status, 0 for no response, means that the host can't serve the page rather
// than that it won't.
func cant(status int) bool {
	return status == 0 || status == 408 || status == 425 || status/100 == 5
}

// moment is a number from which on the reset of a quota is a moment in Unix time, not a number of
// seconds.
const moment = 1e9

// longestQuota is the longest reset in seconds that a limiter believes.
const longestQuota = 3600

// The members of RateLimit in drafts 6 and 7: limit=60, remaining=0, reset=30.
var (
	nothingLeft = regexp.MustCompile(`(?i)\bremaining=0+\b`)
	resetMember = regexp.MustCompile(`(?i)\breset=([0-9]{1,15})\b`)
)

// quota reads for how long a quota with nothing left asks to be left alone: the time that the
// record gives, or a longer one that follows from its fields.
func quota(d *evidence.Decision, sent time.Time) int64 {
	// The crawl may have recorded a shorter time than the fields ask for, and has no reason to
	// record a longer one. So the longer one counts.
	wish := int64(d.Quota)
	if reset, ok := strings.CutPrefix(d.RateLimit, "remaining=0, reset="); ok {
		n, _ := strconv.ParseInt(reset, 10, 64)
		if n >= moment {
			n -= sent.Unix()
		}
		if n < moment { // a larger number is in milliseconds: the record is believed then
			wish = max(wish, min(n, longestQuota)*slack)
		}
		return wish
	}
	reset := resetMember.FindStringSubmatch(d.RateLimit)
	if reset != nil && nothingLeft.MatchString(d.RateLimit) {
		n, _ := strconv.ParseInt(reset[1], 10, 64)
		return max(wish, min(n, longestQuota)*slack)
	}
	// RateLimit has a list of policies, each with the quota that is left (r) and the seconds to its
	// reset (t). A malformed field counts as none.
	items, _ := sfv.ParseList(d.RateLimit)
	for _, item := range items {
		_, named := item.Value.(string)
		left, _ := item.Params.Get("r")
		reset, _ := item.Params.Get("t")
		seconds, ok := reset.Value.(int64)
		if ok && named && left.Value == int64(0) {
			wish = max(wish, min(seconds, longestQuota)*slack)
		}
	}
	return wish
}

// An answer is a response that may change its host's state, which is any except a plain success. A
// block by an operator or an earlier process has an answer, too, without an exchange.
type answer struct {
	by      *transport
	x       *exchange // nil: it is of none
	at      int64
	place   place // of its record
	meaning meaning
	status  int
	refused string
	wish    int64  // for how long the host asks to be left alone
	early   int64  // how much earlier a block may end, as exact as wish is
	rests   bool   // Retry-After asks for a rest, whatever the response counts as
	after   bool   // Retry-After gives the wish, or may, if it isn't whole in the log
	quota   bool   // a rate limit has nothing left
	teaches bool   // it teaches a delay, if it is a refusal
	block   *block // that it set; nil: none
	cleared bool   // it lifted a block
}

// counted reports whether the response set a block that its limiter counted as a refusal.
func (n *answer) counted() bool { return n.block != nil && n.block.kind > silent }

// words returns the response for a violation's text.
func (n *answer) words() string {
	switch {
	case n.refused != "":
		return "a response that refuses (" + n.refused + ")"
	case n.status == 0:
		return "an exchange without a response"
	}
	return "status " + strconv.Itoa(n.status)
}

// A block is a block that was set, or that an operator lifted.
type block struct {
	at       place
	from     int64
	until    int64
	kind     meaning // of the refusal that set it; silent: it wasn't counted as a refusal
	inARow   int     // number of refusals of that kind in a row
	hand     bool    // an operator did it
	lifts    bool    // it is the end of all blocks before
	restored bool    // it was left by an earlier process, or by another one
	late     bool    // the refusal was found in the body of its answer
}

// kinds are the kinds of blocks, as their records name them.
var kinds = map[string]meaning{"refused": refusing, "unsure": unsure, "ban": forbidden}

// answerOf reads the response to t from the record d.
func (a *auditor) answerOf(t *trip, d *evidence.Decision) answer {
	now := time.Unix(0, t.wall).Add(d.Latency)
	// A wrong clock of the server does no harm if its Retry-After is measured against its own Date.
	sent, ok := dateOf(d.ServerDate, now)
	if !ok {
		sent = now
	}
	after, unread := statedWait(d.RetryAfter, sent)
	m := a.by.meaning(d, after)
	heeded := m == refusing || d.Status >= 300 // hosts that send it with pages that they serve don't mean it
	if !heeded {
		after = 0
		unread = false
	}
	left := quota(d, sent)
	// A 503 that isn't configured as a refusal may be a failure of the host, and teaches no delay.
	explicit := d.Status != 503 || d.Refused != "" || a.by.blocksAtOnce(503)
	n := answer{
		by:      a.by,
		x:       t.x,
		at:      stamp(d.Time) + a.by.shift,
		place:   a.at,
		meaning: m,
		status:  d.Status,
		refused: strings.Clone(d.Refused),
		wish:    cmp.Or(after, left),
		early:   leeway,
		after:   after > 0,
		quota:   left > 0,
		teaches: explicit,
	}
	// The policy bounds every wish.
	n.wish = min(n.wish, int64(cmp.Or(a.by.policy.MaxRetryAfter, 24*time.Hour)))
	isWhole := isWhole(d.RetryAfter) && isWhole(d.ServerDate)
	isWhole = isWhole || !heeded
	// A redirect may lead to another host, which its Retry-After is about then.
	n.rests = isWhole && !unread && after > 0 && d.Status/100 != 3
	if !isWhole || unread {
		// A part that is missing or unreadable may have asked for any time.
		n.wish = 0
		n.after = true
	}
	switch {
	case !isWhole:
		a.openEnded(blocksKept, "a Retry-After, or its Date, that isn't whole in the log")
	case unread:
		a.openEnded(blocksKept, "a Retry-After in a form that the audit doesn't read")
	}
	isCount := strings.Trim(d.RetryAfter, "0123456789") == "" && len(d.RetryAfter) < len("1000000000")
	if !isCount || strings.HasPrefix(d.RateLimit, "remaining=") {
		n.early = slack // a moment is as exact as its second
	}
	return n
}

// keep keeps the response n to the last try of t among the responses of s. The record of a block,
// or of its end, comes before that of the exchange's end, and both hold the response.
func (s *sequence) keep(t *trip, n answer) *answer {
	if t.answer == nil {
		t.answer = new(answer)
		s.answers = append(s.answers, t.answer)
	}
	// Only the record of a block, or of its end, has these, and the end of the exchange comes last.
	n.block = t.answer.block
	n.cleared = t.answer.cleared
	*t.answer = n
	t.x.answered = n.at
	t.x.flags |= kept
	return t.answer
}

const clockJumped = "the clock was put forward, or the computer slept, during a request: " +
	"the time of its response isn't known"

// answer takes the response to t from the end d.
func (a *auditor) answer(h *host, t *trip, d *evidence.Decision) {
	x := t.x
	n := a.answerOf(t, d)
	s := h.of(a.by)
	asks := n.meaning > served || n.wish > 0
	n.at = x.answered
	late := stamp(d.Time) - t.wall - int64(d.Duration)
	if !d.Time.IsZero() && late > slack {
		// The clock has jumped ahead during the exchange. The response came either so long after
		// the start or so long before the end: only the record of a block that it set, or lifted,
		// shows it.
		if t.answer == nil {
			x.flags |= undated
			a.openIf(asks, blocksKept, clockJumped)
			return
		}
		n.at = t.answer.at
	}
	if n.meaning == served {
		x.flags |= serves
	}
	if asks || t.answer != nil { // plain successes have no answer, to save memory
		s.keep(t, n)
	}
}
