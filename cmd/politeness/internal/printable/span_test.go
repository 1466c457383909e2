package printable

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 1500: "1.5 µs", 300 * time.Millisecond: "300 ms", 999999 * time.Microsecond: "1 s", 1500 * time.Millisecond: "1.5 s",
		59999 * time.Millisecond: "1 min", 125 * time.Second: "2 min 5 s", time.Hour - time.Millisecond: "1 h",
		2*time.Hour - time.Second: "2 h", 90 * time.Minute: "1 h 30 min", 100 * time.Hour: "100 h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
