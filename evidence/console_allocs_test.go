//go:build !race

// The race detector keeps the compiler from leaving values on the stack.

package evidence_test

import (
	"testing"

	"github.com/go-politeness/politeness/evidence"
)

// TestALineAllocatesItsTextsAlone: both of its parts are texts, and the list of them isn't allocated.
func TestALineAllocatesItsTextsAlone(t *testing.T) {
	d := evidence.Decision{Type: evidence.HostBlocked, Host: "a.example", Status: 200, Location: "/b"}
	if n := testing.AllocsPerRun(100, func() { _ = d.String() }); n > 8 {
		t.Errorf("%v allocations", n)
	}
}
