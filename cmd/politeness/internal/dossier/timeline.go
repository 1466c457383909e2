package dossier

import (
	"slices"
	"time"

	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
)

const (
	maxRows = 12   // hosts of a timeline
	ticks   = 500  // places for requests in a row
	idlest  = 0.1  // part of the whole time from which on a time without requests is left out
	pause   = 2.5  // percent of the width that stands for a time that is left out
	shortly = 1e-9 // keeps a time without length from dividing by nothing
)

// A Timeline is a picture of the requests, a row for each host. Times in which nothing was asked
// are left out if they are long.
type Timeline struct {
	Rows   []Row
	More   int // hosts that have no row
	Pauses []Pause
}

// A Row has the requests to one host.
type Row struct {
	Host   string
	Ticks  []Tick
	Blocks []Span
}

// A Tick is the requests that are too near to each other to be told apart.
type Tick struct {
	At    float64 // percent of the width
	N     int
	Class string // of page.css: the worst of their answers
}

// A Span is a time in which the host refused.
type Span struct {
	At, Width float64 // percent of the width
	Why       string
}

// A Pause is a time that was left out.
type Pause struct {
	At, Width float64 // percent of the width
	Took      time.Duration
}

// Timeline draws the requests on the page.
func (d *Dossier) Timeline() Timeline {
	var t Timeline
	if len(d.Visits) < 2 {
		return t
	}
	axis := newAxis(d.Visits)
	t.Pauses = axis.pauses
	rows := make(map[string]*Row)
	var hosts []string // in the order of their first request
	for _, v := range d.Visits {
		r := rows[v.host]
		if r == nil {
			if len(rows) == maxRows {
				t.More++
				continue
			}
			r = &Row{Host: printable.Text(v.host)}
			rows[v.host] = r
			hosts = append(hosts, v.host)
		}
		r.add(axis.place(v.Start), classOf(v))
	}
	for _, b := range d.Blocks {
		r := rows[b.host]
		if r == nil {
			continue
		}
		from := axis.place(b.Time)
		to := axis.place(b.Until)
		r.Blocks = append(r.Blocks, Span{At: from, Width: to - from, Why: b.Why})
	}
	for _, host := range hosts {
		t.Rows = append(t.Rows, *rows[host])
	}
	return t
}

// add adds a request at the given percent of the width. They come in order.
func (r *Row) add(at float64, class string) {
	const apart = 100.0 / ticks
	last := len(r.Ticks) - 1
	if last < 0 || at-r.Ticks[last].At >= apart {
		r.Ticks = append(r.Ticks, Tick{At: at, N: 1, Class: class})
		return
	}
	r.Ticks[last].N++
	if class != "" {
		r.Ticks[last].Class = class
	}
}

// classOf returns how a request is drawn: the owner looks for their own refusals.
func classOf(v *Visit) string {
	if v.Status == 0 || v.Status >= 400 {
		return "refused"
	}
	return ""
}

// An axis places times on the width of a timeline.
type axis struct {
	parts  []part
	pauses []Pause
	last   time.Time
}

// A part is a time with requests, from start to end.
type part struct {
	start, end time.Time
	at, width  float64 // percent of the width
}

// newAxis parts the time of the visits, which are in order, where it is idle for long.
func newAxis(visits []*Visit) *axis {
	first := visits[0].Start
	last := visits[len(visits)-1].Start
	idle := max(time.Minute, time.Duration(idlest*float64(last.Sub(first))))
	a := &axis{last: last}
	start := first
	busy := time.Duration(0)
	for i := 1; i < len(visits); i++ {
		before := visits[i-1].Start
		if visits[i].Start.Sub(before) <= idle {
			continue
		}
		a.parts = append(a.parts, part{start: start, end: before})
		busy += before.Sub(start)
		start = visits[i].Start
	}
	a.parts = append(a.parts, part{start: start, end: last})
	busy += last.Sub(start)

	width := 100 - pause*float64(len(a.parts)-1)
	at := 0.0
	for i := range a.parts {
		p := &a.parts[i]
		p.at = at
		p.width = width * float64(p.end.Sub(p.start)) / (float64(busy) + shortly)
		at += p.width
		if i+1 < len(a.parts) {
			a.pauses = append(a.pauses, Pause{At: at, Width: pause, Took: a.parts[i+1].start.Sub(p.end)})
			at += pause
		}
	}
	return a
}

// place returns the percent of the width at which a time is. One in a pause is in the middle of it.
func (a *axis) place(t time.Time) float64 {
	i, found := slices.BinarySearchFunc(a.parts, t, func(p part, t time.Time) int { return p.start.Compare(t) })
	if !found {
		i-- // the part that starts before
	}
	if i < 0 {
		return 0
	}
	p := a.parts[i]
	if t.After(p.end) {
		if i+1 == len(a.parts) {
			return 100
		}
		return p.at + p.width + pause/2
	}
	if p.end.Equal(p.start) {
		return p.at
	}
	return p.at + p.width*float64(t.Sub(p.start))/float64(p.end.Sub(p.start))
}
