package main

import (
	"cmp"
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/budget"
)

// A spend is the budget.Budget of one audit, in its database: pages and time count over all
// workers, restarts and kills. A page that was reserved when its worker was killed stays spent.
type spend struct {
	store  *store
	limits budget.Limits
	bytes  atomic.Int64 // read since they were last written
	warned atomic.Bool  // of the time
}

// left returns the limit that stands against a start at the given time, nil if none does.
func (b *spend) left(u budget.Usage, start time.Time) error {
	passed := start.Sub(u.Started)
	longest := b.limits.Duration
	if longest > 0 && !u.Started.IsZero() && passed >= longest {
		used := seconds(min(u.Elapsed, passed))
		return &budget.Error{Limit: budget.Time, Used: used, Want: seconds(passed) - used, Max: seconds(longest)}
	}
	if b.limits.Pages > 0 && u.Pages >= b.limits.Pages {
		return &budget.Error{Limit: budget.Pages, Used: u.Pages, Want: 1, Max: b.limits.Pages}
	}
	return nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// usage reads what is spent.
func (b *spend) usage(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (u budget.Usage, err error) {
	u.Limits = b.limits
	var started int64
	err = db.QueryRowContext(ctx, "SELECT pages, bytes, started FROM spent").Scan(&u.Pages, &u.Bytes, &started)
	if started > 0 {
		u.Started = time.UnixMicro(started)
		u.Elapsed = max(0, time.Since(u.Started))
	}
	return u, err
}

// Check implements budget.Budget.
func (b *spend) Check(ctx context.Context, _ string, start time.Time) error {
	u, err := b.usage(ctx, b.store.db)
	if err != nil {
		return err
	}
	if start.IsZero() {
		start = time.Now()
	}
	return b.left(u, start)
}

// Reserve implements budget.Budget: the first page of the audit starts its clock.
func (b *spend) Reserve(ctx context.Context, _ string) ([]budget.Warning, error) {
	got, err := in(ctx, b.store, func(tx *sql.Tx) (reserved, error) { return b.reserve(ctx, tx) })
	return got.warnings, cmp.Or(err, got.refused)
}

// A reserved is the answer of Reserve.
type reserved struct {
	warnings []budget.Warning
	refused  error // nil: the page is reserved
}

func (b *spend) reserve(ctx context.Context, tx *sql.Tx) (reserved, error) {
	u, err := b.usage(ctx, tx)
	if err != nil {
		return reserved{}, err
	}
	now := time.Now()
	refused := b.left(u, now)
	if refused != nil {
		return reserved{refused: refused}, nil
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE spent SET
			pages = pages + 1,
			bytes = bytes + ?,
			started = CASE started WHEN 0 THEN ? ELSE started END`, b.bytes.Swap(0), now.UnixMicro())
	return reserved{warnings: b.warnings(u)}, err
}

// warnings returns those that the page after u leads to, each once.
func (b *spend) warnings(u budget.Usage) (all []budget.Warning) {
	most := b.limits.Pages
	share := b.share(most)
	if most > 0 && u.Pages < share && u.Pages+1 >= share {
		all = append(all, budget.Warning{Limit: budget.Pages, Used: u.Pages + 1, Max: most})
	}
	longest := b.limits.Duration
	isLate := longest > 0 && int64(u.Elapsed) >= b.share(int64(longest))
	if isLate && b.warned.CompareAndSwap(false, true) {
		all = append(all, budget.Warning{Limit: budget.Time, Used: seconds(u.Elapsed), Max: seconds(longest)})
	}
	return all
}

// share returns the part of a limit from which on there is a warning.
func (b *spend) share(limit int64) int64 {
	if b.limits.WarnAt == 0 {
		return limit + 1
	}
	return max(1, int64(float64(limit)*b.limits.WarnAt))
}

// Refund implements budget.Budget.
func (b *spend) Refund(ctx context.Context, _ string) {
	_, _ = b.store.db.ExecContext(context.WithoutCancel(ctx), "UPDATE spent SET pages = pages - 1 WHERE pages > 0")
}

// TakeBytes implements budget.Budget: they are unlimited.
func (b *spend) TakeBytes(_ context.Context, n int64) (int64, []budget.Warning, error) {
	b.bytes.Add(n)
	return n, nil, nil
}

// Limits implements budget.Budget.
func (b *spend) Limits() budget.Limits { return b.limits }

// Window implements budget.Budget.
func (b *spend) Window() time.Time { return b.limits.Window(time.Now()) }

// Usage implements budget.Budget.
func (b *spend) Usage(ctx context.Context) (budget.Usage, error) {
	if _, err := b.store.db.ExecContext(ctx, "UPDATE spent SET bytes = bytes + ?", b.bytes.Swap(0)); err != nil {
		return budget.Usage{}, err
	}
	return b.usage(ctx, b.store.db)
}
