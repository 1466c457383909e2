package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/printable"
)

// errPostponed is why a crawl with TrapsLeft has left URLs.
var errPostponed = errors.New("crawl: only postponed URLs are left, which look like those of a trap")

// A postponed is the numbers of postponed URLs by their reasons.
type postponed struct {
	byReason map[string]int
	all      int // also those of no reason in byReason
	began    time.Time
	took     time.Duration // to count them
}

// mostReasons is the number of reasons that a Summary names.
const mostReasons = 20

// otherReasons is the key in Summary.Postponed of those that it doesn't name.
const otherReasons = "other reasons"

// add counts n URLs.
func (p *postponed) add(reason string, n int) {
	const mostKept = 1000 // a trap may have any number of paths
	if p.byReason == nil {
		p.byReason = make(map[string]int)
	}
	p.all += n
	reason = printable.Clipped(reason, 200)
	if _, ok := p.byReason[reason]; ok || len(p.byReason) < mostKept {
		p.byReason[reason] += n
	}
}

// count asks the Queue.
func (p *postponed) count(ctx context.Context, q Postponer) error {
	p.began = time.Now()
	groups, all, err := q.Postponed(ctx, 10*mostReasons) // several hosts may share a reason
	p.took = time.Since(p.began)
	for _, g := range groups {
		p.add(nameOf(g.URL, g.Mark), g.Number)
	}
	p.all = all
	return err
}

// largest returns the reasons with the largest numbers, and one for all others. It returns nil if
// there is none.
func (p *postponed) largest() map[string]int {
	if p.all == 0 {
		return nil
	}
	reasons := byNumber(p.byReason)
	largest := make(map[string]int)
	rest := p.all
	for _, reason := range reasons[:min(len(reasons), mostReasons)] {
		largest[reason] = p.byReason[reason]
		rest -= p.byReason[reason]
	}
	if rest > 0 {
		largest[otherReasons] += rest
	}
	return largest
}

// byNumber returns the keys of numbers, those with the largest first.
func byNumber(numbers map[string]int) []string {
	return slices.SortedFunc(maps.Keys(numbers), func(a, b string) int {
		return cmp.Or(cmp.Compare(numbers[b], numbers[a]), cmp.Compare(a, b))
	})
}

// wantPostponed has the Queue count the postponed URLs, if that takes little of the crawl's time.
func (r *run) wantPostponed(now time.Time) {
	const share = 100 // of the time
	last := &r.postponed
	if r.postponer == nil || r.c.cfg.Progress == nil || now.Sub(last.began) < share*last.took {
		return
	}
	r.work.count = true
}

// showPostponed takes the numbers of the Queue for Progress.
func (r *run) showPostponed(p *postponed) {
	r.postponed = *p
	r.summary.Postponed = p.largest()
}

// countPostponed counts the URLs that are postponed at the end of the Run: those that are Left, or
// all of a Queue that continues.
func (r *run) countPostponed() {
	if r.postponer == nil {
		return
	}
	left := r.leftPostponed
	if _, isMemory := r.queue.(*memory); !isMemory {
		left = postponed{}
		err := guarded("the Queue", func() error { return left.count(context.WithoutCancel(r.ctx), r.postponer) })
		if err != nil {
			r.err = cmp.Or(r.err, err)
		}
	}
	r.summary.Postponed = left.largest()
	if left.all > 0 && r.frontier.rule.leaves && r.summary.Stopped == nil {
		r.summary.Stopped = errPostponed
	}
}

// postponed returns the reasons of postponed URLs as a part of a line; empty: there are none.
func (s Summary) postponed() string {
	const most = 3
	all := 0
	for _, n := range s.Postponed {
		all += n
	}
	if all == 0 {
		return ""
	}
	var parts []string
	for _, reason := range byNumber(s.Postponed) {
		if len(parts) == most {
			parts = append(parts, "and so on")
			break
		}
		parts = append(parts, fmt.Sprintf("%s %d", reason, s.Postponed[reason]))
	}
	return fmt.Sprintf("%d postponed (%s)", all, strings.Join(parts, ", "))
}

// mayPostpone notes that the Queue may have postponed URLs of a host.
func (r *run) mayPostpone(key string) {
	if h := r.frontier.hosts[key]; h != nil {
		h.postpones = true
	}
}
