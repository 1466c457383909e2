package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
)

// holdState takes -state for this process, before it opens anything else that another run has.
// While one uses it, holdState waits for -wait-state; the error matches politeness.ErrStateHeld
// then.
func (c *crawlCommand) holdState(ctx context.Context, sh *shell, cfg politeness.Config) error {
	if c.policy.state == "" {
		return nil
	}
	until := time.Now().Add(c.waitState)
	cfg.StateWait = -1 // the first New doesn't wait, so that the user is told at once
	_, err := politeness.New(cfg)
	if c.waitState > 0 && errors.Is(err, politeness.ErrStateHeld) {
		fmt.Fprintf(sh.errs, "politeness crawl: waiting for -state %s: %v\n", printable.Text(c.policy.state), err)
	}
	for errors.Is(err, politeness.ErrStateHeld) && time.Now().Before(until) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// New can't be interrupted, so it waits for a moment at a time.
		cfg.StateWait = max(time.Millisecond, min(time.Until(until), time.Second))
		_, err = politeness.New(cfg)
	}
	return err
}

// A frontier is the URLs of a crawl with -state. A page that couldn't be written is kept for the
// next run.
type frontier struct {
	*sqlitequeue.Queue
	pages *writer
	every bool // pages are asked for again
}

// openFrontier opens the URLs in dir. If the run before has come to its end, the crawl begins anew.
func openFrontier(ctx context.Context, dir string, pages *writer, errs io.Writer, every bool) (*frontier, error) {
	q, err := sqlitequeue.Open(filepath.Join(dir, "urls.db"))
	if err != nil {
		return nil, fmt.Errorf("-state: %w", err)
	}
	left, err := q.Waiting(ctx)
	remembers := false
	if err == nil {
		remembers, err = q.Remembers(ctx)
	}
	switch {
	case err != nil:
	case remembers && !every:
		err = errors.New("it was made with -every: give that again, or another directory")
	case every && !remembers:
		// Pages of a crawl without -every are due at once, and whole: nothing is remembered of them.
		_, err = q.Again(ctx, time.Now())
		err = errors.Join(err, forgetPolls(dir))
	case every:
	case left == 0:
		err = q.Clear(ctx)
	default:
		fmt.Fprintf(errs, "politeness crawl: continuing with %d URLs that the last run has left\n", left)
	}
	if err != nil {
		_ = q.Close()
		return nil, fmt.Errorf("-state: %w", err)
	}
	return &frontier{q, pages, every}, nil
}

// Done implements crawl.Queue. The command's own rules are the same in the next run, so a URL that
// one of them refuses doesn't wait for it.
func (f *frontier) Done(ctx context.Context, results []crawl.Result) error {
	results = slices.Clone(results)
	for i := range results {
		res := &results[i]
		switch {
		case res.Outcome == crawl.VisitFailed && f.pages.lost() != nil:
			res.Outcome = crawl.Left
		case res.Outcome == crawl.Left && isRefusedByRule(res.Err):
			res.Outcome = crawl.Disallowed
			if f.every {
				res.Again = time.Now().Add(rulesFor)
			}
		}
	}
	return f.Queue.Done(ctx, results)
}

// rulesFor is how long a URL isn't asked for that a rule of the command refuses: another run may
// have other flags.
const rulesFor = 7 * 24 * time.Hour

// isRefusedByRule reports whether err is that of a Config.Refuse.
func isRefusedByRule(err error) bool {
	var refused *politeness.Error
	return errors.As(err, &refused) && refused.Stage == politeness.StageRule
}
