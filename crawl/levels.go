package crawl

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/crawl/internal/traps"
)

// A Traps says what a crawl does with the URLs that look like those of a trap, see Config.Traps.
type Traps uint8

// What a crawl does with the URLs that look like those of a trap.
const (
	// TrapsLast fetches them last, except for 3 of 100 requests. Use it if no page may be missed.
	TrapsLast Traps = iota

	// TrapsLeft doesn't fetch them, and they are Left. Use it for a crawl that is to end although a
	// site has a trap. The crawl misses pages whose URLs are like those of a trap. Examples are the
	// later pages of a list, and pages behind a parameter whose first pages brought nothing new.
	// Summary.Postponed counts what is left by reason. If Queue is nil, Config.Done receives each
	// URL that is left, with Result.Why. Another Queue keeps them, and a later Run with TrapsLast
	// fetches them.
	TrapsLeft

	// TrapsIgnored treats no URL as one of a trap. Use it for a crawl of your own site.
	TrapsIgnored
)

// asGiven is Request.Mark of URLs of Page.Add, which are never postponed. No mark of a
// part of a URL is even.
const asGiven uint32 = 2

// trapMemory is the most bytes that are kept about URLs that look like traps, of all hosts. It
// counts apart from the memory of URLs and hosts.
const trapMemory = 64 << 20

// A rule decides which URLs of a host go first, by its knowledge of hosts. With the zero value,
// URLs go in the order in which they came.
type rule struct {
	hosts   *simplelru.LRU[string, *known] // nil: the rule is off
	bytes   int                            // of hosts
	leaves  bool                           // TrapsLeft
	reasons map[string]string              // by URL: why it was postponed, of those that are under way
	hungry  []*host                        // they need URLs of the Queue before they go on
	curious []curious
}

// A known is the knowledge of the URLs of a host, and its size in bytes.
type known struct {
	traps *traps.Host
	bytes int
}

// A curious host has a turn for URLs that are postponed as far as least, or some levels further.
type curious struct {
	h      *host
	least  int
	levels int
}

func newRule(t Traps) rule {
	if t == TrapsIgnored {
		return rule{}
	}
	hosts, err := simplelru.NewLRU[string, *known](math.MaxInt32, nil)
	if err != nil {
		panic(err) // of a size that isn't positive
	}
	return rule{hosts: hosts, leaves: t == TrapsLeft, reasons: make(map[string]string)}
}

func (u *rule) isOn() bool { return u != nil && u.hosts != nil }

// of returns what is known of a host; nil: nothing.
func (u *rule) of(key string) *traps.Host {
	if !u.isOn() {
		return nil
	}
	k, ok := u.hosts.Get(key)
	if !ok {
		return nil
	}
	return k.traps
}

// learn notes the content that the page of a URL has brought.
func (u *rule) learn(key, url string, p traps.Page) (isNew bool, lifted []traps.Standing) {
	k, ok := u.hosts.Get(key)
	if !ok {
		k = &known{traps: traps.NewHost()}
		u.hosts.Add(key, k)
	}
	isNew, lifted = k.traps.Learn(url, p)
	size := k.traps.Size()
	u.bytes += size - k.bytes
	k.bytes = size
	for u.bytes > trapMemory && u.hosts.Len() > 1 {
		_, oldest, _ := u.hosts.RemoveOldest()
		u.bytes -= oldest.bytes
	}
	return isNew, lifted
}

// forget drops what is known of a host of which no URL waits: it orders none.
func (u *rule) forget(key string) {
	if !u.isOn() {
		return
	}
	k, ok := u.hosts.Peek(key)
	if !ok {
		return
	}
	u.hosts.Remove(key)
	u.bytes -= k.bytes
}

// mayMove reports whether a request may be postponed further.
func (u *rule) mayMove(r *Request) bool {
	// A URL without a page that leads to it is a start URL, or Discover's.
	isGiven := r.From == "" || r.Mark == asGiven
	isAgain := r.State != "" // it would be a copy of itself
	return u.isOn() && !isGiven && !isAgain && !r.back && r.Later < traps.Levels-1
}

