package redislimit_test

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit"
)

// Ten processes that do this are as polite as one.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	hosts, err := redislimit.New(redislimit.Config{
		Client:    client,
		Limits:    hostlimit.Config{Concurrency: 2},
		OnFailure: func(e redislimit.Event) { fmt.Println(e) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hosts.Close()

	get := func(ctx context.Context, url, host string) error {
		lease, err := hosts.Acquire(ctx, host, 0)
		if err != nil {
			return err // a *hostlimit.Error says when to try again
		}
		defer lease.Release()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if _, err := lease.Start(ctx); err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			lease.Observe(hostlimit.Outcome{Err: err})
			return err
		}
		lease.Observe(hostlimit.Outcome{Status: resp.StatusCode})
		return resp.Body.Close()
	}
	_ = get // politeness.New(politeness.Config{Limiter: hosts}) does all this
}

// A user may rather crawl on than stop while the server is away. That belongs into
// the evidence of the crawl.
func Example_failLocal() {
	log := evidence.JSONLines(os.Stderr)
	defer log.Close()
	hosts, err := redislimit.New(redislimit.Config{
		Client:    redis.NewClient(&redis.Options{Addr: "localhost:6379"}),
		Failure:   redislimit.FailLocal,
		Processes: 10, // each goes on at a tenth of the rate
		OnFailure: func(e redislimit.Event) {
			kind := evidence.Type("limiter_lost")
			if e.Err == nil {
				kind = "limiter_back"
			}
			log.Record(context.Background(), evidence.Decision{Type: kind, Time: e.Time, Reason: e.String()})
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hosts.Close()
}
