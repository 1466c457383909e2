package politeness_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
)

func setenv(t *testing.T, vars map[string]string) {
	t.Helper()
	for _, name := range []string{
		"USER_AGENT", "MAX_PAGES", "MAX_SCAN_TIME_MINUTES",
		"ROBOTS_TTL_SECONDS", "ROBOTS_DENY_TTL_SECONDS", "ROBOTS_DEFAULT_DELAY_SECONDS",
	} {
		t.Setenv(name, vars[name])
	}
}

func TestConfigFromEnv(t *testing.T) {
	setenv(t, map[string]string{
		"USER_AGENT": agent, "MAX_PAGES": "50", "MAX_SCAN_TIME_MINUTES": "1.5",
		"ROBOTS_TTL_SECONDS": "7200", "ROBOTS_DENY_TTL_SECONDS": " 60 ", "ROBOTS_DEFAULT_DELAY_SECONDS": "0.25",
	})
	c, err := politeness.ConfigFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	if c.UserAgent != agent || c.Robots.TTL != 2*time.Hour || c.Robots.DenyTTL != time.Minute {
		t.Errorf("config %+v", c)
	}
	if l := c.Budget.(*budget.Memory).Limits(); l != (budget.Limits{Pages: 50, Duration: 90 * time.Second, WarnAt: 0.8}) {
		t.Errorf("limits %+v", l)
	}
	if d := c.Hosts.(*hostlimit.Memory).Config().Delay; d.Min != 250*time.Millisecond || d.Max != 250*time.Millisecond {
		t.Errorf("delay %+v", d)
	}
	if _, err := politeness.New(c); err != nil {
		t.Error(err)
	}
}

func TestConfigFromEmptyEnvIsTheDefault(t *testing.T) {
	setenv(t, nil)
	c, err := politeness.ConfigFromEnv()
	if err != nil || c.UserAgent != "" || c.Budget != nil || c.Hosts != nil {
		t.Errorf("config %+v, %v", c, err)
	}
}

func TestWithEnvKeepsTheRestOfAPreset(t *testing.T) {
	setenv(t, map[string]string{"MAX_PAGES": "7"})
	c, err := politeness.SiteAudit(agent).WithEnv()
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Budget.(*budget.Memory).Limits(); l != (budget.Limits{Pages: 7, Duration: time.Hour, WarnAt: 0.8}) {
		t.Errorf("limits %+v", l)
	}
	if c.UserAgent != agent || c.Hosts == nil {
		t.Errorf("config %+v", c)
	}
}

func TestUnreadableEnvNamesEachVariable(t *testing.T) {
	bad := map[string]string{
		"MAX_PAGES": "many", "MAX_SCAN_TIME_MINUTES": "-1", "ROBOTS_TTL_SECONDS": "1h",
		"ROBOTS_DENY_TTL_SECONDS": "NaN", "ROBOTS_DEFAULT_DELAY_SECONDS": "1e300",
	}
	setenv(t, bad)
	_, err := politeness.ConfigFromEnv()
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
		"MAX_SCAN_TIME_MINUTES":        {"0", "Inf", "NaN", "1e18", "an hour"},
		"ROBOTS_TTL_SECONDS":           {"0", "86401", "1h"}, // RFC 9309, section 2.4: at most a day
		"ROBOTS_DENY_TTL_SECONDS":      {"0", "-5", "1e-10"},
		"ROBOTS_DEFAULT_DELAY_SECONDS": {"0", "3s", "1e18"},
	} {
		for _, value := range values {
			setenv(t, map[string]string{name: value})
			if _, err := politeness.ConfigFromEnv(); err == nil || !strings.Contains(err.Error(), name+"=") {
				t.Errorf("%s=%s: %v, want an error that names the variable", name, value, err)
			}
		}
	}
}

func TestEnvOfABudgetOrLimiterThatCantBeChanged(t *testing.T) {
	type otherBudget struct{ budget.Budget }
	type otherLimiter struct{ hostlimit.Limiter }
	setenv(t, map[string]string{"MAX_PAGES": "5", "ROBOTS_DEFAULT_DELAY_SECONDS": "1"})
	_, err := politeness.Config{Budget: otherBudget{}, Hosts: otherLimiter{}}.WithEnv()
	if err == nil || !strings.Contains(err.Error(), "MAX_PAGES") || !strings.Contains(err.Error(), "ROBOTS_DEFAULT_DELAY_SECONDS") {
		t.Errorf("error %v", err)
	}
}

func TestDelayFromEnvEndsDangerouslyNone(t *testing.T) {
	setenv(t, map[string]string{"ROBOTS_DEFAULT_DELAY_SECONDS": "2"})
	none, err := hostlimit.New(hostlimit.Config{Concurrency: 7, Delay: hostlimit.Delay{DangerouslyNone: true}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := politeness.Config{Hosts: none}.WithEnv()
	if err != nil {
		t.Fatal(err)
	}
	got := c.Hosts.(*hostlimit.Memory).Config()
	if got.Concurrency != 7 || got.Delay != (hostlimit.Delay{Min: 2 * time.Second, Max: 2 * time.Second}) {
		t.Errorf("config %+v", got)
	}
}
