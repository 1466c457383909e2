package logtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
)

// A fullStore keeps nothing.
type fullStore struct{}

func (fullStore) Update(
	_ context.Context, _ string, change func(hostlimit.Debt) hostlimit.Debt,
) (hostlimit.Debt, error) {
	return change(hostlimit.Debt{}), errors.New("no space left on device")
}

// Real returns the log of a real Transport that meets whatever it can record.
func Real(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		log := New(t, &out, evidence.LogConfig{Chained: true})
		web := realWeb()
		c := &client{t: t, http: &http.Client{Transport: realTransport(t, web, log)}}
		c.meetAll(web)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return out.Bytes()
}

// realWeb returns two sites: a.example has something of everything, b.example no robots.txt.
func realWeb() *politenesstest.Web {
	web := politenesstest.NewWeb()
	busy := politenesstest.InTurn(politenesstest.Status(429, "Retry-After", "20"), politenesstest.Text("fine"))
	web.Site("https://a.example").
		Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 1\n").
		Page("/", "home").Page("/large", strings.Repeat("x", 5000)).Page("/rule", "").
		Handle("/moved", http.RedirectHandler("/", http.StatusFound)).
		Handle("/noindex", politenesstest.Text("<meta name=robots content=noindex>")).
		Handle("/busy", busy).
		Handle("/gone", politenesstest.Drop()).
		Handle("/reserved", politenesstest.Status(200, "Tdm-Reservation", "1")).
		Latency(300 * time.Millisecond).Dial(450 * time.Millisecond)
	web.Site("https://b.example").RobotsStatus(503).Page("/", "home")
	return web
}

// realTransport returns a Transport that uses whatever makes records.
func realTransport(t *testing.T, web *politenesstest.Web, log *evidence.Log) *politeness.Transport {
	t.Helper()
	limiter, err := memory.New(hostlimit.Config{
		SlotTimeout: 20 * time.Second,
		LeaseTTL:    time.Minute,
		Store:       fullStore{},
	})
	if err != nil {
		t.Fatal(err)
	}
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      web,
		Limiter:   limiter,
		Evidence:  log,
		Budget:    budget.New(budget.Limits{Pages: 20, WarnAt: 0.5}),
		Retry:     politeness.Retry{Max: 1},
		Purposes:  []robots.Purpose{robots.Train},
		Response:  politeness.ResponseLimits{MaxBytes: 2000},
		Refuse: func(req *http.Request) error {
			if req.URL.Path == "/rule" {
				return errors.New("not this one")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// A client makes the requests of Real.
type client struct {
	t    *testing.T
	http *http.Client
}

// meetAll requests every page, in every way of which there are records.
func (c *client) meetAll(web *politenesstest.Web) {
	for _, path := range []string{
		"/", "/private", "/large", "/rule", "/moved", "/noindex", "/busy", "/gone", "/reserved",
	} {
		c.read("https://user:hunter2@a.example" + path)
		if path == "/noindex" {
			web.Site("https://a.example").HangUp()
		}
	}
	c.read("https://b.example/")
	// Two bodies are kept open: no request gets a turn until their leases end.
	kept := []*http.Response{c.get("https://a.example/"), c.get("https://a.example/")} //nolint:bodyclose // below
	c.read("https://a.example/")
	time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual
	c.read("https://a.example/")
	for _, resp := range kept {
		resp.Body.Close()
	}
	// More pages than the budget has.
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { c.read(fmt.Sprintf("https://a.example/?page=%d", i)) })
	}
	wg.Wait()
}

// get requests url. It returns nil if the request was refused, which is in the log.
func (c *client) get(url string) *http.Response {
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil
	}
	return resp
}

// read requests url and reads the body, if there is one.
func (c *client) read(url string) {
	resp := c.get(url)
	if resp == nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}
