// Command politeness-fleet steers crawlers that share their limits through Redis or Valkey (package
// redislimit): it shows their hosts, blocks and clears one, and stops them all.
//
//	go install github.com/go-politeness/politeness/hostlimit/redislimit/cmd/politeness-fleet@latest
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
	"github.com/go-politeness/politeness/hostlimit/redislimit"
	"github.com/go-politeness/politeness/internal/printable"
)

const usage = `Usage: politeness-fleet -redis ADDR [-prefix P] COMMAND

Steers crawlers that share their limits through one Redis or Valkey.

  list                        hosts: starts, in flight, waiting, delay, block
  processes                   crawlers by name, with their last sign of life
  block HOST -for D -why TEXT no request to HOST for D (30m, 2h); who waits is
                              refused, what is in flight goes on
  clear HOST                  lift the block of HOST, also one it has asked for
  drain [-for D]              nothing starts anywhere for D (10m), and wait
                              until nothing is in flight; -for 0 lets all go on
  watch [-every D]            list, again and again (2s), until Ctrl-C

  -redis ADDR   host:port, a redis:// or rediss:// URL (user, password, number,
                TLS), or several host:port,... of one cluster
  -prefix P     Config.Prefix of the crawlers' redislimit ("politeness:")

  politeness-fleet -redis localhost:6379 list
  politeness-fleet -redis 10.0.0.7:6379 block example.com -for 2h -why asked
  politeness-fleet -redis rediss://:secret@redis.internal:6380/0 drain -for 1h

Exit status: 0 done, 1 there was nothing to clear, 2 it couldn't be done.
`

// The exit statuses.
const (
	exitOK    = 0
	exitNo    = 1
	exitError = 2
)

func main() {
	redis.SetLogger(silent{}) // what goes wrong is in the errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Stdout, os.Stderr, os.Args[1:]))
}

// A usageError is a mistake in the arguments.
type usageError struct{ error }

func misused(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run does what args say and returns the exit status.
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

// A request is what the arguments ask for.
type request struct {
	redis, prefix string
	command, host string
	length        time.Duration // of -for
	every         time.Duration
	why           string
}

// words of each command: how many arguments it takes, and which flags.
var words = map[string]struct {
	host  bool
	flags []string
}{
	"list": {}, "processes": {}, "watch": {flags: []string{"every"}},
	"block": {host: true, flags: []string{"for", "why"}}, "clear": {host: true}, "drain": {flags: []string{"for"}},
}

// parse reads the arguments; flags may stand before the command, and on either side of the host.
func parse(args []string) (request, error) {
	var r request
	if len(args) == 0 || slices.Contains([]string{"help", "-help", "--help"}, args[0]) {
		return r, flag.ErrHelp
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run says what is wrong
	flags.StringVar(&r.redis, "redis", "", "")
	flags.StringVar(&r.prefix, "prefix", "", "")
	flags.DurationVar(&r.length, "for", 0, "")
	flags.DurationVar(&r.every, "every", 2*time.Second, "")
	flags.StringVar(&r.why, "why", "", "")
	var plain []string
	for rest := args; len(rest) > 0; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			return r, err
		} else if err != nil {
			return r, usageError{err}
		}
		if rest = flags.Args(); len(rest) > 0 {
			plain, rest = append(plain, rest[0]), rest[1:]
		}
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if len(plain) == 0 {
		return r, misused("COMMAND is missing: list, processes, block, clear, drain or watch")
	}
	r.command, plain = plain[0], plain[1:]
	w, ok := words[r.command]
	switch {
	case !ok:
		return r, misused("there is no command %q", r.command)
	case w.host && len(plain) == 0:
		return r, misused("%s: HOST is missing", r.command)
	case w.host:
		r.host, plain = plain[0], plain[1:]
	}
	if len(plain) > 0 {
		return r, misused("%s: %q is too much", r.command, plain[0])
	}
	for _, f := range []string{"for", "every", "why"} {
		if given[f] && !slices.Contains(w.flags, f) {
			return r, misused("%s has no -%s", r.command, f)
		}
	}
	switch {
	case r.redis == "":
		return r, misused("-redis ADDR is missing")
	case r.command == "block" && r.length <= 0:
		return r, misused("block: -for D is missing: how long, such as 30m or 2h")
	case r.command == "block" && r.why == "":
		return r, misused("block: -why TEXT is missing: logs and errors of the crawlers say it")
	case w.host && (r.host == "" || strings.Contains(r.host, "://")):
		return r, misused("%s: %q is no host: say example.com, as list shows it", r.command, r.host)
	case r.command == "watch" && r.every < 100*time.Millisecond:
		return r, misused("watch: -every %v is less than 100ms", r.every)
	}
	if r.command == "drain" && !given["for"] {
		r.length = 10 * time.Minute
	}
	return r, nil
}

// longest is how long a server that doesn't answer is waited for. A quarantine that this program
// begins, by being the first to see that the server has lost its data, is a second longer: as long
// as that of the most patient crawler.
const longest = 10 * time.Second

// connect returns a client of the server.
func connect(addr string) (redis.UniversalClient, error) {
	if addrs := strings.Split(addr, ","); len(addrs) > 1 {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: longest, MaxRetries: -1}), nil
	}
	o := &redis.Options{Addr: addr}
	if strings.Contains(addr, "://") {
		var err error
		if o, err = redis.ParseURL(addr); err != nil {
			// Its error may show the password.
			return nil, misused("-redis: no URL as redis://user:password@host:port/number is one")
		}
	}
	o.ReadTimeout, o.MaxRetries = longest, -1
	return redis.NewClient(o), nil
}

