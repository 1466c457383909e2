package promises_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

const agent = "AuditBot/1.0 (+https://example.com/bot; bot@example.com)"

// A bubble is a fake web in virtual time, a client that crawls it, and what was reported.
type bubble struct {
	*testing.T
	web    *politenesstest.Web
	site   *politenesstest.Site // https://example.com
	log    *evidence.Recorder
	t      *politeness.Transport
	client *http.Client
	began  time.Time
}

// virtually runs f in a synctest bubble, which fails when a goroutine is left.
func virtually(t *testing.T, cfg politeness.Config, f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newBubble(t, cfg)) })
}

// newBubble makes what virtually gives to its function.
func newBubble(t *testing.T, cfg politeness.Config) *bubble {
	t.Helper()
	b := &bubble{T: t, web: politenesstest.NewWeb(), log: &evidence.Recorder{}, began: time.Now()}
	b.site = b.web.Site("https://example.com")
	cfg.Base, cfg.Evidence = b.web, b.log
	if cfg.UserAgent == "" {
		cfg.UserAgent = agent
	}
	var err error
	if b.t, err = politeness.New(cfg); err != nil {
		t.Fatal(err)
	}
	b.client = &http.Client{Transport: b.t}
	return b
}

// get fetches url wholly.
func (b *bubble) get(url string) (status int, err error) {
	return fetch(b.Context(), b.client, url)
}

func fetch(ctx context.Context, client *http.Client, url string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func (b *bubble) mustGet(url string, want int) {
	b.Helper()
	if status, err := b.get(url); err != nil || status != want {
		b.Fatalf("GET %s: status %d, error %v; want %d", url, status, err, want)
	}
}

func (b *bubble) elapsed() time.Duration { return time.Since(b.began) }

// asked returns the URLs that the web was asked for, in order.
func (b *bubble) asked() []string {
	var urls []string
	for _, r := range b.web.Requests() {
		urls = append(urls, r.URL)
	}
	return urls
}

// types returns the types of the records, in order.
func (b *bubble) types() string {
	var types []string
	for _, d := range b.log.Decisions() {
		types = append(types, string(d.Type))
	}
	return strings.Join(types, " ")
}

// last returns the last record of the type.
func (b *bubble) last(typ evidence.Type) evidence.Decision {
	b.Helper()
	got := b.log.Decisions(typ)
	if len(got) == 0 {
		b.Fatalf("no record %s; all: %s", typ, b.types())
	}
	return got[len(got)-1]
}

func (b *bubble) one(typ evidence.Type) evidence.Decision {
	b.Helper()
	got := b.log.Decisions(typ)
	if len(got) != 1 {
		b.Fatalf("%d records %s, want 1; all: %s", len(got), typ, b.types())
	}
	return got[0]
}

// refused fails unless err is an *Error of the stage that is target.
func refused(t *testing.T, err error, stage politeness.Stage, target error) *politeness.Error {
	t.Helper()
	var e *politeness.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *politeness.Error", err)
	}
	if e.Stage != stage || target != nil && !errors.Is(err, target) {
		t.Fatalf("got stage %q: %v; want stage %q, %v", e.Stage, err, stage, target)
	}
	return e
}

// failed fails unless err is no refusal of ours, and is target.
func failed(t *testing.T, err, target error) {
	t.Helper()
	var e *politeness.Error
	if err == nil || errors.As(err, &e) || target != nil && !errors.Is(err, target) {
		t.Fatalf("got %v, want %v, which is no refusal of ours", err, target)
	}
}

// A limiterMadeOnFirstUse is made inside the bubble that uses it.
type limiterMadeOnFirstUse struct {
	cfg  hostlimit.Config
	once sync.Once
	*memory.Limiter
}

func limiter(t *testing.T, cfg hostlimit.Config) hostlimit.Limiter {
	t.Helper()
	return &limiterMadeOnFirstUse{cfg: cfg}
}

func (l *limiterMadeOnFirstUse) memory() *memory.Limiter {
	l.once.Do(func() {
		var err error
		if l.Limiter, err = memory.New(l.cfg); err != nil {
			panic(err)
		}
	})
	return l.Limiter
}

func (l *limiterMadeOnFirstUse) Config() hostlimit.Config { return l.cfg }

func (l *limiterMadeOnFirstUse) ID(ctx context.Context) (limiter, process string) {
	return l.memory().ID(ctx)
}

func (l *limiterMadeOnFirstUse) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	return l.memory().Acquire(ctx, key, floor)
}

func (l *limiterMadeOnFirstUse) Next(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	return l.memory().Next(ctx, key, floor)
}

func slow(d time.Duration) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(d) })
}
