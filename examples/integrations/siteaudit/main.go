// Siteaudit is a site audit with proof, with the policy politeness.SiteAudit. The command discovery
// finds the URLs of sites and writes them to a database. The command worker fetches these URLs and
// writes its results. The command show prints them.
//
//	go run . discovery -db audit.db https://example.com
//	go run . worker -db audit.db
//	go run . show -db audit.db
//	go run .                     # all three, on three small sites on loopback
//
// Several workers may run at once on one database. With -redis ADDR they share slots, delays and
// the budget with each other, and with all other programs that use the server. When a worker ends
// or is killed, the next one takes over its URLs. One database is one audit.
//
// MAX_PAGES (200) and MAX_SCAN_TIME_MINUTES (60) limit the whole audit. The spent pages and minutes
// are in its database, and count over all workers, restarts and kills. When the budget is spent, a
// worker ends with status 3, and the remaining URLs get the state "over budget". With a larger
// budget the next worker fetches them. Discovery spends nothing of this budget. It has a separate
// one of as many pages, for sites without a sitemap, and reads at most 100 sitemaps a site.
// USER_AGENT is the audit's name. If it has no contact, set -from or FROM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/examples/internal/reach"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Stdout, os.Stderr, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "siteaudit: interrupted; the next worker continues")
		os.Exit(1)
	case errors.Is(err, budget.ErrExceeded):
		fmt.Fprintln(os.Stderr, "siteaudit:", err)
		os.Exit(3)
	case err != nil:
		fmt.Fprintln(os.Stderr, "siteaudit:", err)
		os.Exit(1)
	}
}

const usage = `Usage: siteaudit [discovery|worker|show] [flags] [URL...]

  discovery URL...  find the URLs of sites and write them to a database
  worker            fetch these URLs and write the results
  show              print the contents of the database

Without a command: all three, on three small sites on loopback.
siteaudit COMMAND -h lists the flags of a command. Exit status 3: the budget is spent.
`

// run is the program. It writes its results to out, and the reasons of waits to log.
func run(ctx context.Context, out, log io.Writer, args []string) error {
	if len(args) == 0 {
		return demo(ctx, out, log)
	}
	command := args[0]
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, command) {
		fmt.Fprint(log, usage)
		return flag.ErrHelp
	}
	if !slices.Contains([]string{"discovery", "worker", "show"}, command) {
		return fmt.Errorf("%q is no command: use discovery, worker or show, or none for a demonstration", command)
	}
	o := options{log: log}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.db, "db", "audit.db", "`FILE` of the database (SQLite)")
	if command != "show" {
		flags.StringVar(&o.redis, "redis", "",
			"share slots, delays and budget through the Redis server at `ADDR`, host:port or a redis:// URL")
		flags.StringVar(&o.state, "state", "",
			"keep the state of hosts, and robots.txt, in `DIR` for the next run")
		flags.StringVar(&o.from, "from", "",
			"contact: a mail `ADDRESS`, if USER_AGENT has none; empty: FROM of the environment")
		flags.StringVar(&o.evidence, "evidence", "", "append the evidence log (JSON Lines) to `FILE`")
	}
	if command == "worker" {
		flags.BoolVar(&o.flow, "flow", false, "print the decisions before each fetch")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	sites := flags.Args()
	switch {
	case command == "discovery" && len(sites) == 0:
		return errors.New("discovery: name a site, such as https://example.com")
	case command != "discovery" && len(sites) > 0:
		return fmt.Errorf("%s: %q isn't used: URLs come from the database", command, sites)
	}
	switch command {
	case "discovery":
		o.base = reach.Base(sites)
		return discover(ctx, out, o, sites)
	case "worker":
		return withStore(ctx, o.db, func(s *store) error {
			base, err := s.base(ctx)
			if err != nil {
				return err
			}
			o.base = base
			return work(ctx, out, o, s)
		})
	}
	return withStore(ctx, o.db, func(s *store) error { return s.show(ctx, out) })
}

// withStore calls f with the database of a discovery.
func withStore(ctx context.Context, file string, f func(*store) error) error {
	s, err := openStore(ctx, file, false)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Err(), s.Close())
}

// demo audits three sites of its own: one whose robots.txt names no crawler, one whose robots.txt
// names the audit, and one whose robots.txt is out of order.
func demo(ctx context.Context, out, log io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "siteaudit")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	discovery := []string{"discovery", "-db", filepath.Join(dir, "audit.db")}
	for _, robots := range []demoRobots{fallBack, ownGroup, broken} {
		site := startDemo(robots)
		defer site.Close()
		discovery = append(discovery, site.URL)
	}
	file := discovery[2]
	for _, args := range [][]string{
		discovery,
		{"worker", "-db", file, "-flow"},
		{"show", "-db", file},
	} {
		fmt.Fprintf(out, "siteaudit %s\n\n", args[0])
		if err := run(ctx, out, log, args); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}
