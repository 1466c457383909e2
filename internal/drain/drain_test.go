package drain_test

import (
	"testing"

	"github.com/go-politeness/politeness/internal/drain"
)

func TestDrain(t *testing.T) {
	var d drain.Drain
	first := d.Next()
	d.Ended() // wakes nothing before Begin: no waiter counts on it
	select {
	case <-first:
		t.Error("woken before Begin")
	default:
	}
	if d.Begin(); !d.Begun() {
		t.Error("not begun")
	}
	if next := d.Next(); next != first {
		t.Error("two waiters of one end have two channels")
	}
	d.Ended()
	<-first
	if d.Next() == first {
		t.Error("the next end has no channel of its own")
	}
}
