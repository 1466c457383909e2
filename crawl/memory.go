package crawl

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"time"
)

// A memory is the Queue in memory. It remembers each URL that it has taken in by a hash, and those
// that are asked for again whole.
type memory struct {
	max   int // URLs kept
	kept  int // waiting and lent ones, and those that come back
	bytes int // of these
	seed  maphash.Seed
	seen  map[uint64]struct{}
	next  uint64           // number of the last one that was taken in, for the longest waiting to be first
	hosts map[string]*list // of waiting ones
	lent  map[string]int   // number of lent ones by host

	again  map[uint64]*returning // known ones that are neither waiting nor lent, and come back
	coming heap[*returning]      // those of them that have a due time
}

var (
	_ Recurring = (*memory)(nil)
	_ Postponer = (*memory)(nil)
)

// A returning URL comes back when it is due.
type returning struct {
	stored

	host  string
	due   time.Time // zero: never, but for a hint
	index int       // in memory.coming
}

func (u *returning) Before(o *returning) bool { return u.due.Before(o.due) }
func (u *returning) placed(index int)         { u.index = index }

// meanURL is the mean length of a URL for which there is room, with the other text of its request.
const meanURL = 96

// bytesOf returns the length of the kept text of a request. Requests of a page share its URL.
func bytesOf(r *Request) int { return len(r.URL) + len(r.Via) }

// A stored request is a Request in fewer bytes.
type stored struct {
	url, from       string
	more            *rare // nil: it has none of that
	number          uint64
	depth, priority int32
}

// A rare has the fields that few requests need.
type rare struct {
	via, data, state string
	hops             int
}

func (s stored) Before(o stored) bool {
	return cmp.Or(cmp.Compare(o.priority, s.priority), cmp.Compare(s.number, o.number)) < 0
}

func (s stored) placed(int) {}

func (s stored) request(host string, place level) Request {
	r := Request{
		URL:      s.url,
		Host:     host,
		From:     s.from,
		Depth:    int(s.depth),
		Priority: int(s.priority),
		Later:    place.later,
		Mark:     place.mark,
		number:   s.number,
	}
	if s.more != nil {
		r.Via = s.more.via
		r.Hops = s.more.hops
		r.Data = s.more.data
		r.State = s.more.state
	}
	return r
}

// store returns the kept part of a request.
func store(r *Request) stored {
	s := stored{
		url:      r.URL,
		from:     r.From,
		number:   r.number,
		depth:    int32(r.Depth),
		priority: int32(r.Priority), // Request.Priority is clipped to 32 bits
	}
	if r.Via != "" || r.Hops != 0 || r.Data != "" || r.State != "" {
		s.more = &rare{via: r.Via, data: r.Data, state: r.State, hops: r.Hops}
	}
	return s
}

func newMemory(maxURLs int) *memory {
	return &memory{
		max:   maxURLs,
		seed:  maphash.MakeSeed(),
		seen:  make(map[uint64]struct{}),
		again: make(map[uint64]*returning),
		hosts: make(map[string]*list),
		lent:  make(map[string]int),
	}
}

// Add implements Queue.
func (m *memory) Add(_ context.Context, reqs []Request) (added, noRoom int, _ error) {
	for _, r := range reqs {
		// With 64 bits, two of a million URLs have one hash once in forty million crawls.
		hash := maphash.String(m.seed, r.URL)
		if _, ok := m.seen[hash]; ok {
			m.hint(hash, r.Modified)
			continue
		}
		if !m.hasRoom(&r) {
			noRoom++ // it isn't in seen, because there may be room when it is found again
			continue
		}
		m.seen[hash] = struct{}{}
		m.put(r)
		m.kept++
		m.bytes += bytesOf(&r)
		added++
	}
	return added, noRoom, nil
}

// hasRoom reports whether r may be taken in. The last tenth of the room is for URLs that aren't
// postponed.
func (m *memory) hasRoom(r *Request) bool {
	most := m.max
	if r.Later > 0 {
		most -= m.max / 10
	}
	means := (m.bytes + bytesOf(r) + meanURL - 1) / meanURL // URLs of that length, rounded up
	return m.kept < most && (means <= most || m.kept == 0)
}

// waiting returns the number of URLs that wait or are lent.
func (m *memory) waiting() int { return m.kept - len(m.again) }

// left yields the waiting requests.
func (m *memory) left(yield func(Request) bool) {
	for host, l := range m.hosts {
		for s, place := range l.all {
			if !yield(s.request(host, place)) {
				return
			}
		}
	}
}

// list returns that of a host, which it makes if need be.
func (m *memory) list(host string) *list {
	l := m.hosts[host]
	if l == nil {
		l = new(list)
		m.hosts[host] = l
	}
	return l
}

