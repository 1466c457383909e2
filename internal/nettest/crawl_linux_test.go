package nettest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/nettest"
)

// crawlerEnv is the environment variable that makes this program a crawler: the JSON of an order.
const crawlerEnv = "POLITENESS_TEST_CRAWLER"

const agent = "NetworkBot/1.0 (+https://bot.example.com; bot@example.com)"

// An order says what a crawler does until its standard input ends.
type order struct {
	Site        string
	State, Log  string // directory, and file of the evidence
	Concurrency int
	Delay       time.Duration
	Timeout     time.Duration // after which a request is given up; 0: never
}

func TestMain(m *testing.M) {
	if text := os.Getenv(crawlerEnv); text != "" {
		var o order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			panic(err)
		}
		if err := o.crawl(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// crawl has more goroutines ask for pages than may be in flight, so that there is always one that
// would start too early.
func (o order) crawl() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	log, err := evidence.OpenFile(o.Log)
	if err != nil {
		return err
	}
	cfg := politeness.Config{
		UserAgent: agent, Evidence: log,
		Limits: hostlimit.Config{
			Concurrency: o.Concurrency,
			Delay:       hostlimit.Delay{Min: o.Delay, Max: o.Delay, Adaptive: hostlimit.Fixed, FromEnd: o.Concurrency == 1},
		},
	}.WithState(o.State)
	transport, err := politeness.New(cfg)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, Timeout: o.Timeout}
	var page atomic.Int64
	var all sync.WaitGroup
	for range 2*o.Concurrency + 1 {
		all.Go(func() {
			for ctx.Err() == nil {
				get(ctx, client, fmt.Sprintf("%s/%d/%d", o.Site, os.Getpid(), page.Add(1)))
			}
		})
	}
	all.Wait()
	if err := transport.EvidenceErr(); err != nil {
		return err
	}
	return log.Close()
}

func get(ctx context.Context, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		time.Sleep(time.Millisecond) // of a refusal at once
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// A visit is one line of the site's own log.
type visit struct {
	path       string
	start, end time.Time
	refused    bool
}

func (v visit) String() string {
	return fmt.Sprintf("%s %s to %s", v.path, v.start.Format("05.000"), v.end.Format("05.000"))
}

// A site answers a page of 20 KB after 10 ms.
type site struct {
	mu      sync.Mutex
	visits  []*visit
	refuse  time.Duration // asked for of the next page; 0: it is answered
	log     strings.Builder
	arrived chan struct{}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{path: r.URL.Path, start: time.Now()}
	s.mu.Lock()
	s.visits = append(s.visits, v)
	refuse := s.refuse
	s.refuse, v.refused = 0, refuse > 0
	s.mu.Unlock()
	status, body := http.StatusOK, strings.Repeat("a page ", 3000)
	switch {
	case r.URL.Path == "/robots.txt":
		body = "User-agent: *\nDisallow: /private\n"
	case refuse > 0:
		w.Header().Set("Retry-After", fmt.Sprintf("%.0f", refuse.Seconds()))
		status, body = http.StatusTooManyRequests, ""
	}
	time.Sleep(10 * time.Millisecond)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	s.mu.Lock()
	v.end = time.Now()
	fmt.Fprintf(&s.log, "10.77.0.2 - - [%s] \"GET %s HTTP/1.1\" %d %d \"-\" %q\n", v.start.Format("02/Jan/2006:15:04:05 -0700"), r.URL.Path, status, len(body), r.UserAgent())
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// next waits until the site has answered n requests more.
func (s *site) next(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-s.arrived:
		case <-time.After(time.Minute):
			t.Fatal("the crawl doesn't go on")
		}
	}
}

// A lab is a crawler and a site on two machines.
type lab struct {
	*testing.T
	net           *nettest.Network
	crawler, door *nettest.Machine
	site          *site
	order         order
	cmd           *exec.Cmd
	stop          io.Closer
	logs          []string
	killed        map[string]time.Time // processes, by number
	failed        map[string]time.Time // when requests were given up, by path
}

