package budget_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-politeness/politeness/budget"
)

// TestUsageAsJSON has each limit beside what was spent of it, and times in seconds.
func TestUsageAsJSON(t *testing.T) {
	for want, usage := range map[string]budget.Usage{
		`{"pages":0,"maxPages":0,"maxPagesPerHost":0,"bytes":0,"maxBytes":0,"seconds":0,"maxSeconds":0}`: {},
		`{"pages":3,"maxPages":10,"maxPagesPerHost":2,"bytes":5,"maxBytes":100,"seconds":1.5,"maxSeconds":3600,` +
			`"started":"2026-11-21T12:00:00Z","warnAt":0.8,"every":86400}`: {
			Limits: budget.Limits{
				Pages: 10, PagesPerHost: 2, Bytes: 100, Duration: time.Hour, WarnAt: 0.8, Every: 24 * time.Hour,
			},
			Pages:   3,
			Bytes:   5,
			Started: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
			Elapsed: 1500 * time.Millisecond,
		},
	} {
		text, err := json.Marshal(usage)
		if err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
		var again budget.Usage
		if err := json.Unmarshal(text, &again); err != nil || again != usage {
			t.Errorf("read again: %+v, %v, want %+v", again, err, usage)
		}
	}
	if err := json.Unmarshal([]byte(`{"seconds":"1s"}`), new(budget.Usage)); err == nil {
		t.Error("a time that is a text is read")
	}
}
