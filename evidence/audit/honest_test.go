package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/internal/soak"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A siteVisit is one request as its site saw it.
type siteVisit struct {
	host, path     string
	came, answered time.Time
	left           time.Time // when its body was closed; zero: not yet
	status         int
	retryAfter     time.Duration
}

// sites answer at random and keep a log of their own. They share nothing with what they judge.
type sites struct {
	mu     sync.Mutex
	rnd    *rand.Rand
	visits []*siteVisit
	robots map[string]string
	slow   time.Duration // longest wait for headers
}

func (s *sites) number(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

func (s *sites) RoundTrip(req *http.Request) (*http.Response, error) {
	v := &siteVisit{host: req.URL.Host, path: req.URL.Path, came: time.Now()}
	s.mu.Lock()
	s.visits = append(s.visits, v)
	s.mu.Unlock()
	wait := time.Duration(s.number(400)) * time.Millisecond
	if s.slow > 0 && s.number(12) == 0 {
		wait = time.Duration(s.number(int(s.slow/time.Millisecond))) * time.Millisecond
	}
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if v.left.IsZero() {
			v.left = time.Now()
		}
	}
	select {
	case <-time.After(wait):
	case <-req.Context().Done():
		leave()
		return nil, req.Context().Err()
	}
	resp := &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req}
	resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	text := "page"
	switch kind := s.number(30); {
	case req.URL.Path == "/robots.txt":
		switch {
		case kind == 0:
			resp.StatusCode = 503
		default:
			text = s.robots[req.URL.Host]
		}
	case kind == 0:
		resp.StatusCode = 429
		v.retryAfter = time.Duration(s.number(20)) * time.Second
		if v.retryAfter > 0 {
			if s.number(2) == 0 {
				resp.Header.Set("Retry-After", strconv.Itoa(int(v.retryAfter/time.Second)))
			} else {
				resp.Header.Set("Retry-After", time.Now().Add(v.retryAfter).UTC().Format(http.TimeFormat))
				v.retryAfter -= time.Second // a date is as exact as its second
			}
		}
	case kind == 1:
		resp.StatusCode = []int{500, 503, 403, 401, 408, 404, 410}[s.number(7)]
		if s.number(3) == 0 {
			resp.Header.Set("RateLimit", `"p";r=0;t=5`)
			v.retryAfter = 5 * time.Second
		}
	case kind == 2:
		resp.StatusCode = 503
		v.retryAfter = 7 * time.Second
		resp.Header.Set("Retry-After", "7")
	case kind == 3:
		resp.Header.Set("RateLimit", `"p";r=0;t=5`)
		v.retryAfter = 5 * time.Second
	case kind == 4:
		resp.Header.Set("X-RateLimit-Remaining", "0")
		resp.Header.Set("X-RateLimit-Reset", "6")
		v.retryAfter = 6 * time.Second
	case kind <= 6:
		resp.StatusCode = 302
		resp.Header.Set("Location", []string{"/a", "/b?x=1", "https://b.example/c#f", "/private/x"}[s.number(4)])
	case kind == 7:
		leave()
		return nil, errors.New("connection reset")
	case strings.HasPrefix(req.URL.Path, "/down"):
		resp.StatusCode = 500
	}
	v.answered, v.status = time.Now(), resp.StatusCode
	resp.Body = &leaving{strings.NewReader(text), leave}
	return resp, nil
}

type leaving struct {
	io.Reader
	leave func()
}

func (l *leaving) Close() error { l.leave(); return nil }

