package crawl

import (
	"context"
	"time"

	"github.com/go-politeness/politeness"
)

// A counter is a Queue that counts its URLs that wait or are lent, as that of package sqlitequeue
// does.
type counter interface {
	Waiting(ctx context.Context) (n int, err error)
}

// A leftCount is the number of URLs that are left, as the Queue has counted last.
type leftCount struct {
	n     int // -1: not known
	began time.Time
	took  time.Duration // to count them
}

// count asks the Queue. A crawl doesn't end because the number isn't known.
func (l *leftCount) count(ctx context.Context, q counter) {
	l.n = -1
	l.began = time.Now()
	n, err := q.Waiting(ctx)
	if err == nil {
		l.n = n
	}
	l.took = time.Since(l.began)
}

// wantLeft counts the URLs that are left, or has the Queue count them if that takes little of the
// crawl's time.
func (r *run) wantLeft(now time.Time) {
	const share = 100 // of the time
	switch q := r.queue.(type) {
	case *memory:
		if !r.storing { // else a call of it is at work in another goroutine
			r.left.n = q.waiting()
		}
	case counter:
		if now.Sub(r.left.began) >= share*r.left.took {
			r.work.left = true
		}
	}
}

// A pace is the number of pages in the last minute, one entry a second, round and round.
type pace struct {
	entries [60]visitedBy
	next    int
}

// A visitedBy is how many pages there were at one time.
type visitedBy struct {
	at    time.Duration // since the crawl began
	pages int
}

// perMinute notes the number of pages so far. It returns how many there were a minute since the
// oldest entry, which is a minute ago, or the beginning of the crawl.
func (p *pace) perMinute(at time.Duration, pages int) float64 {
	oldest := p.entries[p.next] // zero, as long as the crawl isn't a minute old
	p.entries[p.next] = visitedBy{at, pages}
	p.next = (p.next + 1) % len(p.entries)
	passed := at - oldest.at
	if passed <= 0 {
		return 0
	}
	return float64(pages-oldest.pages) / passed.Minutes()
}

// A standing is the numbers by which a status differs from the one before.
type standing struct {
	visited, left, inFlight, hosts, ended int
	perMinute                             float64
}

// standing returns the numbers of now. It notes the number of pages in r.pace.
func (r *run) standing(now time.Time) standing {
	n := standing{
		visited:  r.summary.Visited() + r.summary.Outcomes[Unchanged],
		left:     r.left.n,
		inFlight: r.frontier.inFlight(),
		hosts:    len(r.frontier.hosts),
	}
	for _, ended := range r.summary.Outcomes {
		n.ended += ended
	}
	n.perMinute = r.pace.perMinute(now.Sub(r.began), n.visited)
	return n
}

// reportStatus gives the state of the crawl to the Transport, for its status, if it isn't as it was
// a second ago: a crawl may wait for days.
func (r *run) reportStatus(now time.Time, done bool) {
	n := r.standing(now)
	if n == r.reported && !done {
		return
	}
	r.reported = n
	s := politeness.CrawlStatus{
		Began:     r.began,
		Visited:   n.visited,
		PerMinute: n.perMinute,
		Left:      n.left,
		InFlight:  n.inFlight,
		Hosts:     n.hosts,
		Outcomes:  make(map[string]int, len(r.summary.Outcomes)),
	}
	for outcome, count := range r.summary.Outcomes {
		if count != 0 && outcome != Duplicate { // a link that was followed already is no URL of the crawl
			s.Outcomes[string(outcome)] = count
		}
	}
	if r.summary.Stopped != nil {
		s.Stopped = r.summary.Stopped.Error()
	}
	if done {
		s.Ended = now
		s.Left = r.leftAtEnd()
	}
	r.c.cfg.Transport.ReportCrawl(r, s)
}

// leftAtEnd returns the number of URLs that the next crawl finds.
func (r *run) leftAtEnd() int {
	q, ok := r.queue.(counter)
	if !ok {
		return r.summary.Outcomes[Left]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Second)
	defer cancel()
	_ = guarded("the Queue", func() error {
		r.left.count(ctx, q)
		return nil
	})
	return r.left.n
}
