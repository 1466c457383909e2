package main

import (
	"container/heap"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
)

// A Frontier holds the URLs that are still to be fetched and hands each one out when its host can
// be asked: a heap of hosts by their next start. A worker waits only while no host is ready. A host
// is lent to one worker at a time, so that workers don't wait for each other either; that is a
// host's full rate for as long as it answers within its delay. A Frontier is safe for concurrent
// use.
type Frontier struct {
	next func(ctx context.Context, url string) (time.Time, error)
	turn chan struct{} // held by the one worker that watches the clock
	wake chan struct{} // tells that worker to look again

	mu    sync.Mutex
	hosts map[string]*host // those that have URLs or are lent
	ready byStart          // of these, those that aren't lent
	lent  int
}

// A host is a queue of URLs.
type host struct {
	key  string
	urls []string
	at   time.Time // not before
	lent bool
}

// NewFrontier returns an empty Frontier that asks next, which is the method Next of a
// politeness.Transport, when a URL could start.
func NewFrontier(next func(ctx context.Context, url string) (time.Time, error)) *Frontier {
	return &Frontier{
		next:  next,
		turn:  make(chan struct{}, 1),
		wake:  make(chan struct{}, 1),
		hosts: make(map[string]*host),
	}
}

// Add queues urls, each behind those of its host. It may be called at any time, such as
// by a worker that found links, before it calls Done.
func (f *Frontier) Add(urls ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range urls {
		key := hostOf(u)
		if h := f.hosts[key]; h != nil {
			h.urls = append(h.urls, u)
			continue
		}
		h := &host{key: key, urls: []string{u}}
		f.hosts[key] = h
		heap.Push(&f.ready, h)
	}
	f.look()
}

// hostOf is what URLs are grouped by. It has to be as fine as Config.HostKey, or finer.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL // RoundTrip will say so
	}
	return u.Host
}

// Take waits for the first URL whose host can be asked now. Call Done when it has been
// fetched or refused. The error is io.EOF once everything is done, or that of ctx.
func (f *Frontier) Take(ctx context.Context) (string, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	for {
		u, wait, err := f.take(time.Now())
		if u != "" || err != nil {
			return u, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-f.wake:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return "", ctx.Err()
		}
	}
}

// forever is the wait while all hosts are lent: until one of them is given back.
const forever = 1<<63 - 1

// take lends the first host if it can be asked now, and says how long to wait for it
// otherwise.
func (f *Frontier) take(now time.Time) (url string, wait time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.ready) == 0 && f.lent == 0:
		return "", 0, io.EOF
	case len(f.ready) == 0:
		return "", forever, nil
	case f.ready[0].at.After(now):
		return "", f.ready[0].at.Sub(now), nil
	}
	h := heap.Pop(&f.ready).(*host)
	url, h.urls = h.urls[0], h.urls[1:]
	h.lent = true
	f.lent++
	return url, 0, nil
}

// Done gives the host of url back. With again the URL is the first to be handed out
// for it once more, at the time that next says.
func (f *Frontier) Done(ctx context.Context, url string, again bool) {
	f.mu.Lock()
	h := f.hosts[hostOf(url)]
	if again {
		h.urls = append([]string{url}, h.urls...)
	}
	first := ""
	if len(h.urls) > 0 {
		first = h.urls[0]
	}
	f.mu.Unlock()

	var at time.Time
	if first != "" {
		at = f.startOf(ctx, first) // may ask a limiter that is shared: not under the lock
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	h.lent, h.at = false, at
	f.lent--
	if len(h.urls) > 0 {
		heap.Push(&f.ready, h)
	} else {
		delete(f.hosts, h.key)
	}
	f.look()
}

// startOf returns when url could start. A URL that will never be let go is handed out
// at once: its refusal costs nothing, and is on record.
func (f *Frontier) startOf(ctx context.Context, url string) time.Time {
	at, err := f.next(ctx, url)
	if refused := (*politeness.Error)(nil); errors.As(err, &refused) {
		return refused.RetryAt // MaxWait or a block: not before; otherwise zero
	}
	return at
}

// look makes the worker that watches the clock look again.
func (f *Frontier) look() {
	select {
	case f.wake <- struct{}{}:
	default: // it has been told already
	}
}

// Again reports whether a fetch that ended so is to be repeated: the host couldn't be asked
// yet, or asked to be left alone for a while.
func Again(status int, err error) bool {
	if refused := (*politeness.Error)(nil); errors.As(err, &refused) {
		return !refused.RetryAt.IsZero()
	}
	return err == nil && status == http.StatusTooManyRequests
}

// byStart is a heap of hosts, the first to start on top.
type byStart []*host

func (s byStart) Len() int           { return len(s) }
func (s byStart) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s byStart) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *byStart) Push(h any)        { *s = append(*s, h.(*host)) }

func (s *byStart) Pop() any {
	last := len(*s) - 1
	h := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return h
}
