// Command politeness-fleet steers crawlers that share their limits through Redis or Valkey (package
// redislimit): it shows their hosts, blocks and clears one, and stops them all.
//
//	go install github.com/go-politeness/politeness/redis/redislimit/cmd/politeness-fleet@latest
//
//	politeness-fleet -redis localhost:6379 list
//	politeness-fleet -redis localhost:6379 block example.com -for 2h -why "the owner has called"
//
// "politeness-fleet -h" explains the rest. docs/many-machines.md is a guide.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/internal/printable"
	"github.com/go-politeness/politeness/redis/redislimit"
)

const usage = `Usage: politeness-fleet -redis ADDR [-prefix P] [-json] COMMAND

Steers crawlers that share their limits through one Redis or Valkey.

  status                      problems, and the number of hosts and requests
  list [-blocked]             hosts: starts, in flight, waiting, delay, block
  processes                   crawlers, their last call, those with other limits
  block HOST -for D -why TEXT start no request to HOST for D (30m, 2h): waiting
                              requests fail, requests in flight continue
  clear HOST                  end the block of HOST, also one set by its site
  drain [-for D]              start no request for D (default: 10m), and wait
                              until none is in flight; -for 0 ends this early
  watch [-every D]            print list again and again (2s), until Ctrl-C

  -redis ADDR   host:port, or a redis:// or rediss:// URL (with user, database,
                TLS); for a cluster, several: ADDR,host:port,...; the password
                may be in REDISCLI_AUTH
  -sentinel M   ADDR is of Sentinels, which know the master by the name M
  -prefix P     Config.Prefix of the crawlers' redislimit ("politeness:")
  -json         status, list and processes as JSON, an object a line

Exit status: 0 done, 1 nothing to clear or a problem found, 2 an error.
`

// The exit statuses.
const (
	exitOK    = 0
	exitNo    = 1 // there was nothing to clear, or status has found something
	exitError = 2
)

func main() {
	redis.SetLogger(silent{}) // its reports are in the errors as well
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Stdout, os.Stderr, os.Args[1:]))
}

// A usageError is a mistake in the arguments.
type usageError struct{ error }

func misused(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run runs the command of args and returns the exit status.
func run(ctx context.Context, out, errs io.Writer, args []string) int {
	status, err := do(ctx, out, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return exitOK
	case err != nil:
		fmt.Fprintf(errs, "politeness-fleet: %s\n", printable.Text(strings.ReplaceAll(err.Error(), "\n", "; ")))
		if errors.As(err, new(usageError)) {
			fmt.Fprintln(errs, "see: politeness-fleet -h")
		}
		return exitError
	}
	return status
}

// A request is read from the arguments.
type request struct {
	redis, sentinel, prefix string
	json                    bool
	command, host           string
	length                  time.Duration // of -for
	every                   time.Duration
	why                     string
	blocked                 bool
}

// A word is a command: whether it takes a host, and its flags.
type word struct {
	host  bool
	flags []string
}

var words = map[string]word{
	"status":    {flags: []string{"json"}},
	"list":      {flags: []string{"json", "blocked"}},
	"processes": {flags: []string{"json"}},
	"watch":     {flags: []string{"every"}},
	"block":     {host: true, flags: []string{"for", "why"}},
	"clear":     {host: true},
	"drain":     {flags: []string{"for"}},
}

// drainFor is the default of drain -for.
const drainFor = 10 * time.Minute

// parse reads the arguments; flags may stand before the command, and on either side of the host.
func parse(args []string) (request, error) {
	var r request
	if len(args) == 0 || slices.Contains([]string{"help", "-help", "--help"}, args[0]) {
		return r, flag.ErrHelp
	}
	flags := r.flagSet()
	plain, err := split(flags, args)
	if err != nil {
		return r, err
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if len(plain) == 0 {
		return r, misused("COMMAND is missing: status, list, processes, block, clear, drain or watch")
	}
	r.command = plain[0]
	plain = plain[1:]
	w, ok := words[r.command]
	switch {
	case !ok:
		return r, misused("there is no command %q", r.command)
	case w.host && len(plain) == 0:
		return r, misused("%s: HOST is missing", r.command)
	case w.host:
		r.host = plain[0]
		plain = plain[1:]
	}
	if len(plain) > 0 {
		return r, misused("%s: %q is too much", r.command, plain[0])
	}
	for _, f := range []string{"for", "every", "why", "json", "blocked"} {
		if given[f] && !slices.Contains(w.flags, f) {
			return r, misused("%s has no -%s", r.command, f)
		}
	}
	if r.command == "drain" && !given["for"] {
		r.length = drainFor
	}
	return r, r.check()
}

// flagSet returns the flags, whose values go to r.
func (r *request) flagSet() *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error
	flags.StringVar(&r.redis, "redis", "", "")
	flags.StringVar(&r.sentinel, "sentinel", "", "")
	flags.StringVar(&r.prefix, "prefix", "", "")
	flags.BoolVar(&r.json, "json", false, "")
	flags.BoolVar(&r.blocked, "blocked", false, "")
	flags.DurationVar(&r.length, "for", 0, "")
	flags.DurationVar(&r.every, "every", 2*time.Second, "")
	flags.StringVar(&r.why, "why", "", "")
	return flags
}

// split parses the flags in args, and returns the other arguments.
func split(flags *flag.FlagSet, args []string) (plain []string, err error) {
	for len(args) > 0 {
		err := flags.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return nil, err
		case err != nil:
			return nil, usageError{err}
		}
		args = flags.Args() // it stops at the first that is no flag
		if len(args) > 0 {
			plain = append(plain, args[0])
			args = args[1:]
		}
	}
	return plain, nil
}

