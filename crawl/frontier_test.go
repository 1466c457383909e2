package crawl

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
)

// TestFrontierIsFairByTime: hosts that want all the connections get the same time of them.
func TestFrontierIsFairByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &frontier{hosts: make(map[string]*host), max: 4}
		took := []time.Duration{100 * time.Millisecond, 150 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond}
		held := make([]time.Duration, 8)
		number := make(map[*host]int)
		for i := range held {
			h := f.host(string(rune('a' + i)))
			h.robotsAsked, number[h] = true, i
			h.urls = make([]Request, 10_000)
			f.put(h)
		}
		type landing struct {
			at time.Time
			fl *flight
		}
		var flights []landing
		now := time.Now()
		for end := now.Add(5 * time.Minute); now.Before(end); {
			if fl, _ := f.take(now); fl != nil {
				f.started(fl, now)
				flights = append(flights, landing{now.Add(took[number[fl.h]%len(took)]), fl})
				continue
			}
			first := 0
			for i := range flights {
				if flights[i].at.Before(flights[first].at) {
					first = i
				}
			}
			l := flights[first]
			flights = append(flights[:first], flights[first+1:]...)
			now = l.at
			f.finish(l.fl, now.Sub(l.fl.began))
			held[number[l.fl.h]] += now.Sub(l.fl.began)
		}
		for i, d := range held {
			if mean := 5 * time.Minute / 2; d < mean*97/100 || d > mean*103/100 {
				t.Errorf("host %d, whose answers take %v, held connections for %v of %v", i, took[i%len(took)], d, mean)
			}
		}
	})
}

// TestChargeIsTheTimeThatWasHeld: what a flight was charged beforehand is put right when it ends, and
// a flight without an exchange costs nothing and is no sample.
func TestChargeIsTheTimeThatWasHeld(t *testing.T) {
	f := &frontier{hosts: make(map[string]*host), max: 4}
	h := f.host("a")
	h.robotsAsked, h.urls = true, make([]Request, 10)
	f.put(h)
	now := time.Unix(0, 0)
	for _, tt := range []struct{ took, charged, usual time.Duration }{
		{4 * time.Second, 4 * time.Second, 4 * time.Second},
		{0, 4 * time.Second, 4 * time.Second},
		{2 * time.Second, 6 * time.Second, 3 * time.Second},
		{time.Second, 7 * time.Second, 2 * time.Second},
	} {
		fl, _ := f.take(now)
		if fl == nil {
			t.Fatal("no flight")
		}
		now = now.Add(tt.took)
		f.finish(fl, tt.took)
		if h.charged != tt.charged || h.usual != tt.usual {
			t.Errorf("after %v: charged %v, usually %v, want %v and %v", tt.took, h.charged, h.usual, tt.charged, tt.usual)
		}
	}
}

// TestUsualIsAboutTheMedian of the times that exchanges take, however long a few of them are, and
// hosts that take over four times as long are slow.
func TestUsualIsAboutTheMedian(t *testing.T) {
	f := &frontier{hosts: make(map[string]*host), max: 4}
	h := f.host("a")
	if h.pace != slow || f.number != [2]int{0, 1} {
		t.Errorf("a new host is of pace %d, numbers %v", h.pace, f.number)
	}
	for i := range 1000 {
		took := time.Duration(80+i*37%41) * time.Millisecond
		if i%5 == 4 {
			took = time.Minute
		}
		f.sample(took)
	}
	if f.usual < 95*time.Millisecond || f.usual > 115*time.Millisecond {
		t.Errorf("usual is %v, the median is 105 ms", f.usual)
	}
	h.slots, h.gap = 2, 100*time.Millisecond
	for _, tt := range []struct {
		took   time.Duration
		pace   int
		demand float64
	}{
		{350 * time.Millisecond, quick, 2}, {500 * time.Millisecond, slow, 0}, {50 * time.Millisecond, quick, 0.5}, {0, quick, 0},
	} {
		h.usual = 0
		f.judge(h, tt.took)
		if h.pace != tt.pace || h.demand != tt.demand || f.demand != tt.demand || f.number[tt.pace] != 1 || f.number[1-tt.pace] != 0 {
			t.Errorf("%v: pace %d, demand %v, %+v", tt.took, h.pace, h.demand, f)
		}
	}
	if f.forget(h); len(f.hosts) != 0 || f.demand != 0 || f.number != [2]int{} {
		t.Errorf("after it was forgotten: %+v", f)
	}
}