func newLab(t *testing.T, o order) *lab {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &lab{T: t, net: nettest.New(t, seed), site: &site{arrived: make(chan struct{}, 1)}, order: o, killed: map[string]time.Time{}, failed: map[string]time.Time{}}
	l.crawler, l.door = l.net.Machine(), l.net.Machine()
	ln, err := l.door.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: l.site}
	served := make(chan error)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	l.order.Site, l.order.State = "http://"+ln.Addr().String(), filepath.Join(t.TempDir(), "state")
	return l
}

// start starts the crawler, each time with a log of its own.
func (l *lab) start() {
	l.Helper()
	l.order.Log = filepath.Join(l.TempDir(), "evidence.jsonl")
	l.logs = append(l.logs, l.order.Log)
	text, err := json.Marshal(l.order)
	if err != nil {
		l.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		l.Fatal(err)
	}
	l.cmd = exec.CommandContext(l.Context(), program)
	l.cmd.Env = append(os.Environ(), crawlerEnv+"="+string(text))
	l.cmd.Stderr = os.Stderr
	if l.stop, err = l.cmd.StdinPipe(); err != nil {
		l.Fatal(err)
	}
	if err := l.crawler.Start(l.cmd); err != nil {
		l.Fatal(err)
	}
}

// finish lets the crawler end by itself.
func (l *lab) finish() {
	l.Helper()
	l.stop.Close()
	if err := l.cmd.Wait(); err != nil {
		l.Error(err)
	}
}

func (l *lab) kill() {
	l.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		l.Fatal(err)
	}
	_ = l.cmd.Wait() // it was killed
	l.killed[fmt.Sprint(l.cmd.Process.Pid)] = time.Now()
}

// cut cuts the network for d, at first while the crawler waits for its next turn.
func (l *lab) cut(d time.Duration, then nettest.Way) {
	time.Sleep(l.order.Delay / 2)
	l.net.Set(l.crawler, l.door, nettest.Way{Cut: true})
	time.Sleep(d)
	l.net.Set(l.crawler, l.door, then)
}

// replace kills the crawler and starts another while the network is cut for d.
func (l *lab) replace(d time.Duration, then nettest.Way) {
	l.Helper()
	time.Sleep(l.order.Delay / 2)
	l.net.Set(l.crawler, l.door, nettest.Way{Cut: true})
	time.Sleep(d / 2)
	l.kill()
	l.start()
	time.Sleep(d / 2)
	l.net.Set(l.crawler, l.door, then)
}

// refuseNext has the site refuse a page, and waits until it has.
func (l *lab) refuseNext() {
	l.Helper()
	l.site.mu.Lock()
	l.site.refuse = blockFor
	l.site.mu.Unlock()
	for done := false; !done; {
		l.site.next(l.T, 1)
		l.site.mu.Lock()
		done = l.site.refuse == 0
		l.site.mu.Unlock()
	}
}

// judge looks at the site's own log. A request that was given up may be on its way for slack, and its
// end is then the crawler's and not the site's.
func (l *lab) judge(slack time.Duration) {
	l.Helper()
	for _, name := range l.logs {
		l.audit(name)
	}
	l.site.mu.Lock()
	defer l.site.mu.Unlock()
	visits := l.site.visits
	slices.SortFunc(visits, func(a, b *visit) int { return a.start.Compare(b.start) })
	for i, v := range visits[1:] {
		inFlight := 1
		for _, other := range visits[:i+1] {
			if other.end.After(v.start) {
				inFlight++
			}
			// With two slots, one may start while the refusal is on its way to the crawler.
			if until := other.end.Add(blockFor); other.refused && v.start.Before(until) && l.order.Concurrency == 1 {
				l.Errorf("%v into the block of %v", v, other)
			}
		}
		if inFlight > l.order.Concurrency {
			l.Errorf("%d requests in flight at %v", inFlight, v)
		}
		if at, ok := l.failed[v.path]; ok && v.start.Sub(at) > slack {
			l.Errorf("%v comes %v after it was given up", v, v.start.Sub(at))
		}
		process, _, _ := strings.Cut(v.path[1:], "/")
		if at, ok := l.killed[process]; ok && v.start.Sub(at) > slack {
			l.Errorf("%v comes %v after its process was killed", v, v.start.Sub(at))
		}
		before := visits[i]
		restarted := false // short gaps don't outlive their process
		for _, at := range l.killed {
			restarted = restarted || at.After(before.start) && at.Before(v.start)
		}
		if gap := v.start.Sub(before.end); l.order.Concurrency == 1 && !restarted && gap < l.order.Delay-slack {
			l.Errorf("only %v between %v and %v", gap, before, v)
		}
	}
	l.Logf("%d requests, %d given up", len(visits), len(l.failed))
}

