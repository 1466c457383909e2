package promises_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

func setenv(t *testing.T, vars map[string]string) {
	t.Helper()
	for _, name := range []string{
		"USER_AGENT", "MAX_PAGES", "MAX_SCAN_TIME_MINUTES",
		"ROBOTS_TTL_SECONDS", "ROBOTS_CACHE_TTL_SEC", "ROBOTS_DENY_TTL_SECONDS", "ROBOTS_DEFAULT_DELAY_SECONDS",
	} {
		t.Setenv(name, vars[name])
	}
}

func TestDefaultsWithEnv(t *testing.T) {
	setenv(t, map[string]string{
		"USER_AGENT": agent, "MAX_PAGES": "50", "MAX_SCAN_TIME_MINUTES": "1.5",
		"ROBOTS_TTL_SECONDS": "7200", "ROBOTS_DENY_TTL_SECONDS": " 60 ", "ROBOTS_DEFAULT_DELAY_SECONDS": "0.25",
	})
	c, err := politeness.Config{}.WithEnv()
	if err != nil {
		t.Fatal(err)
	}
	if c.UserAgent != agent || c.Robots.TTL != 2*time.Hour || c.Robots.DenyTTL != time.Minute {
		t.Errorf("config %+v", c)
	}
	if c.Spend != (budget.Limits{Pages: 50, Duration: 90 * time.Second, WarnAt: 0.8}) {
		t.Errorf("limits %+v", c.Spend)
	}
	if d := c.Hosts.Delay; d.Min != 250*time.Millisecond || d.Max != 250*time.Millisecond {
		t.Errorf("delay %+v", d)
	}
	if _, err := politeness.New(c); err != nil {
		t.Error(err)
	}
}

func TestConfigFromEmptyEnvIsTheDefault(t *testing.T) {
	setenv(t, nil)
	c, err := politeness.Config{}.WithEnv()
	if err != nil || !reflect.DeepEqual(c, politeness.Config{}) {
		t.Errorf("config %+v, %v", c, err)
	}
}

func TestWithEnvKeepsTheRestOfAPreset(t *testing.T) {
	setenv(t, map[string]string{"MAX_PAGES": "7"})
	c, err := politeness.SiteAudit(agent).WithEnv()
	if err != nil {
		t.Fatal(err)
	}
	if c.Spend != (budget.Limits{Pages: 7, Duration: time.Hour, WarnAt: 0.8}) {
		t.Errorf("limits %+v", c.Spend)
	}
	if c.UserAgent != agent || !reflect.DeepEqual(c.Hosts, politeness.SiteAudit(agent).Hosts) {
		t.Errorf("config %+v", c)
	}
}

func TestUnreadableEnvNamesEachVariable(t *testing.T) {
	bad := map[string]string{
		"MAX_PAGES": "many", "MAX_SCAN_TIME_MINUTES": "-1", "ROBOTS_TTL_SECONDS": "1h",
		"ROBOTS_DENY_TTL_SECONDS": "NaN", "ROBOTS_DEFAULT_DELAY_SECONDS": "1e300",
		"ROBOTS_CACHE_TTL_SEC": "2h",
	}
	setenv(t, bad)
	_, err := politeness.Config{}.WithEnv()
	if err == nil {
		t.Fatal("no error")
	}
	for name, value := range bad {
		if !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), value) {
			t.Errorf("error doesn't name %s=%s:\n%v", name, value, err)
		}
	}
	for name, values := range map[string][]string{
		"MAX_PAGES":                    {"0", "-3", "1.5", "99999999999999999999"},
		"ROBOTS_CACHE_TTL_SEC":         {"0", "86401", "-1"},
		"MAX_SCAN_TIME_MINUTES":        {"0", "5256001", "Inf", "NaN", "1e18", "an hour"},
		"ROBOTS_TTL_SECONDS":           {"0", "86401", "1h"}, // RFC 9309, section 2.4: at most a day
		"ROBOTS_DENY_TTL_SECONDS":      {"0", "-5", "1e-10"},
		"ROBOTS_DEFAULT_DELAY_SECONDS": {"0", "3s", "1e18"},
	} {
		for _, value := range values {
			setenv(t, map[string]string{name: value})
			if _, err := (politeness.Config{}).WithEnv(); err == nil || !strings.Contains(err.Error(), name+"=") {
				t.Errorf("%s=%s: %v, want an error that names the variable", name, value, err)
			}
		}
	}
	for name, want := range map[string]string{
		"MAX_SCAN_TIME_MINUTES": "is not a positive number of minutes, at most 5256000",
		"ROBOTS_TTL_SECONDS":    "is not a positive number of seconds, at most 86400",
	} {
		setenv(t, map[string]string{name: "x"})
		if _, err := (politeness.Config{}).WithEnv(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want what may stand there: %s", name, err, want)
		}
	}
	setenv(t, map[string]string{"MAX_PAGES": "1", "MAX_SCAN_TIME_MINUTES": "5256000", "ROBOTS_TTL_SECONDS": "86400"}) // just so
	if _, err := (politeness.Config{}).WithEnv(); err != nil {
		t.Error(err)
	}
}