// leastEvery is the shortest time between two lists of watch.
const leastEvery = 100 * time.Millisecond

// check returns an error if something is missing from r, or impossible.
func (r *request) check() error {
	isURL := strings.Contains(r.host, "://")
	switch {
	case r.redis == "":
		return misused("-redis ADDR is missing")
	case r.command == "block" && r.length <= 0:
		return misused("block: -for D is missing: a duration such as 30m or 2h")
	case r.command == "block" && r.why == "":
		return misused("block: -why TEXT is missing: the crawlers' logs and errors show it")
	case words[r.command].host && (r.host == "" || isURL):
		return misused("%s: %q is no host: write example.com, as list shows it", r.command, r.host)
	case r.command == "watch" && r.every < leastEvery:
		return misused("watch: -every %v is less than %v", r.every, leastEvery)
	}
	return nil
}

// longest is how long a server that doesn't answer is waited for. A quarantine that this program
// begins, by being the first to see that the server has lost its data, is a second longer: as long
// as that of the most patient crawler.
const longest = 10 * time.Second

// connect returns a client of the server.
func connect(r request) (redis.UniversalClient, error) {
	first, rest, isList := strings.Cut(r.redis, ",")
	o := &redis.Options{Addr: first}
	if strings.Contains(first, "://") {
		var err error
		o, err = redis.ParseURL(first)
		if err != nil {
			// Its error may show the password.
			return nil, misused("-redis: no URL of the form redis://user:password@host:port/number")
		}
	}
	o.ReadTimeout = longest
	o.MaxRetries = -1
	o.Password = cmp.Or(o.Password, os.Getenv("REDISCLI_AUTH"))
	if !isList && r.sentinel == "" {
		return redis.NewClient(o), nil
	}
	addrs := []string{o.Addr}
	if isList {
		addrs = append(addrs, strings.Split(rest, ",")...)
	}
	if o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // each node has its own
	}
	if r.sentinel != "" {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName:    r.sentinel,
			SentinelAddrs: addrs,
			Username:      o.Username,
			Password:      o.Password,
			DB:            o.DB,
			TLSConfig:     o.TLSConfig,
			ReadTimeout:   longest,
			MaxRetries:    -1,
		}), nil
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:       addrs,
		Username:    o.Username,
		Password:    o.Password,
		TLSConfig:   o.TLSConfig,
		ReadTimeout: longest,
		MaxRetries:  -1,
	}), nil
}

// forgiving is longer than crawlers' own Backoff.Forgive: theirs says when refusals are forgotten.
const forgiving = 30 * 24 * time.Hour

func do(ctx context.Context, out io.Writer, args []string) (int, error) {
	r, err := parse(args)
	if err != nil {
		return 0, err
	}
	client, err := connect(r)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	fleet, err := redislimit.New(redislimit.Config{
		Client:   client,
		Prefix:   r.prefix,
		Name:     "politeness-fleet",
		Operator: true,
		// The crawlers' number of slots isn't known here. Clear hands out the slots that are free,
		// so a larger number than theirs would be too many.
		Limits: hostlimit.Config{Concurrency: 1, Backoff: backoff.Refusals{Forgive: forgiving}},
	})
	if err != nil {
		return 0, err
	}
	defer fleet.Close()

	switch r.command {
	case "status":
		return showStatus(ctx, out, fleet, r.json)
	case "list":
		return exitOK, list(ctx, out, fleet, r)
	case "watch":
		return exitOK, watch(ctx, out, fleet, r.every)
	case "processes":
		return exitOK, showProcesses(ctx, out, fleet, r.json)
	case "block":
		return exitOK, block(ctx, out, fleet, r)
	case "clear":
		return clearHost(ctx, out, fleet, r.host)
	}
	return exitOK, drain(ctx, out, fleet, r.length)
}

// silent is a logger of go-redis.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
