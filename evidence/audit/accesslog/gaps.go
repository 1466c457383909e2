package accesslog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/printable"
)

// closer is how much closer than in the evidence the site may see two requests: most access logs
// know whole seconds.
const closer = 1500 * time.Millisecond

const (
	sawCloser = "The site saw requests to %s %.0f s apart, and the evidence has them %.0f s apart at least."
	// If a server notes the ends of requests, as nginx does, a slow page followed by a quick one
	// looks like this. So does a burst that a crawler hides by long durations in its evidence. The
	// access log doesn't tell the two apart.
	onDurations = "The access log notes %s to %s sooner than %.0f s after the one before, the soonest after %.0f s. " +
		"If it notes when a request ends, they were %.0f s apart by the durations in the evidence. " +
		"The access log itself doesn't show that."
)

// compareGaps compares how far apart the requests to each host were, by the site's own times. If
// only the durations in the evidence explain why the site notes requests closer together, the
// result says so.
func (c *comparer) compareGaps() {
	own := gapsBetween(c.own, func(r *request) time.Time { return r.start })
	noted := gapsBetween(c.site, func(r *request) time.Time { return r.Time })
	started := gapsBetween(c.site, func(r *request) time.Time { return r.start })
	for _, host := range slices.Sorted(maps.Keys(noted)) {
		name := printable.Text(host)
		least := shortest(own[host])
		byStarts := shortest(started[host])
		byLog := shortest(noted[host])
		switch {
		case byStarts < least-closer:
			sentence := fmt.Sprintf(sawCloser, name, byStarts.Seconds(), least.Seconds())
			c.Closer = append(c.Closer, sentence)
		case byLog < least-closer:
			n := lines.Count(countShorter(noted[host], least-closer), "request")
			sentence := fmt.Sprintf(onDurations, n, name, least.Seconds(), byLog.Seconds(), byStarts.Seconds())
			c.Unshown = append(c.Unshown, sentence)
		}
	}
}

// gapsBetween returns the gaps between the requests to each host that has several, by their times.
func gapsBetween(requests []*request, timeOf func(*request) time.Time) map[string][]time.Duration {
	slices.SortStableFunc(requests, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.asked(), b.asked()), timeOf(a).Compare(timeOf(b)))
	})
	gaps := map[string][]time.Duration{}
	for i, r := range requests[min(1, len(requests)):] {
		before := requests[i]
		if host := r.asked(); before.asked() == host {
			gaps[host] = append(gaps[host], timeOf(r).Sub(timeOf(before)))
		}
	}
	return gaps
}

// asked returns the host that was asked for. An access log may have another name of its server.
func (r *request) asked() string {
	if r.Line == 0 || r.other == nil { // a record of the evidence, or a request that it lacks
		return r.Host
	}
	return r.other.Host
}

// shortest returns the shortest gap, 0 if there is none.
func shortest(gaps []time.Duration) time.Duration {
	if len(gaps) == 0 {
		return 0
	}
	return slices.Min(gaps)
}

func countShorter(gaps []time.Duration, than time.Duration) (n int) {
	for _, gap := range gaps {
		if gap < than {
			n++
		}
	}
	return n
}