// A shared limiter or budget is what it is: the person who set the variable must be told that it
// has no effect, and the programmer what to do.
func TestEnvThatCantTakeEffectIsAnError(t *testing.T) {
	hosts, err := memory.New(hostlimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, value, field, remedy string }{
		{"MAX_PAGES", "5", "Config.Budget", "budget.New(cfg.Spend)"},
		{"MAX_SCAN_TIME_MINUTES", "5", "Config.Budget", "budget.New(cfg.Spend)"},
		{"ROBOTS_DEFAULT_DELAY_SECONDS", "5", "Config.Limiter", "memory.New(cfg.Hosts)"},
	} {
		setenv(t, map[string]string{test.name: test.value})
		cfg := politeness.SiteAudit(agent)
		cfg.Limiter, cfg.Budget = hosts, budget.New(cfg.Spend)
		got, err := cfg.WithEnv()
		for _, want := range []string{test.name, test.field, "call WithEnv first", test.remedy} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error that says %q", test.name, err, want)
			}
		}
		if got.Spend != cfg.Spend || !reflect.DeepEqual(got.Hosts, cfg.Hosts) {
			t.Errorf("%s: the Config was changed: %+v", test.name, got)
		}
		// The other order is fine.
		cfg, err = politeness.SiteAudit(agent).WithEnv()
		if err != nil {
			t.Error(err)
		}
		if cfg.Limiter, err = memory.New(cfg.Hosts); err != nil {
			t.Error(err)
		}
		cfg.Budget = budget.New(cfg.Spend)
		if _, err := politeness.New(cfg); err != nil {
			t.Error(err)
		}
	}
	// What doesn't touch them may be set.
	setenv(t, map[string]string{"USER_AGENT": agent, "ROBOTS_TTL_SECONDS": "60", "ROBOTS_DENY_TTL_SECONDS": "60"})
	if _, err := (politeness.Config{Limiter: hosts, Budget: budget.New(budget.Limits{})}).WithEnv(); err != nil {
		t.Error(err)
	}
}

func TestDelayFromEnvEndsDangerouslyNone(t *testing.T) {
	setenv(t, map[string]string{"ROBOTS_DEFAULT_DELAY_SECONDS": "2"})
	none := hostlimit.Config{Concurrency: 7, Delay: hostlimit.Delay{DangerouslyNone: true}}
	c, err := politeness.Config{Hosts: none}.WithEnv()
	if err != nil {
		t.Fatal(err)
	}
	if c.Hosts.Concurrency != 7 || c.Hosts.Delay != (hostlimit.Delay{Min: 2 * time.Second, Max: 2 * time.Second}) {
		t.Errorf("limits %+v", c.Hosts)
	}
}

