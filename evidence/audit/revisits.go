package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/printable"
)

// The memory of a page, by which its next request is promised: see hostlimit.WithDue.
const (
	// longestFresh is the longest time for which a response is fresh.
	longestFresh = int64(30 * 24 * time.Hour)
	// untilWhole is the age of the last 200 from which on a page is asked for without conditions.
	untilWhole = int64(90 * 24 * time.Hour)
	// youngest is how much older than its answer a Last-Modified is that can be sent back alone.
	youngest = 2 * time.Second

	// mostTag is the length up to which a record has an ETag whole, whatever is in it.
	mostTag = 100
)

const (
	unclearPage = "a page that came due, whose URL isn't whole"
	hadBefore   = "a page that came due, and was had in no log that is here"
	otherAsker  = "a page that came due by a memory without its last response: " +
		"another asker had it, or its body wasn't read to the end"
)

// revisit sets the fields of x, the start d, that say whether its page is asked for again.
func (x *exchange) revisit(d *evidence.Decision) {
	x.due = stamp(d.Due)
	if d.Conditional {
		x.flags |= conditional
	}
	if d.Proof {
		x.flags |= proof
	}
	if d.Attempt > 1 || d.Redirects > 0 {
		x.flags |= further
	}
	isGet := d.Method == "" || d.Method == "GET"
	if isGet && !x.has(robotsTxt) && isWhole(d.URL) {
		x.page = max(keyOfURL(d.URL), 1)
	}
}

// learn sets the fields of x that its answer d gives, for the next request for the page.
func (x *exchange) learn(d *evidence.Decision) {
	x.fresh = min(max(int64(d.Fresh), 0), longestFresh)
	x.bytes = uint32(min(max(d.Bytes, 0), math.MaxUint32))
	isCut := d.Err != ""
	switch status := d.Status; {
	case isCut, d.Refused != "": // which is no version of the page
	case status == 200 || status == 203:
		x.flags |= version
		if isValidated(d) {
			x.flags |= validated
		}
	case status == 304 && x.has(conditional):
		x.flags |= unchanged
	case status == 304 || status == 404 || status == 410 || status == 301 || status == 308:
		x.flags |= outdates
	case x.has(conditional) && mayBlameConditions(status):
		x.flags |= outdates
	}
}

// mayBlameConditions reports whether a status may be about the conditions of the request, so that
// the next one has none.
func mayBlameConditions(status int) bool {
	about := []int{400, 405, 406, 409, 422, 428, 431}
	return slices.Contains(about, status) || status >= 411 && status <= 417 || status/100 == 5
}

// isValidated reports whether the response d has a validator that the next request can send back.
func isValidated(d *evidence.Decision) bool {
	tag := d.ETag
	if tag != "" && len(tag) <= mostTag && isPrintable(tag) {
		return true
	}
	modified, err := time.Parse(httpDate, d.LastModified)
	if err != nil {
		return false
	}
	date, err := time.Parse(httpDate, d.ServerDate)
	return err == nil && date.Sub(modified) >= youngest
}

// httpDate is the usual form of a date.
const httpDate = "Mon, 02 Jan 2006 15:04:05 GMT"

// isPrintable reports whether a tag can be sent in a header.
func isPrintable(tag string) bool {
	return !strings.ContainsFunc(tag, func(r rune) bool { return r < '!' || r > '~' })
}

// A memory is the knowledge of one page from the responses so far.
type memory struct {
	// base is the last answer to a request that came due, or else the first answer of all, but for
	// proofs. Others are those of requests that promised nothing, such as ones by another program.
	// It may be nil.
	base      *exchange
	whole     int64 // time of the last 200
	served    int64 // time of the last answer that shows that the host serves us
	bytes     uint32
	validated bool
	outdated  bool // gone or moved since: the next request is for all of it
	repeated  bool
}

// revisits checks the requests for pages of h that were fetched before.
func (h *host) revisits(all []*sequence) {
	pages := map[uint64]*memory{}
	blocks := blocksOf(all)
	refused := int64(0) // time of the last refusal, or of the last block
	// A response counts from its end, because no asker knows it before.
	var answered []*exchange
	for _, x := range inOrder(all) {
		if x.has(unsent) {
			continue
		}
		for len(blocks) > 0 && blocks[0] <= x.start {
			refused = max(refused, blocks[0])
			blocks = blocks[1:]
		}
		answered = slices.DeleteFunc(answered, func(y *exchange) bool {
			if y.answered > x.start {
				return false
			}
			h.remember(pages, y)
			if !y.has(serves) {
				refused = max(refused, y.answered)
			}
			return true
		})
		answered = answered[max(0, len(answered)-maxOpen):]
		h.revisited(pages[x.page], x, refused)
		if x.fate == ended && x.page != 0 {
			answered = append(answered, x)
		}
	}
	for _, y := range answered {
		h.remember(pages, y)
	}
}

