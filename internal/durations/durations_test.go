package durations_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/durations"
)

func TestCheck(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", time.Microsecond: "", 20 * time.Microsecond: "", 100*time.Microsecond + 1: "", time.Hour: "",
		-time.Second: "TTL: -1s is negative",
		1:            "TTL: 1ns are nanoseconds: did you mean 1s?",
		60:           "TTL: 60ns are nanoseconds: did you mean 60s?",
		3600:         "TTL: 3600ns are nanoseconds: did you mean 3600s?",
		86400:        "TTL: 86400ns are nanoseconds: did you mean 86400s?",
	} {
		got := ""
		if err := durations.Check("TTL", d); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Check(%d): %q, want %q", d, got, want)
		}
	}
}

func TestSecondsAsJSON(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", time.Second: "1", 1500 * time.Millisecond: "1.5", time.Nanosecond: "1e-9", 5000 * time.Hour: "18000000"} {
		text, err := json.Marshal(durations.Seconds(d))
		if err != nil || string(text) != want {
			t.Errorf("%v as JSON: %s, %v, want %s", d, text, err, want)
		}
		var again durations.Seconds
		if err := json.Unmarshal(text, &again); err != nil || time.Duration(again) != d {
			t.Errorf("%v read again: %v, %v", d, time.Duration(again), err)
		}
	}
	if err := json.Unmarshal([]byte(`"1s"`), new(durations.Seconds)); err == nil {
		t.Error("a text is read")
	}
}
