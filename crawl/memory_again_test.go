package crawl

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/revisit"
)

// TestMemoryLendsAgain what is due, with its State, in the order of Priority and due time; a hint
// makes due what was modified since its visit, and what is final stays so.
func TestMemoryLendsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		m := newMemory(100)
		state := func(earliest, due time.Duration) string {
			p := revisit.Page{Visited: now.Add(-time.Hour), Earliest: now.Add(earliest)}
			if due > 0 {
				p.Due = now.Add(due)
			}
			return stateOf(p)
		}
		results := []Result{
			{Request: Request{URL: "first", State: "any"}, Again: now.Add(3 * time.Minute)},
			{Request: Request{URL: "high", Priority: 1}, Again: now.Add(4 * time.Minute)},
			{Request: Request{URL: "last"}, Again: now.Add(4 * time.Minute)},
			{Request: Request{URL: "hinted", State: state(2*time.Minute, 48*time.Hour)}, Again: now.Add(48 * time.Hour)},
			{Request: Request{URL: "gone", State: state(time.Minute, 0)}},
			{Request: Request{URL: "final"}},
			{Request: Request{URL: "left", State: "any"}, Outcome: Left, Again: now.Add(time.Minute)},
		}
		var reqs []Request
		for i := range results {
			results[i].Host = "h"
			reqs = append(reqs, Request{URL: results[i].URL, Host: "h", Priority: results[i].Priority})
		}
		_, _, _ = m.Add(t.Context(), reqs)
		_, _ = m.Take(t.Context(), []string{"h"}, 100)
		_ = m.Done(t.Context(), results)
		if m.kept != 5 {
			t.Errorf("%d URLs are kept, want 5", m.kept)
		}
		for i := range reqs {
			reqs[i].Modified = now
		}
		if added, _, _ := m.Add(t.Context(), reqs); added != 0 {
			t.Errorf("%d known URLs are added", added)
		}
		for _, want := range []struct {
			after time.Duration
			urls  string
		}{
			{time.Minute, "gone"}, {2 * time.Minute, "hinted"}, {3 * time.Minute, "first"}, {5 * time.Minute, "high last"},
		} {
			next, _ := m.Next(t.Context())
			if wake := now.Add(want.after); next.After(wake) {
				t.Errorf("the next is due at %v, after %v", next, wake)
			}
			if hosts, _, _ := m.Hosts(t.Context(), 10); len(hosts) != 0 {
				t.Errorf("hosts %q before %v", hosts, want.after)
			}
			time.Sleep(time.Until(now.Add(want.after)))
			if hosts, _, _ := m.Hosts(t.Context(), 10); len(hosts) != 1 {
				t.Errorf("hosts %q after %v", hosts, want.after)
			}
			taken, _ := m.Take(t.Context(), []string{"h"}, 100)
			var urls []string
			var done []Result
			for _, r := range taken {
				urls = append(urls, r.URL)
				done = append(done, Result{Request: r})
				if r.URL == "first" && r.State != "any" {
					t.Errorf("State %q", r.State)
				}
				done[len(done)-1].State = ""
			}
			_ = m.Done(t.Context(), done)
			if got := strings.Join(urls, " "); got != want.urls {
				t.Errorf("after %v %q, want %q", want.after, got, want.urls)
			}
		}
		if next, _ := m.Next(t.Context()); !next.IsZero() || m.kept != 0 || m.bytes != 0 || len(m.hosts) != 0 {
			t.Errorf("at the end %d URLs of %d bytes are kept, and the next is due at %v", m.kept, m.bytes, next)
		}
	})
}
