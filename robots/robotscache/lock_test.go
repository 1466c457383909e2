package robotscache

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A sharedStore is a Store in memory whose lock is one for all caches that have it.
type sharedStore struct {
	mu      sync.Mutex
	records map[string]Record
	locked  chan struct{} // holds a token while the lock is held
	locks   int
	err     error // of Lock
}

func newSharedStore() *sharedStore {
	return &sharedStore{records: make(map[string]Record), locked: make(chan struct{}, 1)}
}

func (s *sharedStore) Load(_ context.Context, origin string) (Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[origin]
	return r, ok, nil
}

func (s *sharedStore) Save(_ context.Context, origin string, r Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[origin] = r
	return nil
}

func (s *sharedStore) Lock(ctx context.Context, _ string) (unlock func(), err error) {
	if s.err != nil {
		return nil, s.err
	}
	select {
	case s.locked <- struct{}{}:
		s.locks++
		return func() { <-s.locked }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestCachesThatShareAStoreFetchOnce, the first time and when their rules are out of date.
func TestCachesThatShareAStoreFetchOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newSharedStore()
		var rigs []*rig
		fetched := func() (n int) {
			for _, r := range rigs {
				n += len(r.sent())
			}
			return n
		}
		for range 20 {
			rigs = append(rigs, newRig(t, Config{Store: store}, func(*http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return reply(200, private), nil
			}))
		}
		for hour := range 3 {
			var wg sync.WaitGroup
			for _, r := range rigs {
				wg.Go(func() {
					if e := r.get(t, site); allowed(e, "/private") || !allowed(e, "/") {
						t.Errorf("%+v", e)
					}
				})
			}
			wg.Wait()
			time.Sleep(2 * time.Second) // callers that found old rules fetch in the background
			if n := fetched(); n != hour+1 {
				t.Errorf("%d fetches by hour %d", n, hour)
			}
			time.Sleep(time.Hour)
		}
		if len(store.locked) != 0 {
			t.Error("the lock is held")
		}
	})
}

// TestOutageIsShared: one cache asks an origin that doesn't answer, the others read of it in the Store.
func TestOutageIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newSharedStore()
		one := newRig(t, Config{Store: store}, broken)
		other := newRig(t, Config{Store: store}, broken)
		for range 3 {
			if !one.get(t, site).Denied || !other.get(t, site).Denied {
				t.Error("not denied")
			}
			time.Sleep(5 * time.Minute)
		}
		if n, m := len(one.sent()), len(other.sent()); n != 3 || m != 0 {
			t.Errorf("%d and %d requests", n, m)
		}
	})
}

// TestLockIsGivenUp at every end of a fetch.
func TestLockIsGivenUp(t *testing.T) {
	tests := map[string]func(*http.Request) (*http.Response, error){
		"answered": always(200, private),
		"broken":   broken,
		"refused":  func(*http.Request) (*http.Response, error) { return nil, &RefusedError{Err: errors.New("no turn")} },
		"panic":    func(*http.Request) (*http.Response, error) { panic("transport") },
		"left": func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		},
	}
	for name, web := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newSharedStore()
				r := newRig(t, Config{Store: store}, web)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				func() {
					defer func() { _ = recover() }()
					_, _ = r.Get(ctx, parse(t, site))
				}()
				synctest.Wait()
				if store.locks != 1 || len(store.locked) != 0 {
					t.Errorf("locked %d times, held by %d", store.locks, len(store.locked))
				}
			})
		})
	}
}

// TestWithoutTheLockEachFetches, and reports the error.
func TestWithoutTheLockEachFetches(t *testing.T) {
	store := newSharedStore()
	store.err = errors.New("no server")
	r := newRig(t, Config{Store: store}, always(200, private))
	if e := r.get(t, site); allowed(e, "/private") || len(r.sent()) != 1 || !errors.Is(r.event(t).StoreErr, store.err) {
		t.Errorf("%+v, %+v", e, r.event(t))
	}
}

// TestWaitingForTheLockEnds with the last caller.
func TestWaitingForTheLockEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newSharedStore()
		store.locked <- struct{}{}
		r := newRig(t, Config{Store: store}, always(200, private))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Get(ctx, parse(t, site)); !errors.Is(err, context.DeadlineExceeded) || len(r.sent()) != 0 {
			t.Errorf("%v, %d requests", err, len(r.sent()))
		}
	})
}

// TestClocksMayDiffer: a record of a machine whose clock is a little ahead is used.
func TestClocksMayDiffer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for ahead, asked := range map[time.Duration]int{maxSkew: 0, maxSkew + 1: 1} {
			store := newSharedStore()
			store.records[site] = Record{URL: site + "/robots.txt", Status: 200, Body: []byte(private), Fetched: time.Now().Add(ahead)}
			r := newRig(t, Config{Store: store}, always(200, private))
			if e := r.get(t, site); allowed(e, "/private") || len(r.sent()) != asked || time.Until(e.Expires) != time.Hour {
				t.Errorf("ahead by %v: %+v, %d requests", ahead, e, len(r.sent()))
			}
		}
	})
}

