package nettest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Visit is one line of a site's own log.
type Visit struct {
	Path    string
	Process string        // number of the process that asked, by the path; "": robots.txt
	Start   time.Time     // when the request came
	End     time.Time     // when the last bytes of the answer were given to the machine to send; zero: not yet
	Refused time.Duration // time that a 429 asked for
}

// String names the request and its times.
func (v *Visit) String() string {
	return fmt.Sprintf("%s (%s to %s)", v.Path, v.Start.Format("05.000"), v.End.Format("05.000"))
}

// A Site answers each page after 10 ms with 20 KB, and keeps a log.
type Site struct {
	mu      sync.Mutex
	visits  []*Visit
	refuse  time.Duration // that the next page is refused for; 0: it is answered
	log     strings.Builder
	arrived chan struct{}
}

// NewSite serves a site on a machine until the test ends, and returns its URL.
func NewSite(t testing.TB, m *Machine) (*Site, string) {
	t.Helper()
	ln, err := m.Listen()
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{arrived: make(chan struct{}, 1)}
	server := &http.Server{Handler: s}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) }) // until it is closed
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
	})
	return s, "http://" + ln.Addr().String()
}

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &Visit{Path: r.URL.Path, Start: time.Now()}
	status := http.StatusOK
	body := strings.Repeat("a page ", 3000)
	s.mu.Lock()
	s.visits = append(s.visits, v)
	if v.Path == "/robots.txt" {
		body = "User-agent: *\nDisallow: /private\n"
	} else {
		v.Process, _, _ = strings.Cut(v.Path[1:], "/")
		v.Refused = s.refuse
		s.refuse = 0 // the next page alone is refused
	}
	s.mu.Unlock()
	if v.Refused > 0 {
		w.Header().Set("Retry-After", fmt.Sprintf("%.0f", v.Refused.Seconds()))
		status = http.StatusTooManyRequests
		body = ""
	}
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	v.End = time.Now()
	at := v.Start.Format("02/Jan/2006:15:04:05 -0700")
	fmt.Fprintf(&s.log, "- - - [%s] \"GET %s HTTP/1.1\" %d %d \"-\" %q\n", at, v.Path, status, len(body), r.UserAgent())
	s.mu.Unlock()
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// Next waits until the site has answered n requests more.
func (s *Site) Next(t testing.TB, n int) {
	t.Helper()
	for range n {
		select {
		case <-s.arrived:
		case <-time.After(time.Minute):
			t.Fatal("the crawl doesn't go on")
		}
	}
}

// NextOf waits until the site has answered one more request of a process.
func (s *Site) NextOf(t testing.TB, p *Process) {
	t.Helper()
	isAnswered := func(v *Visit) bool { return v.Process == p.Number && !v.End.IsZero() }
	from := len(s.Visits())
	for !slices.ContainsFunc(s.Visits()[from:], isAnswered) {
		s.Next(t, 1)
	}
}

// Refuse refuses the next page for d, and waits until that has happened.
func (s *Site) Refuse(t testing.TB, d time.Duration) (by *Visit) {
	t.Helper()
	s.mu.Lock()
	s.refuse = d
	s.mu.Unlock()
	for {
		s.Next(t, 1)
		visits := s.Visits()
		if i := slices.IndexFunc(visits, func(v *Visit) bool { return v.Refused == d && !v.End.IsZero() }); i >= 0 {
			return visits[i]
		}
	}
}

// Visits returns copies of the site's log, by start.
func (s *Site) Visits() []*Visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	visits := make([]*Visit, len(s.visits))
	for i, v := range s.visits {
		copied := *v
		visits[i] = &copied
	}
	slices.SortStableFunc(visits, func(a, b *Visit) int { return cmp.Compare(a.Start.UnixNano(), b.Start.UnixNano()) })
	return visits
}

// AccessLog returns the log in the format of Apache and nginx.
func (s *Site) AccessLog() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Slots fails the test if more requests than slots were in flight, by the site's own log.
func (s *Site) Slots(t testing.TB, slots int) {
	t.Helper()
	visits := s.Visits()
	for i, v := range visits {
		inFlight := 1
		for _, other := range visits[:i] {
			if other.End.IsZero() || other.End.After(v.Start) {
				inFlight++
			}
		}
		if inFlight > slots {
			t.Errorf("%d requests in flight at %v", inFlight, v)
		}
	}
}

// Gaps fails the test if a request came less than delay after the end of the one before, or into a
// block, by the site's own log. It is for crawlers with one slot whose delay counts from the end: a
// network brings two requests together of which the first is late, and has one start that was sent
// before the refusal had arrived. A short gap over one of the restarts is no fault.
func (s *Site) Gaps(t testing.TB, delay time.Duration, restarts ...time.Time) {
	t.Helper()
	visits := s.Visits()
	for i, v := range visits {
		for _, other := range visits[:i] {
			if v.Start.Before(other.End.Add(other.Refused)) && other.Refused > 0 {
				t.Errorf("%v into the block of %v", v, other)
			}
		}
		if i == 0 {
			continue
		}
		before := visits[i-1]
		isBetween := func(at time.Time) bool { return at.After(before.Start) && at.Before(v.Start) }
		restarted := slices.ContainsFunc(restarts, isBetween)
		if gap := v.Start.Sub(before.End); !restarted && gap < delay {
			t.Errorf("only %v between %v and %v", gap, before, v)
		}
	}
}

// A Process is this program once more, on a machine. It ends by itself once its standard input
// does.
type Process struct {
	Number string
	Killed time.Time

	t    testing.TB
	cmd  *exec.Cmd
	stop io.Closer
}

// crawlerEnv is the environment variable that makes a test binary a crawler: the JSON of its order.
const crawlerEnv = "POLITENESS_TEST_CRAWLER"

// Main is for the TestMain of a package whose tests call Machine.Run. It runs the tests, and in a
// process that Run has started it calls crawl with the order instead. It ends the process.
func Main[Order any](m *testing.M, crawl func(Order) error) {
	text := os.Getenv(crawlerEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var order Order
	err := json.Unmarshal([]byte(text), &order)
	if err == nil {
		err = crawl(order)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Run starts this program on the machine. Main calls its crawl with order, which goes there as
// JSON.
func (m *Machine) Run(t testing.TB, order any) *Process {
	t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, cmd: exec.CommandContext(t.Context(), program)}
	p.cmd.Env = append(os.Environ(), crawlerEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.stop, err = p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.Do(func() { err = p.cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	p.Number = fmt.Sprint(p.cmd.Process.Pid)
	return p
}

// Finish lets the process end by itself.
func (p *Process) Finish() {
	p.t.Helper()
	p.stop.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
}

// Kill ends the process at once.
func (p *Process) Kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
	p.Killed = time.Now()
}

// Crawl asks a site for one page after the other, whose paths begin with the process's number, from
// a number of goroutines and until standard input ends.
func Crawl(client *http.Client, site string, goroutines int) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var page atomic.Int64
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for ctx.Err() == nil {
				get(ctx, client, fmt.Sprintf("%s/%d/%d", site, os.Getpid(), page.Add(1)))
			}
		})
	}
	all.Wait()
}

func get(ctx context.Context, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		time.Sleep(5 * time.Millisecond) // if it is refused at once, this is no busy loop
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}
