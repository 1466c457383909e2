package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// TestAnOverrideEndsWhatWasAdapted: new limits hold from the next answer on, for a delay by response
// times and for one that was learned.
func TestAnOverrideEndsWhatWasAdapted(t *testing.T) {
	for _, before := range []hostlimit.Adaptive{hostlimit.Squared, hostlimit.Learned} {
		synctest.Test(t, func(t *testing.T) {
			delay := hostlimit.Delay{Min: time.Second, Adaptive: before}
			m := mustNew(t, hostlimit.Config{Concurrency: 1, Override: func(string) (hostlimit.Limits, bool) { return hostlimit.Limits{Delay: delay}, true }})
			exchange := func(status int, latency time.Duration) time.Duration {
				l := acquire(t, m, "a", 0)
				l.Observe(hostlimit.Outcome{Status: status, Latency: latency})
				l.Release()
				return l.Grant.Delay
			}
			exchange(429, 7*time.Second)
			if d := exchange(200, 7*time.Second); d <= time.Second {
				t.Errorf("%v: %v after 7 s and a 429", before, d)
			}
			delay.Adaptive = hostlimit.Fixed
			exchange(200, time.Millisecond) // after what was promised
			if d := exchange(200, time.Millisecond); d != time.Second {
				t.Errorf("%v, then fixed: %v", before, d)
			}
		})
	}
}

// TestRetryAfterOfBeforeAnIdleTimeIsForgotten, as the pages served before it are: they count for
// nothing in what the next lesson teaches.
func TestRetryAfterOfBeforeAnIdleTimeIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Concurrency: 1, MaxWait: 2 * time.Hour, Delay: hostlimit.Delay{Min: time.Second, Max: time.Second}})
		exchange := func(o hostlimit.Outcome) {
			l := acquire(t, m, "a", 0)
			l.Observe(o)
			l.Release()
		}
		exchange(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		exchange(hostlimit.Outcome{Status: 200})
		time.Sleep(10 * time.Minute)
		for range 10 { // a page in ten seconds
			exchange(hostlimit.Outcome{Status: 200})
			time.Sleep(10 * time.Second)
		}
		before := learnedOf(t, m)
		exchange(hostlimit.Outcome{Status: 429})
		if after := learnedOf(t, m); after != 4*before {
			t.Errorf("from %v to %v, want the time per page, at most four times the delay", before, after)
		}
	})
}

func learnedOf(t *testing.T, m *Limiter) time.Duration {
	for st := range states(t, m) {
		return st.Learned
	}
	return 0
}

// TestALessonInVainIsTakenBack: a host that refuses the first request for each page, at whatever pace,
// is asked at the usual one. What a 429 has taught stays, and a limit is learned afterwards.
func TestALessonInVainIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustNew(t, hostlimit.Config{Concurrency: 1, MaxWait: 2 * time.Hour, Delay: hostlimit.Delay{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond}})
		longest := time.Duration(0)
		exchange := func(status int, page uint64) time.Duration {
			l := acquire(t, m, "a", 0)
			l.Observe(hostlimit.Outcome{Status: status, Resource: page})
			l.Release()
			longest = max(longest, l.Grant.Delay)
			return l.Grant.Delay
		}
		began := time.Now()
		for page := range uint64(200) {
			exchange(503, page+1)
			exchange(200, page+1)
		}
		if took := time.Since(began); took > time.Hour || longest > 5*time.Second {
			t.Errorf("200 pages took %v, with delays of up to %v", took, longest)
		}
		if longest < 8*200*time.Millisecond {
			t.Errorf("delays of up to %v: nothing was tried", longest)
		}
		for page := range uint64(40) {
			exchange(200, 1000+page)
		}
		if delay := exchange(200, 2000); delay > 220*time.Millisecond {
			t.Errorf("a delay of %v, of lessons that were in vain", delay)
		}
		before := learnedOf(t, m)
		for page := range uint64(3) {
			exchange(503, 3000+page)
			exchange(200, 3000+page)
		}
		if after := learnedOf(t, m); after <= before {
			t.Errorf("three refusals close together, later, have taught nothing: %v", after)
		}
	})
}