// TestQuickRobotsProveNothing: they may come from a cache. Slow ones are a sample.
func TestQuickRobotsProveNothing(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 0, time.Millisecond: 0, 400 * time.Millisecond: 0, 401 * time.Millisecond: 401 * time.Millisecond} {
		f := &frontier{hosts: make(map[string]*host), max: 4, usual: 100 * time.Millisecond}
		h := f.host("a")
		h.urls = make([]Request, 2)
		f.put(h)
		fl, _ := f.take(time.Unix(0, 0))
		if f.unknowns != 1 {
			t.Errorf("%d flights of unknown hosts", f.unknowns)
		}
		if f.finish(fl, took); h.usual != want || f.unknowns != 0 {
			t.Errorf("robots.txt took %v: usually %v, %d flights of unknown hosts", took, h.usual, f.unknowns)
		}
		f.usual, h.usual, h.robotsAsked = 0, 0, false
		f.put(h)
		fl, _ = f.take(time.Unix(0, 0))
		if f.finish(fl, took); h.usual != 0 {
			t.Errorf("the first robots.txt of all is a sample of %v", h.usual)
		}
	}
}

// TestMoveUp: hosts wait until the earlier one of two times, and stay in their order.
func TestMoveUp(t *testing.T) {
	f := &frontier{hosts: make(map[string]*host)}
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	sooner := make(map[*host]time.Time)
	for key, times := range map[string][2]int64{"a": {10, 0}, "b": {20, 30}, "c": {30, 5}, "d": {40, 15}} {
		h := f.host(key)
		h.at, h.urls = at(times[0]), make([]Request, 1)
		f.put(h)
		if times[1] > 0 {
			sooner[h] = at(times[1])
		}
	}
	f.moveUp(sooner)
	for _, want := range []struct {
		key string
		at  int64
	}{{"c", 5}, {"a", 10}, {"d", 15}, {"b", 20}} {
		if got := f.waiting.pop(); got.h.key != want.key || !got.at.Equal(at(want.at)) || !got.h.at.Equal(got.at) {
			t.Errorf("%s at %v, want %s at %v", got.h.key, got.at, want.key, at(want.at))
		}
	}
}

// TestRoom: hosts that are slow, or may be, hold no more connections than their part of the hosts, or
// than quick ones leave; unknown ones only three quarters of these, and fresh ones go first.
func TestRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		frontier
		fresh, unknown, slow bool
	}{
		"nothing is in flight":        {frontier{number: [2]int{10, 10}}, true, true, true},
		"their part is in use":        {frontier{number: [2]int{10, 10}, demand: 16, flights: [2]int{0, 8}}, false, false, false},
		"one is left of it":           {frontier{number: [2]int{10, 10}, demand: 16, flights: [2]int{0, 7}}, true, true, true},
		"quick ones leave more":       {frontier{number: [2]int{10, 10}, demand: 4, flights: [2]int{0, 8}}, true, true, true},
		"and that is in use":          {frontier{number: [2]int{10, 10}, demand: 4, flights: [2]int{0, 9}}, false, false, false},
		"two in any case":             {frontier{number: [2]int{99, 1}, demand: 99, flights: [2]int{0, 1}}, true, true, true},
		"three quarters are unknown":  {frontier{number: [2]int{10, 10}, demand: 16, flights: [2]int{0, 6}, unknowns: 6}, true, false, true},
		"nearly three quarters":       {frontier{number: [2]int{10, 10}, demand: 16, flights: [2]int{0, 5}, unknowns: 5}, true, true, true},
		"no host is left":             {frontier{}, true, true, true},
		"flights of quick ones alone": {frontier{number: [2]int{10, 10}, demand: 16, flights: [2]int{15, 0}}, true, true, true},
	} {
		f := tt.frontier
		f.max = 16
		for class, want := range map[int]bool{quick: true, fresh: tt.fresh, unknown: tt.unknown, slow: tt.slow} {
			if got := f.hasRoom(class); got != want {
				t.Errorf("%s: room for class %d: %v", name, class, got)
			}
		}
		f.due[fresh].push(ready{h: new(host)})
		if f.hasRoom(slow) || f.hasRoom(unknown) {
			t.Errorf("%s: fresh ones don't go first", name)
		}
	}
	f := frontier{max: 16, number: [2]int{10, 10}}
	f.due[slow].push(ready{priority: 1, h: new(host)})
	f.due[unknown].push(ready{priority: 2, h: new(host)})
	if f.hasRoom(slow) {
		t.Error("a slow host goes before an unknown one of a higher priority")
	}
	f.due[slow].push(ready{priority: 3, h: new(host)})
	if !f.hasRoom(slow) {
		t.Error("an unknown host goes before a slow one of a higher priority")
	}
}

