package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hostlimittest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/statuspage"
)

// TestTheLimiterKeepsEveryPromise of a limiter for its hosts. Each has an address of its own, which
// is hardly paced, but has the same slots.
func TestTheLimiterKeepsEveryPromise(t *testing.T) {
	hostlimittest.RunIn(t, synctest.Test, func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		unpaced := hostlimit.Config{
			Concurrency: 1000,
			LeaseTTL:    cfg.LeaseTTL,
			Delay:       hostlimit.Delay{DangerouslyNone: true, Adaptive: hostlimit.Fixed},
		}
		l, err := New(cfg, unpaced, func(host string) string { return "address of " + host })
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}

// TestHostsOfOneAddressArePacedAsOne, while those of another one go on.
func TestHostsOfOneAddressArePacedAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		begun := map[string][]string{}
		for line := range strings.Lines(out.String()) {
			if at, host, ok := strings.Cut(strings.TrimSuffix(line, " started\n"), " s  "); ok && strings.Contains(line, "started") {
				begun[addresses[host]] = append(begun[addresses[host]], strings.TrimSpace(at))
			}
		}
		shared := strings.Join(begun["192.0.2.1"], " ")
		alone := strings.Join(begun["192.0.2.2"], " ")
		if shared != "0.0 2.0 4.0 6.0" || alone != "0.0 2.0" {
			t.Errorf("starts at %s and at %s\n%s", shared, alone, out.String())
		}
		if want := "waits: address 192.0.2.1: delay of 2s"; !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	})
}

// TestTheStatusPageNamesTheWait by the limiter's own word.
func TestTheStatusPageNamesTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		for host := range addresses {
			web.Site("https://"+host).Page("/", "")
		}
		tr, err := transport(web, new(evidence.Recorder))
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: tr}
		fetch(t.Context(), client, "https://a.example/")
		go fetch(t.Context(), client, "https://b.example/")
		time.Sleep(time.Second)
		page := httptest.NewRecorder()
		statuspage.Handler(tr, "example.com").ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
		status := tr.Status(t.Context())
		text, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		if status.Waiting["address"] != 1 || !strings.Contains(string(text), `"why":"address 192.0.2.1: delay of 2s"`) {
			t.Errorf("%s", text)
		}
		if want := "address 192.0.2.1: delay of 2s"; !strings.Contains(page.Body.String(), want) {
			t.Errorf("no %q on the page:\n%s", want, page.Body)
		}
		time.Sleep(2 * time.Second)
	})
}
