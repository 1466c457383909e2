package robotscache_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/robots/robotscache"
)

// A countedWeb serves one robots.txt, slowly.
type countedWeb struct {
	mu    sync.Mutex
	asked int
}

func (w *countedWeb) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.asked++
	w.mu.Unlock()
	time.Sleep(time.Second)
	return answerWith(req, "User-agent: *\nDisallow: /private\n"), nil
}

func answerWith(req *http.Request, body string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{},
		Body:       noClose{strings.NewReader(body)},
		Request:    req,
	}
}

type noClose struct{ *strings.Reader }

func (noClose) Close() error { return nil }

func TestSharesFetchOnceAndReportEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := &countedWeb{}
		var mu sync.Mutex
		events := map[string][]robotscache.Event{}
		client := func(name string) robotscache.Client {
			return robotscache.Client{
				UserAgent: "ExampleBot/" + name,
				Transport: web,
				Observe: func(_ context.Context, e robotscache.Event) {
					mu.Lock()
					defer mu.Unlock()
					events[name] = append(events[name], e)
				},
			}
		}
		cfg := robotscache.Config{RecordText: true}
		first, err := robotscache.New(cfg, client("1"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := first.Share(client("2"))
		if err != nil {
			t.Fatal(err)
		}
		u := &url.URL{Scheme: "https", Host: "example.com", Path: "/private/a"}
		var group sync.WaitGroup
		for _, c := range []*robotscache.Cache{first, second} {
			for range 8 {
				group.Go(func() {
					entry, err := c.Get(t.Context(), u)
					if err != nil || entry.Rules.Test("/private/a").Allowed {
						t.Errorf("entry %+v, error %v", entry, err)
					}
				})
			}
		}
		group.Wait()
		if web.asked != 1 {
			t.Errorf("robots.txt was fetched %d times", web.asked)
		}
		if len(events["1"]) != 1 || len(events["2"]) != 1 {
			t.Fatalf("%d and %d events, want one each", len(events["1"]), len(events["2"]))
		}
		one := events["1"][0]
		two := events["2"][0]
		if one.Shared {
			one, two = two, one
		}
		if one.Shared || !two.Shared || two.Text != one.Text || two.SHA256 != one.SHA256 || !two.Until.Equal(one.Until) {
			t.Errorf("events %+v and %+v", one, two)
		}
		// A hit is a hit for both, once each has reported it.
		for _, c := range []*robotscache.Cache{first, second} {
			if _, ok := c.Hit(u, time.Now()); !ok {
				t.Error("no hit")
			}
		}
		if s := second.Snapshot(); s.Origins != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestShareReportsAllProblems(t *testing.T) {
	c, err := robotscache.New(robotscache.Config{}, robotscache.Client{UserAgent: "ExampleBot/1.0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, cl := range []robotscache.Client{
		{},
		{UserAgent: "OtherBot/1.0"},
		{UserAgent: "ExampleBot/1.0", Products: []string{"ExampleBot", "Other"}},
		{UserAgent: "ExampleBot/1.0", Products: []string{""}},
	} {
		if _, err := c.Share(cl); err == nil || !strings.Contains(err.Error(), "robotscache: Client.") {
			t.Errorf("%+v: %v", cl, err)
		}
	}
	if _, err := c.Share(robotscache.Client{UserAgent: "examplebot/2.0", Products: []string{"ExampleBot"}}); err != nil {
		t.Error(err)
	}
}

// A caller that leaves while another Cache's copy is being reported doesn't wait for the report.
func TestAReportOfASharedCopyHoldsUpNoCallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, err := robotscache.New(robotscache.Config{}, robotscache.Client{UserAgent: "ExampleBot/1.0", Transport: &countedWeb{}})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		second, err := first.Share(robotscache.Client{
			UserAgent: "ExampleBot/1.0",
			Transport: &countedWeb{},
			Observe:   func(context.Context, robotscache.Event) { <-release },
		})
		if err != nil {
			t.Fatal(err)
		}
		u := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
		if _, err := first.Get(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		slow := make(chan error, 1)
		go func() {
			_, err := second.Get(t.Context(), u)
			slow <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := second.Get(ctx, u); err == nil {
			t.Error("a caller has got a copy before it was reported")
		}
		close(release)
		if err := <-slow; err != nil {
			t.Error(err)
		}
	})
}