// TestClass: a host whose robots.txt was had is fresh until its first page is asked for.
func TestClass(t *testing.T) {
	for want, h := range map[int]*host{
		unknown: {pace: slow}, fresh: {pace: slow, robotsAsked: true}, slow: {pace: slow, robotsAsked: true, flights: 1},
		quick: {pace: quick, robotsAsked: true, usual: 1},
	} {
		if got := h.class(); got != want {
			t.Errorf("%+v is of class %d, want %d", h, got, want)
		}
	}
}

// TestCrowded: how many answered pages may wait for a visit, results for the Queue, and URLs for it.
func TestCrowded(t *testing.T) {
	for _, tt := range []struct {
		visiting, done, add, rejected, visited int
		want                                   bool
	}{
		{8, 1000, 50_000, 50_000, 1, false},
		{9, 0, 0, 0, 0, true},
		{0, 1001, 0, 0, 0, true},
		{0, 0, 50_000, 50_001, 0, true},
		{0, 0, 50_001, 50_000, 0, true},
		{3, 0, 0, 0, 7, true},
		{2, 0, 0, 0, 7, false},
	} {
		r := &run{c: &Crawler{cfg: Config{Workers: 2, MaxPages: 10}}, visiting: tt.visiting, spent: tt.visited}
		r.work = work{done: make([]Result, tt.done), add: make([]Request, tt.add), rejected: make([]Result, tt.rejected)}
		if got := r.crowded(); got != tt.want {
			t.Errorf("%+v: crowded is %v", tt, got)
		}
	}
}

// TestForgottenHostIsNotCounted: a host may be forgotten while a page that was served before is
// asked for, as where another process has got the host: that page is no URL of the Queue.
func TestForgottenHostIsNotCounted(t *testing.T) {
	f := &frontier{hosts: make(map[string]*host), max: 4, usual: time.Second}
	h := f.host("a")
	h.robotsAsked, h.urls = true, make([]Request, 1)
	f.put(h)
	fl, _ := f.take(time.Now())
	f.started(fl, time.Now())
	f.forget(h)
	f.finish(fl, 100*time.Millisecond)
	if f.number != [2]int{} || f.demand != 0 || f.inFlight() != 0 {
		t.Errorf("%d quick and %d slow hosts, a demand of %v, %d flights", f.number[quick], f.number[slow], f.demand, f.inFlight())
	}
}

