package servers

import (
	"fmt"
	"time"
)

// A Problem is a bound that a cell doesn't keep.
type Problem struct {
	Bound string // its name
	Text  string // what was seen
}

// problems are those of one cell.
type problems []Problem

// add adds a problem if the bound of that name is broken.
func (p *problems) add(name string, broken bool, format string, args ...any) {
	if broken {
		*p = append(*p, Problem{name, fmt.Sprintf(format, args...)})
	}
}

// Always returns what is wrong with the cell of one of our crawlers whatever it has learned.
func Always(r *Result) []Problem {
	var p problems
	p.add("asked", r.Requests < 2, "%d requests", r.Requests)
	p.add("retry-after", r.InRetryAfter > 0, "%d requests inside a Retry-After", r.InRetryAfter)
	p.add("disallowed", r.Disallowed > 0, "%d requests below %s", r.Disallowed, Private)
	p.add("delay", r.Early > 2*r.Transit, "%v ahead of the delay", r.Early)
	p.add("slots", r.AtOnce > r.Crawler.Slots, "%d requests at once with %d slots", r.AtOnce, r.Crawler.Slots)
	return p
}

// How long a cell must be for its share to say something: time is needed to learn, and a ban takes
// a minute.
const (
	learnt    = 4 * time.Minute
	learntBan = 10 * time.Minute
)

// Goals returns which goals the cell of one of our crawlers misses. They are what the library is to
// reach, and it doesn't reach all of them yet.
func Goals(r *Result) []Problem {
	var p problems
	if most, ok := mostRefusals(r.Server.Kind); ok {
		p.add("refusals", r.Refusals > most, "%d refusals, at most %d", r.Refusals, most)
	}
	p.add("ban", r.Server.Kind == Ban && r.InBan > 0, "%d requests inside a known ban", r.InBan)
	p.add("lost", r.Crawler.Again && r.Lost() != 0, "%d of %d pages lost", r.Lost(), r.Site.Pages())
	if least, ok := leastShare(r); ok {
		const text = "%.0f %% of %.2f pages a second, at least %.0f %%"
		p.add("share", r.Share() < least, text, 100*r.Share(), r.Allowed(), 100*least)
	}
	return p
}

func mostRefusals(k Kind) (int, bool) {
	switch k {
	case Broken: // each broken page is one
		return 0, false
	case Window:
		return 80, true
	case Ban:
		return 12, true
	default:
		return 30, true
	}
}

// leastShare returns the least Share. There is none if the cell is too short, if the crawler's
// policy is to stay away after a refusal, and if it never asks for broken pages again.
func leastShare(r *Result) (float64, bool) {
	bulk := r.Crawler.Name == "Bulk"
	enough := learnt
	if r.Server.Kind == Ban {
		enough = learntBan
	}
	staysAway := r.Crawler.Waits && r.Refusals > 0 && r.Server.Kind != Broken
	if r.Length < enough || staysAway {
		return 0, false
	}
	switch r.Server.Kind {
	case Free: // as fast as before anything was learned
		return 0.85, true
	case Window:
		if bulk {
			return 0.6, true
		}
		return 0.7, true
	case Broken:
		switch {
		case !r.Crawler.Again:
			return 0, false
		case bulk:
			return 0.55, true
		case r.Server.Broken <= 0.01:
			return 0.9, true
		case r.Server.Broken <= 0.05:
			return 0.8, true
		}
	}
	return 0.7, true
}