// An obedientStore is one that others share, and that fails where its context is done, as a client of
// a server does.
type obedientStore struct{ *sharedStore }

func (s obedientStore) Load(ctx context.Context, origin string) (Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, false, err
	}
	return s.sharedStore.Load(ctx, origin)
}

func (s obedientStore) Save(ctx context.Context, origin string, r Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.sharedStore.Save(ctx, origin, r)
}

// TestATimeoutIsShared: Config.Timeout ends the requests of a fetch, not the Store's, so that one
// process of many waits for a server that is silent.
func TestATimeoutIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := Config{Store: obedientStore{newSharedStore()}}
		one := newRig(t, cfg, after(time.Minute, 200, private))
		other := newRig(t, cfg, after(time.Minute, 200, private))
		if e := one.get(t, site); !e.Denied || one.event(t).StoreErr != nil {
			t.Errorf("%+v, %v", e, one.event(t).StoreErr)
		}
		if e := other.get(t, site); !e.Denied || len(other.sent()) != 0 {
			t.Errorf("%+v after %q", e, other.sent())
		}
	})
}

// TestANewerCopyOfAnotherProcessHolds: a process takes over what the Store has, also where it is out
// of date, if it knows less itself.
func TestANewerCopyOfAnotherProcessHolds(t *testing.T) {
	const newer = "User-agent: *\nDisallow: /newer\n"
	for name, first := range map[string]func(*http.Request) (*http.Response, error){
		"none": broken, "an older one": always(200, private, "ETag", `"old"`),
	} {
		bubble(t, func(t *testing.T) {
			cfg := Config{Store: newSharedStore(), ServeStale: true, RecordText: true}
			one := newRig(t, cfg, first)
			other := newRig(t, cfg, always(200, newer, "ETag", `"new"`))
			one.get(t, site)
			time.Sleep(2 * time.Hour)
			other.get(t, site)
			time.Sleep(2 * time.Hour)
			one.answer = broken
			if e := one.get(t, site); !e.Stale || allowed(e, "/newer") || !allowed(e, "/private") {
				t.Errorf("%s: %+v", name, e)
			}
			if tag := one.last().Header.Get("If-None-Match"); tag != `"new"` {
				t.Errorf("%s: asked by the tag %q", name, tag)
			}
			if e := one.events[1]; !e.Restored || e.Text != newer {
				t.Errorf("%s: event %+v", name, e)
			}
			time.Sleep(maxTTL) // from now on it is the process's own
			one.get(t, site)
			if counts(one.Cache).Restored != 1 {
				t.Errorf("%s: %+v", name, counts(one.Cache))
			}
		})
	}
}

// TestANewerAnswerWithoutRulesEndsTheCopy: what another process was told, that there are no rules, is
// known here when the next fetch fails.
func TestANewerAnswerWithoutRulesEndsTheCopy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := Config{Store: newSharedStore(), ServeStale: true}
		one := newRig(t, cfg, always(200, private))
		other := newRig(t, cfg, always(404, ""))
		one.get(t, site)
		time.Sleep(2 * time.Hour)
		other.get(t, site)
		time.Sleep(2 * time.Hour)
		one.answer = broken
		if e := one.get(t, site); e.Stale {
			t.Errorf("%+v", e)
		}
	})
}

// TestOnesOwnRecordIsNotRestored: a process that reads at each refresh what it has saved itself,
// which its clocks may date a moment later, reports nothing of it.
func TestOnesOwnRecordIsNotRestored(t *testing.T) {
	for status := range map[int]bool{200: true, 404: true} {
		bubble(t, func(t *testing.T) {
			store := newSharedStore()
			r := newRig(t, Config{Store: store}, always(status, private))
			r.get(t, site)
			record := store.records[site]
			record.Fetched = record.Fetched.Add(time.Second)
			store.records[site] = record
			for range 3 {
				time.Sleep(2 * time.Hour)
				r.answer = broken
				r.get(t, site)
			}
			if s := counts(r.Cache); s.Restored != 0 {
				t.Errorf("status %d: %+v", status, s)
			}
		})
	}
}

// TestStoreErrorsOfARefreshAreReported, once.
func TestStoreErrorsOfARefreshAreReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		errDisk := errors.New("disk unplugged")
		store := &failingStore{}
		r := newRig(t, Config{Store: store}, always(200, private))
		r.get(t, site)
		store.load = errDisk
		for range 2 {
			time.Sleep(2 * time.Hour)
			r.get(t, site)
			if !errors.Is(r.event(t).StoreErr, errDisk) {
				t.Errorf("event %+v", r.event(t))
			}
			store.lockable = true
		}
		r = newRig(t, Config{Store: store}, always(200, private))
		r.get(t, site)
		if r.event(t).StoreErr.Error() != errDisk.Error() {
			t.Errorf("of a first fetch: %v", r.event(t).StoreErr)
		}
	})
}
