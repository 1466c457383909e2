package promises_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A budget with Every is kept with the state: runs one after another spend one window together,
// whether they end or are killed, and none is refused a page that an earlier run has given back.
func TestStateKeepsTheBudgetOverRuns(t *testing.T) {
	for name, ends := range map[string]bool{"runs that end": true, "runs that are killed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				web := politenesstest.NewWeb()
				web.Site("https://example.com").Handle("/", http.HandlerFunc(everywhere))
				var perDay []int
				for day := range 2 {
					got := 0
					for run := range 30 {
						tr := mustNew(t, politeness.Config{
							UserAgent: agent,
							Base:      web,
							Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Millisecond}},
							Spend:     budget.Limits{Pages: 100, Every: 24 * time.Hour},
						}.WithState(dir))
						client := &http.Client{Transport: tr}
						for i := range 7 {
							_, err := fetch(t.Context(), client, fmt.Sprintf("https://example.com/%d/%d/%d", day, run, i))
							var refused *politeness.Error
							switch {
							case err == nil:
								got++
							case !errors.Is(err, politeness.ErrBudget) || !errors.As(err, &refused) || refused.RetryAt.IsZero():
								t.Fatal(err)
							}
						}
						if ends {
							if err := tr.GiveBack(t.Context()); err != nil {
								t.Fatal(err)
							}
						}
					}
					perDay = append(perDay, got)
					time.Sleep(24 * time.Hour)
				}
				for _, got := range perDay {
					if got != 100 { // a block is one page here
						t.Errorf("%v pages a day, want 100", perDay)
					}
				}
			})
		})
	}
}

// A budget that can't be kept any more stops no request. The log says so, once.
func TestStateTellsThatABudgetIsLost(t *testing.T) {
	dir := t.TempDir()
	virtually(t, politeness.Config{Spend: budget.Limits{Pages: 1000, Every: time.Hour}}.WithState(dir), func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		if err := os.WriteFile(filepath.Join(dir, "budget"), nil, 0o600); err != nil {
			b.Fatal(err)
		}
		for i := range 50 {
			b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200)
		}
		lost := b.log.Decisions(evidence.StateLost)
		if len(lost) != 1 || !strings.Contains(lost[0].Reason, "budget") {
			b.Errorf("%+v", lost)
		}
		if err := b.t.EvidenceErr(); err == nil || !strings.Contains(err.Error(), "budget") {
			b.Error(err)
		}
	})
}
