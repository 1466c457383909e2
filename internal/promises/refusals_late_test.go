package promises_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// TestARefusalThatOnlyTheTextShows: a caller that finds a captcha in the text of a page with status
// 200 blocks the host by Call.Refuse, as the headers would have. Each further one in a row blocks
// for longer, and the record has the caller's reason. The audit calls the block open.
func TestARefusalThatOnlyTheTextShows(t *testing.T) {
	var log bytes.Buffer
	virtually(t, politeness.Config{}, func(b *bubble) {
		sink := evidence.JSONLines(&log)
		cfg := politeness.Config{UserAgent: agent, Base: b.web, Evidence: evidence.Multi(b.log, sink)}
		transport, err := politeness.New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		client := &http.Client{Transport: transport}
		b.site.Robots("User-agent: *\n").Page("/", "Are you a robot?")
		for row := 1; row <= 5; row++ {
			var call politeness.Call
			ctx := politeness.WithCall(b.Context(), &call)
			if status, err := fetch(ctx, client, "https://example.com/"); status != http.StatusOK {
				b.Fatal(status, err)
			}
			effect := call.Refuse("a captcha")
			if !effect.Blocked || effect.Row != row || call.Effect() != effect {
				b.Errorf("captcha %d: %+v", row, effect)
			}
			if again := call.Refuse("a captcha"); again.Blocked {
				b.Errorf("captcha %d counts twice: %+v", row, again)
			}
		}
		blocks := b.log.Decisions(evidence.HostBlocked)
		for i, seconds := range []int{1, 1, 2, 3, 5} {
			d := blocks[i]
			const reason = "by the backoff policy: a captcha"
			length := d.Until.Sub(d.Time)
			if length != time.Duration(seconds)*time.Second || d.Reason != reason || !d.Late || d.Refusals != i+1 {
				b.Errorf("block %d: %v, %q, %+v", i+1, length, d.Reason, d)
			}
		}
		time.Sleep(10 * time.Second)
		if status, err := fetch(b.Context(), client, "https://example.com/"); status != http.StatusOK {
			b.Error(status, err)
		}
		if err := sink.Close(); err != nil {
			b.Error(err)
		}
	})
	report, err := audit.Check(&log)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Violations) > 0 {
		t.Errorf("violations: %v", report.Violations)
	}
	if !strings.Contains(report.String(), "found in the body of a response") {
		t.Errorf("the audit doesn't call the blocks open:\n%s", report)
	}
}

// TestABanThatOnlyTheCrawlerKnows: Call.Ban blocks for a minute, doubling, and a Call without an
// answer has nothing to refuse.
func TestABanThatOnlyTheCrawlerKnows(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\n").Page("/", "Who are you?")
		var call politeness.Call
		if effect := call.Ban("all pages are alike"); effect.Blocked {
			b.Errorf("before any answer: %+v", effect)
		}
		for row := 1; row <= 3; row++ {
			ctx := politeness.WithCall(b.Context(), &call)
			if status, err := fetch(ctx, b.client, "https://example.com/"); status != http.StatusOK {
				b.Fatal(status, err)
			}
			effect := call.Ban("all pages are alike")
			length := time.Until(effect.Until)
			if effect.Kind != "ban" || effect.Row != row || length != time.Minute<<(row-1) {
				b.Errorf("ban %d: %v, %+v", row, length, effect)
			}
		}
	})
}
