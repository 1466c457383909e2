package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/pgqueue"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redisbudget"
	"github.com/go-politeness/politeness/redis/redislimit"
	"github.com/go-politeness/politeness/redis/redisrobots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// crawlName tells this crawl from others in the same Postgres and Redis.
const crawlName = "fleet"

// header names the process that sends a request, for the sites' logs.
const header = "X-Fleet-Process"

// A crawler is one process of the fleet. Only the places of its Queue, its limiter, its budget and
// its robots.txt are particular to a fleet.
type crawler struct {
	name            string
	redis, postgres string // addresses
	urls            []string
}

func (c crawler) run(ctx context.Context) (err error) {
	client := redis.NewClient(&redis.Options{Addr: c.redis, ReadTimeout: time.Second})
	defer client.Close()
	hosts, err := redislimit.New(redislimit.Config{
		Client: client,
		Limits: hostlimit.Config{Concurrency: 2, Delay: hostlimit.Delay{Min: delay, Max: delay}},
	})
	if err != nil {
		return err
	}
	defer hosts.Close()
	spent, err := redisbudget.New(redisbudget.Config{
		Client: client,
		Name:   crawlName,
		Limits: budget.Limits{Pages: 1_000_000},
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
		Limiter:   hosts,
		Budget:    spent,
		Robots:    robotscache.Config{Store: robots},
	})
	if err != nil {
		return err
	}

	urls, err := pgqueue.Open(ctx, c.postgres, crawlName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, urls.Close()) }()
	crawler, err := crawl.New(crawl.Config{
		Transport: transport,
		Queue:     urls,
		Follow:    crawl.Everywhere,
		Timeout:   10 * time.Second,
		Prepare: func(_ crawl.Request, req *http.Request) error {
			req.Header.Set(header, c.name)
			return nil
		},
		Visit: func(context.Context, *crawl.Page) error { return nil }, // a real one would keep the page, under its URL
	})
	if err != nil {
		return err
	}
	summary, err := crawler.Run(ctx, c.urls...)
	fmt.Printf("process %s: %v\n", c.name, summary)
	return err
}