// forgiving is longer than crawlers' own Backoff.Forgive: theirs says when refusals are forgotten.
const forgiving = 30 * 24 * time.Hour

func do(ctx context.Context, out io.Writer, args []string) (int, error) {
	r, err := parse(args)
	if err != nil {
		return 0, err
	}
	client, err := connect(r.redis)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	fleet, err := redislimit.New(redislimit.Config{
		Client: client, Prefix: r.prefix, Name: "politeness-fleet",
		// One slot, as what the crawlers have isn't known here: a slot more would be one too many.
		Limits: hostlimit.Config{Concurrency: 1, Backoff: backoff.Refusals{Forgive: forgiving}},
	})
	if err != nil {
		return 0, err
	}
	defer fleet.Close()

	switch r.command {
	case "list":
		return exitOK, list(ctx, out, fleet)
	case "watch":
		return exitOK, watch(ctx, out, fleet, r.every)
	case "processes":
		return exitOK, processes(ctx, out, fleet)
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

// hosts returns the states of all hosts: what needs a person's eye first.
func hosts(ctx context.Context, fleet *redislimit.Limiter) (all []hostlimit.HostState, err error) {
	for state, err := range fleet.List(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, state)
	}
	rank := func(s hostlimit.HostState) int {
		switch {
		case !s.BlockedUntil.IsZero():
			return 0
		case s.InFlight+s.Waiters > 0:
			return 1
		}
		return 2
	}
	slices.SortFunc(all, func(a, b hostlimit.HostState) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Key, b.Key))
	})
	return all, nil
}

