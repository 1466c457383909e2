package backoff_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness/backoff"
)

// The steps are BackOffs of cenkalti's package.
var (
	_ cenkalti.BackOff = backoff.Fibonacci{}.BackOff()
	_ cenkalti.BackOff = backoff.Doubling{}.BackOff()
	_ cenkalti.BackOff = backoff.Refusals{}.BackOff()
)

const (
	s    = time.Second
	m    = time.Minute
	h    = time.Hour
	most = time.Duration(math.MaxInt64)
)

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy backoff.Policy
		want   []time.Duration // of attempts 1, 2, 3...
		last   time.Duration   // of attempt math.MaxInt
	}{
		{
			"Fibonacci",
			backoff.Fibonacci{},
			[]time.Duration{1 * s, 1 * s, 2 * s, 3 * s, 5 * s, 8 * s, 13 * s, 21 * s, 34 * s, 55 * s, 89 * s, 144 * s, 233 * s, 377 * s, 600 * s, 600 * s},
			600 * s,
		},
		{"Fibonacci of minutes", backoff.Fibonacci{Unit: m, Cap: 4 * m}, []time.Duration{m, m, 2 * m, 3 * m, 4 * m}, 4 * m},
		{"Fibonacci, cap between steps", backoff.Fibonacci{Unit: 2 * s, Cap: 7 * s}, []time.Duration{2 * s, 2 * s, 4 * s, 6 * s, 7 * s}, 7 * s},
		{"Fibonacci, cap below the unit", backoff.Fibonacci{Unit: m, Cap: s}, []time.Duration{s, s}, s},
		{"Fibonacci without bound", backoff.Fibonacci{Unit: 1, Cap: most}, []time.Duration{1, 1, 2}, most},
		{"Fibonacci, huge unit", backoff.Fibonacci{Unit: most / 2, Cap: most}, []time.Duration{most / 2, most / 2, most - 1, most}, most},
		{
			"Doubling",
			backoff.Doubling{},
			[]time.Duration{15 * m, 30 * m, 1 * h, 2 * h, 4 * h, 8 * h, 16 * h, 24 * h, 24 * h},
			24 * h,
		},
		{"Doubling, cap below the start", backoff.Doubling{Start: h, Cap: m}, []time.Duration{m, m}, m},
		{"Doubling without bound", backoff.Doubling{Start: 1, Cap: most}, []time.Duration{1, 2, 4}, most},
		{"Doubling, cap no power of two", backoff.Doubling{Start: 3, Cap: 7}, []time.Duration{3, 6, 7, 7}, 7},
		{"Refusals", backoff.Refusals{}, []time.Duration{1 * s, 1 * s, 2 * s}, 600 * s},
		{"Refusals with a policy", backoff.Refusals{Policy: backoff.Doubling{}}, []time.Duration{15 * m, 30 * m}, 24 * h},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := c.policy.(interface{ BackOff() *backoff.Steps }).BackOff()
			for range 2 {
				for i, want := range c.want {
					if d := c.policy.Delay(i + 1); d != want {
						t.Errorf("attempt %d: %v, want %v", i+1, d, want)
					}
					if d := steps.NextBackOff(); d != want {
						t.Errorf("step %d: %v, want %v", i+1, d, want)
					}
				}
				steps.Reset()
			}
			if d := c.policy.Delay(math.MaxInt); d != c.last {
				t.Errorf("in the end: %v, want %v", d, c.last)
			}
			for _, i := range []int{0, -1, math.MinInt} {
				if d := c.policy.Delay(i); d != 0 {
					t.Errorf("attempt %d: %v, want none", i, d)
				}
			}
		})
	}
}

func TestDoublingJitterStaysWithinItsShares(t *testing.T) {
	d := backoff.Doubling{Start: time.Hour, Cap: 24 * time.Hour, Jitter: [2]float64{0.10, 0.20}}
	for attempt := 1; attempt < 10; attempt++ {
		step := backoff.Doubling{Start: time.Hour}.Delay(attempt)
		seen := make(map[time.Duration]bool)
		for range 200 {
			got := d.Delay(attempt)
			if least, most := step+step/10, step+step/5; got < least || got > most {
				t.Fatalf("attempt %d: %v, want %v to %v", attempt, got, least, most)
			}
			seen[got] = true
		}
		if len(seen) < 100 {
			t.Errorf("attempt %d: only %d of 200 delays differ", attempt, len(seen))
		}
	}
	half := backoff.Doubling{Start: 1 << 62, Cap: 1 << 62, Jitter: [2]float64{1, 1}}
	if got := half.Delay(1); got != most {
		t.Errorf("jitter up to just beyond the largest duration: %v", got)
	}
	huge := backoff.Doubling{Start: most, Cap: most, Jitter: [2]float64{1, 1}}
	if got := huge.Delay(1); got != most {
		t.Errorf("jitter on the largest duration: %v", got)
	}
}

