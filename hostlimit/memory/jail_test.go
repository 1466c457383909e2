//go:build !race

// See grid_test.go.

package memory_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRefusalsInTenMinutes counts what fail2ban's jail for nginx's limit_req counts: five refusals in
// ten minutes are a ban. Its own example is a pace of one request a second with a burst of one, which
// answers a bare 503. Four would be wanted. That can't be had without slower crawls of sites that fail
// from time to time, so the bounds hold what there is. A pool that asks for no page again isn't
// bounded: it takes most refusals for broken pages.
func TestRefusalsInTenMinutes(t *testing.T) {
	most := map[string]int{"crawl": 13, "Bulk": 13, "Responsive": 13}
	mostLater := map[string]int{"crawl": 6, "Bulk": 6, "Responsive": 6} // after the first hour
	for i := range gridCrawlers {
		c := &gridCrawlers[i]
		if most[c.name] == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := gridSite{status: 503, limit: &tokenBucket{refill: time.Second, burst: 2}, allowed: time.Second}
				r := crawlGrid(t, c, s, 3)
				worst := inTenMinutes(r.refusedAt, 0)
				later := inTenMinutes(r.refusedAt, time.Hour)
				t.Logf("%d refusals in ten minutes, %d after the first hour, by hour %v, served %v", worst, later, r.refused, r.served)
				if worst > most[c.name] {
					t.Errorf("%d refusals in ten minutes, want at most %d", worst, most[c.name])
				}
				if later > mostLater[c.name] {
					t.Errorf("%d refusals in ten minutes after the first hour, want at most %d", later, mostLater[c.name])
				}
			})
		})
	}
}

// inTenMinutes returns the largest number of times within ten minutes, of those from the given one on.
func inTenMinutes(times []time.Duration, from time.Duration) (most int) {
	first := 0
	for last, at := range times {
		for first < last && (at-times[first] >= 10*time.Minute || times[first] < from) {
			first++
		}
		if times[first] >= from {
			most = max(most, last-first+1)
		}
	}
	return most
}
