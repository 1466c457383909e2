package budget

import (
	"context"
	"hash/maphash"
	"math"
	"sync"
	"time"
)

// A Memory is a budget in the memory of one process. It is safe for concurrent
// use, starts no goroutine, and never waits, so its contexts are not consulted.
// It must not be copied after first use.
//
// With a PagesPerHost limit it keeps one counter for each host that has spent a page, for as long
// as it lives, because a forgotten counter would allow a page too many. That costs 20 to 40 bytes a
// host, for any length of its name, and is bounded by the pages spent.
type Memory struct {
	limits Limits
	warnAt struct{ pages, perHost, bytes, duration int64 }

	mu      sync.Mutex // never held across a wait
	pages   int64
	bytes   int64
	hosts   map[uint64]hostUse // by hash; only with PagesPerHost
	seed    maphash.Seed       // of hosts
	started time.Time          // zero until the first page or byte
	warned  struct{ pages, bytes, duration bool }
	window  time.Time // when the window of Limits.Every began; zero without
}

// A hostUse is what a host has spent: its pages, and whether it was warned of in the lowest bit.
// Hosts are known by 64 bits of a hash with a random seed, which leaves the garbage collector
// nothing to follow. Two hosts with the same bits, as happens once in 370,000 crawls of ten million
// hosts, share a counter: they reach the limit early and don't pass it.
type hostUse uint64

func (h hostUse) pages() int64 { return int64(h >> 1) }
func (h hostUse) warned() bool { return h&1 != 0 }

const (
	onePage hostUse = 2
	warned  hostUse = 1
)

// New returns an unspent budget. A negative limit leaves nothing to spend. [Limits.Validate]
// reports it, and politeness.New calls Validate. Use it to share one budget between Transports.
func New(l Limits) *Memory {
	m := &Memory{limits: l}
	m.warnAt.pages = l.warnAt(l.Pages)
	m.warnAt.perHost = l.warnAt(l.PagesPerHost)
	m.warnAt.bytes = l.warnAt(l.Bytes)
	m.warnAt.duration = l.warnAt(int64(l.Duration))
	if l.PagesPerHost != 0 {
		m.hosts = make(map[uint64]hostUse)
		m.seed = maphash.MakeSeed()
	}
	return m
}

// Limits reports the limits that m was made with.
func (m *Memory) Limits() Limits { return m.limits }

// Window implements [Budget], by this machine's clock.
func (m *Memory) Window() time.Time { return m.limits.Window(time.Now()) }

// Check implements [Budget]. Check doesn't start the time. Until a page or byte is spent, Check
// counts the time limit from now.
func (m *Memory) Check(_ context.Context, host string, start time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renew()
	if err := m.refuse(start, host); err != nil {
		return err
	}
	return nil
}

// Reserve implements [Budget].
func (m *Memory) Reserve(_ context.Context, host string) ([]Warning, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renew()
	if err := m.refuse(time.Time{}, host); err != nil {
		return nil, err
	}
	return m.reserve(host), nil
}

// reserve takes a page of host, which there is.
func (m *Memory) reserve(host string) []Warning {
	warnings := m.start()

	m.pages++
	if m.pages >= m.warnAt.pages && !m.warned.pages {
		m.warned.pages = true
		warnings = append(warnings, Warning{Limit: Pages, Used: m.pages, Max: m.limits.Pages})
	}
	if m.hosts == nil {
		return warnings
	}
	key := maphash.String(m.seed, host)
	use := m.hosts[key] + onePage
	if use.pages() >= m.warnAt.perHost && !use.warned() {
		use |= warned
		warnings = append(warnings, Warning{
			Limit: PagesPerHost,
			Host:  host,
			Used:  use.pages(),
			Max:   m.limits.PagesPerHost,
		})
	}
	m.hosts[key] = use
	return warnings
}

// Refund implements [Budget]. A refund of a page that was never reserved is ignored.
func (m *Memory) Refund(_ context.Context, host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renew()
	m.refund(host)
}

