package recipes

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// errEnough is why a crawl ends that has what it wants.
var errEnough = errors.New("enough items")

// StopAfter ends a crawl once n pages were wanted. Pages that are under way are visited still. The
// Summary says why the crawl has ended: Summary.Stopped. To count all pages, Config.MaxPages is
// enough.
func StopAfter(
	ctx context.Context, t *politeness.Transport, n int64, wanted func(*crawl.Page) bool, urls ...string,
) (crawl.Summary, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var items atomic.Int64
	summary, err := run(ctx, crawl.Config{
		Transport: t,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			if wanted(p) && items.Add(1) == n {
				stop(errEnough)
			}
			return nil
		},
	}, urls...)
	if errors.Is(context.Cause(ctx), errEnough) {
		return summary, nil
	}
	return summary, err
}

// DepthFirst follows the links of a page before other pages of its host: a deeper URL has a higher
// priority. A crawl is breadth first otherwise.
func DepthFirst(ctx context.Context, t *politeness.Transport, visit func(*crawl.Page), urls ...string) error {
	_, err := run(ctx, crawl.Config{
		Transport: t,
		Follow:    crawl.SameHost,
		Take: func(_ *crawl.Page, _ crawl.Link, r *crawl.Request) bool {
			r.Priority = r.Depth
			return true
		},
		Visit: func(_ context.Context, p *crawl.Page) error {
			visit(p)
			return nil
		},
	}, urls...)
	return err
}
