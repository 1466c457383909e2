package robotscache

import (
	"testing"
	"time"
)

// TestWithDefaults: a zero field gets the value of its comment, any other one keeps its own.
func TestWithDefaults(t *testing.T) {
	zero := Config{TTL: time.Hour, DenyTTL: 5 * time.Minute, Timeout: 30 * time.Second, MaxBytes: 256 << 20}
	if got := (Config{}).WithDefaults(); got != zero {
		t.Errorf("%+v", got)
	}
	set := Config{
		TTL: 1, DenyTTL: 2, OnUnreachable: Allow, ServeStale: true, Timeout: 3, MaxBytes: 4,
		Store: Dir("robots"), LenientAgents: true, RecordText: true,
	}
	if got := set.WithDefaults(); got != set {
		t.Errorf("%+v", got)
	}
}