// breaches says what the sites had to suffer, where they were promised a gap, slots, places for all of
// them together (0: any number), and that what they ask for is obeyed.
func (s *sites) breaches(gap time.Duration, slots, places int, ttl time.Duration, ignored bool) (found []string) {
	for i, v := range s.visits {
		inside := 1
		for j, o := range s.visits {
			before := o.came.Before(v.came) || o.came.Equal(v.came) && j < i
			if before && (o.left.IsZero() || o.left.After(v.came)) && o.came.Add(ttl).After(v.came) {
				inside++
			}
		}
		if places > 0 && inside > places {
			found = append(found, fmt.Sprintf("places: %d", inside))
		}
	}
	byHost := map[string][]*siteVisit{}
	for _, v := range s.visits {
		byHost[v.host] = append(byHost[v.host], v)
		if strings.HasPrefix(v.path, "/private") && !ignored {
			found = append(found, fmt.Sprintf("robots: %s%s", v.host, v.path))
		}
	}
	for host, vs := range byHost {
		slices.SortStableFunc(vs, func(a, b *siteVisit) int { return a.came.Compare(b.came) })
		for i, v := range vs {
			if i > 0 && v.came.Sub(vs[i-1].came) < gap {
				found = append(found, fmt.Sprintf("gap: %s %v", host, v.came.Sub(vs[i-1].came)))
			}
			inside := 1
			for _, o := range vs[:i] {
				if end := o.came.Add(ttl); (o.left.IsZero() || o.left.After(v.came)) && end.After(v.came) {
					inside++
				}
				if o.retryAfter > 0 && v.came.After(o.answered) && v.came.Before(o.answered.Add(o.retryAfter)) {
					found = append(found, fmt.Sprintf("block: %s, %v after an answer of %d that asks for %v", host, v.came.Sub(o.answered), o.status, o.retryAfter))
				}
			}
			if inside > slots {
				found = append(found, fmt.Sprintf("slots: %s %d", host, inside))
			}
		}
	}
	return found
}

// A rude limiter promises one thing and does another.
type rude struct {
	*memory.Limiter
	promised hostlimit.Config
	deaf     bool // it learns nothing from answers
}

func (r rude) Config() hostlimit.Config { return r.promised }

func (r rude) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	l, err := r.Limiter.Acquire(ctx, key, floor)
	if err != nil || !r.deaf {
		return l, err
	}
	return deafLease{l}, nil
}

type deafLease struct{ hostlimit.Lease }

func (deafLease) Observe(hostlimit.Outcome) hostlimit.Effect { return hostlimit.Effect{} }

// A leap is a log whose clock is put forward, or whose computer has slept: times from then on are
// later by as much.
type leap struct {
	log *evidence.Log
	at  time.Time
	by  time.Duration

	mu    sync.Mutex
	lines int
	first int // number of the first line after it; 0: none so far
}

func (l *leap) Record(ctx context.Context, d evidence.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines++; l.first == 0 && !time.Now().Before(l.at) {
		l.first = l.lines
	}
	from := l.at
	if l.first == 1 {
		from = time.Time{}.Add(1) // there is no other clock in this log
	}
	if !d.Time.Before(from) {
		for _, t := range [...]*time.Time{&d.Time, &d.Start, &d.Prev, &d.InsteadAt, &d.BlockedUntil, &d.Until, &d.RetryAt} {
			if !t.Before(from) {
				*t = t.Add(l.by)
			}
		}
	}
	l.log.Record(ctx, d)
}

// tell notes in the log where its clock has jumped, as a Log does by itself.
func (l *leap) tell(log []byte) []byte {
	lines := logtest.Lines(log)
	if l.first > 1 {
		line := bytes.TrimSuffix(lines[l.first-1], []byte("}\n"))
		lines[l.first-1] = fmt.Appendf(bytes.Clone(line), ",\"jumped\":%v}\n", l.by.Seconds())
	}
	return bytes.Join(lines, nil)
}

var presets = []func(string) politeness.Config{politeness.SiteAudit, politeness.Conservative, politeness.Bulk, politeness.Responsive}