// list writes a line for each host.
func list(ctx context.Context, out io.Writer, fleet *redislimit.Limiter) error {
	state, err := fleet.Fleet(ctx)
	if err != nil {
		return err
	}
	all, err := hosts(ctx, fleet)
	if err != nil {
		return err
	}
	if !state.PausedUntil.IsZero() {
		fmt.Fprintf(out, "drained until %s: nothing starts\n", moment(state.PausedUntil))
	}
	fmt.Fprintf(out, "%-34s %8s %6s %7s %8s  %s\n", "HOST", "STARTS", "FLYING", "WAITING", "DELAY", "BLOCK")
	for _, s := range all {
		block := ""
		switch {
		case !s.BlockedUntil.IsZero():
			block = "until " + moment(s.BlockedUntil) + ", " + printable.Clipped(s.BlockedBy, 200)
		case s.Probing:
			block = "over, a probe is on its way"
		case s.Refusals > 0:
			block = "over, a probe comes next"
		}
		line := fmt.Sprintf("%-34s %8d %6d %7d %8s  %s", printable.Clipped(s.Key, 255), s.Starts, s.InFlight, s.Waiters, short(s.Delay), block)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	if len(all) == 0 {
		fmt.Fprintln(out, "(no host: nobody crawls with this -prefix, or nothing is owed)")
	}
	return nil
}

// watch lists until ctx is done. On a terminal each list replaces the one before. An error ends it
// only at the first time.
func watch(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for first := true; ; first = false {
		var page strings.Builder
		err := list(ctx, &page, fleet)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintf(&page, "%s\n", printable.Text(err.Error()))
		}
		if isTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		fmt.Fprintf(out, "%s\n%s", moment(time.Now()), &page)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// lively is for how long a process that says nothing is taken to live: its slots are its own.
const lively = 10 * time.Second

// processes writes a line for each process.
func processes(ctx context.Context, out io.Writer, fleet *redislimit.Limiter) error {
	state, err := fleet.Fleet(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-40s %-12s  %s\n", "NAME", "ID", "LAST SIGN OF LIFE")
	for _, p := range state.Processes {
		seen := short(p.Seen) + " ago"
		if p.Seen > lively {
			seen += ": has nothing under way, or is dead"
		}
		fmt.Fprintf(out, "%-40s %-12s  %s\n", printable.Clipped(p.Name, 255), printable.Clipped(p.ID, 40), seen)
	}
	if len(state.Processes) == 0 {
		fmt.Fprintln(out, "(none in the last hour)")
	}
	return nil
}

// block blocks a host.
func block(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, r request) error {
	before, err := hosts(ctx, fleet)
	if err != nil {
		return err
	}
	until := time.Now().Add(r.length)
	if err := fleet.Block(ctx, r.host, until, r.why); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is blocked until %s: %s\n", printable.Text(r.host), moment(until), printable.Text(r.why))
	if find(before, r.host) == nil {
		fmt.Fprintln(out, "(no crawler has asked for it of late: is the name as list shows names?)")
	}
	return nil
}

// find returns the state of host, nil if there is none.
func find(all []hostlimit.HostState, host string) *hostlimit.HostState {
	for i := range all {
		if all[i].Key == host {
			return &all[i]
		}
	}
	return nil
}

// clearHost lifts the block of host.
func clearHost(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, host string) (int, error) {
	before, err := hosts(ctx, fleet)
	if err != nil {
		return 0, err
	}
	if err := fleet.Clear(ctx, host); err != nil {
		return 0, err
	}
	if s := find(before, host); s == nil || s.BlockedUntil.IsZero() && s.Refusals == 0 {
		fmt.Fprintf(out, "%s wasn't blocked\n", printable.Text(host))
		return exitNo, nil
	}
	fmt.Fprintf(out, "%s is cleared\n", printable.Text(host))
	return exitOK, nil
}

// drain stops the fleet for length, and waits until nothing is in flight.
func drain(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, length time.Duration) error {
	if err := fleet.Pause(ctx, length); err != nil {
		return err
	}
	if length == 0 {
		fmt.Fprintln(out, "all go on")
		return nil
	}
	until := time.Now().Add(length)
	fmt.Fprintf(out, "nothing starts until %s\n", moment(until))
	for last := -1; time.Now().Before(until); {
		all, err := hosts(ctx, fleet)
		if err != nil {
			return err
		}
		flying := 0
		for _, s := range all {
			flying += s.InFlight
		}
		if flying == 0 {
			fmt.Fprintln(out, "nothing is in flight")
			return nil
		}
		if flying != last {
			fmt.Fprintf(out, "%d in flight\n", flying)
			last = flying
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d still in flight; nothing starts until %s all the same", flying, moment(until))
		case <-time.After(200 * time.Millisecond):
		}
	}
	return errors.New("the time is over with requests still in flight: all go on; say -for D with a longer D")
}

// moment is a time as people read it, on this machine's clock.
func moment(t time.Time) string {
	if time.Until(t).Abs() > 20*time.Hour {
		return t.Local().Format("2006-01-02 15:04")
	}
	return t.Local().Format("15:04:05")
}

// short is d with two or three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