// place sets how far a new request is postponed. isLate is whether the page that has led to it
// wasn't new.
func (u *rule) place(r *Request, isLate bool) {
	if !u.mayMove(r) {
		return
	}
	// With TrapsLeft a postponed link is never fetched, so its page alone doesn't postpone it.
	if isLate && !u.leaves {
		r.Later = 1 // without a mark, so that no mark brings it forward alone
	}
	u.postpone(r)
}

// postpone postpones r if it stands further back by now. It reports whether it does.
func (u *rule) postpone(r *Request) bool {
	if !u.mayMove(r) {
		return false
	}
	h := u.of(r.Host)
	if h == nil {
		return false
	}
	s := h.Standing(r.URL)
	if s.Level <= r.Later {
		return false
	}
	r.Later = s.Level
	r.Mark = s.Mark
	return true
}

// How many URLs of a host are put back. If about every fourth page is new, marks fall and rise all
// the time, and all waiting URLs would go back and forth with them. A host that has put back too
// many has its URLs taken where they stand. So the work for a page has a bound, whatever the site
// is.
const (
	firstPutBacks = 10_000
	perTurn       = 8 // further ones for each URL that is taken
)

// postpone postpones a request of h, which comes from the Queue, if it stands further back by now,
// and h may still put one back. It reports whether it does.
func (f *frontier) postpone(h *host, r *Request) bool {
	isSpent := h.putBacks >= firstPutBacks && !f.rule.leaves // with TrapsLeft none of them is fetched
	if isSpent || !f.rule.postpone(r) {
		return false
	}
	h.putBacks++
	return true
}

// why returns the reason why r is postponed, for readers; empty: it isn't.
func (u *rule) why(r *Request) string {
	if !u.isOn() || r.Later == 0 {
		return ""
	}
	if reason, ok := u.reasons[r.URL]; ok {
		return reason
	}
	if h := u.of(r.Host); h != nil {
		if reason := h.Why(r.URL); reason != "" {
			return reason
		}
	}
	return nameOf(r.URL, r.Mark)
}

// ended returns why r was postponed, whose end is known.
func (u *rule) ended(r *Request) string {
	why := u.why(r)
	if u.isOn() {
		delete(u.reasons, r.URL)
	}
	return why
}

// dryPage is why URLs are postponed that have no mark.
const dryPage = "linked from a page without anything new"

// nameOf returns the name of a mark of a URL.
func nameOf(url string, mark uint32) string {
	return cmp.Or(traps.NameOf(url, mark), dryPage)
}

// A rank is the place of a request among those of its host, as a Postponer lends them.
type rank struct{ priority, later int }

// first is before the rank of any request.
var first = rank{priority: math.MaxInt}

func rankOf(r *Request) rank {
	if r.back {
		return first
	}
	return rank{priority: r.Priority, later: r.Later}
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(o.priority, r.priority), cmp.Compare(r.later, o.later))
}

// compareRanks orders requests by their ranks. Of one rank the longest waiting is first, as far as
// the Queue says how long they have waited.
func compareRanks(a, b *Request) int {
	return cmp.Or(rankOf(a).compare(rankOf(b)), cmp.Compare(a.number, b.number))
}

// sort sorts the loaded URLs of h, and postpones the first one by the present knowledge until one
// may stay.
func (f *frontier) sort(h *host) {
	if !h.rule.isOn() {
		return
	}
	if h.unsorted {
		h.unsorted = false
		// By their ranks alone, because among requests of one rank one that comes back may stay
		// last.
		slices.SortStableFunc(h.urls, func(a, b Request) int { return rankOf(&a).compare(rankOf(&b)) })
	}
	for len(h.urls) > 0 && f.postpone(h, &h.urls[0]) {
		h.reinsert(0)
	}
	if h.waitsForQueue() || h.isLeft() {
		f.rule.hungry = append(f.rule.hungry, h)
		return
	}
	if h.waitsForTurn() && !h.seeks {
		h.seeks = true
		f.rule.curious = append(f.rule.curious, curious{h: h, least: h.urls[0].Later + 1, levels: h.turns.Further()})
	}
}

