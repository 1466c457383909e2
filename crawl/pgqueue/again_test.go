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

// TestADuePageIsLentOnce: of two processes one fetches it. When that one dies, the other has it soon.
func TestADuePageIsLentOnce(t *testing.T) {
	ctx := t.Context()
	const lease = 8 * time.Second // longer than a busy machine stops this test
	var processes [2]*Queue
	for i := range processes {
		q, err := open(ctx, server.URL, t.Name(), lease)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(q.db.Close)
		processes[i] = q
	}
	take := func(q *Queue) []crawl.Request {
		t.Helper()
		if _, _, err := q.Hosts(ctx, 10); err != nil {
			t.Fatal(err)
		}
		got, err := q.Take(ctx, []string{"a.example"}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	add(t, processes[0], numbered("a.example", 1)...)
	first := take(processes[0])
	if len(first) != 1 {
		t.Fatalf("taken %v", first)
	}
	first[0].State = "remembered"
	due := time.Now().Add(time.Second)
	err := processes[0].Done(ctx, []crawl.Result{{Request: first[0], Outcome: crawl.Visited, Again: due}})
	if err != nil {
		t.Fatal(err)
	}
	holder := -1
	for range 30 {
		for i, q := range processes {
			got := take(q)
			switch {
			case len(got) == 0:
				continue
			case holder >= 0:
				t.Fatalf("lent to process %d and then to %d", holder, i)
			case got[0].State != "remembered":
				t.Errorf("lent with the State %q", got[0].State)
			}
			holder = i
		}
		time.Sleep(100 * time.Millisecond)
	}
	if holder < 0 {
		t.Fatal("it was due, and lent to nobody")
	}
	processes[holder].db.Close() // as a kill does, without a word to the others
	killed := time.Now()
	other := processes[1-holder]
	for len(take(other)) == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("lent to the other after %v", time.Since(killed))
}
