package pgqueue

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/revisit"
)

// TestWhatAgainMakesDueIsNoHint: the State says that the page is due, so an unchanged page doesn't
// count as a wrong hint. A page that a hint has made due does.
func TestWhatAgainMakesDueIsNoHint(t *testing.T) {
	ctx := t.Context()
	q, err := Open(ctx, server.URL, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	reqs := numbered("a.example", 2)
	add(t, q, reqs...)
	now := time.Now().Truncate(time.Second)
	far := now.Add(24 * time.Hour)
	visited := revisit.Page{Visited: now.Add(-2 * time.Hour), Earliest: now.Add(-time.Hour), Due: far}
	state, err := visited.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	take := func() crawl.Request {
		t.Helper()
		if _, _, err := q.Hosts(ctx, 10); err != nil { // claims the host
			t.Fatal(err)
		}
		got, err := q.Take(ctx, []string{"a.example"}, 1)
		if len(got) != 1 || err != nil {
			t.Fatalf("taken %v, %v", got, err)
		}
		return got[0]
	}
	done := func(r crawl.Request) {
		t.Helper()
		r.State = string(state)
		err := q.Done(ctx, []crawl.Result{{Request: r, Outcome: crawl.Visited, Again: far}})
		if err != nil {
			t.Fatal(err)
		}
	}
	due := func(r crawl.Request) time.Time {
		t.Helper()
		var page revisit.Page
		if err := page.UnmarshalBinary([]byte(r.State)); err != nil {
			t.Fatal(err)
		}
		return page.Due
	}
	done(take())
	done(take())
	hinted := crawl.Request{URL: reqs[0].URL, Host: "a.example", Modified: now}
	if _, _, err := q.Add(ctx, []crawl.Request{hinted}); err != nil {
		t.Fatal(err)
	}
	r := take()
	if !due(r).Equal(far) {
		t.Errorf("a hint has made the page due, and its State says %v, want %v", due(r), far)
	}
	done(r)
	if n, err := q.Again(ctx, now); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if r := take(); due(r).After(now) {
		t.Errorf("Again has made the page due, and its State says %v", due(r))
	}
}
