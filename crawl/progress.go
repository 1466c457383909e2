package crawl

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

// A Progress says how a crawl goes.
type Progress struct {
	Summary          // so far
	Hosts    int     // that have URLs waiting in memory or requests in flight
	InFlight int     // requests in flight, those for robots.txt included
	Rate     float64 // pages visited a second, since the Progress before
	Done     bool    // the crawl has ended

	// The host that is the next one to be asked of those that have to wait; empty if there is none.
	Next    string    // its key
	NextAt  time.Time // when it may be asked
	NextWhy string    // why no earlier
}

// idle reports whether nothing can happen for more than a second, and until when.
func (p *Progress) idle() (until time.Time, ok bool) {
	return p.NextAt, !p.Done && p.InFlight == 0 && p.Next != "" && time.Until(p.NextAt) > time.Second
}

// ProgressLine returns a Config.Progress for people: on a terminal it draws one line anew, to
// anything else it writes a line every ten seconds, one when every host has to wait, and one at the
// end. While every host has to wait it says for which, until when, and why.
func ProgressLine(w io.Writer) func(Progress) { return progressLine(w, isTerminal(w)) }

func progressLine(w io.Writer, terminal bool) func(Progress) {
	var last time.Duration
	var waiting time.Time // end of the wait that was told of
	return func(p Progress) {
		line := fmt.Sprintf("%d visited (%.0f/s), %d in flight on %d hosts, %.1f MB, %v",
			p.Visited(), p.Rate, p.InFlight, p.Hosts, float64(p.Bytes)/1e6, p.Elapsed.Round(time.Second))
		until, idle := p.idle()
		if idle {
			line = fmt.Sprintf("%d visited, waiting for %s until %s (in %v): %s",
				p.Visited(), printable.Text(p.Next), until.Format(time.TimeOnly), time.Until(until).Round(time.Second), printable.Text(p.NextWhy))
		}
		if p.Done {
			line = p.Summary.String()
		}
		switch {
		case terminal && p.Done:
			fmt.Fprintf(w, "\r\x1b[K%s\n", line)
		case terminal:
			fmt.Fprintf(w, "\r\x1b[K\x1b[?7l%s\x1b[?7h", line) // cut off, where it is wider than the terminal
		case p.Done || p.Elapsed-last >= 10*time.Second || idle && !until.Equal(waiting):
			last, waiting = p.Elapsed, until
			fmt.Fprintln(w, line)
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
