package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/internal/printable"
	"github.com/go-politeness/politeness/redis/redislimit"
)

// key returns the key of host: as crawlers spell it, or as it stands if the fleet knows it so, by a
// HostKey of its own.
func key(ctx context.Context, fleet *redislimit.Limiter, host string) (string, error) {
	spelled := politeness.ByHost(&http.Request{URL: &url.URL{Host: host}})
	if spelled == host {
		return host, nil
	}
	state, err := fleet.State(ctx, host)
	switch {
	case err != nil:
		return "", err
	case isKnown(state):
		return host, nil
	case spelled == "":
		return "", misused("%q is no host: write example.com, as list shows it", host)
	}
	return spelled, nil
}

// isKnown reports whether the fleet has had anything to do with a host.
func isKnown(s hostlimit.HostState) bool {
	return s.Starts > 0 || s.Waiters > 0 || s.Refusals > 0 || blocked(s)
}

// block blocks a host.
func block(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, r request) error {
	host, err := key(ctx, fleet, r.host)
	if err != nil {
		return err
	}
	until := time.Now().Add(r.length)
	if err := fleet.Block(ctx, host, until, r.why); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is blocked until %s: %s\n", printable.Text(host), moment(until), printable.Text(r.why))
	if state, err := fleet.State(ctx, host); err == nil && state.Starts == 0 && state.Waiters == 0 {
		fmt.Fprintln(out, "(no crawler has requested it lately: is this a name that list shows?)")
	}
	return nil
}

// clearHost lifts the block of a host.
func clearHost(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, host string) (int, error) {
	host, err := key(ctx, fleet, host)
	if err != nil {
		return 0, err
	}
	before, err := fleet.State(ctx, host)
	if err != nil {
		return 0, err
	}
	if err := fleet.Clear(ctx, host); err != nil {
		return 0, err
	}
	if !blocked(before) && before.Refusals == 0 {
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
		fmt.Fprintln(out, "crawlers continue")
		return nil
	}
	until := time.Now().Add(length)
	fmt.Fprintf(out, "no request starts until %s\n", moment(until))
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
			return fmt.Errorf("%d requests are still in flight; no request starts until %s", flying, moment(until))
		case <-time.After(200 * time.Millisecond):
		}
	}
	return errors.New("the time of -for is over with requests still in flight, and crawlers continue: " +
		"use a longer -for")
}