// crawlAtRandom crawls as the seed says, and returns the log, what the sites saw, and a description.
func crawlAtRandom(t *testing.T, seed uint64) (log []byte, breaches []string, subtle bool, what string) {
	deaf := false
	rnd := rand.New(rand.NewPCG(seed, 7))
	kind := rnd.IntN(8)
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		promised := hostlimit.Config{
			Concurrency: 1 + rnd.IntN(3),
			Delay:       hostlimit.Delay{Min: time.Duration(100+rnd.IntN(900)) * time.Millisecond},
			LeaseTTL:    []time.Duration{5 * time.Second, 20 * time.Second, 300 * time.Second}[rnd.IntN(3)],
		}
		switch rnd.IntN(6) {
		case 0:
			promised.Backoff = backoff.Refusals{Statuses: []int{403}, AtLeast: rnd.IntN(2) == 0, InARow: 2 + rnd.IntN(3)}
		case 1:
			promised.Backoff = backoff.Refusals{Policy: backoff.Doubling{Start: 4 * time.Second, Cap: time.Minute, Jitter: [2]float64{0.1, 0.2}}, Network: true}
		case 2:
			promised.Delay.Adaptive = []hostlimit.Adaptive{
				hostlimit.Fixed, hostlimit.Squared, hostlimit.Proportional(2), hostlimit.Throttle(1),
				hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(1)), hostlimit.Longest(hostlimit.Squared, hostlimit.Throttle(2)),
			}[rnd.IntN(6)]
			if rnd.IntN(2) == 0 {
				promised.Concurrency, promised.Delay.FromEnd = 1, true
			}
		}
		if rnd.IntN(5) == 0 {
			promised.MaxInFlight = 2
		}
		preset := politeness.Config{Robots: robotscache.Config{TTL: time.Minute, DenyTTL: 5 * time.Second}}
		if kind < len(presets) {
			preset = presets[kind]("Bot/1.0 (bot@example.com)")
			promised, preset.Hosts = preset.Hosts, hostlimit.Config{}
			promised.LeaseTTL = 300 * time.Second // the default
		}
		preset.Robots.RecordText = true
		// A crawler that keeps its state goes on soon, and another when it is no longer owed anything.
		pause := 100 * time.Hour
		if rnd.IntN(4) == 0 {
			state := politeness.Config{Robots: preset.Robots, Hosts: promised}.WithState(t.TempDir())
			preset.Robots, promised = state.Robots, state.Hosts
			pause = time.Duration(2000+rnd.IntN(60_000)) * time.Millisecond
		}
		kept := promised
		switch rnd.IntN(10) {
		case 0:
			kept.Delay.Min /= 3
		case 1:
			kept.Concurrency += 2
			kept.Delay.FromEnd = false
		case 2:
			deaf = true
		case 3:
			kept.Delay.Adaptive = hostlimit.Fixed
		case 4:
			kept.MaxInFlight = 0
		}
		// The sites forgive what is in flight for longer than LeaseTTL, the judge only what was taken back. They
		// count gaps from start to start, know nothing of what was learned, and a random delay may be long enough.
		sooner, delay := promised.Delay.Min != kept.Delay.Min, promised.Delay
		subtle = deaf || promised.MaxInFlight != kept.MaxInFlight || promised.Concurrency != kept.Concurrency || delay.Adaptive != kept.Delay.Adaptive ||
			sooner && (delay.Max > delay.Min || delay.Adaptive != hostlimit.Fixed) ||
			delay.FromEnd && (sooner || !kept.Delay.FromEnd)
		rules := "User-agent: *\nDisallow: /private\n"
		if rnd.IntN(3) == 0 {
			rules += "Crawl-delay: 1.5\n"
		}
		web := &sites{rnd: rand.New(rand.NewPCG(seed, 9)), robots: map[string]string{"a.example": rules, "b.example": rules}}
		if rnd.IntN(2) == 0 {
			web.slow = 30 * time.Second
		}
		what = fmt.Sprintf("seed %d: kind %d, promised %+v, real %v %v %d, deaf %t", seed, kind, promised, kept.Delay.Min, kept.Delay.Adaptive, kept.Concurrency, deaf)
		runs := 1 + rnd.IntN(2)
		var leaps *leap // nil: the clock keeps going
		// What a refusal during a leap had to do is left open, and whether a slot or a place is held beyond it.
		slots := kept.Concurrency == promised.Concurrency && kept.MaxInFlight == promised.MaxInFlight
		if rnd.IntN(6) == 0 && !deaf && slots {
			leaps = &leap{at: time.Now().Add(time.Duration(rnd.IntN(40)) * time.Second), by: time.Duration(2+rnd.IntN(7200)) * time.Second}
		}
		name := filepath.Join(t.TempDir(), "log.jsonl")
		for range runs {
			memory, err := memory.New(kept)
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			var log *evidence.Log
			var sink evidence.Evidence
			if leaps != nil {
				log = evidence.JSONLines(&file)
				leaps = &leap{log: log, at: leaps.at, by: leaps.by}
				sink = leaps
			} else {
				if log, err = evidence.OpenFile(name, evidence.LogConfig{Chained: true}); err != nil {
					t.Fatal(err)
				}
				sink = log
			}
			spend := budget.Limits{Pages: int64(20 + rnd.IntN(60))}
			var clients []*http.Client
			shared := budget.New(spend)
			for i := range 1 + rnd.IntN(4) {
				cfg := preset
				cfg.UserAgent = fmt.Sprintf("Bot%d/1.0 (bot@example.com)", i)
				cfg.Base, cfg.Evidence, cfg.Limiter = web, sink, rude{memory, promised, deaf}
				if kind >= len(presets) {
					cfg.Retry = politeness.Retry{Max: rnd.IntN(3)}
				}
				switch rnd.IntN(3) {
				case 0:
					cfg.Spend = spend
				case 1:
					cfg.Spend, cfg.Budget = budget.Limits{}, shared
				}
				if rnd.IntN(3) == 0 {
					cfg.Refuse = func(r *http.Request) error {
						if r.URL.Path == "/b" {
							return errors.New("not this one")
						}
						return nil
					}
				}
				transport, err := politeness.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				clients = append(clients, &http.Client{Transport: transport})
			}
			var wg sync.WaitGroup
			for range 1 + rnd.IntN(6) {
				mine := rand.New(rand.NewPCG(rnd.Uint64(), 3))
				client := clients[mine.IntN(len(clients))]
				wg.Go(func() {
					for range 1 + mine.IntN(12) {
						ctx, cancel := context.WithCancel(t.Context())
						if mine.IntN(15) == 0 {
							ctx, cancel = context.WithTimeout(t.Context(), time.Duration(mine.IntN(3000))*time.Millisecond)
						}
						host := []string{"a.example", "b.example"}[mine.IntN(2)]
						path := []string{"/a", "/b", "/c?q=1", "/private/x", "/down", "/down/2"}[mine.IntN(6)]
						req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+path, http.NoBody)
						if err != nil {
							t.Error(err)
						}
						if resp, err := client.Do(req); err == nil {
							if mine.IntN(6) == 0 {
								time.Sleep(time.Duration(mine.IntN(40)) * time.Second) // virtual
							}
							_, _ = io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
						cancel()
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Second) // virtual: fetches of robots.txt that everybody has left end
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			if leaps != nil {
				out.Write(leaps.tell(file.Bytes()))
			}
			time.Sleep(pause) // virtual
		}
		if leaps == nil {
			whole, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(whole)
		}
		breaches = web.breaches(promised.Delay.Min, promised.Concurrency, promised.MaxInFlight, promised.LeaseTTL, preset.Robots.OnUnreachable == robotscache.Allow)
	})
	return out.Bytes(), breaches, subtle, what
}