// refund gives a page of host back.
func (m *Memory) refund(host string) {
	if m.hosts != nil {
		key := maphash.String(m.seed, host)
		use := m.hosts[key]
		if use.pages() == 0 {
			return
		}
		use -= onePage
		if use == 0 { // it has warned of nothing either, so nothing is left to remember
			delete(m.hosts, key)
		} else {
			m.hosts[key] = use
		}
	}
	m.pages = max(m.pages-1, 0)
}

// TakeBytes implements [Budget]. Taking nothing always succeeds.
func (m *Memory) TakeBytes(_ context.Context, n int64) (int64, []Warning, error) {
	if n <= 0 {
		return 0, nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renew()
	return m.take(n)
}

// take spends up to n bytes, which are more than 0.
func (m *Memory) take(n int64) (int64, []Warning, error) {
	if m.limits.Bytes != 0 {
		left := m.limits.Bytes - m.bytes
		if left <= 0 {
			return 0, nil, &Error{Limit: Bytes, Used: m.bytes, Want: n, Max: m.limits.Bytes}
		}
		n = min(n, left)
	}
	warnings := m.start()
	m.bytes += n
	if m.bytes >= m.warnAt.bytes && !m.warned.bytes {
		m.warned.bytes = true
		warnings = append(warnings, Warning{Limit: Bytes, Used: m.bytes, Max: m.limits.Bytes})
	}
	return n, warnings, nil
}

// Usage implements [Budget].
func (m *Memory) Usage(context.Context) (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renew()
	return Usage{
		Limits:  m.limits,
		Pages:   m.pages,
		Bytes:   m.bytes,
		Started: m.started,
		Elapsed: m.elapsed(),
	}, nil
}

// renew begins a new window if it is time. A clock that is set back begins none.
func (m *Memory) renew() {
	if m.limits.Every <= 0 {
		return // without a look at the clock
	}
	window := m.limits.Window(time.Now())
	if !window.After(m.window) {
		return
	}
	m.window = window
	m.pages = 0
	m.bytes = 0
	m.started = time.Time{}
	m.warned.pages = false
	m.warned.bytes = false
	clear(m.hosts)
}

// refuse returns the first limit that stands against a page of host that
// starts at the given time (zero: now), or nil.
func (m *Memory) refuse(start time.Time, host string) *Error {
	l := &m.limits
	if l.Duration != 0 && m.at(start) >= l.Duration {
		at := seconds(m.at(start))
		used := min(seconds(m.elapsed()), at) // a start before now is judged by its own time
		return &Error{Limit: Time, Used: used, Want: at - used, Max: seconds(l.Duration)}
	}
	if l.Bytes != 0 && m.bytes >= l.Bytes {
		return &Error{Limit: Bytes, Used: m.bytes, Want: 1, Max: l.Bytes}
	}
	if l.Pages != 0 && m.pages >= l.Pages {
		return &Error{Limit: Pages, Used: m.pages, Want: 1, Max: l.Pages}
	}
	if l.PagesPerHost != 0 {
		used := m.hosts[maphash.String(m.seed, host)].pages()
		if used >= l.PagesPerHost {
			return &Error{Limit: PagesPerHost, Host: host, Used: used, Want: 1, Max: l.PagesPerHost}
		}
	}
	return nil
}

// start starts the clock if it doesn't run yet, and warns when the time is nearly up.
func (m *Memory) start() []Warning {
	if m.started.IsZero() {
		m.started = time.Now()
	}
	if m.warned.duration || m.warnAt.duration == math.MaxInt64 {
		return nil
	}
	used := m.elapsed()
	if int64(used) < m.warnAt.duration {
		return nil
	}
	m.warned.duration = true
	return []Warning{{Limit: Time, Used: seconds(used), Max: seconds(m.limits.Duration)}}
}

// at is elapsed at the given time (zero: now). Reading the clock costs more
// than all the rest of a page, so callers that have read it pass the time.
func (m *Memory) at(t time.Time) time.Duration {
	switch {
	case t.IsZero():
		return m.elapsed()
	case m.started.IsZero():
		return max(time.Until(t), 0)
	}
	return t.Sub(m.started)
}

// elapsed is the time since the first page or byte. Since costs half as much as Now.
func (m *Memory) elapsed() time.Duration {
	if m.started.IsZero() {
		return 0
	}
	return time.Since(m.started)
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