// reinsert moves the request at index i behind all that go before it.
func (h *host) reinsert(i int) {
	r := h.urls[i]
	h.urls = slices.Delete(h.urls, i, i+1)
	h.insert(r)
}

// waitsForQueue reports whether the Queue may have a URL of h that goes before those at hand.
func (h *host) waitsForQueue() bool {
	if !h.rule.isOn() || len(h.urls) == 0 || !h.more {
		return false
	}
	return h.queued.compare(rankOf(&h.urls[0])) < 0
}

// isReady reports whether a URL of h at hand may be taken now.
func (h *host) isReady() bool {
	return len(h.urls) > 0 && !h.waitsForQueue() && !h.waitsForTurn() && !h.isLeft()
}

// waitsForTurn reports whether the next turn of h is for postponed URLs, of which the Queue is to
// be asked first.
func (h *host) waitsForTurn() bool {
	if !h.rule.isOn() || h.rule.leaves || len(h.urls) == 0 || !h.postpones || h.hasSought {
		return false
	}
	return !h.urls[0].back && h.turns.Further() > 0
}

// isLeft reports whether all URLs of h at hand are postponed, and aren't asked for.
func (h *host) isLeft() bool {
	return h.rule.isOn() && h.rule.leaves && len(h.urls) > 0 && rankOf(&h.urls[0]).later > 0
}

// hasFew reports whether few URLs are at hand of those that go before the ones of the Queue.
func (h *host) hasFew() bool {
	const few = lend / 4
	if !h.rule.isOn() {
		return len(h.urls) <= few
	}
	n := 0
	for i := range h.urls {
		if rankOf(&h.urls[i]).compare(h.queued) <= 0 {
			n++
		}
	}
	return n <= few
}

// turn returns the index of the URL of h that is taken next, and counts its turn.
func (f *frontier) turn(h *host) int {
	if !h.rule.isOn() || h.rule.leaves || h.urls[0].back {
		return 0
	}
	for {
		turns := h.turns
		i := h.ofTurn(&turns)
		if i == 0 || !f.postpone(h, &h.urls[i]) {
			h.turns = turns
			h.hasSought = false
			h.putBacks -= perTurn
			if h.urls[i].Later > 0 { // stored now: the page of the URL may change the reason
				f.rule.reasons[h.urls[i].URL] = f.rule.why(&h.urls[i])
			}
			return i
		}
		h.reinsert(i)
	}
}

// ofTurn returns the index of the URL at hand that has the next turn. Priority comes before levels,
// so only URLs with the Priority of the first one can have the turn.
func (h *host) ofTurn(turns *traps.Turns) int {
	var has [traps.Levels]bool
	var at [traps.Levels]int
	for i := range h.urls {
		r := &h.urls[i]
		if r.Priority != h.urls[0].Priority {
			break
		}
		if !has[r.Later] {
			has[r.Later] = true
			at[r.Later] = i
		}
	}
	level, _ := turns.Next(has)
	return at[level]
}

// lift brings the URLs of h at hand forward that have a mark.
func (h *host) lift(s traps.Standing) {
	for i := range h.urls {
		r := &h.urls[i]
		if r.Mark == s.Mark && r.Later > s.Level {
			r.Later = s.Level
			h.unsorted = true
		}
	}
}

// judgePage notes the new content of a page, and sets how far its links are postponed.
func (r *run) judgePage(p *Page, outcome Outcome) {
	u := &r.frontier.rule
	if !u.isOn() {
		return
	}
	host := p.request.Host
	isDry := false
	if shown, ok := p.shown(outcome); ok {
		isNew, lifted := u.learn(host, p.FinalURL, shown)
		isDry = !isNew
		r.lift(host, lifted)
	}
	for i := range p.found {
		req := &p.found[i]
		// A URL that replaces the page is no link of the page.
		isLink := req.Via == "" && req.Host == host
		u.place(req, isDry && isLink)
	}
}

