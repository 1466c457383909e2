package sqlitequeue_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// Rows that somebody has put into the file lead a crawl to nothing but GET requests by http and
// https, once each and without credentials. They cost no other page.
func TestRowsThatSomebodyHasPutIntoTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "urls.db")
	q, err := sqlitequeue.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var honest []crawl.Request
	for i := range 5 {
		honest = append(honest, crawl.Request{URL: fmt.Sprintf("https://example.com/%d", i), Host: "example.com"})
	}
	if _, _, err := q.Add(t.Context(), honest); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	for i, url := range []string{
		"", "x", "/etc/passwd", "file:///etc/passwd", "javascript:alert(1)", "ftp://evil.example/", "https://", "http://[::1", "\x1b[2J",
		"https://user:secret@evil.example/", "https://evil.example/\r\nX: y", "https://evil.example/\u202e", "https://evil.example/" + strings.Repeat("a", 1<<20),
		"HTTPS://EXAMPLE.COM:443/other-spelling", "https://evil.example/'; DROP TABLE url; --",
	} {
		host := []string{"evil.example", "example.com", "", "\x00"}[i%4] // mostly not that of the URL
		const hosts = "INSERT INTO host (name, next) VALUES (?, 0) ON CONFLICT (name) DO UPDATE SET next = 0"
		const urls = "INSERT INTO url (hash, url, host, depth, priority, due) SELECT ?, ?, id, ?, ?, 0 FROM host WHERE name = ?"
		if _, err := db.ExecContext(t.Context(), hosts, host); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), urls, i, url, int64(-1<<40), int64(1<<40), host); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if q, err = sqlitequeue.Open(path); err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	web := politenesstest.NewWeb()
	web.Site("https://example.com").Robots("").Handle("/", politenesstest.Text("page"))
	web.Site("https://evil.example").Robots("").Handle("/", politenesstest.Text("page"))
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      web,
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var visited sync.Map
	crawler, err := crawl.New(crawl.Config{
		Transport: transport,
		Queue:     q,
		Visit: func(_ context.Context, p *crawl.Page) error {
			visited.Store(p.URL, true)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := crawler.Run(ctx); err != nil || ctx.Err() != nil {
		t.Error(err)
	}
	for _, r := range honest {
		if _, ok := visited.Load(r.URL); !ok {
			t.Errorf("%s isn't visited", r.URL)
		}
	}
	asked := make(map[string]bool)
	for _, r := range web.Requests() {
		if asked[r.URL] {
			t.Errorf("%.200q is asked for again", r.URL)
		}
		asked[r.URL] = true
		isWeb := strings.HasPrefix(r.URL, "https://example.com/") || strings.HasPrefix(r.URL, "https://evil.example/")
		if r.Method != http.MethodGet || !isWeb || len(r.URL) > 100<<10 || strings.ContainsAny(r.URL, "\r\n\x1b") {
			t.Errorf("%s %.200q", r.Method, r.URL)
		}
		if len(r.Header["Authorization"]) > 0 || len(r.Header["X"]) > 0 {
			t.Errorf("%.200q with %v", r.URL, r.Header)
		}
	}
}
