package crawl

import (
	"cmp"
	"context"
	"hash/maphash"
)

// A memory is the Queue in memory. It remembers each URL that it has taken in by a hash.
type memory struct {
	max   int // URLs kept
	kept  int // waiting and lent ones
	bytes int // of these
	seed  maphash.Seed
	seen  map[uint64]struct{}
	hosts map[string]*list // of waiting ones
	lent  map[string]int   // number of lent ones by host
}

// meanURL is the length of a URL for which there is room on average, with what is kept beside it:
// ten times the longest ones would be in the memory that honest ones need.
const meanURL = 96

// bytesOf returns the length of what is kept of a request. Those of a page share its own URL.
func bytesOf(r *Request) int { return len(r.URL) + len(r.Via) }

// A list is the waiting URLs of a host.
type list struct {
	urls heap[stored]
	next uint64 // number of the next one, for those of one priority to stay in their order
}

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

func (s stored) request(host string) Request {
	r := Request{
		URL:      s.url,
		Host:     host,
		From:     s.from,
		Depth:    int(s.depth),
		Priority: int(s.priority),
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
		if m.kept >= m.max || m.bytes+bytesOf(&r) > meanURL*m.max && m.kept > 0 {
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

// left yields the waiting requests.
func (m *memory) left(yield func(Request) bool) {
	for host, l := range m.hosts {
		for _, s := range l.urls {
			if !yield(s.request(host)) {
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
	s := stored{
		url:      r.URL,
		from:     r.From,
		number:   l.next,
		depth:    int32(r.Depth),
		priority: int32(r.Priority), // Request.Priority is clipped to 32 bits
	}
	if r.Via != "" || r.Hops != 0 || r.Data != "" {
		s.more = &rare{via: r.Via, data: r.Data, hops: r.Hops}
	}
	l.urls.push(s)
	l.next++
}

// Take implements Queue.
func (m *memory) Take(_ context.Context, hosts []string, n int) (taken []Request, _ error) {
	for _, host := range hosts {
		l := m.hosts[host]
		if l == nil {
			continue
		}
		for range min(n, len(l.urls)) {
			taken = append(taken, l.urls.pop().request(host))
			m.lent[host]++
		}
		if len(l.urls) == 0 {
			delete(m.hosts, host) // a crawl of many hosts would keep an empty list of each
		}
	}
	return taken, nil
}

// Done implements Queue. A URL that is Left is done, too: m ends with its Run.
func (m *memory) Done(_ context.Context, results []Result) error {
	for _, r := range results {
		m.lent[r.Host]--
		if m.lent[r.Host] <= 0 {
			delete(m.lent, r.Host)
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
