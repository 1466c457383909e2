package memory

import "testing"

func TestDrain(t *testing.T) {
	var d drain
	first := d.next()
	d.ended() // wakes nothing before Begin: no waiter counts on it
	select {
	case <-first:
		t.Error("woken before Begin")
	default:
	}
	if d.begin(); !d.isBegun() {
		t.Error("not begun")
	}
	if next := d.next(); next != first {
		t.Error("two waiters of one end have two channels")
	}
	d.ended()
	<-first
	if d.next() == first {
		t.Error("the next end has no channel of its own")
	}
}
