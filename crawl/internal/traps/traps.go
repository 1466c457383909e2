// Package traps decides which URLs of a host are asked for first. A site of 300 pages can have
// millions of URLs: filters combine, calendars have no end, session ids make each link new.
//
// The rule has five sentences:
//
//  1. A page is new if it has a line of text that its host has not shown before.
//  2. Each part of a URL is a mark. A new page raises the yield of all its marks, and a page without
//     anything new lowers that of the mark whose pages were new least often.
//  3. The lower the yield of its worst mark is, the later is the level of a URL. Links of a page
//     without anything new are a level later, and copies of what was asked for are the last.
//  4. Turns go to the first level that has URLs, but each 32nd turn to the next one that has.
//  5. The level of a URL is looked at again when it is taken. When a new page lifts a mark, the
//     URLs that the mark has put back come forward.
//
// No URL is dropped. A [Host] has sentences 1 to 3, and [Turns] has 4. The owner of the URLs has 5.
// All are values without lock and clock.
package traps

// Levels is the number of levels. URLs at level 0 are asked for first.
const Levels = 4

// The thresholds of the rule.
const (
	weight    = 0.25 // of a page in a yield: five pages without anything new put a mark at level 1
	firstName = 0.2  // first yield of a parameter's name, at level 1: one new page, and it is like any other
	maxCount  = 1024 // of the pages of a mark: then both its counts are halved
)

// The bounds of what is kept of a host.
const (
	maxMarks   = 1 << 10
	maxLines   = 1 << 13
	maxAnswers = 1 << 12
	maxAsked   = 1 << 15
	maxTallies = 1 << 8
	maxNames   = 32
)

// A Host is what a crawl has learned about the URLs of a host. Make one with [NewHost]. Its methods
// are for one goroutine at a time.
type Host struct {
	marks recent[yield]
	lines lines

	answers recent[answer]   // by the hash of a URL, or of a difference and the URL without it
	asked   recent[struct{}] // URLs without their idle differences, since there are any
	tallies recent[tally]    // by difference, alone and with the form of the URL
	names   []difference     // the parameters that were met first
	anyIdle bool             // a difference was idle once
	learns  bool             // false: differences are not looked at, for tests
	allPay  bool             // true: all marks pay for a page without anything new, for tests
	untried float32          // first yield of a parameter's name
	drop    kind             // kinds of marks that are left out, for tests
}

// NewHost returns a Host of which nothing is known.
func NewHost() *Host {
	return &Host{
		marks:   newRecent[yield](maxMarks),
		lines:   lines{most: maxLines},
		answers: newRecent[answer](maxAnswers),
		asked:   newRecent[struct{}](maxAsked),
		tallies: newRecent[tally](maxTallies),
		learns:  true,
		untried: firstName,
	}
}

// A yield is what the pages of a mark have brought.
type yield struct {
	share float32 // of its pages that were new, the last ones counting most
	pages uint16
	fresh uint16 // of pages: those that were new
}

// record is how often pages of the mark were new.
func (y yield) record() float32 { return (float32(y.fresh) + 0.5) / (float32(y.pages) + 1) }

// level returns the level of URLs with the mark.
func (y yield) level() int {
	level := 0
	for bound := float32(0.25); y.share < bound && level < Levels-1; bound /= 4 {
		level++
	}
	return level
}

// yield returns what is known of a mark.
func (h *Host) yield(m mark) yield {
	y, ok := h.marks.get(m.hash)
	switch {
	case ok:
		return y
	case m.kind == nameMark:
		return yield{share: h.untried}
	}
	return yield{share: 1}
}

// A Standing is the place of a URL among those of its host.
type Standing struct {
	Level int    // 0: asked for first
	Mark  uint32 // what has put it there; 0: nothing, or the page that led to it
}

// Standing returns where a URL stands by what is known now. A URL that is asked for again is a copy
// of itself: leave it where it was.
func (h *Host) Standing(url string) Standing {
	a := parse(url)
	s, _ := h.worst(&a)
	if s.Level == Levels-1 {
		return s
	}
	if d, isCopy := h.copied(&a); isCopy {
		return Standing{Level: Levels - 1, Mark: d.hash}
	}
	return s
}