func TestRefusalsDefaults(t *testing.T) {
	want := backoff.Refusals{
		Policy: backoff.Fibonacci{}.WithDefaults(), InARow: 5, MaxRetryAfter: 24 * time.Hour, Forgive: 30 * time.Minute,
	}
	if got := (backoff.Refusals{}).WithDefaults(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRefusalsCount(t *testing.T) {
	r := backoff.Refusals{Statuses: append([]int{403, 503}, backoff.Range(520, 530)...)}
	for status, want := range map[int]bool{429: true, 403: true, 503: true, 519: false, 520: true, 530: true, 531: false, 200: false, 0: false} {
		if r.Counts(status) != want {
			t.Errorf("status %d counts: %v", status, !want)
		}
	}
	if (backoff.Refusals{}).Counts(503) || !(backoff.Refusals{}).Counts(429) {
		t.Error("by default, 429 counts and nothing else")
	}
	if len(backoff.Range(2, 1)) != 0 {
		t.Error("an empty range isn't")
	}
}

func TestValidateNamesEveryField(t *testing.T) {
	for _, c := range []struct {
		policy interface{ Validate() error }
		fields []string
	}{
		{backoff.Fibonacci{}, nil},
		{backoff.Fibonacci{Unit: -1, Cap: -1}, []string{"Unit", "Cap"}},
		{backoff.Doubling{}, nil},
		{backoff.Doubling{Jitter: [2]float64{0.1, 0.2}}, nil},
		{backoff.Doubling{Start: -1, Cap: -1, Jitter: [2]float64{0.2, 0.1}}, []string{"Start", "Cap", "Jitter"}},
		{backoff.Doubling{Jitter: [2]float64{math.NaN(), math.NaN()}}, []string{"Jitter"}},
		{backoff.Doubling{Jitter: [2]float64{0, math.Inf(1)}}, []string{"Jitter"}},
		{backoff.Doubling{Jitter: [2]float64{-0.1, 0}}, []string{"Jitter"}},
		{backoff.Doubling{Jitter: [2]float64{1, 1}}, nil},
		{backoff.Doubling{Jitter: [2]float64{0, 1.01}}, []string{"Jitter"}},
		{backoff.Refusals{Statuses: []int{100, 403, 999}, InARow: math.MaxUint16}, nil},
		{backoff.Refusals{}, nil},
		{backoff.Refusals{InARow: -1}, []string{"InARow"}},
		{backoff.Refusals{Policy: (*backoff.Doubling)(nil)}, []string{"Policy: is a nil *backoff.Doubling"}},
		{backoff.Refusals{InARow: math.MaxUint16 + 1}, []string{"InARow"}},
		{backoff.Refusals{Statuses: []int{1000}}, []string{"Statuses"}},
		{
			backoff.Refusals{Statuses: []int{99}, MaxRetryAfter: -1, Forgive: -1, Policy: backoff.Fibonacci{Unit: -1}},
			[]string{"Statuses", "MaxRetryAfter", "Forgive", "Policy: Unit"},
		},
	} {
		err := c.policy.Validate()
		if (err != nil) != (len(c.fields) > 0) {
			t.Errorf("%+v: %v", c.policy, err)
		}
		for _, f := range c.fields {
			if !strings.Contains(err.Error(), f) {
				t.Errorf("%+v: %v, which doesn't name %s", c.policy, err, f)
			}
		}
	}
}

// The retry loop of cenkalti's package takes the steps.
func TestStepsInARetryLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		tries := 0
		err := cenkalti.Retry(func() error {
			if tries++; tries < 6 {
				return errors.New("not yet")
			}
			return nil
		}, backoff.Fibonacci{}.BackOff())
		if d := time.Since(begin); err != nil || d != 12*time.Second {
			t.Errorf("%v after %v, want success after 1+1+2+3+5 s", err, d)
		}
	})
}

// TestLongest: the cap of a policy of this package, defaults filled in, and none of the user's own.
func TestLongest(t *testing.T) {
	for _, c := range []struct {
		r    backoff.Refusals
		want time.Duration
	}{
		{backoff.Refusals{}, 10 * time.Minute},
		{backoff.Refusals{Policy: backoff.Fibonacci{Cap: time.Second}}, time.Second},
		{backoff.Refusals{Policy: backoff.Doubling{}}, 24 * time.Hour},
		{backoff.Refusals{Policy: &backoff.Doubling{Cap: time.Minute}}, time.Minute},
		{backoff.Refusals{Policy: &backoff.Fibonacci{}}, 10 * time.Minute},
		{backoff.Refusals{Policy: (*backoff.Fibonacci)(nil)}, math.MaxInt64}, // which Validate refuses
		{backoff.Refusals{Policy: backoff.Refusals{}}, math.MaxInt64},
	} {
		if got := c.r.Longest(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.r, got, c.want)
		}
	}
}
