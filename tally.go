package politeness

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A tally counts what a Transport does, for the status page: with atomics what happens to every
// request, under a mutex what is rare.
type tally struct {
	starts  atomic.Int64
	answers [10]atomic.Int64 // by the first digit of the status; 0: none came
	latency [trend]minute    // one after the other, round and round

	mu          sync.Mutex
	refusals    map[string]int64             // by reason
	unreachable map[string]UnreachableStatus // by origin; bounded by maxUnreachable
	closed      map[string]visitors          // hosts whose Visit-time is waited for
}

const (
	trend          = 60   // minutes of which latencies are kept
	maxUnreachable = 1000 // origins that are kept, those that were unreachable first
)

// A minute is the latencies of one minute.
type minute struct {
	number atomic.Int64 // since 1970; other figures are void where it isn't the present one
	count  atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

// visitors are requests that wait for the Visit-time of one host.
type visitors struct {
	waiting int
	until   time.Time
}

// answer counts an answer, or that none came.
func (c *tally) answer(status int, latency time.Duration, now time.Time) {
	c.answers[min(max(0, status/100), 9)].Add(1) // some sites answer 999
	if status == 0 {
		return
	}
	number := now.Unix() / 60
	m := &c.latency[number%trend]
	if old := m.number.Load(); old != number && m.number.CompareAndSwap(old, number) {
		m.count.Store(0) // a latency that is added by another goroutine just now may be lost
		m.sum.Store(0)
	}
	m.count.Add(1)
	m.sum.Add(int64(latency))
}

// refuse counts a refusal.
func (c *tally) refuse(stage Stage, err error) {
	why := string(stage)
	for _, r := range reasons {
		if errors.Is(err, r.err) && (r.stage == "" || r.stage == stage) {
			why = r.text
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals == nil {
		c.refusals = map[string]int64{}
	}
	c.refusals[why]++
}

// reasons names refusals, the more special ones first.
var reasons = []struct {
	stage Stage // empty: any
	err   error
	text  string
}{
	{StageRule, ErrDisallowed, "own rule"},
	{"", context.Canceled, "caller left"},
	{"", ErrUnreachable, "robots.txt unreachable"},
	{"", ErrReserved, "reserved"},
	{"", ErrDisallowed, "robots.txt"},
	{"", ErrBudget, "budget"},
	{"", ErrBlocked, "blocked"},
	{"", ErrBusy, "busy"},
	{"", ErrTooLarge, "too large"},
	{"", ErrContentType, "content type"},
}

// reach notes whether the robots.txt of an origin can be had.
func (c *tally) reach(origin string, down *UnreachableStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if down == nil {
		delete(c.unreachable, origin)
		return
	}
	if c.unreachable == nil {
		c.unreachable = map[string]UnreachableStatus{}
	}
	if _, ok := c.unreachable[origin]; ok || len(c.unreachable) < maxUnreachable {
		c.unreachable[origin] = *down
	}
}

// visit notes that n more requests wait for the Visit-time of host, until then.
func (c *tally) visit(host string, n int, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed == nil {
		c.closed = map[string]visitors{}
	}
	v := c.closed[host]
	if v.waiting += n; v.waiting == 0 {
		delete(c.closed, host)
		return
	}
	v.until = until
	c.closed[host] = v
}

// copy returns what is kept under the mutex.
func (c *tally) copy() (refusals map[string]int64, unreachable map[string]UnreachableStatus, closed map[string]visitors) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.refusals), maps.Clone(c.unreachable), maps.Clone(c.closed)
}

// latencies returns the minutes in which anything was answered, the oldest first.
func (c *tally) latencies(now time.Time) (out []MinuteStatus) {
	present := now.Unix() / 60
	for number := present - trend + 1; number <= present; number++ {
		m := &c.latency[number%trend]
		if n := m.count.Load(); m.number.Load() == number && n > 0 {
			out = append(out, MinuteStatus{
				Time: time.Unix(number*60, 0).UTC(), Answers: n, Mean: time.Duration(m.sum.Load() / n).Seconds(),
			})
		}
	}
	return out
}
