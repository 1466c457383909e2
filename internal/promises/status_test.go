package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func TestStatusShowsHostsInForceBudgetAndCache(t *testing.T) {
	cfg := politeness.Config{Budget: budget.New(budget.Limits{Pages: 10, PagesPerHost: 5, Duration: time.Hour})}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 7\n").Page("/", "page")
		b.web.Site("https://busy.example").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "100")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		b.web.Site("https://quiet.example").Page("/", "page")
		b.mustGet("https://quiet.example/", 200)
		for _, host := range []string{"https://idle1.example/", "https://idle2.example/", "https://idle3.example/"} {
			b.web.Site(host)
			b.mustGet(host, 404)
		}
		time.Sleep(time.Minute)
		b.mustGet("https://busy.example/", 429)
		resp, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		for range 2 { // both slots are taken, the delay is over
			held, err := b.client.Get("https://quiet.example/")
			if err != nil {
				b.Fatal(err)
			}
			defer held.Body.Close()
		}
		time.Sleep(time.Second)

		s := b.t.Status(b.Context())
		if want := map[string]int{"blocked": 1, "in flight": 2, "idle": 3}; !maps.Equal(s.HostsBy, want) {
			b.Errorf("hosts by state: %v, want %v", s.HostsBy, want)
		}
		if len(s.Hosts) != 3 || s.Known != 6 || s.Hosts[0].Key != "busy.example" || s.Hosts[1].Key != "quiet.example" || s.Hosts[2].Key != "example.com" {
			b.Fatalf("status %+v", s)
		}
		busy, open := s.Hosts[0], s.Hosts[2]
		if busy.BlockedUntil.IsZero() || busy.Refusals != 1 || !strings.Contains(busy.BlockedBy, "429") {
			b.Errorf("blocked host %+v", busy)
		}
		if open.InFlight != 1 || open.Slots != 2 || open.Delay != 7*time.Second || open.DelaySource != "crawl-delay" || !open.Next.After(s.Time) {
			b.Errorf("host with an open body %+v", open)
		}
		if s.Budget.Pages != 8 || s.Budget.Limits.Pages != 10 || s.Budget.Limits.Duration != time.Hour || s.Robots.Origins != 6 || s.Robots.Fetched != 6 {
			b.Errorf("budget %+v, robots %+v", s.Budget, s.Robots)
		}
		if one := b.t.StatusOf(b.Context(), "Busy"); len(one.Hosts) != 1 || one.Hosts[0].Key != "busy.example" || one.Known != 6 {
			b.Errorf("of busy: %+v", one)
		}
	})
}

func TestStatusIsBounded(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
		for i := range 2500 {
			host := fmt.Sprintf("https://%04d.example", i)
			b.web.Site(host).Page("/", "page")
			resp, err := b.client.Get(host + "/")
			if err != nil {
				b.Fatal(err)
			}
			defer resp.Body.Close()
		}
		s := b.t.Status(b.Context())
		if len(s.Hosts) != 1000 || s.Omitted != 1500 || s.Known != 2500 {
			b.Errorf("%d hosts, %d omitted, %d known", len(s.Hosts), s.Omitted, s.Known)
		}
	})
}

// TestStatusSaysHowOftenAHostRefuses, by its status or by what Config.IsRefusal says of the headers.
func TestStatusSaysHowOftenAHostRefuses(t *testing.T) {
	cfg := politeness.Config{DangerouslyIgnoreRobots: true, IsRefusal: func(resp *http.Response) error {
		if resp.Header.Get("Captcha") != "" {
			return errors.New("a captcha")
		}
		return nil
	}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/ok", "page").Handle("/429", politenesstest.Status(http.StatusTooManyRequests)).Handle("/403", politenesstest.Status(http.StatusForbidden)).
			Handle("/captcha", politenesstest.Status(http.StatusOK, "Captcha", "1"))
		for _, path := range []string{"ok", "429", "ok", "403", "captcha"} {
			if _, err := b.get("https://example.com/" + path); err != nil {
				b.Fatal(err)
			}
		}
		h := b.t.StatusOf(b.Context(), "example").Hosts[0]
		if h.Answers != 5 || h.Refused != 3 || h.RefusalShare() != 0.6 {
			b.Errorf("%d refusals of %d answers, a share of %v", h.Refused, h.Answers, h.RefusalShare())
		}
		if share := new(politeness.HostStatus).RefusalShare(); share != 0 {
			b.Errorf("without a response: %v", share)
		}
	})
}