// worst returns the mark of a URL with the last level.
func (h *Host) worst(a *address) (s Standing, worst mark) {
	var room [usualMarks]mark
	for _, m := range h.marksOf(a, room[:0]) {
		if level := h.yield(m).level(); level > s.Level {
			s = Standing{Level: level, Mark: m.hash}
			worst = m
		}
	}
	return s, worst
}

// Why returns why a URL stands where it does; empty: it is at level 0.
func (h *Host) Why(url string) string {
	a := parse(url)
	s, m := h.worst(&a)
	if d, isCopy := h.copied(&a); isCopy && s.Level < Levels-1 {
		return "as a URL that was asked for, but for " + d.String() + ", which changes nothing"
	}
	if s.Level == 0 {
		return ""
	}
	return m.String() + ": " + h.yield(m).String()
}

// Size returns about how many bytes h takes.
func (h *Host) Size() int {
	const (
		perHost   = 400 // of the Host itself, and of maps with little in them
		perFirst  = 4
		perLine   = 12 // of values in maps, with the room that these have to spare
		perMark   = 32
		perAnswer = 40
		perAsked  = 12
		perTally  = 16
		perName   = 64
	)
	size := perHost + perFirst*len(h.lines.first) + perLine*len(h.lines.known) + perMark*h.marks.size()
	size += perAnswer*h.answers.size() + perAsked*h.asked.size()
	return size + perTally*h.tallies.size() + perName*len(h.names)
}

// NameOf returns what has a mark in a URL, for people: a part of the URL, or a difference. It is
// empty if the URL hasn't the mark.
func NameOf(url string, sum uint32) string {
	a := parse(url)
	for _, m := range new(Host).marksOf(&a, nil) {
		if m.hash == sum {
			return m.String()
		}
	}
	id := identityOf(&a)
	for _, d := range id.differences() {
		if d.hash == sum {
			return d.String() + ", which changes nothing"
		}
	}
	if order.hash == sum {
		return order.String() + ", which changes nothing"
	}
	return ""
}

// A Page is what an answer has shown.
type Page struct {
	Lines []uint32 // hashes of its lines, in which each row of digits is one; of no HTML: of its body
	Text  uint64   // hash of its text, but for numbers; of no HTML: of its body

	// NotNew says that the page itself brings nothing new, whatever its lines: it says noindex, or
	// names another canonical URL, or its status is 400 or more.
	NotNew bool

	// Failed says that the status is 400 or more. Error pages are alike whatever was asked for, so
	// they are not compared.
	Failed bool
}

// Learn notes what the page of a URL has brought. It reports whether the page was new. lifted are
// the marks that have an earlier level by now: URLs with these marks come forward to it.
//
// It is not for redirects, refusals and answers that a page has not changed: they show no page.
func (h *Host) Learn(url string, p Page) (isNew bool, lifted []Standing) {
	a := parse(url)
	hasNewLine := h.lines.add(p.Lines)
	isNew = hasNewLine && !p.NotNew
	var room [usualMarks]mark
	marks := h.marksOf(&a, room[:0])
	if isNew {
		lifted = h.praise(marks)
	} else {
		h.blame(marks)
	}
	if h.learns && !p.Failed {
		lifted = h.compare(&a, uint32(p.Text>>32)^uint32(p.Text), lifted)
	}
	return isNew, lifted
}

// praise raises the yields of the marks of a new page. It returns the marks that have an earlier
// level by now.
func (h *Host) praise(marks []mark) (lifted []Standing) {
	for _, m := range marks {
		y := h.yield(m)
		before := y.level()
		y.share += weight * (1 - y.share)
		y.fresh++
		h.count(m, y)
		if level := y.level(); level < before {
			lifted = append(lifted, Standing{Level: level, Mark: m.hash})
		}
	}
	return lifted
}

// blame lowers the yields of the most suspect marks of a page without anything new.
func (h *Host) blame(marks []mark) {
	least := float32(2)
	for _, m := range marks {
		if m.pays {
			least = min(least, h.yield(m).record())
		}
	}
	for _, m := range marks {
		y := h.yield(m)
		if m.pays && (h.allPay || y.record() <= least) {
			y.share *= 1 - weight
		}
		h.count(m, y)
	}
}

// count keeps the yield of a mark with one more page.
func (h *Host) count(m mark, y yield) {
	y.pages++
	if y.pages >= maxCount {
		y.pages /= 2
		y.fresh /= 2
	}
	h.marks.put(m.hash, y)
}
