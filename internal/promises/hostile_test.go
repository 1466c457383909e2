package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// What a crawl of the hostile web may come to.
const (
	maxRecord     = 8 << 10         // bytes of one record
	maxRecords    = 1 << 20         // bytes of all of them
	maxKept       = 32 << 20        // bytes of memory that are live at any time
	maxHeap       = 256 << 20       // bytes by which the heap may grow, garbage included
	maxTime       = 2 * time.Hour   // of the whole crawl
	patience      = 5 * time.Minute // of the crawler with one page
	honestPages   = 60
	honestDelay   = time.Second
	honestLatency = 100 * time.Millisecond
)

// TestHostileWeb lets one crawl loose on all hostile sites beside honest ones. It ends, in bounded
// memory, and with a log of a bounded size that is proved and can be read on a terminal; and the
// honest sites are crawled as fast as their delay permits.
func TestHostileWeb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		var lines recordSizes
		sink := evidence.JSONLines(&lines)
		client := &http.Client{Transport: mustNew(t, politeness.Config{
			UserAgent: agent, Base: web, Evidence: sink,
			Hosts:    hostlimit.Config{MaxWait: time.Minute, Delay: hostlimit.Delay{Min: honestDelay, Max: honestDelay}},
			Response: politeness.ResponseLimits{MaxBytes: 1 << 20, Accept: []string{"text/*"}, CheckIndexing: true},
			Retry:    politeness.Retry{Max: 1},
		})}

		begin, usage := time.Now(), watchUsage()
		var group sync.WaitGroup
		hostile := 0
		for name, site := range politenesstest.Hostile() {
			hostile++
			origin := "https://" + name + ".example"
			web.Site(origin).Handle("/", site).Handle("/robots.txt", site)
			group.Go(func() {
				for _, path := range []string{"/", "/private", "/b"} {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					_, err := fetch(ctx, client, origin+path)
					cancel()
					checkErrorText(t, name, err)
				}
			})
		}
		for i := range 5 {
			origin := fmt.Sprintf("https://honest%d.example", i)
			web.Site(origin).Robots("User-agent: *\nDisallow: /private\n").Handle("/", politenesstest.Text("hello")).Latency(honestLatency)
			group.Go(func() {
				for n := range honestPages {
					if _, err := fetch(t.Context(), client, fmt.Sprintf("%s/%d", origin, n)); err != nil {
						t.Errorf("%s: %v", origin, err)
					}
				}
				if took, want := time.Since(begin), honestPages*honestDelay+honestLatency; took != want {
					t.Errorf("%s was crawled in %v instead of %v", origin, took, want)
				}
			})
		}
		group.Wait()
		took := time.Since(begin)
		kept, heap, goroutines := usage()
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}

		t.Logf("%d hostile sites in %v: %d requests, %d records of at most %d bytes, %d bytes in all; at most %d bytes live, the heap grew by %d; at most %d goroutines",
			hostile, took, len(web.Requests()), lines.records, lines.longest, lines.Len(), kept, heap, goroutines)
		if took > maxTime {
			t.Errorf("the crawl took %v", took)
		}
		if lines.longest > maxRecord || lines.Len() > maxRecords {
			t.Errorf("the longest record has %d bytes, and all of them %d: %.200s", lines.longest, lines.Len(), lines.worst)
		}
		if kept > maxKept || heap > maxHeap {
			t.Errorf("at most %d bytes were live, and the heap grew by %d", kept, heap)
		}
		if most := 10 * hostile; goroutines > most {
			t.Errorf("%d goroutines at once, more than %d", goroutines, most)
		}
		if i := strings.IndexFunc(lines.String(), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }); i >= 0 {
			t.Errorf("the log holds what can't be printed: %q", lines.String()[max(i-100, 0):i+10])
		}
		if strings.Contains(lines.String(), "secret") {
			t.Error("the log holds a password")
		}
		report, err := audit.Check(&lines.Buffer)
		if err != nil || !report.OK() {
			t.Errorf("%v\n%v", err, report)
		}
		web.Check(t, politenesstest.Rules{Delay: honestDelay, Concurrency: 2})
	})
}

