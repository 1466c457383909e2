// Package tally counts what a Transport does, for its status.
package tally

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A Tally counts with atomics what happens to every request, and under a mutex what is rare. The
// zero value is ready to use.
type Tally struct {
	Starts  atomic.Int64
	answers [10]atomic.Int64 // by the first digit of the status; 0: none came
	latency [trend]minute    // one after the other, round and round

	mu          sync.Mutex
	refusals    map[string]int64                    // by reason
	unreachable *simplelru.LRU[string, Unreachable] // by origin
	closed      map[string]Visitors                 // hosts whose Visit-time is waited for

	losses map[string]bool // reasons for which state was lost, as far as they are known
	lost   error           // the first of them

	hostsMu sync.Mutex
	hosts   *simplelru.LRU[string, *Host]
}

// A Host is how often a host has answered, and refused.
type Host struct {
	Answers int64 // requests without an answer included
	Refused int64 // 429, 401, 402, 403, 451, 408, 425, 5xx, no answer, and what Config.IsRefusal says

	// Latency is what an answer usually takes: a mean in which the last one has a weight of an
	// eighth.
	Latency time.Duration
}

const (
	trend          = 60   // minutes of which latencies are kept
	maxHosts       = 4096 // hosts whose answers are counted, those that answered last
	maxLosses      = 100  // reasons for lost state that are kept
	maxUnreachable = 1000 // origins that are kept, those that were asked last
)

// A minute is the latencies of one minute.
type minute struct {
	number atomic.Int64 // since 1970; other figures count only in this minute
	count  atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

// Visitors are requests that wait for the Visit-time of one host.
type Visitors struct {
	Waiting int
	Until   time.Time
}

// An Unreachable is an origin whose robots.txt can't be had.
type Unreachable struct {
	Origin, Reason string
	Until          time.Time // time from which the next request asks for robots.txt again
	Fallback       bool      // pages are fetched all the same
}

// A Minute is how fast hosts answered in one minute.
type Minute struct {
	Time    time.Time
	Answers int64
	Mean    float64 // seconds
}

// A Snapshot is the state of a Tally at one time.
type Snapshot struct {
	Starts      int64
	Answers     map[string]int64 // by "2xx" and so on; "none" where none came
	Refusals    map[string]int64 // by reason
	Unreachable []Unreachable    // by origin
	Visitors    map[string]Visitors
	Latency     []Minute // the oldest first
}

// Answer counts an answer, or with status 0 that none came.
func (t *Tally) Answer(status int, latency time.Duration, now time.Time) {
	t.answers[min(max(0, status/100), 9)].Add(1) // some sites answer 999
	if status == 0 {
		return
	}
	number := now.Unix() / 60
	m := &t.latency[number%trend]
	if old := m.number.Load(); old != number && m.number.CompareAndSwap(old, number) {
		m.count.Store(0) // a latency that is added by another goroutine just now may be lost
		m.sum.Store(0)
	}
	m.count.Add(1)
	m.sum.Add(int64(latency))
}

// HostAnswered counts an answer of a host, which took the time latency; 0: none came.
func (t *Tally) HostAnswered(host string, refused bool, latency time.Duration) {
	t.hostsMu.Lock()
	defer t.hostsMu.Unlock()
	if t.hosts == nil {
		t.hosts, _ = simplelru.NewLRU[string, *Host](maxHosts, nil) // the size isn't negative
	}
	h, ok := t.hosts.Get(host)
	if !ok {
		h = new(Host)
		t.hosts.Add(host, h)
	}
	h.Answers++
	if h.Latency == 0 {
		h.Latency = latency
	} else if latency > 0 {
		h.Latency += (latency - h.Latency) / 8
	}
	if refused {
		h.Refused++
	}
}

// Host returns the counts of a host.
func (t *Tally) Host(host string) Host {
	t.hostsMu.Lock()
	defer t.hostsMu.Unlock()
	if t.hosts == nil {
		return Host{}
	}
	counted, ok := t.hosts.Peek(host) // a look at the status doesn't keep a host in the list
	if !ok {
		return Host{}
	}
	return *counted
}

// Refused reports whether an answer of that status, 0 for none, is a refusal.
func Refused(status int) bool {
	switch status {
	case 0, 401, 402, 403, 408, 425, 429, 451:
		return true
	}
	return status/100 == 5
}

// Refuse counts a refusal.
func (t *Tally) Refuse(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refusals == nil {
		t.refusals = map[string]int64{}
	}
	t.refusals[why]++
}

// Reach stores that the robots.txt of an origin can be had, with nil, or why it can't.
func (t *Tally) Reach(origin string, down *Unreachable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unreachable == nil {
		t.unreachable, _ = simplelru.NewLRU[string, Unreachable](maxUnreachable, nil) // the size isn't negative
	}
	if down == nil {
		t.unreachable.Remove(origin)
	} else {
		t.unreachable.Add(origin, *down)
	}
}

// Visit stores that n more requests wait for the Visit-time of host, until the given time.
func (t *Tally) Visit(host string, n int, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed == nil {
		t.closed = map[string]Visitors{}
	}
	v := t.closed[host]
	v.Waiting += n
	if v.Waiting == 0 {
		delete(t.closed, host)
		return
	}
	v.Until = until
	t.closed[host] = v
}

// Snapshot returns what was counted, with the latencies of the hour before now.
func (t *Tally) Snapshot(now time.Time) Snapshot {
	s := Snapshot{Starts: t.Starts.Load(), Answers: map[string]int64{}, Latency: t.latencies(now)}
	for class := range t.answers {
		name := fmt.Sprintf("%dxx", class)
		if class == 0 {
			name = "none"
		}
		if n := t.answers[class].Load(); n > 0 {
			s.Answers[name] = n
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Refusals = maps.Clone(t.refusals)
	s.Visitors = maps.Clone(t.closed)
	if t.unreachable != nil {
		s.Unreachable = t.unreachable.Values()
		slices.SortFunc(s.Unreachable, func(a, b Unreachable) int { return cmp.Compare(a.Origin, b.Origin) })
	}
	return s
}

// latencies returns the minutes in which anything was answered, the oldest first.
func (t *Tally) latencies(now time.Time) []Minute {
	var minutes []Minute
	present := now.Unix() / 60
	for number := present - trend + 1; number <= present; number++ {
		m := &t.latency[number%trend]
		answers := m.count.Load()
		if m.number.Load() != number || answers == 0 { // it is still that of an hour before
			continue
		}
		minutes = append(minutes, Minute{
			Time:    time.Unix(number*60, 0).UTC(),
			Answers: answers,
			Mean:    time.Duration(m.sum.Load() / answers).Seconds(),
		})
	}
	return minutes
}

// Lost counts err, why state couldn't be read or kept, and reports whether it has a new cause. One
// cause fails many files, so errors are compared by their innermost error.
func (t *Tally) Lost(err error) bool {
	if err == nil {
		return false
	}
	why := ""
	for inner := err; inner != nil; {
		why = inner.Error()
		if joined, ok := inner.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) != 0 {
			inner = joined.Unwrap()[0]
		} else {
			inner = errors.Unwrap(inner)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.losses[why] || len(t.losses) == maxLosses {
		return false
	}
	if t.losses == nil {
		t.losses = make(map[string]bool)
		t.lost = err
	}
	t.losses[why] = true
	return true
}

// StateErr returns the first error that Lost has counted, with the number of others; nil: none.
func (t *Tally) StateErr() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := len(t.losses); n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("state: %w", t.lost)
	default:
		return fmt.Errorf("state: %w (the first of %d reasons)", t.lost, n)
	}
}
