package hostlist_test

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/hostlist"
)

// TestBlockedByIsTheHostsOwn: of several hosts, and "" for one that isn't blocked or isn't known.
func TestBlockedByIsTheHostsOwn(t *testing.T) {
	hosts, err := hostlimit.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a.example", "b.example"} {
		if err := hosts.Block(t.Context(), host, time.Now().Add(time.Hour), "the owner of "+host); err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range []string{"a.example", "b.example", "c.example"} {
		want := ""
		if host != "c.example" {
			want = "by hand: the owner of " + host
		}
		got := hostlist.BlockedBy(t.Context(), hosts, host)
		if got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
