package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/internal/redistest"
)

// Workers on one Redis server share slots, delays and budget, and every key there ends by itself.
func TestWorkersShareSlotsDelaysAndBudgetOnRedis(t *testing.T) {
	clearEnv(t)
	server := redistest.New(t)

	var mu sync.Mutex
	var starts []time.Time
	inFlight, most := 0, 0
	var list strings.Builder
	for i := range 12 {
		fmt.Fprintf(&list, "%%s/%d\n", i)
	}
	origin, asked := serve(t, "", list.String(), func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		starts = append(starts, time.Now())
		inFlight++
		most = max(most, inFlight)
		mu.Unlock()
		time.Sleep(300 * time.Millisecond)
		mu.Lock()
		inFlight--
		mu.Unlock()
		fmt.Fprint(w, "page")
	})
	db := filepath.Join(t.TempDir(), "audit.db")
	command(t, "discovery", "-db", db, "-redis", server.Addr, origin)
	t.Setenv("MAX_PAGES", "8") // of 12, for all workers together
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			var out bytes.Buffer
			if err := run(t.Context(), &out, t.Output(), []string{"worker", "-db", db, "-redis", "redis://" + server.Addr}); err != nil && !errors.Is(err, budget.ErrExceeded) {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
	group.Wait()

	total := 0
	for i := range 12 {
		n := asked(fmt.Sprintf("/%d", i))
		if total += n; n > 1 {
			t.Errorf("/%d was fetched %d times", i, n)
		}
	}
	if total > 8 || total < 5 { // a budget that is shared may end early, by what others hold
		t.Errorf("%d pages were fetched, want at most the 8 of the budget, and most of these", total)
	}
	if most > 2 {
		t.Errorf("%d requests in flight, want at most 2", most)
	}
	slices.SortFunc(starts, time.Time.Compare)
	if span := starts[len(starts)-1].Sub(starts[0]); span < time.Duration(total-1)*200*time.Millisecond-100*time.Millisecond {
		t.Errorf("%d starts within %v: closer than 200 ms", total, span)
	}
	wants(t, command(t, "show", "-db", db), `total: .*(waiting|over budget)`, fmt.Sprintf(`total: .*%d visited|total: %d visited`, total, total))

	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	for _, key := range keys {
		if ttl, err := client.TTL(ctx, key).Result(); err != nil || ttl <= 0 {
			t.Errorf("%s: TTL %v, %v", key, ttl, err)
		}
	}
}