// setAll sets each field of v, and those of its elements, to a value that isn't zero.
func setAll(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			setAll(field)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setAll(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		setAll(v.Index(0))
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(1500 * time.Millisecond))
	case v.CanInt():
		v.SetInt(2)
	case v.CanUint():
		v.SetUint(2)
	case v.CanFloat():
		v.SetFloat(0.5)
	case v.Kind() == reflect.String:
		v.SetString("text")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	}
}

// members returns the members of the objects in the JSON of s, with the number of each.
func members(t *testing.T, s *politeness.Status) map[string]int {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var read any
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				found[name]++
				walk(member)
			}
		case []any:
			for _, element := range v {
				walk(element)
			}
		}
	}
	walk(read)
	return found
}

// TestStatusIsDocumented: the guide names each member of the JSON, with a star if it can be absent.
func TestStatusIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(text)
	var full politeness.Status
	setAll(reflect.ValueOf(&full).Elem())
	empty := politeness.Status{
		Hosts: make([]politeness.HostStatus, 1), Latency: make([]politeness.MinuteStatus, 1),
		Unreachable: make([]politeness.UnreachableStatus, 1), Crawls: make([]politeness.CrawlStatus, 1), Budget: new(budget.Usage), Robots: new(robotscache.Stats),
	}
	always := members(t, &empty)
	for _, can := range []string{"budget", "robots", "crawls"} {
		always[can]--
	}
	for name, n := range members(t, &full) {
		want := "`" + name + "`"
		if always[name] < n {
			want += "*"
		}
		if !strings.Contains(guide, want) {
			t.Errorf("the guide has no %s", want)
		}
	}
}

