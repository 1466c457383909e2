package sqlitequeue_test

import (
	"path/filepath"
	"testing"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/queuetest"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
)

// TestQueue holds what every Queue promises. Make sqlite runs it with ten million URLs.
func TestQueue(t *testing.T) {
	files := make(map[*testing.T]string)
	last := make(map[*testing.T]*sqlitequeue.Queue)
	queuetest.Run(t, func(t *testing.T) crawl.Queue {
		if files[t] == "" {
			files[t] = filepath.Join(t.TempDir(), "urls ?#%.db")
		} else if err := last[t].Close(); err != nil { // which writes nothing: it is as a kill
			t.Fatal(err)
		}
		q, err := sqlitequeue.Open(files[t])
		if err != nil {
			t.Fatal(err)
		}
		last[t] = q
		t.Cleanup(func() { _ = q.Close() })
		return q
	})
}
