package promises_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

// hands returns the records of what a person has done.
func hands(rec *evidence.Recorder) []evidence.Decision {
	return rec.Decisions(evidence.HostBlocked, evidence.HostCleared, evidence.Drained)
}

// TestActsByHandAreOnRecordWhenTheyHappen, once, also if no request asks for the host: by the first
// of the Transports that share the limiter.
func TestActsByHandAreOnRecordWhenTheyHappen(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		first := new(evidence.Recorder)
		second := new(evidence.Recorder)
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: first})
		other := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: second, Limiter: tr.Limiter()})
		begin := time.Now()
		limiter := tr.Limiter()
		steps := []func() error{
			func() error {
				return limiter.Block(b.Context(), "shop.example", begin.Add(time.Hour), "Ada: the owner has called")
			},
			func() error { return limiter.Clear(b.Context(), "shop.example") },
			func() error { return limiter.Drain(b.Context()) },
			func() error { return limiter.Drain(b.Context()) }, // no further act
		}
		want := []evidence.Decision{
			{Type: evidence.HostBlocked, Host: "shop.example", Reason: "by hand: Ada: the owner has called"},
			{Type: evidence.HostCleared, Host: "shop.example", Reason: "by hand"},
			{Type: evidence.Drained, Reason: "by hand: no request starts any more"},
		}
		for i, step := range steps {
			runtime.GC() // a Transport that nobody holds receives no acts any more
			if err := step(); err != nil {
				b.Fatal(err)
			}
			acts := hands(first)
			if len(acts) != min(i+1, len(want)) {
				b.Fatalf("after step %d: %+v", i, acts)
			}
			got := acts[len(acts)-1]
			w := want[len(acts)-1]
			if got.Type != w.Type || got.Host != w.Host || got.Reason != w.Reason || !got.Hand || !got.Time.Equal(time.Now().Add(-time.Duration(i/3)*time.Second)) {
				b.Errorf("step %d: %+v", i, got)
			}
			if i == 2 {
				time.Sleep(time.Second)
			}
		}
		if _, err := b.get("https://shop.example/"); err == nil {
			b.Error("a request after Drain")
		}
		if len(hands(first)) != 3 || len(hands(second)) != 0 {
			b.Errorf("%+v and %+v", hands(first), hands(second))
		}
		runtime.KeepAlive(tr)
		runtime.KeepAlive(other)
	})
}

// TestABlockByHandUnderACrawlIsOnRecord: the crawl sends nothing to the host.
func TestABlockByHandUnderACrawlIsOnRecord(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/", `<a href="/a">a</a> <a href="/b">b</a> <a href="/c">c</a>`)
		rec := new(evidence.Recorder)
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: rec,
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 5 * time.Second}},
		})
		var blocked time.Time
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(7*time.Second, func() {
			blocked = time.Now()
			if err := tr.Limiter().Block(ctx, "example.com", blocked.Add(time.Hour), "stop"); err != nil {
				b.Error(err)
			}
		})
		c, err := crawl.New(crawl.Config{
			Transport: tr,
			Visit:     func(context.Context, *crawl.Page) error { return nil },
			Follow:    crawl.SameHost,
		})
		if err != nil {
			b.Fatal(err)
		}
		_, err = c.Run(ctx, "https://example.com/")
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			b.Logf("the crawl: %v", err)
		}
		acts := hands(rec)
		if len(acts) != 1 || acts[0].Reason != "by hand: stop" || !acts[0].Time.Equal(blocked) {
			b.Errorf("on record: %+v", acts)
		}
	})
}

// TestActsInAnotherProcessAreOnRecord as soon as this one asks about the host, also if it sends
// nothing.
func TestActsInAnotherProcessAreOnRecord(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		dir := b.TempDir()
		rec := new(evidence.Recorder)
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: rec}.WithState(dir))
		other, err := memory.New(tr.Limiter().Config())
		if err != nil {
			b.Fatal(err)
		}
		ask := func() {
			time.Sleep(11 * time.Second)
			if _, err := tr.Next(b.Context(), "https://example.com/"); err != nil {
				b.Error(err)
			}
		}
		ask()
		if err := other.Block(b.Context(), "example.com", time.Now().Add(time.Hour), "Ada"); err != nil {
			b.Fatal(err)
		}
		ask()
		ask()
		if err := other.Clear(b.Context(), "example.com"); err != nil {
			b.Fatal(err)
		}
		ask()
		ask()
		acts := hands(rec)
		if len(acts) != 2 || acts[0].Reason != "restored: by hand: Ada, 11 s ago" ||
			acts[1].Type != evidence.HostCleared || acts[1].Reason != "by hand" {
			b.Errorf("on record: %+v", acts)
		}
	})
}

// TestARestartShowsTheLearnedDelay of a host that is still blocked.
func TestARestartShowsTheLearnedDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := hostlimit.Config{Store: hostlimit.Dir(t.TempDir())}
		first, err := memory.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := first.Acquire(t.Context(), "example.com", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lease.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		lease.Release()
		second, err := memory.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if _, err := second.Next(t.Context(), "example.com", 0); err != nil {
			t.Fatal(err)
		}
		was, _ := first.State(t.Context(), "example.com")
		is, err := second.State(t.Context(), "example.com")
		if err != nil || is.Learned == 0 || is.Delay != was.Delay || is.DelaySource != "learned" || is.BlockedBy != "status 429" {
			t.Errorf("%+v, before the restart %+v, %v", is, was, err)
		}
	})
}
