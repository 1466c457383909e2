package recorder_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/recorder"
)

func limiterID(context.Context) (limiter, process string) { return "0123456789abcdef", "" }

func TestANilRecorderWritesNothing(t *testing.T) {
	var r *recorder.Recorder
	r.Pass(t.Context(), &evidence.Decision{})
	r.TakenBack(t.Context(), []hostlimit.TakenBack{{Key: "example.com"}}, time.Now())
	r.State(t.Context(), "example.com", &hostlimit.Restored{}, &hostlimit.Debt{})
	if r.Err() != nil {
		t.Error("it has losses")
	}
}

// TestThePolicyComesFirst also where many goroutines write the first record.
func TestThePolicyComesFirst(t *testing.T) {
	log := new(evidence.Recorder)
	r := recorder.New(log, &evidence.Policy{UserAgent: "ExampleBot/1.0"}, limiterID)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { r.Pass(t.Context(), &evidence.Decision{Type: evidence.Started}) })
	}
	all.Wait()
	records := log.Decisions()
	policies := len(log.Decisions(evidence.PolicyStated))
	if len(records) != 21 || policies != 1 || records[0].Policy == nil || len(records[0].Policy.ID) < 10 {
		t.Fatalf("%d records, %d policies, the first: %+v", len(records), policies, records[0])
	}
	for _, d := range records {
		if d.Transport == "" || d.Transport != records[0].Policy.ID[:len(d.Transport)] {
			t.Errorf("a record of Transport %q, policy %s", d.Transport, records[0].Policy.ID)
		}
	}
}

// TestLimitsAreStatedWhereTheyChange of a host, and where it has none of its own any more.
func TestLimitsAreStatedWhereTheyChange(t *testing.T) {
	log := new(evidence.Recorder)
	r := recorder.New(log, &evidence.Policy{Overrides: true, Slots: 2}, limiterID)
	two, three := &hostlimit.Limits{Concurrency: 2}, &hostlimit.Limits{Concurrency: 3}
	for i, own := range []*hostlimit.Limits{nil, two, two, three, nil, nil, three} {
		r.Limits(t.Context(), "example.com", &hostlimit.Grant{Seq: uint64(i), Own: own})
		r.Limits(t.Context(), "example.org", &hostlimit.Grant{Seq: uint64(i)})
	}
	var stated []string
	for _, d := range log.Decisions(evidence.PolicyStated)[1:] {
		stated = append(stated, fmt.Sprint(d.Host, " ", d.Seq, ": ", d.Policy.Slots))
	}
	want := []string{"example.com 1: 2", "example.com 3: 3", "example.com 4: 2", "example.com 6: 3"}
	if !slices.Equal(stated, want) {
		t.Errorf("stated %q, want %q", stated, want)
	}
}