func (l *lab) audit(name string) {
	l.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		l.Fatal(err)
	}
	report, err := audit.Check(strings.NewReader(string(text)))
	if err != nil {
		l.Fatal(err)
	}
	if !report.OK() {
		l.Error(report)
	}
	for line := range strings.Lines(string(text)) {
		var record struct {
			Type evidence.Type `json:"type"`
			URL  string        `json:"url"`
			Time time.Time     `json:"timestamp"`
		}
		if !strings.HasSuffix(line, "\n") && len(l.killed) > 0 {
			break // it was being written when the process was killed
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			l.Fatal(err)
		}
		if record.Type == evidence.Failed {
			l.failed[strings.TrimPrefix(record.URL, l.order.Site)] = record.Time
		}
	}
}

const blockFor = 2 * time.Second

// TestCrawlThroughABadNetwork crawls a site on another machine through loss, delay and partitions, and
// looks at it with the site's eyes.
func TestCrawlThroughABadNetwork(t *testing.T) {
	t.Parallel()
	bad := nettest.Way{Loss: 0.03, Delay: 10 * time.Millisecond, Jitter: 20 * time.Millisecond}
	for name, o := range map[string]order{
		"one at a time": {Concurrency: 1, Delay: 100 * time.Millisecond},
		"two at a time": {Concurrency: 2, Delay: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, o)
			l.net.Set(l.crawler, l.door, bad)
			l.start()
			l.site.next(t, 10)
			l.cut(time.Second, bad)
			l.site.next(t, 5)
			l.refuseNext()
			l.site.next(t, 5)
			l.finish()
			l.judge(0)
		})
	}
}

// TestCrawlThatGivesUp: requests that were given up while the network was cut don't reach the site when
// it is whole again, beside those that were sent in their place.
func TestCrawlThatGivesUp(t *testing.T) {
	t.Parallel()
	way := nettest.Way{Delay: 5 * time.Millisecond}
	l := newLab(t, order{Concurrency: 1, Delay: 300 * time.Millisecond, Timeout: 400 * time.Millisecond})
	l.net.Set(l.crawler, l.door, way)
	l.start()
	for range 4 {
		l.site.next(t, 2)
		l.cut(time.Second, way)
	}
	l.site.next(t, 3)
	l.finish()
	l.judge(150 * time.Millisecond)
	if len(l.failed) == 0 {
		t.Error("no request was given up")
	}
}

// TestKilledWhileCutOff: what a crawler had sent into a cut network when it was killed doesn't reach the
// site later, and the next one on the same directory knows of the block.
func TestKilledWhileCutOff(t *testing.T) {
	t.Parallel()
	way := nettest.Way{Delay: 5 * time.Millisecond}
	l := newLab(t, order{Concurrency: 1, Delay: 100 * time.Millisecond})
	l.net.Set(l.crawler, l.door, way)
	l.start()
	for range 2 {
		l.site.next(t, 3)
		l.replace(600*time.Millisecond, way)
		l.site.next(t, 12) // time in which TCP tries once more
	}
	l.refuseNext()
	time.Sleep(500 * time.Millisecond) // the crawler learns of it
	l.replace(300*time.Millisecond, way)
	l.site.next(t, 3)
	l.finish()
	l.judge(150 * time.Millisecond)
}