// TestNoHonestLogIsBroken: the judge finds a breach where a site saw one, and only there. Of the honest logs, nine of
// ten are proved, each promise of them.
func TestNoHonestLogIsBroken(t *testing.T) {
	honest, broken, chained, open := 0, 0, 0, 0
	for seed := range soak.Seeds(t, 60, 300) {
		log, breaches, subtle, what := crawlAtRandom(t, seed)
		report, err := audit.Check(bytes.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		wrong := true
		switch {
		case len(breaches) == 0 && !report.OK() && !subtle: // some promises can be broken where nobody feels it
			t.Errorf("%s\nno site saw anything, the judge says %v", what, report.Violations[:min(4, len(report.Violations))])
		case len(breaches) > 0 && report.OK():
			t.Errorf("%s\nthe sites saw %d breaches, the judge none: %v", what, len(breaches), breaches[:min(4, len(breaches))])
		default:
			wrong = false
		}
		if report.OK() {
			honest++
		} else {
			broken++
		}
		if report.OK() && len(breaches) == 0 && !subtle && report.Chained {
			if chained++; !report.Complete() {
				open++
			}
		}
		if dir := os.Getenv("POLITENESS_LOGS"); dir != "" && wrong {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(seed, ".jsonl")), log, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if open > chained/10 {
		t.Errorf("%d of %d honest logs are open", open, chained)
	}
	t.Logf("%d crawls kept their promises, %d broke them; %d of %d honest logs are open", honest, broken, open, chained)
}