// checkErrorText holds that a terminal isn't harmed by the text of err, and a log not filled. The
// text that net/http puts around it quotes the URL.
func checkErrorText(t *testing.T, name string, err error) {
	t.Helper()
	var ours *politeness.Error
	if err == nil || !errors.As(err, &ours) {
		return
	}
	text := ours.Error()
	if i := strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 {
		t.Errorf("%s: the error %q can't be printed", name, text)
	}
	if len(text) > 2<<10 {
		t.Errorf("%s: an error text of %d bytes: %.200s", name, len(text), text)
	}
	if strings.Contains(text, "secret") {
		t.Errorf("%s: the error holds a password: %q", name, text)
	}
}

// recordSizes is a log in memory that knows its longest record.
type recordSizes struct {
	bytes.Buffer
	records, longest int
	worst            string
}

func (l *recordSizes) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if l.records++; len(line) > l.longest {
			l.longest, l.worst = len(line), string(line)
		}
	}
	return l.Buffer.Write(p)
}

// watchUsage looks every minute at what is in use, and returns a function that ends that and tells
// the most that it saw, and by how many bytes the heap has grown.
func watchUsage() func() (kept, heap int64, goroutines int) {
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	system := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapSys)
	}
	before, grown := live(), system()
	var most int64
	var goroutines int
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			goroutines = max(goroutines, runtime.NumGoroutine())
			synctest.Wait() // what others allocate during the collection would count as live
			most = max(most, live()-before)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() (int64, int64, int) {
		close(stop)
		<-stopped
		return most, max(system(), grown) - grown, goroutines
	}
}

// TestHostileConnections is the same over real connections, with what no ResponseWriter lets
// through: each page comes to an end with its context.
func TestHostileConnections(t *testing.T) {
	t.Parallel() // it waits in real time
	client := &http.Client{Transport: mustNew(t, politeness.Config{
		UserAgent: agent, Base: &http.Transport{}, Response: politeness.ResponseLimits{MaxBytes: 1 << 20},
	})}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for name, site := range politenesstest.Hostile() {
		if !strings.HasPrefix(name, "raw-") && !strings.HasSuffix(name, "-bomb") {
			continue
		}
		server := httptest.NewUnstartedServer(site)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.Start()
		group.Go(func() {
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := fetch(ctx, client, server.URL)
			checkErrorText(t, name, err)
		})
	}
	group.Wait()
}

// TestRecordsAreBounded: whatever a server sends, no record is longer than 8 KB, except for the
// text of a robots.txt where it is asked for.
func TestRecordsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("\x01", 1<<20)
		web := politenesstest.NewWeb()
		web.Site("https://a.example").Robots("User-agent: *\nDisallow: /x"+strings.Repeat("\x01", 15<<10)).
			Handle("/type", politenesstest.Status(200, "Content-Type", "image/"+long)).
			Handle("/moved", politenesstest.Status(302, "Location", "/"+long, "ETag", long, "Last-Modified", long, "Content-Type", long))
		web.Site("https://b.example").Down(errors.New("quoted: " + long))
		var log recordSizes
		sink := evidence.JSONLines(&log)
		tr := mustNew(t, politeness.Config{
			UserAgent: agent, Base: web, Evidence: sink,
			Robots:   robotscache.Config{OnUnreachable: robotscache.Allow},
			Response: politeness.ResponseLimits{Reject: []string{"image/*"}},
		})
		for _, u := range []string{"a.example/type", "a.example/moved", "a.example/x" + strings.Repeat("\x01", 15<<10), "b.example/", "a.example/?" + long} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.URL.Host, req.URL.Path, _ = strings.Cut(u, "/")
			req.URL.Path = "/" + req.URL.Path
			if resp, err := tr.RoundTrip(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		if log.longest > maxRecord {
			t.Errorf("a record of %d bytes: %.300s", log.longest, log.worst)
		}
		if log.records < 10 {
			t.Errorf("only %d records", log.records)
		}
		if report, err := audit.Check(&log.Buffer); err != nil || !report.OK() {
			t.Errorf("%v\n%v", err, report)
		}
	})
}
