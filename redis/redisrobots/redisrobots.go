// Package redisrobots shares robots.txt among the processes of a fleet through one Redis or Valkey.
// It is a [robotscache.Store] by which they fetch each robots.txt once.
//
//	store, err := redisrobots.New(redisrobots.Config{
//		Client: redis.NewClient(&redis.Options{Addr: "localhost:6379"}),
//	})
//	cfg.Robots.Store = store // of a politeness.Config
//
// One process fetches. The others wait for it and read the copy that it has saved. So each knows an
// origin's crawl-delay before its first request there. If the process that fetches dies, another
// one takes over within [Lease]. A record that is damaged, of another version or of another type
// costs one fetch.
//
// While the server can't be reached, each process fetches for itself. Evidence has the reason
// (robotscache.Event.StoreErr), and [Stats] counts it. After a call that failed the server isn't
// asked for a while, so that an outage doesn't delay each origin by the client's timeouts.
//
// All keys expire. A copy expires after 30 days, when it is of no use any more, a record without
// rules after a day, and the lock after Lease.
package redisrobots

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/redis/internal/contexts"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// Config of a Store.
type Config struct {
	// Client talks to the server. Required. The Store doesn't close it.
	Client redis.UniversalClient

	// Prefix of all keys, by default "politeness:". It must not contain braces.
	Prefix string
}

// Lease is how long a process that fetches keeps others from it without a sign of life.
const Lease = 5 * time.Second

const (
	pause    = 5 * time.Second // for which a server that didn't answer isn't asked
	mostHeld = time.Hour       // for which a lock is kept at most, whatever the fetch waits for

	// A waiter looks at the lock after this, and a random time of up to mostSteps such steps on
	// top: more from try to try.
	lookStep  = 20 * time.Millisecond
	mostSteps = 10

	keepCopy   = 30 * 24 * time.Hour
	keepAnswer = 24 * time.Hour

	// Longer values aren't read to the end: records have a body and some fields.
	mostBytes = robotscache.MaxBody + 64<<10
)

// ErrUnavailable is returned for five seconds after a call that had no response. The server isn't
// asked again so soon.
var ErrUnavailable = errors.New("redisrobots: the server can't be reached")

// A Store is a robotscache.Store on a server. It is safe for concurrent use. It needs no Close,
// since it owns a goroutine only while it has a lock.
type Store struct {
	client redis.UniversalClient
	prefix string
	down   atomic.Int64 // Unix time in nanoseconds until which the server isn't asked

	loaded, locked, waited, failed atomic.Int64
}

var _ robotscache.Store = (*Store)(nil)

// New returns a Store, or all problems of c together. It doesn't wait for the server.
func New(c Config) (*Store, error) {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("redisrobots: Client: is required"))
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		errs = append(errs, fmt.Errorf("redisrobots: Prefix: %q contains a brace", c.Prefix))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if c.Prefix == "" {
		c.Prefix = "politeness:"
	}
	return &Store{client: c.Client, prefix: c.Prefix}, nil
}

// Stats are a Store's figures since New.
type Stats struct {
	Loaded int64 // records that others or this process had saved
	Locked int64 // locks taken, each for a fetch or to find that another has just fetched
	Waited int64 // of these, how many had to wait for another process
	Failed int64 // calls that failed or weren't made because the server can't be reached
}

// Stats returns the figures of this moment. Use it for metrics.
func (s *Store) Stats() Stats {
	return Stats{
		Loaded: s.loaded.Load(),
		Locked: s.locked.Load(),
		Waited: s.waited.Load(),
		Failed: s.failed.Load(),
	}
}

// key is where the record of an origin is. Its lock is in the same slot of a cluster.
func (s *Store) key(origin string) string { return s.prefix + "{robots:" + origin + "}" }

func (s *Store) lock(origin string) string { return s.key(origin) + ":lock" }

