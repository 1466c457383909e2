package promises_test

// The acceptance tests of Responsive, a tutorial crawler, in the words of its
// owner's description: delay = max(random in [0.5, 1.5] x politeness delay,
// crawl-delay, (last response time in s)^2), safe under concurrency.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
)

func responsive() politeness.Config { return politeness.Responsive(agent) }

func TestResponsiveDelayIsRandomFromHalfToOneAndAHalfTimesThePolitenessDelay(t *testing.T) {
	acceptance(t, responsive, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		for i := range 180 {
			b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200)
		}
		gaps := b.gaps()
		// 180 draws leave a tenth of the range empty at either end once in 80 million runs.
		if least, most := slices.Min(gaps), slices.Max(gaps); !within(least, 500*time.Millisecond, 600*time.Millisecond) ||
			!within(most, 1400*time.Millisecond, 1500*time.Millisecond) {
			b.Errorf("gaps of %v to %v, want random ones of 0.5 to 1.5 s", least, most)
		}
	})
}

func TestResponsiveDelayIsCrawlDelayWhereThatIsLonger(t *testing.T) {
	acceptance(t, responsive, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 4\n").Handle("/", http.HandlerFunc(everywhere)).Latency(1900 * time.Millisecond)
		for i := range 5 {
			b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200)
		}
		for _, gap := range b.gaps() {
			if gap != 1900*time.Millisecond+4*time.Second {
				b.Errorf("a gap of %v, want 4 s from the end of one to the start of the next: more than the 3.61 s by response time", gap)
			}
		}
	})
}

func TestResponsiveDelayIsTheSquareOfTheLastResponseTimeWhereThatIsLonger(t *testing.T) {
	acceptance(t, patient(responsive), func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		b.know()
		for _, test := range []struct {
			latency, least, most time.Duration
		}{
			{3 * time.Second, 9 * time.Second, 9 * time.Second},
			{10 * time.Second, 100 * time.Second, 100 * time.Second},
			{20 * time.Second, 400 * time.Second, 400 * time.Second},                  // 6 min 40 s
			{100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond}, // it comes back down
			{90 * time.Second, 8100 * time.Second, 8100 * time.Second},
		} {
			b.site.Latency(test.latency)
			b.mustGet("https://example.com/1", 200)
			b.site.Latency(0)
			b.mustGet("https://example.com/2", 200)
			gaps := b.gaps()
			if gap := gaps[len(gaps)-1] - test.latency; !within(gap, test.least, test.most) {
				b.Errorf("a gap of %v after an answer that took %v, want %v to %v", gap, test.latency, test.least, test.most)
			}
		}
	})
}

func TestResponsiveIsSafeUnderConcurrency(t *testing.T) {
	acceptance(t, responsive, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere)).Latency(1500 * time.Millisecond)
		b.fetchAll(50)
		for i, gap := range b.gaps() {
			if gap < 2250*time.Millisecond {
				b.Errorf("gap %d is %v, want at least 2.25 s", i, gap)
			}
		}
		b.web.Check(b, politenesstest.Rules{Delay: 2250 * time.Millisecond, Concurrency: 1})
	})
}

// The politeness delay itself can be set from outside; it stays random in [0.5, 1.5] times that.
func TestResponsivePolitenessDelayFromTheEnvironment(t *testing.T) {
	setenv(t, map[string]string{"ROBOTS_DEFAULT_DELAY_SECONDS": "5"})
	acceptance(t, func() politeness.Config {
		c, err := responsive().WithEnv()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		b.know()
		b.mustGet("https://example.com/1", 200)
		b.site.Latency(4 * time.Second)
		b.mustGet("https://example.com/2", 200)
		b.mustGet("https://example.com/3", 200)
		gaps := b.gaps()
		for _, gap := range gaps[:2] {
			if !within(gap, 2500*time.Millisecond, 7500*time.Millisecond) {
				b.Errorf("a gap of %v, want 2.5 to 7.5 s", gap)
			}
		}
		if len(gaps) != 3 || gaps[2] != 4*time.Second+16*time.Second {
			b.Errorf("gaps %v, want the third to be 16 s from the end of an answer that took 4 s", gaps)
		}
		b.site.Latency(0)
		for i := range 180 {
			b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200)
		}
		gaps = b.gaps()[5:] // without those that the two slow answers made
		// 180 draws leave a tenth of the range empty at either end once in 80 million runs.
		if least, most := slices.Min(gaps), slices.Max(gaps); !within(least, 2500*time.Millisecond, 3*time.Second) ||
			!within(most, 7*time.Second, 7500*time.Millisecond) {
			b.Errorf("gaps of %v to %v, want random ones of 2.5 to 7.5 s", least, most)
		}
	})
}

// A server that hangs isn't asked again at once: the time without an answer counts.
func TestResponsiveLeavesAServerAloneThatHangs(t *testing.T) {
	acceptance(t, responsive, func(b *bubble) {
		b.site.Page("/", "page")
		b.know()
		time.Sleep(10 * time.Second)
		b.site.Latency(time.Hour)
		ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
		defer cancel()
		if _, err := fetch(ctx, b.client, "https://example.com/"); !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("hanging: %v", err)
		}
		hung := time.Now()
		b.site.Latency(0)
		b.mustGet("https://example.com/", 200)
		if waited := time.Since(hung); waited != 900*time.Second {
			b.Errorf("asked again %v after 30 s without a response, want 900 s", waited)
		}
	})
}
