package crawl

import (
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

// A Progress is the state of a crawl that runs. Config.Progress gets it once a second.
type Progress struct {
	Summary          // so far
	Hosts    int     // that have URLs waiting in memory or requests in flight
	InFlight int     // requests in flight, those for robots.txt included
	Rate     float64 // pages visited a second, since the Progress before
	Open     bool    // other programs may still add to the Queue, see Queue.Hosts
	Done     bool    // the crawl has ended
	Lost     error   // evidence or state that couldn't be kept, see Transport.EvidenceErr; nil if none

	// A warning names a host that may refuse you. All its responses so far, five or more, had the same
	// status, such as 202 or 403. Or there were ten or more, and most had the same status. That status
	// was neither 200 nor 304. Each host is named once, in the next Progress.
	Warnings []string

	// Due is set while the crawl waits for a URL that is due later, because nothing else is left to do
	// (Config.Watch). It is the time at which that URL is due. Otherwise it is zero.
	Due time.Time

	// Waiting yields, in no order, each host whose next request can't start within a second. It also
	// yields each host whose next request is more than a second late, because it waits for something
	// else, such as a connection. Use it during the call of Config.Progress only.
	Waiting iter.Seq[WaitingHost]

	// The first of them that may be asked, empty if none waits.
	Next    string    // its key
	NextAt  time.Time // when it may be asked, zero if not known
	NextWhy string    // why no earlier
}

// A WaitingHost can't be asked for a page yet.
type WaitingHost struct {
	Host  string    // its key
	Until time.Time // zero if not known, such as the end of a page in flight
	Why   string    // such as "it has answered 429"
}

// idle reports whether nothing can happen for more than a second, and until when.
func (p *Progress) idle() (until time.Time, ok bool) {
	return p.NextAt, !p.Done && p.InFlight == 0 && p.Next != "" && time.Until(p.NextAt) > time.Second
}

// findNext sets Next, NextAt and NextWhy to the first of Waiting. A host with a known time goes
// before the others.
func (p *Progress) findNext() {
	for w := range p.Waiting {
		isKnown := !w.Until.IsZero()
		isSooner := p.NextAt.IsZero() || w.Until.Before(p.NextAt)
		if p.Next == "" || (isKnown && isSooner) {
			p.Next = w.Host
			p.NextAt = w.Until
			p.NextWhy = w.Why
		}
	}
}

// ProgressLine returns a Config.Progress for people. On a terminal it redraws one line. Otherwise
// it writes a line every ten seconds, and one at the end. It also writes a line when every host has
// to wait, or when all URLs of a Queue that several programs share are lent to the others. A line
// names the first host that waits, until when and why. Use it with os.Stderr in a command.
func ProgressLine(w io.Writer) func(Progress) { return progressLine(w, isTerminal(w)) }

func progressLine(w io.Writer, terminal bool) func(Progress) {
	l := &liner{w: w, terminal: terminal}
	return l.show
}

// A liner writes lines for ProgressLine.
type liner struct {
	w        io.Writer
	terminal bool

	last  time.Duration // Elapsed of the last line
	until time.Time     // end of the wait in it
	alone bool          // the last Progress had no URL of its own
	lost  bool          // the user knows of Progress.Lost
}

// show writes p.
func (l *liner) show(p Progress) {
	if p.Lost != nil && !l.lost {
		l.lost = true
		l.showNote("lost: %s; the crawl continues", p.Lost.Error())
	}
	for _, warning := range p.Warnings {
		l.showNote("warning: %s", warning)
	}
	// On a terminal the line is drawn anew each second, so it shows when a wait begins. A file gets
	// an extra line for that.
	wasAlone := l.alone
	l.alone = p.Open && p.Hosts == 0 && !p.Done
	line := p.line(l.alone)
	if l.terminal {
		l.draw(line, p.Done)
		return
	}
	until, idle := p.idle()
	newWait := idle && !until.Equal(l.until)
	newlyAlone := l.alone && !wasAlone
	isTime := p.Elapsed-l.last >= 10*time.Second
	if p.Done || isTime || newWait || newlyAlone {
		l.last = p.Elapsed
		l.until = until
		fmt.Fprintln(l.w, line)
	}
}

// showNote writes a separate line, which format makes of a text. The text may be a site's.
func (l *liner) showNote(format, text string) {
	if l.terminal {
		fmt.Fprint(l.w, "\r\x1b[K") // in place of the line that was drawn
	}
	fmt.Fprintf(l.w, format+"\n", printable.Clipped(text, 500))
}

// draw draws a line on a terminal, over the last one.
func (l *liner) draw(line string, done bool) {
	if done {
		fmt.Fprintf(l.w, "\r\x1b[K%s\n", line)
		return
	}
	fmt.Fprintf(l.w, "\r\x1b[K\x1b[?7l%s\x1b[?7h", line) // cut off if it is wider than the terminal
}

// line returns p as a line. alone is whether the crawl has no URL of its own.
func (p *Progress) line(alone bool) string {
	until, idle := p.idle()
	switch {
	case p.Done:
		return p.Summary.String()
	case !p.Due.IsZero():
		return fmt.Sprintf("%d visited, %d unchanged; nothing is due until %s",
			p.Visited(), p.Outcomes[Unchanged], p.Due.Local().Format(time.TimeOnly))
	case alone:
		return fmt.Sprintf("%d visited, waiting: the URLs that are left are with other programs", p.Visited())
	case idle:
		return fmt.Sprintf("%d visited, waiting for %s until %s (in %v): %s",
			p.Visited(), printable.Text(p.Next), until.Format(time.TimeOnly),
			time.Until(until).Round(time.Second), printable.Text(p.NextWhy))
	}
	postponed := p.postponed()
	if postponed != "" {
		postponed = "; " + postponed
	}
	return fmt.Sprintf("%d visited (%.0f/s), %d in flight on %s, %.1f MB, %v%s%s",
		p.Visited(), p.Rate, p.InFlight, hosts(p.Hosts),
		float64(p.Bytes)/1e6, p.Elapsed.Round(time.Second), postponed, p.waits())
}

// waits returns the part of a line with the number of hosts that wait, and the first of them.
func (p *Progress) waits() string {
	if p.Waiting == nil || p.Next == "" {
		return ""
	}
	n := 0
	until := ""
	verb := "waits"
	for range p.Waiting { // Next is one of them
		n++
	}
	if n > 1 {
		verb = "wait, the first"
	}
	if !p.NextAt.IsZero() {
		until = ", until " + p.NextAt.Format(time.TimeOnly)
	}
	return fmt.Sprintf("; %s %s: %s (%s%s)",
		hosts(n), verb, printable.Text(p.Next), printable.Clipped(p.NextWhy, 100), until)
}

func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
