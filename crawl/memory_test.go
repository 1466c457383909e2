package crawl

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// manyRequests are n requests for URLs of 40 bytes on a thousand hosts.
func manyRequests(n int) []Request {
	reqs := make([]Request, n)
	for i := range reqs {
		host := fmt.Sprintf("www.host-%03d.example", i%1000)
		reqs[i] = Request{URL: fmt.Sprintf("https://%s/%011d", host, i), Host: host, Depth: i % 7}
	}
	return reqs
}

// BenchmarkMillion is what the frontier in memory costs for each URL, of a million: bytes beside
// those of the URL itself, and the time to add and to take it.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	for range b.N {
		b.StopTimer()
		reqs := manyRequests(n)
		hosts := make([]string, 1000)
		for i := range hosts {
			hosts[i] = reqs[i].Host
		}
		before := heapBytes()
		m := newMemory(n)
		b.StartTimer()
		if added, _, _ := m.Add(b.Context(), reqs); added != n {
			b.Fatal(added)
		}
		b.StopTimer()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/add")
		b.ReportMetric(float64(heapBytes()-before)/n, "B/URL") // reqs hold the URLs themselves
		added := b.Elapsed()
		b.StartTimer()
		for taken := 0; taken < n; {
			got, _ := m.Take(b.Context(), hosts, lend)
			taken += len(got)
		}
		b.StopTimer()
		b.ReportMetric(float64((b.Elapsed()-added).Nanoseconds())/n, "ns/take")
		runtime.KeepAlive(reqs)
	}
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryPerURL holds the bytes that a waiting URL costs beside its own.
func TestMemoryPerURL(t *testing.T) {
	const n = 200_000
	reqs := manyRequests(n)
	before := heapBytes()
	m := newMemory(n)
	if _, _, err := m.Add(t.Context(), reqs); err != nil {
		t.Fatal(err)
	}
	if each := (heapBytes() - before) / n; each > 200 {
		t.Errorf("%d bytes for each URL", each)
	}
	runtime.KeepAlive(reqs)
	runtime.KeepAlive(m)
}

// TestMemoryOrder: by priority, and of one priority in the order in which they came.
func TestMemoryOrder(t *testing.T) {
	m := newMemory(100)
	for i := range 30 {
		_, _, _ = m.Add(t.Context(), []Request{{URL: fmt.Sprint(i), Host: "h", Priority: i % 3}})
	}
	got, _ := m.Take(t.Context(), []string{"h", "unknown"}, 100)
	for i, r := range got {
		if want := fmt.Sprint(2 - i/10 + 3*(i%10)); r.URL != want {
			t.Errorf("number %d is %s, want %s", i, r.URL, want)
		}
	}
}

// TestMemoryKeepsMost: a URL that is known takes no room and hides none that comes after it, one
// without room is counted and may be added later, and Hosts returns at most n hosts, of which nothing
// is lent.
func TestMemoryKeepsMost(t *testing.T) {
	m := newMemory(3)
	requests := func(urls string) (reqs []Request) {
		for _, u := range strings.Fields(urls) {
			reqs = append(reqs, Request{URL: u, Host: u[:1]})
		}
		return reqs
	}
	for _, tt := range []struct {
		add           string
		added, noRoom int
		take          string // a host, all of whose URLs are done
		hosts         string // after it was taken
	}{
		{"a1 a2", 2, 0, "", "a"},
		{"a1 b1 c1 a2 c2", 1, 2, "a", "b"},
		{"b1 c1 c2 d1", 2, 1, "", "b c"},
		{"d1", 0, 1, "b", "c"},
		{"d1 a1", 1, 0, "", "c d"},
	} {
		added, noRoom, _ := m.Add(t.Context(), requests(tt.add))
		if added != tt.added || noRoom != tt.noRoom {
			t.Errorf("%s: added %d, without room %d, want %d and %d", tt.add, added, noRoom, tt.added, tt.noRoom)
		}
		taken, _ := m.Take(t.Context(), strings.Fields(tt.take), 9)
		hosts, _, _ := m.Hosts(t.Context(), 9)
		slices.Sort(hosts)
		if got := strings.Join(hosts, " "); got != tt.hosts {
			t.Errorf("%s: hosts %q, want %q", tt.add, got, tt.hosts)
		}
		for n := range len(hosts) {
			if some, _, _ := m.Hosts(t.Context(), n); len(some) != n {
				t.Errorf("%s: %d hosts, want %d", tt.add, len(some), n)
			}
		}
		var done []Result
		for _, r := range taken {
			done = append(done, Result{Request: r})
		}
		_ = m.Done(t.Context(), done)
	}
	_, _, _ = m.Add(t.Context(), requests("c9")) // of which one is lent, and another waits
	_, _ = m.Take(t.Context(), []string{"c"}, 1)
	if hosts, _, _ := m.Hosts(t.Context(), 9); slices.Contains(hosts, "c") {
		t.Errorf("hosts %v, and a URL of c is lent", hosts)
	}
}

// TestMemoryListsAHostWhenAllOfItIsBack: not while one of several URLs is lent still.
func TestMemoryListsAHostWhenAllOfItIsBack(t *testing.T) {
	m := newMemory(9)
	_, _, _ = m.Add(t.Context(), []Request{{URL: "a1", Host: "a"}, {URL: "a2", Host: "a"}, {URL: "a3", Host: "a"}})
	taken, _ := m.Take(t.Context(), []string{"a"}, 2)
	for i, r := range taken {
		if hosts, _, _ := m.Hosts(t.Context(), 9); len(hosts) != 0 {
			t.Errorf("after %d of %d are done: hosts %v", i, len(taken), hosts)
		}
		_ = m.Done(t.Context(), []Result{{Request: r}})
	}
	if hosts, _, _ := m.Hosts(t.Context(), 9); !slices.Equal(hosts, []string{"a"}) {
		t.Errorf("after all are done: hosts %v", hosts)
	}
}