// TestStatusAsJSON has durations in seconds, and is read again as it was.
func TestStatusAsJSON(t *testing.T) {
	var s, again politeness.Status
	setAll(reflect.ValueOf(&s).Elem())
	text, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	for _, want := range []string{
		`"hosts":[{"host":"text","starts":2,"slotsUsed":2,"slots":2,"waiters":2,"hold":"text","why":"text",` +
			`"silentBy":"text","nextStart":"2026-11-21T12:00:00Z","blockedUntil":"2026-11-21T12:00:00Z","blockedBy":"text",` +
			`"refusals":2,"probing":true,"delaySource":"text","answers":2,"refused":2,"leak":true,` +
			`"delay":1.5,"adaptive":1.5,"learned":1.5,"silent":1.5}]`,
		`"budget":{"pages":2,"maxPages":2,"maxPagesPerHost":2,"bytes":2,"maxBytes":2,"seconds":1.5,"maxSeconds":1.5,`,
		`"robots":{"origins":2,"inFlight":2,"fetched":2,"revalidated":2,"unreachable":2,"restored":2,"bytes":2,"maxBytes":2,"evicted":2}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if err := json.Unmarshal([]byte(`{"hosts":[{"delay":"1s"}]}`), &again); err == nil {
		t.Error("a delay that is a text is read")
	}
}

// listsNothing is a limiter whose server can't be asked.
type listsNothing struct{ hostlimit.Limiter }

func (listsNothing) List(context.Context) iter.Seq2[hostlimit.HostState, error] {
	return func(yield func(hostlimit.HostState, error) bool) {
		yield(hostlimit.HostState{}, errors.New("no response"))
	}
}

func TestStatusSaysWhyItListsNoHosts(t *testing.T) {
	virtually(t, politeness.Config{Limiter: listsNothing{limiter(t, hostlimit.Config{})}}, func(b *bubble) {
		if text := b.t.Status(b.Context()).Unlisted; !strings.Contains(text, "promises_test.listsNothing") || !strings.Contains(text, "no response") {
			b.Errorf("whose hosts are missing: %q", text)
		}
	})
}

// TestStatusTellsWhatWaitsAndWhy, and everything else that a person asks.
func TestStatusTellsWhatWaitsAndWhy(t *testing.T) {
	lost := evidence.Func(func(_ context.Context, d evidence.Decision) {
		if d.Type == evidence.BlockedByRule {
			panic("disk full")
		}
	})
	cfg := politeness.Config{Hosts: hostlimit.Config{Concurrency: 1}}
	virtually(t, cfg, func(b *bubble) {
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: lost, Hosts: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}},
			Refuse: func(r *http.Request) error {
				if r.URL.Path == "/login" {
					return errors.New("no logins")
				}
				return nil
			},
		})
		b.client.Transport = tr
		b.site.Robots("User-agent: *\nDisallow: /private\n").Page("/", "page").Page("/held", "page")
		b.web.Site("https://busy.example").Handle("/", politenesstest.Status(429, "Retry-After", "100"))
		b.web.Site("https://down.example").Handle("/robots.txt", politenesstest.Status(503))
		b.web.Site("https://closed.example").Robots("User-agent: *\nVisit-time: 0030-0100\n").Page("/", "page")
		b.mustGet("https://busy.example/", 429)
		for _, url := range []string{"https://example.com/private", "https://example.com/login", "https://down.example/"} {
			if _, err := b.get(url); err == nil {
				b.Errorf("%s was fetched", url)
			}
		}
		held, err := b.client.Get("https://example.com/held")
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		for _, url := range []string{"https://example.com/", "https://example.com/", "https://busy.example/", "https://closed.example/", "https://closed.example/"} {
			wg.Go(func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
				if err != nil {
					b.Error(err)
					return
				}
				if resp, err := b.client.Do(req); err == nil {
					resp.Body.Close()
				}
			})
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()

		s := tr.Status(b.Context())
		if want := map[string]int{"slot": 2, "block": 1, "visit-time": 2}; !maps.Equal(s.Waiting, want) {
			b.Errorf("waiting: %v, want %v", s.Waiting, want)
		}
		if want := map[string]int64{"robots.txt": 1, "own rule": 1, "robots.txt unreachable": 1}; !maps.Equal(s.Refusals, want) {
			b.Errorf("refusals: %v, want %v", s.Refusals, want)
		}
		// robots.txt of four hosts, of which two have none, and three pages.
		if want := map[string]int64{"2xx": 3, "4xx": 2, "5xx": 1}; !maps.Equal(s.Answers, want) || s.Starts != 6 {
			b.Errorf("%d starts, answers: %v, want %v", s.Starts, s.Answers, want)
		}
		if len(s.Unreachable) != 1 || s.Unreachable[0].Origin != "https://down.example" || s.Unreachable[0].Reason == "" || s.Unreachable[0].Fallback || !s.Unreachable[0].Until.After(s.Time) {
			b.Errorf("unreachable: %+v", s.Unreachable)
		}
		if !strings.Contains(s.Lost, "disk full") || len(s.Latency) == 0 || s.Latency[0].Answers == 0 {
			b.Errorf("lost %q, latency %+v", s.Lost, s.Latency)
		}
		for _, h := range s.Hosts {
			if h.Key == "example.com" && (!h.Leak || h.SilentBy != "https://example.com/held" || h.Hold != "slot" ||
				!strings.Contains(h.Why, "1 of 1 slots are in use, one for 1m30s")) {
				b.Errorf("with an open body: %+v", h)
			}
		}
		cancel()
		wg.Wait()
		held.Body.Close()
		if left := tr.Status(b.Context()); len(left.Waiting) != 0 {
			b.Errorf("after all have left: %v", left.Waiting)
		}
	})
}

// TestLatenciesAreThoseOfTheLastHour: each minute for an hour, and no longer.
func TestLatenciesAreThoseOfTheLastHour(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
		b.site.Handle("/", politenesstest.Slow(2*time.Second, politenesstest.Text("page"))).Handle("/odd", politenesstest.Status(999))
		minutes := func() []politeness.MinuteStatus {
			s := b.t.Status(b.Context())
			for class, n := range s.Answers {
				if class != "2xx" && (class != "9xx" && class != "none" || n != 1) {
					b.Errorf("%d answers %s", n, class)
				}
			}
			return s.Latency
		}
		for range 90 { // an answer in each minute, two in the first of them
			b.mustGet("https://example.com/", 200)
			if b.elapsed() < time.Minute {
				b.mustGet("https://example.com/", 200)
			}
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		}
		now := time.Now()
		got := minutes()
		if len(got) != 59 || !got[0].Time.Equal(now.Add(-59*time.Minute)) || !got[58].Time.Equal(now.Add(-time.Minute)) {
			b.Errorf("%d minutes at the begin of one: %+v", len(got), got)
		}
		b.mustGet("https://example.com/", 200)
		b.mustGet("https://example.com/odd", 999)
		_, err := b.get("https://nowhere.example/")
		failed(b.T, err, nil)
		if got = minutes(); len(got) != 60 || got[59].Answers != 2 || got[59].Mean != 1 || got[0].Answers != 1 || got[0].Mean != 2 {
			b.Errorf("%d minutes, the last %+v", len(got), got[len(got)-1])
		}
		time.Sleep(59 * time.Minute)
		if got = minutes(); len(got) != 1 {
			b.Errorf("an hour later: %+v", got)
		}
		time.Sleep(time.Minute)
		if got = minutes(); len(got) != 0 {
			b.Errorf("a minute later: %+v", got)
		}
	})
}

// TestStatusTellsOfAVisitTime where that is what a host in force is left alone for, and not where somebody
// waits for its slot.
func TestStatusTellsOfAVisitTime(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		virtually(t, politeness.Config{Hosts: hostlimit.Config{Concurrency: 1}}, func(b *bubble) {
			b.site.Robots("User-agent: *\nVisit-time: 0000-0001\nVisit-time: 0030-0100\n").Page("/", "page")
			held, err := b.client.Get("https://example.com/")
			if err != nil {
				b.Fatal(err)
			}
			defer held.Body.Close()
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			if wanted {
				wg.Go(func() { _, _ = fetch(ctx, b.client, "https://example.com/") }) // waits for the slot
			}
			time.Sleep(3 * time.Minute)
			for range 2 {
				wg.Go(func() { _, _ = fetch(ctx, b.client, "https://example.com/") })
			}
			synctest.Wait()
			s := b.t.Status(b.Context())
			if len(s.Hosts) != 1 || s.Waiting["visit-time"] != 2 {
				b.Fatalf("%+v", s)
			}
			h := s.Hosts[0]
			if !wanted && (h.Hold != "visit-time" || h.Waiters != 2 || !h.Next.Equal(b.began.Add(30*time.Minute)) || h.Why == "") ||
				wanted && (h.Hold != "slot" || h.Waiters != 1) {
				b.Errorf("somebody waits for its slot: %t: %+v", wanted, h)
			}
			cancel()
			wg.Wait()
		})
	}
}

// TestStatusOfFindsAKeyInAnyCase: keys of a HostKey needn't be lower case.
func TestStatusOfFindsAKeyInAnyCase(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true, HostKey: func(*http.Request) string { return "GroupA" }}, func(b *bubble) {
		b.site.Page("/", "page")
		b.mustGet("https://example.com/", 200)
		for text, want := range map[string]int{"": 1, "GroupA": 1, "groupa": 1, "UPA": 1, "b": 0} {
			if s := b.t.StatusOf(b.Context(), text); len(s.Hosts) != want {
				b.Errorf("%q: %d hosts, want %d", text, len(s.Hosts), want)
			}
		}
	})
}

// TestStatusShowsAHostThatWaitsForItsVisitTime, also once its robots.txt is long had.
func TestStatusShowsAHostThatWaitsForItsVisitTime(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) { // it is midnight
		b.site.Robots("User-agent: *\nVisit-time: 0030-0200\n")
		b.site.Page("/", "page")
		go func() { _, _ = b.get("https://example.com/") }()
		time.Sleep(5 * time.Minute)
		s := b.t.Status(b.Context())
		if len(s.Hosts) != 1 || s.Hosts[0].Hold != "visit-time" || s.Hosts[0].Waiters != 1 || s.HostsBy["waited for"] != 1 {
			b.Errorf("hosts by %v, hosts %+v", s.HostsBy, s.Hosts)
		}
		time.Sleep(time.Hour)
	})
}
