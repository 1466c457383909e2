package promises_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// answersAlone answers every request itself, as a cache does, but for those that no cache knows.
type answersAlone struct{ under http.RoundTripper }

func (c answersAlone) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == "https" {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	}
	return c.under.RoundTrip(req)
}

// TestACallKnowsWhetherItsRequestCame to the Transport, and whether a client leads there at all.
func TestACallKnowsWhetherItsRequestCame(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/", "page")
		for _, c := range []struct {
			name         string
			rt           http.RoundTripper
			comes, leads bool
		}{
			{"the Transport", b.t, true, true},
			{"a cache above it", answersAlone{b.t}, false, true},
			{"a way past it", b.web, false, false},
		} {
			call := new(politeness.Call)
			if call.Reached(b.t) {
				b.Errorf("%s: before its request the call has come to the Transport", c.name)
			}
			if _, err := fetch(politeness.WithCall(b.Context(), call), &http.Client{Transport: c.rt}, "https://example.com/"); err != nil {
				b.Fatal(err)
			}
			comes, leads := call.Reached(b.t), b.t.IsReachedBy(b.Context(), c.rt)
			if comes != c.comes || leads != c.leads {
				b.Errorf("%s: comes there: %t, leads there: %t; want %t, %t", c.name, comes, leads, c.comes, c.leads)
			}
		}
		for _, d := range b.log.Decisions() {
			if strings.Contains(d.URL, "probe") {
				b.Errorf("on record: %+v", d)
			}
		}
	})
}

// TestACallKnowsWhatItsAnswerHasDone to the host.
func TestACallKnowsWhatItsAnswerHasDone(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/", "page").Handle("/busy", politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "60"))
		effect := func(path string) hostlimit.Effect {
			call := new(politeness.Call)
			if _, err := fetch(politeness.WithCall(b.Context(), call), b.client, "https://example.com"+path); err != nil {
				b.Fatal(err)
			}
			if call.Excused() {
				b.Errorf("%s says nothing about its host", path)
			}
			return call.Effect()
		}
		if e := effect("/"); e != (hostlimit.Effect{}) {
			b.Errorf("of a page: %+v", e)
		}
		if e := effect("/busy"); !e.Blocked || time.Until(e.Until).Round(time.Second) != time.Minute || e.Refusals != 1 {
			b.Errorf("of a 429: %+v", e)
		}
		if e := effect("/"); !e.Cleared {
			b.Errorf("of the page after it: %+v", e)
		}
	})
}

// TestACallThatIsMadeOnce is repeated by its caller alone, and its deadline is the host's time.
func TestACallThatIsMadeOnce(t *testing.T) {
	for _, once := range []bool{false, true} {
		virtually(t, politeness.Config{DangerouslyIgnoreRobots: true, Retry: politeness.Retry{Max: 2}}, func(b *bubble) {
			b.site.Handle("/broken", politenesstest.Status(http.StatusBadGateway)).
				Handle("/slow", politenesstest.Slow(time.Minute, politenesstest.Text("page")))
			call := &politeness.Call{Once: once}
			if _, err := fetch(politeness.WithCall(b.Context(), call), b.client, "https://example.com/broken"); err != nil {
				b.Fatal(err)
			}
			want := 3
			if once {
				want = 1
			}
			if sent := len(b.asked()); sent != want {
				b.Errorf("once: %t: sent %d times, want %d", once, sent, want)
			}
			ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
			defer cancel()
			call = &politeness.Call{Once: once}
			if _, err := fetch(politeness.WithCall(ctx, call), b.client, "https://example.com/slow"); err == nil {
				b.Error("an answer after a minute came within ten seconds")
			}
			if paused := call.Effect().Blocked; paused != once || call.Excused() {
				b.Errorf("once: %t: the host is paused: %t; excused: %t", once, paused, call.Excused())
			}
		})
	}
}

// TestACallIsExcusedWhoseWaitWasEnded, or that couldn't be sent at all.
func TestACallIsExcusedWhoseWaitWasEnded(t *testing.T) {
	cfg := politeness.Config{DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Minute}}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page")
		b.mustGet("https://example.com/", http.StatusOK)
		ends := make(chan struct{})
		time.AfterFunc(10*time.Second, func() { close(ends) })
		call := &politeness.Call{Until: ends}
		_, err := fetch(politeness.WithCall(b.Context(), call), b.client, "https://example.com/")
		failed(b.T, err, context.Canceled)
		if b.elapsed() != 10*time.Second || !call.Excused() || call.Effect() != (hostlimit.Effect{}) {
			b.Errorf("after %v it is excused: %t, effect %+v", b.elapsed(), call.Excused(), call.Effect())
		}
	})
}
