// Try is a user's program, outside of the repository. It crawls a small site on loopback twice:
// with its URLs in SQLite, and with its URLs in Postgres. Both crawls are polite through Redis.
//
//	try REDIS-ADDRESS POSTGRES-URL
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/pgqueue"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/otelevidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redisbudget"
	"github.com/go-politeness/politeness/redis/redislimit"
	"github.com/go-politeness/politeness/redis/redisrobots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, redisAddr, postgresURL string) error {
	dir, err := os.MkdirTemp("", "try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	onDisk, err := sqlitequeue.Open(filepath.Join(dir, "crawl.db"))
	if err != nil {
		return err
	}
	defer onDisk.Close()
	onServer, err := pgqueue.Open(ctx, postgresURL, "try")
	if err != nil {
		return err
	}
	defer onServer.Close()
	for name, queue := range map[string]crawl.Queue{"sqlitequeue": onDisk, "pgqueue": onServer} {
		if err := once(ctx, redisAddr, name, queue); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func once(ctx context.Context, redisAddr, name string, queue crawl.Queue) error {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/a">a</a> <a href="/private">private</a>`)
	}))
	defer site.Close()
	client := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer client.Close()

	hosts, err := redislimit.New(redislimit.Config{Client: client, Limits: hostlimit.Config{Delay: hostlimit.Delay{Min: 50 * time.Millisecond}}})
	if err != nil {
		return err
	}
	defer hosts.Close()
	pages, err := redisbudget.New(redisbudget.Config{Client: client, Name: name, Limits: budget.Limits{Pages: 10}})
	if err != nil {
		return err
	}
	defer pages.Close()
	robots, err := redisrobots.New(redisrobots.Config{Client: client})
	if err != nil {
		return err
	}
	metrics, err := otelevidence.New(otelevidence.Config{})
	if err != nil {
		return err
	}
	var written bytes.Buffer
	lines := evidence.JSONLines(&written)
	transport, err := politeness.New(politeness.Config{
		UserAgent: "TryBot/1.0 (+https://example.org/bot; bot@example.org)",
		Limiter:   hosts,
		Budget:    pages,
		Robots:    robotscache.Config{Store: robots, RecordText: true},
		Evidence:  evidence.Multi(lines, metrics),
	})
	if err != nil {
		return err
	}
	c, err := crawl.New(crawl.Config{
		Transport: transport, Queue: queue, Follow: crawl.SameHost,
		Visit: func(context.Context, *crawl.Page) error { return nil },
	})
	if err != nil {
		return err
	}
	summary, err := c.Run(ctx, site.URL)
	if err != nil {
		return err
	}
	if err := lines.Close(); err != nil {
		return err
	}
	report, err := audit.Check(&written)
	if err != nil {
		return err
	}
	if summary.Visited() != 2 || !report.OK() {
		return fmt.Errorf("visited %d pages of 2: %v\n%v", summary.Visited(), summary, report)
	}
	return nil
}
