package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

// writeLong writes a log of at least so many lines, of a polite crawl of 20 hosts that goes on and on,
// and returns their number. The policy is nil for that of the crawl.
func writeLong(tb testing.TB, w io.Writer, lines int, policy *evidence.Policy) (n int) {
	tb.Helper()
	records := logtest.Crawl(20, 100)[1:]
	if policy == nil {
		policy = &logtest.Policy
	}
	length := records[len(records)-1].Time.Sub(logtest.Day).Round(time.Minute) + 2*time.Minute
	trips := slices.MaxFunc(records, func(a, b evidence.Decision) int { return int(a.Trip) - int(b.Trip) }).Trip
	seqs := map[string]uint64{}
	for _, d := range records {
		seqs[d.Host] = max(seqs[d.Host], d.Seq)
	}
	log := evidence.JSONLines(w)
	add := func(d evidence.Decision) {
		n++
		d.Transport = policy.ID
		log.Record(context.Background(), d)
	}
	add(evidence.Decision{Type: evidence.PolicyStated, Time: logtest.Day, Allowed: true, Policy: policy})
	for round := uint64(0); n < lines; round++ {
		for _, d := range records {
			for _, t := range [...]*time.Time{&d.Time, &d.Start, &d.Until, &d.RetryAt} {
				if !t.IsZero() {
					*t = t.Add(time.Duration(round) * length)
				}
			}
			if d.Trip != 0 {
				d.Trip += round * trips
			}
			if d.Seq != 0 {
				d.Seq += round * seqs[d.Host]
			}
			add(d)
		}
	}
	if err := log.Close(); err != nil {
		tb.Error(err)
	}
	return n
}

func BenchmarkCheck(b *testing.B) {
	for name, lines := range map[string]int{"7k": 1, "1M": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			file, err := os.Create(filepath.Join(b.TempDir(), "log.jsonl"))
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			n := writeLong(b, file, lines, nil)
			size, err := file.Seek(0, io.SeekCurrent)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := file.Seek(0, io.SeekStart); err != nil {
					b.Fatal(err)
				}
				if r, err := audit.Check(file); err != nil || !r.OK() {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
	}
}

// A heapWatch is a reader that looks now and then at how much memory is in use.
type heapWatch struct {
	io.Reader
	until int // bytes until it looks again
	most  uint64
}

func (h *heapWatch) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if h.until -= n; h.until <= 0 {
		h.until = 4 << 20
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		h.most = max(h.most, m.HeapAlloc)
	}
	return n, err
}

// TestTheJudgeRemembersSoMuchOfAHost, of which it has seen robots.txt and one page.
func TestTheJudgeRemembersSoMuchOfAHost(t *testing.T) {
	var most [2]uint64
	hosts := [2]int{10_000, 30_000}
	for i, n := range hosts {
		r, w := io.Pipe()
		go func() {
			log := evidence.JSONLines(w)
			add := func(d evidence.Decision) {
				d.Transport, d.Attempt, d.Allowed = logtest.Policy.ID, 1, true
				log.Record(context.Background(), d)
			}
			add(evidence.Decision{Type: evidence.PolicyStated, Time: logtest.Day, Policy: &logtest.Policy})
			for i := range n {
				now, host := logtest.Day.Add(time.Duration(i)*time.Millisecond), fmt.Sprintf("h%d.example", i)
				d := evidence.Decision{Host: host, Slot: 1, Slots: 2, Delay: time.Second / 2}
				exchange := func(status int) {
					d.Type, d.Time, d.Start, d.Status, d.NoDate, d.Latency, d.Duration = evidence.Started, now, now, 0, false, 0, 0
					d.Seq++
					add(d)
					d.Type, d.Time, d.Status, d.NoDate, d.Latency, d.Duration = evidence.Fetched, now.Add(time.Second/10), status, true, time.Second/10, time.Second/10
					add(d)
				}
				d.Trip, d.URL, d.RobotsTxt = uint64(2*i+1), "https://"+host+"/robots.txt", true
				exchange(404)
				add(evidence.Decision{Type: evidence.RobotsFetched, Time: d.Time, Trip: d.Trip, URL: d.URL, Host: host, RobotsTxt: true, Status: 404, TTL: time.Hour})
				now = now.Add(time.Second)
				d.Trip, d.URL, d.RobotsTxt = d.Trip+1, "https://"+host+"/", false
				add(evidence.Decision{Type: evidence.RobotsAllowed, Time: now, Trip: d.Trip, URL: d.URL, Host: host})
				exchange(200)
			}
			log.Close()
			w.Close()
		}()
		watch := &heapWatch{Reader: r}
		report, err := audit.Check(watch)
		if err != nil || len(report.Hosts) != n || !report.OK() {
			t.Fatalf("%v, %v", report, err)
		}
		most[i] = watch.most
	}
	each := (most[1] - most[0]) / uint64(hosts[1]-hosts[0])
	t.Logf("%d bytes a host", each)
	if most[1] < most[0] || each > 2500 {
		t.Errorf("%d bytes a host, 2500 at most", each)
	}
}

