package crawl

import (
	"testing"
	"testing/synctest"
	"time"
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
}