func (m *memory) put(r Request) {
	s := store(&r)
	if s.number == 0 {
		m.next++
		s.number = m.next
	}
	m.list(r.Host).put(s, level{later: r.Later, mark: r.Mark})
}

// hint makes a URL that comes back due earlier, if it was modified after its last visit.
func (m *memory) hint(hash uint64, modified time.Time) {
	u := m.again[hash]
	if u == nil || u.more == nil {
		return
	}
	due, ok := Hinted(u.more.state, modified)
	isLater := !u.due.IsZero() && !due.Before(u.due)
	if !ok || isLater {
		return
	}
	wasNever := u.due.IsZero()
	u.due = due
	if wasNever {
		m.coming.push(u)
		return
	}
	m.coming.fix(u.index)
}

// wake makes those URLs wait that are due.
func (m *memory) wake() {
	now := time.Now()
	for len(m.coming) > 0 && !m.coming[0].due.After(now) {
		u := m.coming.pop()
		delete(m.again, maphash.String(m.seed, u.url))
		m.next++
		u.number = m.next // behind URLs that were found before
		m.list(u.host).put(u.stored, level{})
	}
}

// Take implements Queue.
func (m *memory) Take(_ context.Context, hosts []string, n int) (taken []Request, _ error) {
	for _, host := range hosts {
		taken = m.takeOf(taken, host, 0, n)
	}
	return taken, nil
}

// TakeLater implements Postponer.
func (m *memory) TakeLater(_ context.Context, host string, least, n int) (taken []Request, _ error) {
	return m.takeOf(nil, host, least, n), nil
}

// takeOf adds to taken the next requests of a host, which are lent by then.
func (m *memory) takeOf(taken []Request, host string, least, n int) []Request {
	m.wake()
	l := m.hosts[host]
	if l == nil {
		return taken
	}
	taken = slices.Grow(taken, min(n, len(l.urls)))
	for range n {
		s, place, ok := l.take(least)
		if !ok {
			break
		}
		taken = append(taken, s.request(host, place))
		m.lent[host]++
	}
	if l.isEmpty() {
		delete(m.hosts, host) // a crawl of many hosts would keep an empty list of each
	}
	return taken
}

// Lift implements Postponer.
func (m *memory) Lift(_ context.Context, host string, mark uint32, later int) (more bool, _ error) {
	l := m.hosts[host]
	if l != nil && mark != 0 {
		l.lift(mark, later)
	}
	return false, nil
}

// Postponed implements Postponer.
func (m *memory) Postponed(_ context.Context, n int) (largest []PostponedGroup, all int, _ error) {
	for host, l := range m.hosts {
		numbers := make(map[uint32]PostponedGroup)
		for b := range l.buckets {
			if b.later == 0 {
				continue
			}
			g := numbers[b.mark]
			g.Host = host
			g.Mark = b.mark
			g.URL = b.urls[0].url
			g.Number += len(b.urls)
			numbers[b.mark] = g
			all += len(b.urls)
		}
		for _, g := range numbers {
			largest = append(largest, g)
		}
	}
	slices.SortFunc(largest, func(a, b PostponedGroup) int { return cmp.Compare(b.Number, a.Number) })
	return largest[:min(n, len(largest))], all, nil
}

// Done implements Queue. A URL that is Left at the end of the Run is done, too: m ends with it.
func (m *memory) Done(_ context.Context, results []Result) error {
	for _, r := range results {
		m.lent[r.Host]--
		if m.lent[r.Host] <= 0 {
			delete(m.lent, r.Host)
		}
		if r.waits {
			m.put(r.Request)
			continue
		}
		comesBack := r.Outcome != Left && (r.State != "" || !r.Again.IsZero())
		if comesBack {
			m.keep(&r)
			continue
		}
		m.kept-- // its hash stays in seen: it isn't taken in again
		m.bytes -= bytesOf(&r.Request)
	}
	return nil
}

// keep keeps a URL that is done until it is due again, or for a hint.
func (m *memory) keep(r *Result) {
	u := &returning{stored: store(&r.Request), host: r.Host, due: r.Again}
	m.again[maphash.String(m.seed, r.URL)] = u
	if !u.due.IsZero() {
		m.coming.push(u)
	}
}

// Next implements Recurring.
func (m *memory) Next(context.Context) (next time.Time, _ error) {
	m.wake()
	if len(m.coming) > 0 {
		next = m.coming[0].due
	}
	return next, nil
}

// Hosts implements Queue.
func (m *memory) Hosts(_ context.Context, n int) (hosts []string, _ bool, _ error) {
	m.wake()
	for host := range m.hosts {
		if len(hosts) == n {
			break
		}
		if m.lent[host] == 0 { // the crawl knows of the others
			hosts = append(hosts, host)
		}
	}
	return hosts, false, nil
}
