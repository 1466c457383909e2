package accesslog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

// TestABurstThatDurationsExplainIsTold: a crawler that asks for ten pages at once can write starts and
// durations into its evidence that spread them. The site's own times show the burst, and the comparison
// says what rests on the evidence alone. A crawl of slow pages on a server that notes ends looks the
// same, and isn't called a liar.
func TestABurstThatDurationsExplainIsTold(t *testing.T) {
	const told = "The access log notes 9 requests to a.example sooner than 10 s after the one before, the soonest after 0 s. " +
		"If it notes when a request ends, they were 10 s apart by the durations in the evidence. " +
		"The access log itself doesn't show that.\n"
	spread := ""
	var burst []string
	for i := range 10 {
		spread += fmt.Sprintf("%d start %d agent=TestBot\n%d end %d\n", 10*i, i, 95, i)
		burst = append(burst, accessLineOf(95, fmt.Sprintf("/%d", i)))
	}
	c := compare(t, write(t, spread), burst, accesslog.Options{})
	if len(c.Unshown) != 1 || !strings.Contains(c.String(), told) || c.Closer != nil {
		t.Errorf("a burst: %v", c)
	}
	if !c.OK() {
		t.Errorf("a server that notes ends: %v", c)
	}
	var fields struct{ Unshown []string }
	if b, err := json.Marshal(c); err != nil || json.Unmarshal(b, &fields) != nil || len(fields.Unshown) != 1 {
		t.Errorf("%v, %v", fields, err)
	}
}

// TestGapsThatTheAccessLogShows: nothing depends on the evidence where the site's own times are as far
// apart as the evidence has the starts, and whole seconds make no difference.
func TestGapsThatTheAccessLogShows(t *testing.T) {
	log := ""
	var access []string
	for i := range 10 {
		log += fmt.Sprintf("%d start %d agent=TestBot\n%d.9 end %d\n", 10*i, i, 10*i, i)
		access = append(access, accessLineOf(10*i+i%2, fmt.Sprintf("/%d", i)))
	}
	if c := compare(t, write(t, log), access, accesslog.Options{}); !c.OK() || c.Unshown != nil || c.Closer != nil {
		t.Error(c)
	}
}

// TestGapsAreOfTheHostThatWasAskedFor: hosts are paced one by one, so two names of one server may be
// asked at once.
func TestGapsAreOfTheHostThatWasAskedFor(t *testing.T) {
	log := twoNames(t)
	access := accessOfTwoNames(func(string) string { return "example.com " })
	if c := compare(t, log, access, accesslog.Options{}); c.Closer != nil || c.Unshown != nil {
		t.Error(c)
	}
}
