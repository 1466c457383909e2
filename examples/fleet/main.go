// Fleet starts a Redis, a small site and four crawler processes, and prints one
// timeline of what they do: that of one polite crawler.
//
//	cd examples/fleet && go run .
//
// The site asks for half a second between requests, and answers one of them with
// 429 and Retry-After. The four share a limiter (redislimit), a budget (redisbudget) and
// robots.txt (redisrobots), which one of them fetches for all.
// It needs the program redis-server.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"time"
)

const (
	processes = 4
	pages     = 24          // that all of them may fetch together
	longest   = time.Minute // how long it runs at most
)

// The environment of a crawler process.
const (
	envName  = "FLEET_CRAWLER"
	envRedis = "FLEET_REDIS"
	envSite  = "FLEET_SITE"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()

	run := func() error { return lead(ctx, os.Stdout) }
	if name := os.Getenv(envName); name != "" {
		run = func() error { return crawl(ctx, os.Stdout, name, os.Getenv(envRedis), os.Getenv(envSite)) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// lead starts everything and merges what the crawlers tell.
func lead(ctx context.Context, out io.Writer) error {
	redis, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer redis.stop()
	site := startSite()
	defer site.Close()
	fmt.Fprintf(out, "Redis at %s, %d crawler processes, and a site at %s with this robots.txt:\n\n%s\n",
		redis.addr, processes, site.URL, indent(robots))
	fmt.Fprintf(out, "A limiter's server that was just started may have lost its data: for 2 s nothing starts.\n\n")

	line := newTimeline(out, site.URL)
	var wg sync.WaitGroup
	failed := make(chan error, processes)
	for i := range processes {
		name := strconv.Itoa(i + 1)
		cmd := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), envName+"="+name, envRedis+"="+redis.addr, envSite+"="+site.URL)
		cmd.Stderr = os.Stderr
		log, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		wg.Go(func() {
			err := line.follow(i, log)
			if werr := cmd.Wait(); err == nil {
				err = werr
			}
			if err != nil {
				failed <- fmt.Errorf("crawler %s: %w", name, err)
			}
		})
	}
	wg.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	return line.summary(site.requests(), site.robots())
}
