package nettest_test

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/lab/nettest"
)

// An order says what a crawler does until its standard input ends.
type order struct {
	Site        string
	State, Log  string // directory, and file of the evidence
	Concurrency int
	Delay       time.Duration
	Timeout     time.Duration // after which a request is given up; 0: never
}

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests wait more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	nettest.Main(m, order.crawl)
}

func (o order) crawl() error {
	log, err := evidence.OpenFile(o.Log, evidence.LogConfig{})
	if err != nil {
		return err
	}
	cfg := politeness.Config{
		UserAgent: "NetworkBot/1.0 (+https://bot.example.com; bot@example.com)", Evidence: log,
		Hosts: hostlimit.Config{
			Concurrency: o.Concurrency,
			Delay:       hostlimit.Delay{Min: o.Delay, Max: o.Delay, Adaptive: hostlimit.Fixed, FromEnd: o.Concurrency == 1},
		},
	}.WithState(o.State)
	transport, err := politeness.New(cfg)
	if err != nil {
		return err
	}
	nettest.Crawl(&http.Client{Transport: transport, Timeout: o.Timeout}, o.Site, 2*o.Concurrency+1)
	if err := transport.EvidenceErr(); err != nil {
		return err
	}
	return log.Close()
}

// A lab is a crawler and a site on two machines.
type lab struct {
	*testing.T
	net           *nettest.Network
	crawler, door *nettest.Machine
	way           nettest.Way
	site          *nettest.Site
	order         order
	*nettest.Process
	killed []*nettest.Process
	logs   []string // of all crawlers
}

func newLab(t *testing.T, way nettest.Way, o order) *lab {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &lab{T: t, net: nettest.New(t, seed), way: way, order: o}
	l.crawler, l.door = l.net.Machine(), l.net.Machine()
	l.net.Set(l.crawler, l.door, way)
	l.site, l.order.Site = nettest.NewSite(t, l.door)
	l.order.State = filepath.Join(t.TempDir(), "state")
	l.start()
	return l
}

// start starts a crawler, each with a log of its own.
func (l *lab) start() {
	l.Helper()
	l.order.Log = filepath.Join(l.TempDir(), "evidence.jsonl")
	l.logs = append(l.logs, l.order.Log)
	l.Process = l.crawler.Run(l.T, l.order)
}

// cut cuts the network for d, at first while the crawler waits for its next turn.
func (l *lab) cut(d time.Duration) {
	time.Sleep(l.order.Delay / 2)
	l.net.Set(l.crawler, l.door, nettest.Way{Cut: true})
	time.Sleep(d)
	l.net.Set(l.crawler, l.door, l.way)
}

// replace cuts the network for d, and puts another crawler in the place of the one that is there.
func (l *lab) replace(d time.Duration) {
	l.Helper()
	time.Sleep(l.order.Delay / 2)
	l.net.Set(l.crawler, l.door, nettest.Way{Cut: true})
	time.Sleep(d / 2)
	l.Kill()
	l.killed = append(l.killed, l.Process)
	l.start()
	time.Sleep(d / 2)
	l.net.Set(l.crawler, l.door, l.way)
}

// audit judges the logs of all crawlers, compares that of the last one with the site's unless others were
// killed, and returns when its requests were given up, by their path.
func (l *lab) audit() map[string]time.Time {
	l.Helper()
	text, err := os.ReadFile(l.order.Log)
	if err != nil {
		l.Fatal(err)
	}
	var logs []io.Reader
	for _, name := range l.logs {
		file, err := os.Open(name)
		if err != nil {
			l.Fatal(err)
		}
		defer file.Close()
		logs = append(logs, file)
	}
	report, err := audit.Check(logs...)
	if err != nil {
		l.Fatal(err)
	}
	if !report.OK() {
		l.Error(report)
	}
	if len(l.killed) == 0 {
		c, err := accesslog.Compare(strings.NewReader(string(text)), accesslog.Options{Host: strings.TrimPrefix(l.order.Site, "http://")},
			strings.NewReader(l.site.AccessLog()))
		if err != nil {
			l.Fatal(err)
		}
		if c.Missing.N+c.Outside.N+c.Unseen.N+c.Status.N > 0 || c.Matched == 0 {
			l.Errorf("%+v", c)
		}
	}
	failed := make(map[string]time.Time)
	for line := range strings.Lines(string(text)) {
		var record struct {
			Type evidence.Type `json:"type"`
			URL  string        `json:"url"`
			Time time.Time     `json:"timestamp"`
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			l.Fatal(err)
		}
		if record.Type == evidence.Failed {
			failed[strings.TrimPrefix(record.URL, l.order.Site)] = record.Time
		}
	}
	return failed
}

