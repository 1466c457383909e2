package overrides

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

const overridesText = `# host              settings
example.com         delay=2s..4s
example.com:8080    concurrency=1
.example.org        delay=10s adaptive=learned+proportional(1) ceiling=5m
slow.example.org    concurrency=1 delay=30s from-end
fixed.example.org   delay=1s adaptive=FIXED
localhost           dangerously-no-delay concurrency=8
`

func overridesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOverridesAreReadFromAFile(t *testing.T) {
	o, err := Read(overridesFile(t, overridesText), hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]hostlimit.Limits{
		"example.com":      {Delay: hostlimit.Delay{Min: 2 * time.Second, Max: 4 * time.Second}},
		"example.com:81":   {Delay: hostlimit.Delay{Min: 2 * time.Second, Max: 4 * time.Second}},
		"example.com:8080": {Concurrency: 1},
		"www.example.org":  {Delay: hostlimit.Delay{Min: 10 * time.Second, Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(1)), Ceiling: 5 * time.Minute}},
		"slow.example.org": {Concurrency: 1, Delay: hostlimit.Delay{Min: 30 * time.Second, FromEnd: true}},
		"localhost":        {Concurrency: 8, Delay: hostlimit.Delay{DangerouslyNone: true}},
	}
	for key, want := range want {
		if got, ok := o.Limits(key); !ok || got != want {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
	if l, ok := o.Limits("example.net"); ok {
		t.Errorf("a host that isn't there has %+v", l)
	}
	// What is printed says the same.
	again, err := Read(overridesFile(t, o.String()), hostlimit.Config{})
	if err != nil {
		t.Fatalf("%v\n%s", err, o)
	}
	for key, want := range want {
		if got, _ := again.Limits(key); got != want {
			t.Errorf("%s is printed as\n%s", key, o)
		}
	}
}

// TestLimitsAreToldInShort: without what holds anyhow.
func TestLimitsAreToldInShort(t *testing.T) {
	for want, l := range map[string]hostlimit.Limits{
		"":                            {},
		"concurrency=1":               {Concurrency: 1},
		"delay=2s":                    {Delay: hostlimit.Delay{Min: 2 * time.Second, Max: 2 * time.Second}},
		"concurrency=3 delay=0s..1ms": {Concurrency: 3, Delay: hostlimit.Delay{Max: time.Millisecond}},
		"ceiling=1m0s":                {Delay: hostlimit.Delay{Ceiling: time.Minute}},
	} {
		if got := settings(l); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}

func TestOverridesSayWhatIsWrongAndWhere(t *testing.T) {
	for line, want := range map[string]string{
		"a.example":                               "no settings",
		"a.example delay":                         "delay=: want a time",
		"a.example delay=2":                       "delay=2: want a time",
		"a.example delay=0s":                      "dangerously-no-delay",
		"a.example delay=4s..2s":                  "Delay.Max",
		"a.example delay=1s delay=2s":             "said twice",
		"a.example concurrency=0":                 "from 1",
		"a.example concurrency=many":              "whole number",
		"a.example speed=9":                       `"speed=9" is none of`,
		"a.example ceiling=1m":                    "need a delay",
		"a.example delay=2m ceiling=1m":           "Delay.Ceiling",
		"a.example delay=1s adaptive=fast":        `"fast" is none of`,
		"a.example delay=1s adaptive=throttle(0)": "positive number",
		"a.example delay=1s from-end":             "Concurrency 1",
		"a.example delay=1s dangerously-no-delay": "contradicts",
		"a.example dangerously-no-delay=1h":       "is none of",
		"a.example delay=1s from-end=now":         "is none of",
		"http://a.example/ delay=1s":              "is a URL",
	} {
		_, err := Read(overridesFile(t, "# first\n"+line+"\n"), hostlimit.Config{})
		if err == nil || !strings.Contains(err.Error(), "line 2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	// from-end needs one slot, which a Config may give.
	if _, err := Read(overridesFile(t, "a.example delay=1s from-end"), hostlimit.Config{Concurrency: 1}); err != nil {
		t.Error(err)
	}
	if _, err := Read(overridesFile(t, ""), hostlimit.Config{Concurrency: -1}); err == nil {
		t.Error("a Config that makes no sense is accepted")
	}
}

// TestOverridesHoldForThoseWaiting, once the file has changed.
func TestOverridesHoldForThoseWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := overridesFile(t, "example.com delay=2s adaptive=fixed")
		o, err := Read(path, hostlimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := memory.New(hostlimit.Config{Override: o.Limits, MaxWait: 1000 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		starts := make(chan time.Time, 10)
		for range 10 {
			go func() {
				l, err := m.Acquire(t.Context(), "example.com", 0)
				if err != nil {
					t.Error(err)
					return
				}
				defer l.Release()
				g, err := l.Start(t.Context())
				if err != nil {
					t.Error(err)
				}
				starts <- g.Start
			}()
		}
		time.Sleep(5 * time.Second) // three have started
		if err := os.WriteFile(path, []byte("example.com delay=1h adaptive=fixed ceiling=1h"), 0o600); err != nil {
			t.Fatal(err)
		}
		var before time.Time
		for i := range 10 {
			start := <-starts
			want := time.Hour
			if i < 4 { // the gap before the fourth was promised with the delay of before
				want = 2 * time.Second
			}
			if i > 0 && start.Sub(before) != want {
				t.Errorf("start %d came %v after the one before, want %v", i+1, start.Sub(before), want)
			}
			before = start
		}
		if err := os.WriteFile(path, []byte("example.com delay=one hour"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if l, ok := o.Limits("example.com"); !ok || l.Delay.Min != time.Hour {
			t.Errorf("while the file is faulty: %v", l)
		}
		if err := o.Err(); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("a faulty file: %v", err)
		}
	})
}

func TestParseAdaptiveReadsItsSettings(t *testing.T) {
	for _, a := range []hostlimit.Adaptive{
		{},
		hostlimit.Fixed, hostlimit.Squared, hostlimit.Proportional(5), hostlimit.Throttle(1.5), hostlimit.Slower(0.5), hostlimit.Proportional(math.MaxFloat64),
		hostlimit.Longest(hostlimit.Proportional(1), hostlimit.Learned), hostlimit.Longest(hostlimit.Longest(hostlimit.Throttle(2), hostlimit.Squared), hostlimit.Proportional(1e-9)),
	} {
		if got, err := parseAdaptive(adaptive(a)); err != nil || got != a {
			t.Errorf("%s: %v, %v", adaptive(a), got, err)
		}
	}
	for _, s := range []string{
		"", "+", "learned+", "fast", "speed(2)", "proportional", "proportional()", "proportional(a)", "throttle", "throttle(x)",
		"proportional(0)", "throttle(0)", "throttle(-1)", "proportional(inf)", "throttle(nan)", "learned+throttle(0)",
		"throttle(1)+throttle(nan)", "proportional(1)+proportional(nan)",
	} {
		if f, err := Read(overridesFile(t, "a.example delay=1s adaptive="+s), hostlimit.Config{}); err == nil {
			t.Errorf("%q is %v", s, f)
		}
	}
}
