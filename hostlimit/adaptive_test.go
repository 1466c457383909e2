package hostlimit

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestAdaptivePrintsAsItsExpression(t *testing.T) {
	for want, a := range map[string]Adaptive{
		"Learned": {}, "Fixed": Fixed, "Squared": Squared, "Proportional(5)": Proportional(5), "Throttle(1.5)": Throttle(1.5), "Slower(1)": Slower(1),
		"Longest(Learned, Proportional(1))":               Longest(Proportional(1), Learned),
		"Longest(Learned, Longest(Squared, Throttle(2)))": Longest(Longest(Throttle(2), Squared), Longest(Throttle(3), Learned)),
	} {
		if got := fmt.Sprint(a); got != want {
			t.Errorf("printed as %s, want %s", got, want)
		}
	}
}

// TestLongestIsOneValue: however it was put together, it compares equal.
func TestLongestIsOneValue(t *testing.T) {
	for _, c := range []struct{ a, b Adaptive }{
		{Longest(Squared, Throttle(2)), Longest(Throttle(2), Squared)},
		{Longest(Squared, Fixed), Squared},
		{Longest(Fixed, Learned), Learned},
		{Longest(Proportional(1), Proportional(2)), Proportional(2)},
		{Longest(Proportional(2), Proportional(1)), Proportional(2)},
		{Longest(Slower(1), Slower(2)), Slower(2)},
		{Longest(Throttle(1), Throttle(2)), Throttle(1)},
		{Longest(Throttle(2), Throttle(1)), Throttle(1)},
	} {
		if c.a != c.b {
			t.Errorf("%v isn't %v", c.a, c.b)
		}
	}
}

// A window may end or begin at midnight, and go over it; it is a part of a day.
func TestWindowsOfADay(t *testing.T) {
	const h = time.Hour
	for w, valid := range map[Window]bool{
		{0, 24 * h}: true, {0, 1}: true, {h, 24 * h}: true, {22 * h, 0}: true, {24*h - 1, 0}: true, {22 * h, 6 * h}: true,
		{24 * h, h}: false, {h, 24*h + 1}: false, {-1, h}: false, {h, -1}: false, {h, h}: false, {0, 0}: false,
	} {
		err := Config{Windows: []Window{{0, h}, w}}.Validate()
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "Windows[1]") {
			t.Errorf("from %v to %v: %v", w.From, w.To, err)
		}
	}
}

func TestLimitsThatMakeNoSense(t *testing.T) {
	slots := int64(math.MaxInt32)
	for _, c := range []struct {
		own   Limits
		wrong string
	}{
		{Limits{}, ""},
		{Limits{Concurrency: int(slots)}, ""},
		{Limits{Concurrency: int(slots + 1)}, "Concurrency"}, // negative, where an int has 32 bits
		{Limits{Concurrency: -1}, "Concurrency"},
		{Limits{Delay: Delay{Min: 5 * time.Second, Max: 5 * time.Second}}, ""},
		{Limits{Delay: Delay{Min: 5 * time.Second, Max: 4 * time.Second}}, "Delay.Max"},
		{Limits{Delay: Delay{Min: 5 * time.Second, Ceiling: 5 * time.Second}}, ""},
		{Limits{Delay: Delay{Min: 5 * time.Second, Ceiling: 4 * time.Second}}, "Delay.Ceiling"},
		{Limits{Delay: Delay{DangerouslyNone: true}}, ""},
		{Limits{Delay: Delay{DangerouslyNone: true, Min: 1}}, "contradicts"},
		{Limits{Delay: Delay{DangerouslyNone: true, Max: 1}}, "contradicts"},
		{Limits{Concurrency: 1, Delay: Delay{FromEnd: true}}, ""},
		{Limits{Concurrency: 2, Delay: Delay{FromEnd: true}}, "Concurrency 1"},
	} {
		err := Config{Concurrency: c.own.Concurrency, Delay: c.own.Delay}.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c.own, err)
		}
	}
}