// The variable is the mean of a random delay, whose two ends keep their ratio.
func TestDelayFromEnvKeepsARandomDelayRandom(t *testing.T) {
	for name, test := range map[string]struct {
		cfg      politeness.Config
		value    string
		min, max time.Duration
	}{
		"Responsive":    {responsive(), "2", time.Second, 3 * time.Second},
		"SiteAudit":     {siteAudit(), "3.5", 2 * time.Second, 5 * time.Second},
		"its own mean":  {siteAudit(), "0.35", 200 * time.Millisecond, 500 * time.Millisecond},
		"Conservative":  {conservative(), "5", 5 * time.Second, 5 * time.Second},
		"Bulk":          {bulk(), "0.1", 100 * time.Millisecond, 100 * time.Millisecond},
		"not set":       {politeness.Config{}, "4", 4 * time.Second, 4 * time.Second},
		"only Min":      {withDelay(hostlimit.Delay{Min: time.Second}), "4", 4 * time.Second, 4 * time.Second},
		"only Max":      {withDelay(hostlimit.Delay{Max: time.Second}), "4", 0, 8 * time.Second},
		"ten years":     {siteAudit(), "315360000", 4 * longest / 7, 10 * longest / 7},
		"microseconds":  {siteAudit(), "0.0002", 114_286, 285_714},
		"a wrong range": {withDelay(hostlimit.Delay{Min: 2, Max: 1}), "4", 4 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, map[string]string{"ROBOTS_DEFAULT_DELAY_SECONDS": test.value})
			c, err := test.cfg.WithEnv()
			if err != nil {
				t.Fatal(err)
			}
			d := c.Hosts.Delay
			if near := test.max / 1e12; (d.Min-test.min).Abs() > near+1 || (d.Max-test.max).Abs() > near+1 {
				t.Errorf("%v to %v, want %v to %v", d.Min, d.Max, test.min, test.max)
			}
			if d.Adaptive != test.cfg.Hosts.Delay.Adaptive || d.Ceiling != test.cfg.Hosts.Delay.Ceiling {
				t.Errorf("delay %+v, was %+v", d, test.cfg.Hosts.Delay)
			}
		})
	}
}

// longest is the longest delay that the environment may name.
const longest = 10 * 365 * 24 * time.Hour

func withDelay(d hostlimit.Delay) politeness.Config {
	return politeness.Config{Hosts: hostlimit.Config{Delay: d}}
}

// TestDelayFromEnvThatIsOutOfRangeNamesTheVariable: the person who set it hasn't seen the Config.
func TestDelayFromEnvThatIsOutOfRangeNamesTheVariable(t *testing.T) {
	for name, test := range map[string]struct {
		cfg   politeness.Config
		value string
	}{
		"longer than Responsive's day": {responsive(), "200000"},
		"a nanosecond":                 {siteAudit(), "1e-9"},
		"longer than a ceiling":        {withDelay(hostlimit.Delay{Min: time.Second, Ceiling: time.Minute}), "61"},
	} {
		setenv(t, map[string]string{"ROBOTS_DEFAULT_DELAY_SECONDS": test.value})
		if _, err := test.cfg.WithEnv(); err == nil || !strings.Contains(err.Error(), "ROBOTS_DEFAULT_DELAY_SECONDS="+test.value) {
			t.Errorf("%s: %v, want an error that names the variable", name, err)
		}
	}
}

// The two names of one setting may stand side by side, as a description has them: the first wins.
func TestRobotsTTLHasTwoNamesInTheEnvironment(t *testing.T) {
	for _, vars := range []map[string]string{
		{"ROBOTS_CACHE_TTL_SEC": "90"},
		{"ROBOTS_TTL_SECONDS": "90"},
		{"ROBOTS_TTL_SECONDS": "90", "ROBOTS_CACHE_TTL_SEC": "90.0"},
		{"ROBOTS_TTL_SECONDS": "90", "ROBOTS_CACHE_TTL_SEC": "86400"},
	} {
		setenv(t, vars)
		if c, err := (politeness.Config{}).WithEnv(); err != nil || c.Robots.TTL != 90*time.Second {
			t.Errorf("%v: TTL %v, %v", vars, c.Robots.TTL, err)
		}
	}
}
