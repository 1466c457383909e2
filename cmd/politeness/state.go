package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
)

// A frontier is the URLs of a crawl with -state. A page that couldn't be written is kept for the
// next run.
type frontier struct {
	*sqlitequeue.Queue
	pages *writer
}

// openFrontier opens the URLs in dir. Where the run before has come to its end, the crawl begins
// anew.
func openFrontier(ctx context.Context, dir string, pages *writer, errs io.Writer) (*frontier, error) {
	q, err := sqlitequeue.Open(filepath.Join(dir, "urls.db"))
	if err != nil {
		return nil, fmt.Errorf("-state: %w", err)
	}
	left, err := q.Waiting(ctx)
	switch {
	case err != nil:
	case left == 0:
		err = q.Clear(ctx)
	default:
		fmt.Fprintf(errs, "politeness crawl: going on with %d URLs that the run before has left\n", left)
	}
	if err != nil {
		_ = q.Close()
		return nil, fmt.Errorf("-state: %w", err)
	}
	return &frontier{q, pages}, nil
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
		}
	}
	return f.Queue.Done(ctx, results)
}

// isRefusedByRule reports whether err is that of a Config.Refuse.
func isRefusedByRule(err error) bool {
	var refused *politeness.Error
	return errors.As(err, &refused) && refused.Stage == politeness.StageRule
}
