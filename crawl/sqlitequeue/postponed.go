package sqlitequeue

import (
	"context"

	"github.com/go-politeness/politeness/crawl"
)

// lifted is the most URLs that one call of Lift writes: others wait for it meanwhile.
const lifted = 2000

// Lift implements crawl.Postponer. It lifts at most 2,000 URLs at a time.
func (q *Queue) Lift(ctx context.Context, host string, mark uint32, later int) (more bool, err error) {
	if mark == 0 {
		return false, nil
	}
	// Later is compared with 0, too: without that the index of marks isn't used.
	done, err := q.db.ExecContext(ctx, `
		UPDATE url SET later = ?1
		WHERE id IN (
			SELECT id FROM url
			WHERE host = (SELECT id FROM host WHERE name = ?2) AND mark = ?3 AND later > 0 AND later > ?1
				AND due IS NOT NULL
			LIMIT ?4)`, later, host, mark, lifted)
	if err != nil {
		return false, wrap(err)
	}
	n, err := done.RowsAffected()
	return n == lifted, wrap(err)
}

// Postponed implements crawl.Postponer. It reads all URLs that are postponed.
func (q *Queue) Postponed(ctx context.Context, n int) (largest []crawl.PostponedGroup, all int, err error) {
	// Of a group the URL is that of its last id.
	rows, err := q.db.QueryContext(ctx, `
		WITH part AS (
			SELECT host, coalesce(mark, 0) AS mark, count(*) AS number, max(id) AS last FROM url
			WHERE due IS NOT NULL AND later > 0
			GROUP BY host, mark
		)
		SELECT host.name, part.mark, part.number, url.url, (SELECT sum(number) FROM part)
		FROM part JOIN host ON host.id = part.host JOIN url ON url.id = part.last
		ORDER BY part.number DESC
		LIMIT ?`, n)
	if err != nil {
		return nil, 0, wrap(err)
	}
	defer rows.Close()
	for rows.Next() {
		var g crawl.PostponedGroup
		if err := rows.Scan(&g.Host, &g.Mark, &g.Number, &g.URL, &all); err != nil {
			return nil, 0, wrap(err)
		}
		largest = append(largest, g)
	}
	return largest, all, wrap(rows.Err())
}
