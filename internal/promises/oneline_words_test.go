package promises_test

import (
	"bytes"
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// Whoever waits too long learns in the error's text what for.

// TestAWaitThatADeadlineEndsSaysWhatFor, on every path, from the first wait on.
func TestAWaitThatADeadlineEndsSaysWhatFor(t *testing.T) {
	hours := func(b *bubble) {
		b.site.Robots("User-agent: *\nVisit-time: 0600-0700\n")
		b.know()
	}
	for name, test := range map[string]struct {
		hosts hostlimit.Config
		setup func(b *bubble)
		words string
		hold  string
	}{
		"slot": {hostlimit.Config{SlotTimeout: time.Hour}, func(b *bubble) {
			b.know()
			for _, path := range []string{"/a", "/b"} {
				b.site.Handle(path, endless)
				resp := open(b.Context(), b.T, &http.Client{Transport: b.t}, "https://example.com"+path)
				b.Cleanup(func() { resp.Body.Close() })
			}
		}, "not started: 2 of 2 slots are in use, one for ", "slot"},
		"delay": {hostlimit.Config{}, func(b *bubble) {
			b.site.Robots("User-agent: *\nCrawl-delay: 60\n")
			b.mustGet("https://example.com/", 200)
		}, "not started: crawl-delay of 1m0s", "delay"},
		"block": {hostlimit.Config{}, func(b *bubble) {
			b.site.Handle("/busy", politenesstest.Status(429, "Retry-After", "60"))
			b.mustGet("https://example.com/busy", 429)
		}, "not started: the host is blocked (status 429)", "block"},
		"place": {hostlimit.Config{MaxInFlight: 1, SlotTimeout: time.Hour}, func(b *bubble) {
			b.know()
			b.web.Site("https://other.example").Handle("/", endless)
			resp := open(b.Context(), b.T, &http.Client{Transport: b.t}, "https://other.example/")
			b.Cleanup(func() { resp.Body.Close() })
			time.Sleep(time.Minute)
		}, "every place of MaxInFlight is taken", "place"},
		"hours":      {hostlimit.Config{MaxWait: 24 * time.Hour}, hours, "Visit-time", "visit-time"},
		"robots.txt": {hostlimit.Config{}, func(b *bubble) { b.site.Handle("/robots.txt", slow(20*time.Second)) }, "robots.txt is still being fetched", ""},
	} {
		for by, deadline := range map[string]func(b *bubble) context.Context{
			"a context": func(b *bubble) context.Context {
				ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
				b.Cleanup(cancel)
				return ctx
			},
			"a context with a cause": func(b *bubble) context.Context {
				ctx, cancel := context.WithTimeoutCause(b.Context(), 5*time.Second, errShutdown)
				b.Cleanup(cancel)
				return ctx
			},
			"http.Client.Timeout": func(b *bubble) context.Context {
				b.client.Timeout = 5 * time.Second
				return b.Context()
			},
		} {
			t.Run(name+" by "+by, func(t *testing.T) {
				virtually(t, politeness.Config{Timeouts: politeness.FromCall, Hosts: test.hosts}, func(b *bubble) {
					b.site.Page("/", "page")
					test.setup(b)
					_, err := fetch(deadline(b), b.client, "https://example.com/")
					if err == nil || !strings.Contains(err.Error(), test.words) {
						b.Errorf("%v, want %q in it", err, test.words)
					}
					if test.hold == "slot" && !strings.Contains(err.Error(), " by https://example.com/a; is its body closed?") {
						b.Errorf("%v doesn't name the holder", err)
					}
					var timeout net.Error
					if !errors.As(err, &timeout) || !timeout.Timeout() {
						b.Errorf("%v: Timeout is false", err)
					}
					if by != "http.Client.Timeout" && !errors.Is(err, context.DeadlineExceeded) { // of that it keeps only the text
						b.Errorf("%v isn't context.DeadlineExceeded", err)
					}
					if test.hold != "" && b.one(evidence.SlotTimeout).Hold != test.hold {
						b.Errorf("on record: %+v", b.one(evidence.SlotTimeout))
					}
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

// TestConsoleSaysOnceWhatManyRefusalsHaveInCommon, and what to change.
func TestConsoleSaysOnceWhatManyRefusalsHaveInCommon(t *testing.T) {
	var text bytes.Buffer
	virtually(t, politeness.Config{}, func(b *bubble) {
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: evidence.Console(&text)})
		b.site.Robots("User-agent: *\nCrawl-delay: 1\n").Page("/", "page")
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
		defer cancel()
		var pages sync.WaitGroup
		for range 51 {
			pages.Go(func() { _, _ = fetch(ctx, &http.Client{Transport: tr}, "https://example.com/") })
		}
		pages.Wait()
	})
	if n := strings.Count(text.String(), "not started  "); n != 4 || !strings.Contains(text.String(), "10 requests so far couldn't start in time (delay): more requests wait") {
		t.Errorf("%d lines:\n%s", n, &text)
	}
}

// TestWithoutEvidenceTheFirstRefusalIsLogged, once: else the pages are lost without a word.
func TestWithoutEvidenceTheFirstRefusalIsLogged(t *testing.T) {
	var text bytes.Buffer
	defer log.SetOutput(log.Default().Writer())
	log.SetOutput(&text)
	virtually(t, politeness.Config{}, func(b *bubble) {
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Hosts: hostlimit.Config{SlotTimeout: time.Hour}})
		b.site.Handle("/", endless)
		var held []*http.Response
		for range 2 {
			held = append(held, open(b.Context(), b.T, &http.Client{Transport: tr}, "https://example.com/held"))
		}
		for range 5 {
			ctx, cancel := context.WithTimeout(b.Context(), time.Second)
			if _, err := fetch(ctx, &http.Client{Transport: tr}, "https://example.com/"); err == nil {
				b.Error("it had a turn")
			}
			cancel()
		}
		for _, resp := range held {
			resp.Body.Close()
		}
	})
	want := "2 of 2 slots are in use, one for "
	if strings.Count(text.String(), "\n") != 1 || !strings.Contains(text.String(), want) || !strings.Contains(text.String(), "by https://example.com/held; is its body closed?") {
		t.Errorf("%q, want one line with %q", &text, want)
	}
}