// blocksOf returns the times at which the host was blocked, in their order. A refusal that only a
// body shows has a block and an answer like any other.
func blocksOf(all []*sequence) (times []int64) {
	for _, s := range all {
		for _, b := range s.spans {
			times = append(times, b.from)
		}
	}
	slices.Sort(times)
	return times
}

// remember takes the response of x.
func (h *host) remember(pages map[uint64]*memory, x *exchange) {
	m := pages[x.page]
	r := &h.report
	if x.has(conditional) {
		r.Conditional++
	}
	if x.has(unchanged) {
		r.NotModified++
		if m != nil {
			r.Spared += int64(m.bytes)
		}
	}
	if m != nil && x.has(outdates) {
		m.outdated = true
	}
	if m != nil && x.has(serves) {
		m.served = x.answered
	}
	if !x.has(version | unchanged) {
		return
	}
	if m == nil {
		m = &memory{served: x.answered}
		pages[x.page] = m
	}
	if x.has(version) {
		m.whole = x.answered
		m.bytes = x.bytes
		m.validated = x.has(validated)
		m.outdated = false
	}
	isFirst := m.base == nil && !x.has(proof) // who asks for a proof doesn't remember its answer
	if isFirst || x.due != 0 {
		m.base = x
	}
}

// revisited checks the start x. m is the memory of its page, or nil if it wasn't fetched before.
// refused is the time of the host's last refusal.
func (h *host) revisited(m *memory, x *exchange, refused int64) {
	if x.due != 0 {
		h.promised(m, x)
		return
	}
	if m == nil || x.page == 0 || x.has(further|resent) {
		return
	}
	// Otherwise the asker could declare each repeat a proof.
	if x.has(proof) && refused > m.served {
		h.report.Proofs++
		return
	}
	h.report.Repeats++
	if !m.repeated {
		m.repeated = true
		h.report.Repeated++
	}
}

// promised judges the start x of a page that came due.
func (h *host) promised(m *memory, x *exchange) {
	a := h.a
	a.tested(dueKept)
	// The asker's own clock has made the time.
	due := x.due + a.indexed[x.by].shift
	early := due - x.start
	switch {
	case early > 0:
		detail := fmt.Sprintf("asked for %v before its page was due", time.Duration(early))
		a.violation(BrokenRevisit, h.report.Host, detail, a.place(x))
	case x.page == 0:
		a.openEnded(dueKept, unclearPage)
	case m == nil || m.base == nil:
		a.openEnded(dueKept, hadBefore)
	case due < m.base.answered:
		a.openEnded(dueKept, otherAsker)
	default:
		h.compare(m, x)
	}
}

// compare checks the start x against the response that its asker knew.
func (h *host) compare(m *memory, x *exchange) {
	a := h.a
	last := m.base
	since := x.start - last.answered
	isOwed := m.validated && !m.outdated && x.start-m.whole < untilWhole-slack
	switch {
	case since < last.fresh-slack:
		detail := fmt.Sprintf("asked for again after %v, of a page that was fresh for %v",
			time.Duration(since), time.Duration(last.fresh))
		a.violation(BrokenRevisit, h.report.Host, detail, a.place(last), a.place(x))
	case isOwed && !x.has(conditional):
		const detail = "fetched again without conditions, though its last response had validators"
		a.violation(BrokenRevisit, h.report.Host, detail, a.place(last), a.place(x))
	}
}

// RepeatWarning returns a sentence for the owner of the log if pages of the host were fetched again
// without a due time. It returns "" for fewer than ten such requests, or less than a tenth of all.
func (h *HostReport) RepeatWarning() string {
	isMany := h.Repeats >= fewAnswers && 10*h.Repeats >= h.Starts
	if !isMany {
		return ""
	}
	return printable.Text(fmt.Sprintf("%s was asked %d times for %s it had given before",
		h.Host, h.Repeats, lines.Count(h.Repeated, "page")))
}
