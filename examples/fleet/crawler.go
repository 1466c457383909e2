package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/budget/redisbudget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/redislimit"
	"github.com/go-politeness/politeness/robots/robotscache"
	"github.com/go-politeness/politeness/robots/robotscache/redisrobots"
)

// crawl is one process of the fleet. It writes its evidence to log, and fetches
// pages until the budget that it shares with the others is spent.
func crawl(ctx context.Context, out io.Writer, name, addr, site string) (err error) {
	log := evidence.JSONLines(out)
	defer func() { err = errors.Join(err, log.Close()) }()

	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	hosts, err := redislimit.New(redislimit.Config{
		Client: client,
		Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: 100 * time.Millisecond}},
	})
	if err != nil {
		return err
	}
	defer hosts.Close()
	spent, err := redisbudget.New(redisbudget.Config{
		Client: client, Name: "fleet", Limits: budget.Limits{Pages: pages, WarnAt: 0.8}, Processes: processes,
	})
	if err != nil {
		return err
	}
	defer spent.Close()

	robots, err := redisrobots.New(redisrobots.Config{Client: client})
	if err != nil {
		return err
	}

	transport, err := politeness.New(politeness.Config{
		UserAgent: "FleetBot/1.0 (+https://example.com/bot; bot@example.com)",
		Robots:    robotscache.Config{Store: robots},
		Hosts:     hosts,
		Budget:    spent,
		Evidence: evidence.Func(func(ctx context.Context, d evidence.Decision) {
			log.Record(ctx, d)
			_ = log.Flush() // at once, for the timeline; Close reports the error
		}),
	})
	if err != nil {
		return err
	}
	web := &http.Client{Transport: transport}
	for i := 1; ; i++ {
		err := get(ctx, web, fmt.Sprintf("%s/%s-%d", site, name, i))
		switch {
		case errors.Is(err, politeness.ErrBudget):
			return nil
		case err != nil:
			return err
		}
	}
}

func get(ctx context.Context, web *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}