// do makes a call, unless one of the last five seconds had no response.
func do[T any](s *Store, call func() (T, error)) (T, error) {
	if time.Now().UnixNano() < s.down.Load() {
		s.failed.Add(1)
		var none T
		return none, ErrUnavailable
	}
	result, err := call()
	var answer redis.Error
	switch {
	case err == nil:
		return result, nil
	case errors.As(err, &answer): // the server has answered, so it can be reached
		s.failed.Add(1)
	case errors.Is(err, context.Canceled): // the caller has left
	default:
		s.failed.Add(1)
		s.down.Store(time.Now().Add(pause).UnixNano())
	}
	return result, fmt.Errorf("redisrobots: %w", err)
}

// Load implements [robotscache.Store]. A damaged record is an error, and no record.
func (s *Store) Load(ctx context.Context, origin string) (r robotscache.Record, ok bool, err error) {
	data, err := do(s, func() (string, error) {
		return s.client.GetRange(ctx, s.key(origin), 0, mostBytes).Result()
	})
	if err != nil || data == "" {
		return robotscache.Record{}, false, err
	}
	r, err = robotscache.DecodeRecord([]byte(data), origin)
	if err != nil {
		return robotscache.Record{}, false, fmt.Errorf("redisrobots: %s: %w", s.key(origin), err)
	}
	s.loaded.Add(1)
	return r, true, nil
}

// Save implements [robotscache.Store].
func (s *Store) Save(ctx context.Context, origin string, r robotscache.Record) error {
	data, err := r.Encode(origin)
	if err != nil {
		return fmt.Errorf("redisrobots: %w", err)
	}
	keep := keepAnswer
	if r.Status/100 == 2 {
		keep = keepCopy
	}
	_, err = do(s, func() (string, error) {
		return s.client.Set(ctx, s.key(origin), data, max(keep, time.Until(r.Until))).Result()
	})
	return err
}

// take takes or renews the lock. A lock that never expires, that lasts longer than any process asks
// for, or that isn't a string, isn't one of this package.
var take = redis.NewScript(`
local holder = redis.pcall('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
local isHeld = left >= 0 and left <= tonumber(ARGV[2])
if type(holder) == 'string' and holder ~= ARGV[1] and isHeld then return 0 end
if ARGV[3] == 'renew' and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

// give gives the lock up.
var give = redis.NewScript(`
if redis.pcall('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// Lock implements [robotscache.Store]. It waits as long as the process with the lock shows signs of
// life.
func (s *Store) Lock(ctx context.Context, origin string) (unlock func(), err error) {
	name := s.lock(origin)
	token := rand.Text()
	for tries := 0; ; tries++ {
		taken, err := s.take(ctx, name, token, "take")
		if err != nil {
			return nil, err
		}
		if taken {
			s.locked.Add(1)
			if tries > 0 {
				s.waited.Add(1)
			}
			return s.keep(name, token), nil
		}
		steps := min(tries+1, mostSteps)
		if err := contexts.Sleep(ctx, lookStep+mathrand.N(time.Duration(steps)*lookStep)); err != nil {
			return nil, err
		}
	}
}

// take takes the lock name for token, or renews it, and reports whether token has it.
func (s *Store) take(ctx context.Context, name, token, how string) (bool, error) {
	n, err := do(s, func() (int, error) {
		return take.Run(ctx, s.client, []string{name}, token, Lease.Milliseconds(), how).Int()
	})
	return n == 1, err
}

// keep renews the lock until unlock is called.
func (s *Store) keep(name, token string) (unlock func()) {
	ctx, cancel := context.WithTimeout(context.Background(), mostHeld)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for contexts.Sleep(ctx, Lease/4) == nil {
			// If it fails, or another process has taken the lock, two may fetch.
			_, _ = s.take(ctx, name, token, "renew")
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		renewing.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), Lease) // after that it is free anyway
		defer cancel()
		_, _ = do(s, func() (any, error) { return give.Run(ctx, s.client, []string{name}, token).Result() })
	})
}
