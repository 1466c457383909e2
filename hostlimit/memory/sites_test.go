package memory_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"

	"github.com/go-politeness/politeness/internal/soak"
)

// A site allows a rate, in its own way. It is asked at times that never go back.
type site interface {
	allow(at time.Duration) bool
}

// fixedWindow allows n requests in each window of the clock.
type fixedWindow struct {
	n      int
	window time.Duration
	number int64
	used   int
}

func (s *fixedWindow) allow(at time.Duration) bool {
	if number := int64(at / s.window); number != s.number {
		s.number, s.used = number, 0
	}
	if s.used >= s.n {
		return false
	}
	s.used++
	return true
}

// slidingWindow allows n requests in any window.
type slidingWindow struct {
	n      int
	window time.Duration
	served []time.Duration
}

func (s *slidingWindow) allow(at time.Duration) bool {
	for len(s.served) > 0 && s.served[0] <= at-s.window {
		s.served = s.served[1:]
	}
	if len(s.served) >= s.n {
		return false
	}
	s.served = append(s.served, at)
	return true
}

// tokenBucket allows a request each refill, and burst of them at once.
type tokenBucket struct {
	refill time.Duration
	burst  int
	full   time.Duration // when the bucket is full again
}

func (s *tokenBucket) allow(at time.Duration) bool {
	s.full = max(s.full, at)
	if s.full+s.refill > at+time.Duration(s.burst)*s.refill {
		return false
	}
	s.full += s.refill
	return true
}

// endpoints allows each of its parts the same. A crawl asks for one after the other.
type endpoints struct {
	parts []site
	next  int
}

func (s *endpoints) allow(at time.Duration) bool {
	s.next++
	return s.parts[s.next%len(s.parts)].allow(at)
}

// generous never refuses.
type generous struct{}

func (generous) allow(time.Duration) bool { return true }

// stray refuses one request a day, at noon.
type stray struct{ noon time.Duration }

func (s *stray) allow(at time.Duration) bool {
	if at < s.noon {
		return true
	}
	s.noon += 24 * time.Hour
	return false
}

// A visit is what became of a crawl of a site, hour by hour.
type visit struct {
	served, refused []int
	shortest        []time.Duration // delay that was in force
	longest         []time.Duration
}

// crawl crawls a site for some hours, with one worker, in the calling bubble. between is how
// long the worker has other things to do after each request.
func crawl(t *testing.T, cfg hostlimit.Config, s site, hours int, between time.Duration) (v visit) {
	m := newMemory(t, cfg)
	v.served, v.refused = make([]int, hours), make([]int, hours)
	v.shortest, v.longest = slices.Repeat([]time.Duration{time.Hour}, hours), make([]time.Duration, hours)
	for began := time.Now(); ; {
		l, err := m.Acquire(t.Context(), "example.com", 0)
		if err != nil {
			t.Fatal(err)
		}
		g, err := l.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := time.Since(began)
		hour := int(at / time.Hour)
		if hour >= hours {
			l.Release()
			return v
		}
		o := hostlimit.Outcome{Status: 200, Latency: 50 * time.Millisecond}
		if s.allow(at) {
			v.served[hour]++
		} else {
			v.refused[hour]++
			o.Status = 429
		}
		v.shortest[hour], v.longest[hour] = min(v.shortest[hour], g.Delay), max(v.longest[hour], g.Delay)
		time.Sleep(o.Latency)
		l.Observe(o)
		l.Release()
		time.Sleep(between)
	}
}

// Sites say a bare 429 above a rate that nobody knows. The crawl finds it: it is refused at
// most 60 times an hour, uses 70 % of the rate and more, and from the second hour on the longest
// delay is at most two lessons, of 1.5 each, above the shortest; a factor of 4 where a bucket saves
// what isn't used.
func TestLearnedFindsTheRateOfASite(t *testing.T) {
	long := soak.Size(0, 0, 1) > 0
	hours := soak.Size(3, 3, 24)
	for _, minute := range []int{120, 60, 30, 17, 10} { // 17 a minute are 1,000 an hour
		window := func(n int) site { return &fixedWindow{n: n, window: time.Minute} }
		for name, s := range map[string]site{
			"fixed window":   window(minute),
			"sliding window": &slidingWindow{n: minute, window: time.Minute},
			"token bucket":   &tokenBucket{refill: time.Minute / time.Duration(minute), burst: 10},
			"a second":       &fixedWindow{n: max(1, minute/60), window: time.Minute / time.Duration(min(minute, 60))},
			"endpoints":      &endpoints{parts: []site{window((minute + 1) / 2), window((minute + 1) / 2)}},
		} {
			if !long && minute != 10 && minute != 60 && name != "fixed window" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				cfg := hostlimit.Config{Delay: hostlimit.Delay{Min: 200 * time.Millisecond}}
				v := crawl(t, cfg, s, hours, 0)
				share := slices.Clone(v.served)
				for i := range share {
					share[i] = share[i] * 100 / (60 * minute)
				}
				t.Logf("%3d a minute, %-14s refused %v, share %v, delays %v %v", minute, name, v.refused, share, slices.Min(v.shortest[1:]), slices.Max(v.longest[1:]))
				if n := slices.Max(v.refused); n > 60 {
					t.Errorf("%d a minute, %s: refused %v times an hour", minute, name, v.refused)
				}
				if n := slices.Min(share); n < 70 {
					t.Errorf("%d a minute, %s: used %v %% of it", minute, name, share)
				}
				if least, most := slices.Min(v.shortest[1:]), slices.Max(v.longest[1:]); most > least*9/4 && name != "token bucket" || most > 4*least {
					t.Errorf("%d a minute, %s: the delay goes from %v to %v after an hour", minute, name, least, most)
				}
			})
		}
	}
}

// A quota of an hour is used up at the pace that the delay allows, and then waited for:
// nothing tells it from a rate before.
func TestLearnedUsesAQuotaOfAnHour(t *testing.T) {
	for _, n := range []int{100, 1000} {
		synctest.Test(t, func(t *testing.T) {
			v := crawl(t, hostlimit.Config{}, &fixedWindow{n: n, window: time.Hour}, 6, 0)
			t.Logf("%d an hour: refused %v, served %v", n, v.refused, v.served)
			if slices.Max(v.refused) > 60 || slices.Min(v.served) < n*7/10 {
				t.Errorf("%d an hour: refused %v, served %v", n, v.refused, v.served)
			}
		})
	}
}

func TestLearnedCostsNothingWhereNothingRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := crawl(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}}, generous{}, 3, 0)
		for hour, n := range v.served {
			if n != 3600 {
				t.Errorf("hour %d: %d pages, want one a second", hour+1, n)
			}
		}
	})
}

// What one refusal a day teaches is forgotten within the hour, also by a crawler that has
// had little to fetch for days.
func TestAStrayRefusalADayCostsNothingADayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const days = 3
		v := crawl(t, hostlimit.Config{Delay: hostlimit.Delay{Min: 5 * time.Second}}, &stray{12 * time.Hour}, days*24, 0)
		for hour, n := range v.served {
			if hour%24 != 12 && n != 720 || n < 600 {
				t.Errorf("hour %d: %d pages, want one in 5 s", hour+1, n)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		v := crawl(t, hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}}, &stray{12 * time.Hour}, 14*24, 10*time.Minute)
		if most := slices.Max(v.longest); most > 1500*time.Millisecond {
			t.Errorf("a page every ten minutes, one refusal a day: the delay becomes %v", most)
		}
	})
}
