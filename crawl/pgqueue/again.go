package pgqueue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-politeness/politeness/crawl"
)

// Next implements crawl.Recurring, for the hosts of all processes.
func (q *Queue) Next(ctx context.Context) (time.Time, error) {
	var next *int64
	err := q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT min(next) FROM politeness_host
			WHERE crawl = $1 AND owner IS NULL AND next > `+clock, q.crawl).Scan(&next)
	})
	if err != nil || next == nil {
		return time.Time{}, wrap(err)
	}
	return time.Unix(*next, 0), nil
}

// Again makes the URLs due at a time whose last outcome is one of the given, and returns their
// number. Without outcomes it is all that were asked for. Call it between two crawls to fetch URLs
// that Failed again, to begin with revisits after a crawl without them, or if a clock was wrong.
// The memory of a page stays, so that it is fetched conditionally. Minding Schedule.Min is left to
// the crawl.
func (q *Queue) Again(ctx context.Context, at time.Time, outcomes ...crawl.Outcome) (n int, err error) {
	names := make([]string, 0, len(outcomes)) // not nil, which is NULL
	for _, o := range outcomes {
		names = append(names, string(o))
	}
	err = q.inLong(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// The hosts first, as lockHosts does. A time that is too early is mended when it is claimed.
		_, err := tx.Exec(ctx, `
			UPDATE politeness_host AS h SET next = least(next, $2)
			WHERE id IN (
				SELECT id FROM politeness_host
				WHERE crawl = $1
				ORDER BY name COLLATE "C"
				FOR UPDATE)
			AND EXISTS (
				SELECT 1 FROM politeness_url
				WHERE host = h.id AND outcome IS NOT NULL AND (outcome = ANY($3) OR cardinality($3::text[]) = 0))`,
			q.crawl, at.Unix(), names)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE politeness_url AS u SET due = $2
			FROM politeness_host h
			WHERE h.crawl = $1 AND u.host = h.id AND outcome IS NOT NULL
				AND (outcome = ANY($3) OR cardinality($3::text[]) = 0)`, q.crawl, at.Unix(), names)
		n = int(tag.RowsAffected())
		return err
	})
	return n, wrap(err)
}

// A hint makes a URL due earlier.
type hint struct {
	hash pgtype.UUID
	host int64
	due  int64
	page []byte // as it was when the hint was weighed
}

// hear makes URLs of reqs due earlier that are known, and were modified since their last visit.
func (q *Queue) hear(ctx context.Context, reqs []crawl.Request) error {
	modified := make(map[pgtype.UUID]time.Time)
	var hashes []pgtype.UUID
	for _, r := range reqs {
		if !r.Modified.IsZero() {
			hash := q.hash(r.URL)
			modified[hash] = r.Modified
			hashes = append(hashes, hash)
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	return q.in(ctx, func(ctx context.Context, tx pgx.Tx) error {
		hints, err := weigh(ctx, tx, hashes, modified)
		if err != nil || len(hints) == 0 {
			return err
		}
		return advance(ctx, tx, hints)
	})
}

// weigh returns the hints that change something. What is due is lent, or will be in any case.
func weigh(
	ctx context.Context, tx pgx.Tx, hashes []pgtype.UUID, modified map[pgtype.UUID]time.Time,
) (hints []hint, err error) {
	rows, err := tx.Query(ctx, `
		SELECT hash, host, due, page FROM politeness_url
		WHERE hash = ANY($1::uuid[]) AND page IS NOT NULL AND (due IS NULL OR due > `+clock+`)`, hashes)
	if err != nil {
		return nil, err
	}
	var h hint
	var due *int64
	_, err = pgx.ForEachRow(rows, []any{&h.hash, &h.host, &due, &h.page}, func() error {
		at, ok := crawl.Hinted(string(h.page), modified[h.hash])
		if !ok {
			return nil
		}
		h.due = *dueOf(at)
		if due == nil || h.due < *due {
			hints = append(hints, h)
		}
		return nil
	})
	return hints, err
}

// advance sets the due times of hints, unless another process has visited the page meanwhile. It
// locks the hosts first, as add does.
func advance(ctx context.Context, tx pgx.Tx, hints []hint) error {
	var hashes []pgtype.UUID
	var hosts, dues []int64
	var pages [][]byte
	for _, h := range hints {
		hashes = append(hashes, h.hash)
		hosts = append(hosts, h.host)
		dues = append(dues, h.due)
		pages = append(pages, h.page)
	}
	_, err := tx.Exec(ctx, `
		SELECT 1 FROM politeness_host
		WHERE id = ANY($1)
		ORDER BY name COLLATE "C"
		FOR UPDATE`, hosts)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE politeness_url AS u SET due = r.due
		FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS r (hash, due, page)
		WHERE u.hash = r.hash AND u.page = r.page AND (u.due IS NULL OR u.due > r.due)`, hashes, dues, pages)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE politeness_host AS h SET next = least(h.next, r.due)
		FROM (
			SELECT host, min(due) AS due FROM unnest($1::bigint[], $2::bigint[]) AS w (host, due)
			GROUP BY host
		) r
		WHERE h.id = r.host`, hosts, dues)
	return err
}
