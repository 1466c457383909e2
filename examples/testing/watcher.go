package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// newTransport makes the politeness of the watcher, over base: that is
// http.DefaultTransport in the program, and a fake web in the tests.
func newTransport(base http.RoundTripper) (*politeness.Transport, error) {
	return politeness.New(politeness.Config{
		Evidence:  evidence.Console(os.Stderr), // shows why nothing happens
		UserAgent: "WatchBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      base,
		Hosts: hostlimit.Config{
			MaxWait: time.Minute, // a host that is blocked for longer is left to the next round
		},
		Response: politeness.ResponseLimits{MaxBytes: 1 << 20, Accept: []string{"text/*"}},
	})
}

// A watcher fetches pages round after round, and reports what has changed.
type watcher struct {
	client *http.Client
	every  time.Duration // between the beginnings of two rounds
	report func(visit)   // called by one goroutine at a time

	mu   sync.Mutex
	last map[string][sha256.Size]byte // by URL: of the body as it was seen last
}

// A visit is the outcome of one fetch that is worth a report.
type visit struct {
	url     string
	status  int
	changed bool
	err     error
}

func (v visit) String() string {
	switch {
	case v.err != nil:
		return fmt.Sprintf("%s: %v", v.url, v.err)
	case v.changed:
		return fmt.Sprintf("%s: changed", v.url)
	default:
		return fmt.Sprintf("%s: status %d", v.url, v.status)
	}
}

// run watches the pages until ctx is done. There is a goroutine for each page: the transport
// decides which request may start when.
func (w *watcher) run(ctx context.Context, urls []string) {
	w.last = make(map[string][sha256.Size]byte)
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	for {
		var round sync.WaitGroup
		for _, u := range urls {
			round.Go(func() { w.visit(ctx, u) })
		}
		round.Wait()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// visit fetches one page, and reports it if it has changed or failed.
func (w *watcher) visit(ctx context.Context, url string) {
	status, sum, err := w.fetch(ctx, url)
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	v := visit{url: url, status: status, err: err}
	if err == nil && status == http.StatusOK {
		before, seen := w.last[url]
		w.last[url] = sum
		v.changed = seen && before != sum
		if !v.changed {
			return
		}
	}
	w.report(v)
}

func (w *watcher) fetch(ctx context.Context, url string) (status int, sum [sha256.Size]byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, sum, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, sum, err
	}
	defer resp.Body.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, resp.Body); err != nil {
		return resp.StatusCode, sum, err
	}
	hash.Sum(sum[:0])
	return resp.StatusCode, sum, nil
}
