package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"

	"github.com/go-politeness/politeness/hostlimit/memory"
)

// robots.txt is fetched before anybody knows of a crawl-delay; the page after it
// owes that delay to the fetch, also when MaxHosts pushes for room in between.
func TestCrawlDelayLearnedFromAStartIsOwedToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := memory.New(hostlimit.Config{MaxHosts: 1})
		if err != nil {
			t.Fatal(err)
		}
		start := func(key string, floor time.Duration) time.Time {
			l, err := m.Acquire(t.Context(), key, floor)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if _, err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Now()
		}
		fetched := start("example.com", 0)
		time.Sleep(5 * time.Second)
		for i := range 10_000 {
			start(fmt.Sprint(i), 0)
		}
		if gap := start("example.com", 30*time.Second).Sub(fetched); gap < 30*time.Second {
			t.Errorf("started %v after the fetch that taught a crawl-delay of 30 s", gap)
		}
	})
}

func TestMemoryMadeOutsideOfABubbleWorksInside(t *testing.T) {
	m, err := memory.New(hostlimit.Config{Delay: hostlimit.Delay{Min: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 3 {
			l, err := m.Acquire(t.Context(), "example.com", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.Release()
		}
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("three starts took %v, want 2 min", took)
		}
	})
}