// TestTheJudgeRemembersSoMuchOfARequest: what it keeps of one is an exchange, and nothing of its lines.
func TestTheJudgeRemembersSoMuchOfARequest(t *testing.T) {
	lengths := [2]int{100_000, 300_000}
	if os.Getenv("POLITENESS_SOAK") != "" {
		lengths = [2]int{150_000, 1_000_000}
	}
	policy := evidence.Policy{
		ID: "T", Product: "TestBot", Slots: 2, DelayMin: 500 * time.Millisecond, DelayMax: 500 * time.Millisecond, LeaseTTL: 300 * time.Second,
		Ceiling: time.Minute, Statuses: "429", Backoff: "own", HostKey: "host", Robots: "obeyed", RobotsText: true, Retries: 1,
		RobotsTTL: time.Hour, MaxInFlight: 64, Overrides: true, Adaptive: "Longest(Learned, Proportional(1))",
	}
	var most [2]uint64
	var requests [2]int
	for i, lines := range lengths {
		r, w := io.Pipe()
		go func() {
			writeLong(t, w, lines, &policy)
			w.Close()
		}()
		watch := &heapWatch{Reader: r}
		report, err := audit.Check(watch)
		if err != nil || report.Lines < lines || !report.OK() {
			t.Fatalf("%v, %v", report, err)
		}
		most[i], requests[i] = watch.most, report.Records[evidence.Started]+report.Records[evidence.Resent]
	}
	each := (most[1] - most[0]) / uint64(requests[1]-requests[0])
	t.Logf("%d bytes a request", each)
	if most[1] < most[0] || each > 180 {
		t.Errorf("%d bytes a request, 180 at most", each)
	}
}

// TestTheJudgeRemembersSoMuchOfAPage that is asked for each day of a month: what is kept of a request, and
// of each page while its host is judged. So a month of a hundred thousand pages takes some 400 MB.
func TestTheJudgeRemembersSoMuchOfAPage(t *testing.T) {
	if !runsAlone(t) {
		return
	}
	const days = 30
	pages := [2]int{2_000, 6_000}
	var most [2]uint64
	for i, n := range pages {
		r, w := io.Pipe()
		go func() {
			writeMonth(w, n, days)
			w.Close()
		}()
		peak := peakOf(func() {
			report, err := audit.Check(r)
			if err != nil || !report.OK() || report.Promise(dueKept).Proved != n*(days-1) {
				t.Errorf("%v, %v", report, err)
			}
		})
		most[i] = peak
	}
	each := (most[1] - most[0]) / uint64(pages[1]-pages[0])
	t.Logf("%d bytes a page, which was asked for %d times; %d MB at most", each, days, most[1]>>20)
	if limit := uint64(days*150 + 500); most[1] < most[0] || each > limit {
		t.Errorf("%d bytes a page, %d at most", each, limit)
	}
}

// writeMonth writes the log of a crawl of one host, whose pages are asked for once a day.
func writeMonth(w io.Writer, pages, days int) {
	log := evidence.JSONLines(w)
	record := func(d evidence.Decision) {
		d.Transport = logtest.Policy.ID
		d.Allowed = true
		log.Record(context.Background(), d)
	}
	add := func(d evidence.Decision) {
		d.Host = "a.example"
		d.Attempt = 1
		record(d)
	}
	record(evidence.Decision{Type: evidence.PolicyStated, Time: logtest.Day, Policy: &logtest.Policy})
	trip := uint64(0)
	exchange := func(at time.Time, d evidence.Decision, answer evidence.Decision) {
		trip++
		d.Type = evidence.Started
		d.Time = at
		d.Start = at
		d.Trip = trip
		d.Seq = trip
		d.Slot = 1
		d.Slots = 2
		d.Delay = time.Second / 2
		add(d)
		answer.Type = evidence.Fetched
		answer.Time = at.Add(time.Second / 10)
		answer.URL = d.URL
		answer.RobotsTxt = d.RobotsTxt
		answer.Trip = trip
		answer.Seq = trip
		answer.Start = at
		answer.NoDate = true
		answer.Latency = time.Second / 10
		answer.Duration = time.Second / 10
		add(answer)
	}
	robots := evidence.Decision{URL: "https://a.example/robots.txt", RobotsTxt: true}
	for day := range days {
		morning := logtest.Day.Add(time.Duration(day) * 24 * time.Hour)
		for i := range pages {
			at := morning.Add(time.Duration(i+1) * time.Second)
			if i%3000 == 0 { // it is kept for an hour
				exchange(at.Add(-time.Second/2), robots, evidence.Decision{Status: 404})
				fetched := robots
				fetched.Type = evidence.RobotsFetched
				fetched.Time = at.Add(-time.Second / 2).Add(time.Second / 10)
				fetched.Trip = trip
				fetched.Status = 404
				fetched.TTL = time.Hour
				add(fetched)
			}
			page := evidence.Decision{URL: fmt.Sprintf("https://a.example/%d", i)}
			answer := evidence.Decision{Status: 200, ETag: `"1"`, Bytes: 1000}
			if day > 0 {
				page.Due = at.Add(-time.Hour)
				page.Conditional = true
				answer = evidence.Decision{Status: 304, ETag: `"1"`}
			}
			add(evidence.Decision{Type: evidence.RobotsAllowed, Time: at, Trip: trip + 1, URL: page.URL})
			exchange(at, page, answer)
		}
	}
	_ = log.Close()
}

// stopsTheWorld is the value of GODEBUG of a process in which nothing is allocated during a collection.
// What is would count as kept: with one processor, a third of the figure.
const stopsTheWorld = "gcstoptheworld=1"

// runsAlone reports whether the test is in a process of its own that stops the world. Where it isn't,
// runsAlone runs it in one.
func runsAlone(t *testing.T) bool {
	t.Helper()
	if strings.Contains(os.Getenv("GODEBUG"), stopsTheWorld) {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG="+stopsTheWorld)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Error(err)
	}
	return false
}

// peakOf returns the most memory that is kept while f runs, in a test that runs alone.
func peakOf(f func()) (most uint64) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for {
		began := time.Now()
		runtime.GC()
		metrics.Read(live)
		most = max(most, live[0].Value.Uint64())
		select {
		case <-ended:
			return most
		case <-time.After(3 * time.Since(began)): // else f would hardly go on
		}
	}
}
