package crawl

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
)

// A memory is the Queue in memory. It remembers each URL that it has taken in by a hash.
type memory struct {
	max   int // URLs kept
	kept  int // waiting and lent ones
	bytes int // of these
	seed  maphash.Seed
	seen  map[uint64]struct{}
	next  uint64           // number of the last one that was taken in, for the longest waiting to be first
	hosts map[string]*list // of waiting ones
	lent  map[string]int   // number of lent ones by host
}

// meanURL is the length of a URL for which there is room on average, with what is kept beside it:
// ten times the longest ones would be in the memory that honest ones need.
const meanURL = 96

// bytesOf returns the length of what is kept of a request. Those of a page share its own URL.
func bytesOf(r *Request) int { return len(r.URL) + len(r.Via) }

// A stored request is a Request in fewer bytes.
type stored struct {
	url, from       string
	more            *rare // nil: it has none of that
	number          uint64
	depth, priority int32
}

// A rare is what few requests have.
type rare struct {
	via, data string
	hops      int
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
	}
	return r
}

func newMemory(maxURLs int) *memory {
	return &memory{
		max:   maxURLs,
		seed:  maphash.MakeSeed(),
		seen:  make(map[uint64]struct{}),
		hosts: make(map[string]*list),
		lent:  make(map[string]int),
	}
}

// Add implements Queue.
func (m *memory) Add(_ context.Context, reqs []Request) (added, noRoom int, _ error) {
	for _, r := range reqs {
		// 64 bits: of a million URLs two are the same once in forty million crawls.
		hash := maphash.String(m.seed, r.URL)
		if _, ok := m.seen[hash]; ok {
			continue
		}
		if !m.hasRoom(&r) {
			noRoom++ // and isn't seen: when it is found again there may be room
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
	return m.kept < most && (m.bytes+bytesOf(r) <= meanURL*most || m.kept == 0)
}

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

func (m *memory) put(r Request) {
	l := m.hosts[r.Host]
	if l == nil {
		l = new(list)
		m.hosts[r.Host] = l
	}
	number := r.number
	if number == 0 {
		m.next++
		number = m.next
	}
	s := stored{
		url:      r.URL,
		from:     r.From,
		number:   number,
		depth:    int32(r.Depth),
		priority: int32(r.Priority), // Request.Priority is clipped to 32 bits
	}
	if r.Via != "" || r.Hops != 0 || r.Data != "" {
		s.more = &rare{via: r.Via, data: r.Data, hops: r.Hops}
	}
	l.put(s, level{later: r.Later, mark: r.Mark})
}

// Take implements Queue.
func (m *memory) Take(ctx context.Context, hosts []string, n int) (taken []Request, _ error) {
	for _, host := range hosts {
		some, _ := m.TakeLater(ctx, host, 0, n)
		taken = append(taken, some...)
	}
	return taken, nil
}

// TakeLater implements Postponer.
func (m *memory) TakeLater(_ context.Context, host string, least, n int) (taken []Request, _ error) {
	l := m.hosts[host]
	if l == nil {
		return nil, nil
	}
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
	return taken, nil
}

// Lift implements Postponer.
func (m *memory) Lift(_ context.Context, host string, mark uint32, later int) error {
	l := m.hosts[host]
	if l != nil && mark != 0 {
		l.lift(mark, later)
	}
	return nil
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
		m.kept-- // its hash stays in seen: it isn't taken in again
		m.bytes -= bytesOf(&r.Request)
	}
	return nil
}

// Hosts implements Queue.
func (m *memory) Hosts(_ context.Context, n int) (hosts []string, _ bool, _ error) {
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