// TestCrawlThroughABadNetwork crawls a site on another machine through loss, delay and a partition, and
// looks at it with the site's eyes.
func TestCrawlThroughABadNetwork(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]order{
		"one at a time": {Concurrency: 1, Delay: 100 * time.Millisecond},
		"two at a time": {Concurrency: 2, Delay: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, nettest.Way{Loss: 0.03, Delay: 10 * time.Millisecond, Jitter: 20 * time.Millisecond}, o)
			l.site.Next(t, 10)
			l.cut(time.Second)
			l.site.Next(t, 5)
			l.site.Refuse(t, 2*time.Second)
			l.site.Next(t, 5)
			l.Finish()
			l.site.Slots(t, o.Concurrency)
			if o.Concurrency == 1 {
				l.site.Gaps(t, o.Delay)
			}
			l.audit()
			t.Logf("%d requests", len(l.site.Visits()))
		})
	}
}

// onItsWay is how long a request may be under way in a machine that is busy with other things.
const onItsWay = 400 * time.Millisecond

// TestCrawlThatGivesUp: requests that were given up while the network was cut don't reach the site when
// it is whole again, beside those that were sent in their place.
func TestCrawlThatGivesUp(t *testing.T) {
	t.Parallel()
	l := newLab(t, nettest.Way{Delay: 5 * time.Millisecond}, order{Concurrency: 1, Delay: 200 * time.Millisecond, Timeout: onItsWay})
	for range 3 {
		l.site.Next(t, 2)
		l.cut(1200 * time.Millisecond)
	}
	l.site.Next(t, 5)
	l.Finish()
	failed := l.audit()
	for _, v := range l.site.Visits() {
		if at, ok := failed[v.Path]; ok && v.Start.Sub(at) > onItsWay {
			t.Errorf("%v comes %v after it was given up", v, v.Start.Sub(at))
		}
	}
	t.Logf("%d requests, %d given up", len(l.site.Visits()), len(failed))
	if len(failed) == 0 {
		t.Error("no request was given up")
	}
}

// TestKilledWhileCutOff: what a crawler had sent into a cut network when it was killed doesn't reach the
// site later, and the next one on the same directory knows of the block.
func TestKilledWhileCutOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, nettest.Way{Delay: 5 * time.Millisecond}, order{Concurrency: 1, Delay: 100 * time.Millisecond})
	for range 2 {
		l.site.Next(t, 3)
		l.replace(time.Second)
		l.site.Next(t, 12) // time in which TCP tries once more
	}
	l.site.Refuse(t, 2*time.Second)
	time.Sleep(onItsWay) // the crawler learns of it
	l.replace(400 * time.Millisecond)
	l.site.Next(t, 3)
	l.Finish()
	l.audit()
	var restarts []time.Time
	for _, p := range l.killed {
		restarts = append(restarts, p.Killed)
		for _, v := range l.site.Visits() {
			if v.Process == p.Number && v.Start.Sub(p.Killed) > onItsWay {
				t.Errorf("%v comes %v after its process was killed", v, v.Start.Sub(p.Killed))
			}
		}
	}
	l.site.Gaps(t, l.order.Delay, restarts...)
	t.Logf("%d requests", len(l.site.Visits()))
}
