package hostlimit_test

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/contexts"
)

func TestDue(t *testing.T) {
	if due := contexts.Due(t.Context()); !due.IsZero() {
		t.Errorf("due %v, and nobody says so", due)
	}
	want := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ctx := hostlimit.WithPriority(hostlimit.WithDue(t.Context(), want), 1)
	if due := contexts.Due(ctx); !due.Equal(want) {
		t.Errorf("due %v", due)
	}
}