// lift brings the URLs of a host forward whose marks have come to an earlier level.
func (r *run) lift(key string, lifted []traps.Standing) {
	h := r.frontier.hosts[key]
	if h == nil {
		return
	}
	for _, s := range lifted {
		h.lift(s)
		if !h.postpones {
			continue // the Queue has none
		}
		r.work.addLift(lifting{host: key, mark: s.Mark, later: s.Level})
	}
}

// shown returns what the rule learns from a page. ok is false if it shows nothing: it is a redirect
// or a refusal, or hasn't changed.
func (p *Page) shown(outcome Outcome) (shown traps.Page, ok bool) {
	switch outcome {
	case Visited, VisitFailed, NotCanonical:
	default:
		return shown, false
	}
	status := p.Response.StatusCode
	isOther := status/100 == 3 && status != http.StatusMultipleChoices
	isAgain := p.request.State != "" // its content is known, and proves nothing
	if isOther || isAgain || p.otherMethod || p.good {
		return shown, false
	}
	if p.refs != nil { // HTML
		shown.Lines = p.lines
		// Not digest.words, in which a word that has a digit doesn't count: here it is folded.
		for _, line := range p.lines {
			shown.Text += uint64(line) * factor
		}
	} else {
		body := addWord(beginning, p.Body, 0, len(p.Body))
		shown.Lines = []uint32{uint32(body >> 32)} //nolint:gosec // half of a hash is one
		shown.Text = body
	}
	isCopy := p.Canonical != "" && withoutScheme(p.Canonical) != withoutScheme(p.FinalURL)
	if isCopy {
		shown.Lines = nil // otherwise the page of the canonical URL would bring no new lines
	}
	shown.Failed = status >= http.StatusBadRequest
	shown.NotNew = shown.Failed || isCopy || p.Directives.NoIndex
	return shown, true
}

func withoutScheme(url string) string {
	_, rest, _ := strings.Cut(url, ":")
	return rest
}

// feed asks the Queue for the URLs that the rule needs.
func (r *run) feed() {
	u := &r.frontier.rule
	for _, h := range u.hungry {
		switch {
		case r.frontier.hosts[h.key] != h:
		case h.waitsForQueue():
			r.want(h)
		case h.isLeft():
			r.leavePostponed(h)
		}
	}
	u.hungry = u.hungry[:0]
	for _, c := range u.curious {
		for n := range c.levels {
			r.work.later = append(r.work.later, seeking{host: c.h.key, least: c.least + n})
		}
	}
	u.curious = u.curious[:0]
}

// trim gives URLs of h back to the Queue, if too many are at hand: those that go last.
func (r *run) trim(h *host) {
	if !h.rule.isOn() || len(h.urls) <= 2*lend || r.stopped {
		return
	}
	next := rankOf(&h.urls[lend])
	r.handBack(h, lend)
	if !h.more || next.compare(h.queued) < 0 {
		h.queued = next
	}
	h.more = true
}

// leavePostponed gives the URLs of h at hand back to the Queue. All of them are postponed, and no
// postponed URL is fetched.
func (r *run) leavePostponed(h *host) {
	h.more = false
	r.handBack(h, 0)
	r.leftLater = true
}

// handBack gives the URLs of h at hand from an index on back to the Queue, which keeps how far they
// are postponed.
func (r *run) handBack(h *host, from int) {
	for _, req := range h.urls[from:] {
		h.postpones = h.postpones || req.Later > 0
		r.work.back = append(r.work.back, Result{Request: req, Outcome: Left, waits: true})
	}
	clear(h.urls[from:])
	h.urls = h.urls[:from]
}
