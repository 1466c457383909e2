package promises_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestRecordsOfOneInstantAreReadInTheirOrder: in virtual time a person lifts a block, and a request
// starts, at the very same time. The log has them in the order in which they came, and is proved.
func TestRecordsOfOneInstantAreReadInTheirOrder(t *testing.T) {
	const url = "https://example.com/"
	for name, steer := range map[string]func(b *bubble){
		"a block by hand, lifted": func(b *bubble) {
			b.mustGet(url, http.StatusOK)
			time.Sleep(time.Minute)
			b.block(b.elapsed() + time.Hour)
			b.lift()
		},
		"lifted later": func(b *bubble) {
			b.mustGet(url, http.StatusOK)
			b.block(b.elapsed() + time.Hour)
			time.Sleep(time.Minute)
			b.refusedByHand(url)
			b.lift()
		},
		"blocked, told, and lifted at once": func(b *bubble) {
			b.mustGet(url, http.StatusOK)
			time.Sleep(time.Minute)
			b.block(b.elapsed() + 10*time.Hour)
			b.refusedByHand(url)
			b.lift()
		},
		"told, lifted, blocked, told, lifted": func(b *bubble) {
			time.Sleep(time.Minute)
			for range 2 {
				b.block(b.elapsed() + 10*time.Hour)
				b.refusedByHand(url)
				b.lift()
				b.mustGet(url, http.StatusOK)
				time.Sleep(10 * time.Second)
			}
		},
		"a block of an answer, lifted by hand": func(b *bubble) {
			b.site.Handle("/busy", politenesstest.Status(429, "Retry-After", "600"))
			b.mustGet("https://example.com/busy", 429)
			time.Sleep(time.Minute)
			b.lift()
		},
		"a block of an answer, lifted at the same time": func(b *bubble) {
			b.site.Handle("/busy", politenesstest.Status(429, "Retry-After", "600"))
			b.mustGet("https://example.com/busy", 429)
			b.lift()
		},
	} {
		cfg := politeness.Config{}
		cfg.Hosts.MaxWait = time.Minute
		virtually(t, cfg, func(b *bubble) {
			b.site.Page("/", "page")
			steer(b)
			b.mustGet(url, http.StatusOK)
			b.mustGet(url, http.StatusOK)
			report, err := audit.Check(bytes.NewReader(logtest.Write(t, b.log.Decisions())))
			if err != nil || len(report.Violations) > 0 {
				b.Errorf("%s: %v, %v\n%s", name, report, err, logtest.Write(t, b.log.Decisions()))
			}
		})
	}
}

// block blocks the host by hand, until so long after the beginning.
func (b *bubble) block(until time.Duration) {
	b.Helper()
	if err := b.t.Limiter().Block(b.Context(), "example.com", b.began.Add(until), "a person did it"); err != nil {
		b.Fatal(err)
	}
}

// lift lifts all blocks of the host by hand.
func (b *bubble) lift() {
	b.Helper()
	if err := b.t.Limiter().Clear(b.Context(), "example.com"); err != nil {
		b.Fatal(err)
	}
}

// refusedByHand fails unless a block by hand refuses a page.
func (b *bubble) refusedByHand(url string) {
	b.Helper()
	if _, err := b.get(url); err == nil {
		b.Fatal("no block")
	}
}
