package crawl

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-politeness/politeness/revisit"
)

// TestHostsOfACrawlThatWatchesAreSpreadOverTime: pages of a host come back together, and each host at
// another time. No page comes back before it is due.
func TestHostsOfACrawlThatWatchesAreSpreadOverTime(t *testing.T) {
	const hosts = 1000
	for _, least := range []time.Duration{time.Second, time.Hour, 24 * time.Hour} {
		r := &run{c: &Crawler{cfg: Config{Watch: -1, Revisit: revisit.Schedule{Min: least}}}}
		step := least / 4
		due := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
		back := func(host string, due time.Time) time.Time {
			res := Result{Request: Request{Host: host}}
			r.remember(&res, revisit.Page{}, due)
			if wait := res.Again.Sub(due); wait < 0 || wait > step {
				t.Errorf("Min %v: %s is back %v after it is due", least, host, wait)
			}
			return res.Again
		}
		var parts [10]int
		for i := range hosts {
			host := fmt.Sprintf("%d.example", i)
			at := back(host, due)
			if other := back(host, at.Add(-step/8)); !other.Equal(at) {
				t.Errorf("Min %v: pages of %s are back %v apart", least, host, other.Sub(at))
			}
			parts[at.Sub(due)*time.Duration(len(parts))/(step+1)]++
		}
		for i, n := range parts {
			if n < hosts/len(parts)/2 {
				t.Errorf("Min %v: %d of %d hosts are back in tenth %d of %v", least, n, hosts, i, step)
			}
		}
	}
}
