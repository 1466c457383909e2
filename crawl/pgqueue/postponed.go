package pgqueue

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-politeness/politeness/crawl"
)

// A postponed has requests that are Left, and how far they are postponed.
type postponed struct {
	hashes []pgtype.UUID
	laters []int
	marks  []*int64
}

func (p *postponed) append(hash pgtype.UUID, r crawl.Request) {
	p.hashes = append(p.hashes, hash)
	p.laters = append(p.laters, r.Later)
	p.marks = append(p.marks, null(int64(r.Mark)))
}

// store writes those that have changed.
func (p *postponed) store(ctx context.Context, tx pgx.Tx) error {
	if len(p.hashes) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		UPDATE politeness_url AS u SET later = p.later, mark = p.mark
		FROM unnest($1::uuid[], $2::smallint[], $3::bigint[]) AS p (hash, later, mark)
		WHERE u.hash = p.hash AND u.due IS NOT NULL
			AND (u.later <> p.later OR u.mark IS DISTINCT FROM p.mark)`, p.hashes, p.laters, p.marks)
	return err
}

// Lift implements crawl.Postponer. It lifts at most 2,000 URLs at a time.
func (q *Queue) Lift(ctx context.Context, host string, mark uint32, later int) (more bool, err error) {
	if mark == 0 {
		return false, nil
	}
	if err := q.renew(ctx); err != nil {
		return false, wrap(err)
	}
	more, err = in(ctx, q, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		// Later is compared with 0, too: without that the index of marks isn't used.
		done, err := tx.Exec(ctx, `
			UPDATE politeness_url SET later = $1
			WHERE hash IN (
				SELECT hash FROM politeness_url
				WHERE host = (SELECT id FROM politeness_host WHERE crawl = $2 AND name = $3)
					AND mark = $4 AND later > 0 AND later > $1 AND due IS NOT NULL
				LIMIT $5)`, later, q.crawl, host, int64(mark), batch)
		return done.RowsAffected() == batch, err
	})
	return more, wrap(err)
}

// Postponed implements crawl.Postponer. It counts the requests of all processes, and reads all that
// are postponed.
func (q *Queue) Postponed(ctx context.Context, n int) (largest []crawl.PostponedGroup, all int, err error) {
	if err := q.renew(ctx); err != nil {
		return nil, 0, wrap(err)
	}
	err = q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		largest = nil
		all = 0
		rows, err := tx.Query(ctx, selectPostponed, q.crawl, n)
		if err != nil {
			return err
		}
		var g crawl.PostponedGroup
		_, err = pgx.ForEachRow(rows, []any{&g.Host, &g.Mark, &g.Number, &g.URL, &all}, func() error {
			largest = append(largest, g)
			return nil
		})
		return err
	})
	return largest, all, wrap(err)
}

// selectPostponed counts by the index of marks. A mark of NULL is 0.
const selectPostponed = `
	WITH part AS (
		SELECT u.host, u.mark, count(*) AS number
		FROM politeness_url u JOIN politeness_host h ON h.id = u.host
		WHERE h.crawl = $1 AND u.due IS NOT NULL AND u.later > 0
		GROUP BY u.host, u.mark
	)
	SELECT h.name, coalesce(p.mark, 0), p.number, CASE WHEN p.mark IS NULL
			THEN (
				SELECT url FROM politeness_url
				WHERE host = p.host AND mark IS NULL AND later > 0 AND due IS NOT NULL
				LIMIT 1)
			ELSE (
				SELECT url FROM politeness_url
				WHERE host = p.host AND mark = p.mark AND later > 0 AND due IS NOT NULL
				LIMIT 1)
		END, (SELECT sum(number) FROM part)::bigint
	FROM (SELECT * FROM part ORDER BY number DESC LIMIT $2) p JOIN politeness_host h ON h.id = p.host
	ORDER BY p.number DESC`
