package crawl

import (
	"fmt"
	"runtime"
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
