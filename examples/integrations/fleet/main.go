// Fleet is a crawl by several processes, as on several machines. Their URLs are in one Postgres
// (pgqueue), and the state of the hosts is in one Redis or Valkey (redislimit, redisbudget,
// redisrobots).
//
//	go run -C examples/integrations/fleet .
//
// It starts both servers, twenty small sites and three processes. Every few seconds it kills a
// process, and starts another one in its place. At the end it checks the sites' own logs. Each page
// was fetched, only pages in flight at a kill were fetched twice, and no two requests were closer
// than the delay.
//
// It needs the programs of Postgres, and redis-server or valkey-server.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

// The environment of a crawler process.
const (
	envName     = "FLEET_CRAWLER"
	envRedis    = "FLEET_REDIS"
	envPostgres = "FLEET_POSTGRES"
	envURLs     = "FLEET_URLS"
)

// An options has the flags of the command line.
type options struct {
	processes int
	sites     int
	pages     int           // of each site
	kills     int           // that there are in all
	every     time.Duration // time from one kill to the next
	pause     time.Duration // for which a process is stopped, once, before the first kill; 0: none is
}

// delay is the least time between two requests to a site.
const delay = 200 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	name := os.Getenv(envName)
	if name != "" {
		c := crawler{
			name:     name,
			redis:    os.Getenv(envRedis),
			postgres: os.Getenv(envPostgres),
			urls:     strings.Fields(os.Getenv(envURLs)),
		}
		end(c.run(ctx))
		return
	}
	var o options
	flag.IntVar(&o.processes, "processes", 3, "number of crawler processes")
	flag.IntVar(&o.sites, "sites", 20, "number of sites")
	flag.IntVar(&o.pages, "pages", 40, "pages of each site")
	flag.IntVar(&o.kills, "kills", 5, "number of processes that are killed")
	flag.DurationVar(&o.every, "every", 3*time.Second, "time from one kill to the next")
	flag.DurationVar(&o.pause, "pause", 0, "pause one process once, for this time")
	flag.Parse()
	end(lead(ctx, os.Stdout, o))
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}
