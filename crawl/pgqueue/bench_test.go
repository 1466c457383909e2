package pgqueue

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/internal/pgtest"
)

// BenchmarkCrawl is what one process gets of a Postgres that syncs its disk: URLs added a second, in
// batches of 2,000, URLs taken and done a second, 16 of each of 100 hosts at a time, and the bytes
// of a URL that waits, indexes included.
func BenchmarkCrawl(b *testing.B) {
	own, err := pgtest.Start(b.Context(), "fsync=on", "shared_buffers=512MB", "max_wal_size=4GB")
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := own.Stop(); err != nil {
			b.Error(err)
		}
	}()
	q, err := Open(b.Context(), own.URL, "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	const urls, hosts = 200_000, 100
	for range b.N {
		began := time.Now()
		for from := 0; from < urls; from += batch {
			reqs := make([]crawl.Request, batch)
			for i := range reqs {
				host := fmt.Sprintf("www.host-%03d.example", i%hosts)
				reqs[i] = crawl.Request{Host: host, URL: fmt.Sprintf("https://%s/a/page/of/some/length/%011d.html", host, from+i), Depth: 3}
			}
			if _, _, err := q.Add(b.Context(), reqs); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(urls/time.Since(began).Seconds(), "adds/s")
		var size int64
		if err := q.db.QueryRow(b.Context(), "SELECT pg_total_relation_size('politeness_url')").Scan(&size); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size)/urls, "B/URL")

		names, _, err := q.Hosts(b.Context(), hosts)
		if err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		taken, before := 0, []crawl.Result(nil)
		for time.Since(began) < 10*time.Second {
			got, err := q.Take(b.Context(), names, 16)
			if err != nil {
				b.Fatal(err)
			}
			if taken += len(got); len(got) == 0 {
				break
			}
			if err := q.Done(b.Context(), before); err != nil { // so each host has some under way, and stays this process's
				b.Fatal(err)
			}
			before = before[:0]
			for _, r := range got {
				before = append(before, crawl.Result{Request: r, Outcome: crawl.Visited, Status: 200})
			}
		}
		b.ReportMetric(float64(taken)/time.Since(began).Seconds(), "takes/s")
		if err := q.Clear(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