// TestAWaitingHostKnowsItsIndex whatever is queued, taken, put off and moved up: among any number of
// hosts one is moved up without a search.
func TestAWaitingHostKnowsItsIndex(t *testing.T) {
	f := frontier{hosts: make(map[string]*host), max: 1000}
	start := time.Now()
	random := rand.New(rand.NewPCG(1, 2))
	var hosts []*host
	for i := range 300 {
		h := f.host(fmt.Sprint(i))
		h.urls = []Request{{URL: "http://" + h.key + "/", Host: h.key}}
		h.at = start.Add(time.Duration(random.IntN(1000)) * time.Second)
		f.put(h)
		hosts = append(hosts, h)
	}
	for step := range 3000 {
		h := hosts[random.IntN(len(hosts))]
		switch random.IntN(3) {
		case 0:
			if h.place == inWaiting {
				f.advance(h, h.at.Add(-time.Duration(random.IntN(100))*time.Second))
			}
		case 1:
			if h.place == inWaiting {
				h.at = h.at.Add(time.Duration(random.IntN(1000)) * time.Second) // put off
			}
		default:
			now := start.Add(time.Duration(step/3) * time.Second)
			f.queueDue(now)
			for class := range f.due {
				for len(f.due[class]) > 0 {
					due := f.due[class].pop().h
					due.place = nowhere
					due.at = now.Add(time.Duration(1+random.IntN(1000)) * time.Second)
					f.put(due)
				}
			}
		}
		for i, waiting := range f.waiting {
			if waiting.h.index != i {
				t.Fatalf("step %d: host %s stands at %d, and takes it for %d", step, waiting.h.key, i, waiting.h.index)
			}
			if i > 0 && waiting.Before(f.waiting[(i-1)/2]) {
				t.Fatalf("step %d: the element at %d comes before that above it", step, i)
			}
		}
	}
}

// BenchmarkUnstart takes back a start of one of 100,000 hosts that wait.
func BenchmarkUnstart(b *testing.B) {
	f := frontier{hosts: make(map[string]*host), max: 1000}
	start := time.Now()
	var hosts []*host
	for i := range 100_000 {
		h := f.host(fmt.Sprint(i))
		h.urls = []Request{{URL: "http://" + h.key + "/", Host: h.key}}
		h.at = start.Add(time.Duration(i) * time.Second)
		f.put(h)
		hosts = append(hosts, h)
	}
	for i := 0; b.Loop(); i++ {
		h := hosts[i*7919%len(hosts)]
		fl := &flight{h: h, started: true, startedAt: h.at.Add(-time.Minute), gapEnds: h.at}
		f.unstart(fl)
	}
}

// TestTheDemandOfAHostWithoutGapsIsANumber, also where it has more slots than its exchanges take
// nanoseconds: with an infinite one no sum of demands would ever be right again.
func TestTheDemandOfAHostWithoutGapsIsANumber(t *testing.T) {
	f := &frontier{hosts: make(map[string]*host), max: 100}
	h := f.host("a.example")
	h.slots = math.MaxInt32
	for range 2 {
		f.judge(h, 100*time.Microsecond)
	}
	if d := f.demand; !(d > 0 && d <= math.MaxInt32) || h.site.demand != d {
		t.Errorf("demand %v, of its site %v", d, h.site.demand)
	}
	f.forget(h)
	if f.demand != 0 {
		t.Errorf("demand %v without a host", f.demand)
	}
}

// TestALimiterWithTheLargestNumberOfPlacesLeavesHostsTheirRoom: shares of it don't overflow.
func TestALimiterWithTheLargestNumberOfPlacesLeavesHostsTheirRoom(t *testing.T) {
	transport, err := politeness.New(politeness.Config{
		UserAgent: "CrawlTest/1.0 (+https://example.com/bot; bot@example.com)",
		Hosts:     hostlimit.Config{MaxInFlight: math.MaxInt, PerSite: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Transport: transport, Visit: func(context.Context, *Page) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	f := &c.newRun(t.Context(), t.Context()).frontier
	for i := range 1000 {
		f.host(fmt.Sprintf("%d.example", i))
	}
	for _, s := range f.sites {
		if room := f.roomOf(s); room < 1000 {
			t.Fatalf("room for %d connections of a site", room)
		}
	}
	if room := f.roomOfSlow(); room < 1000 {
		t.Errorf("room for %d connections of slow hosts", room)
	}
}
