package politeness

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
)

// ConfigFromEnv is Config{}.WithEnv(): the defaults, changed by the environment.
func ConfigFromEnv() (Config, error) { return Config{}.WithEnv() }

// WithEnv returns c changed by those of these environment variables that are set
// and not empty. Use it to let the person who runs a crawler tighten or widen a
// preset: SiteAudit(ua).WithEnv().
//
//	USER_AGENT                    Config.UserAgent
//	MAX_PAGES                     Budget: pages, a whole number of at least 1
//	MAX_SCAN_TIME_MINUTES         Budget: wall time in minutes, decimals allowed
//	ROBOTS_TTL_SECONDS            Robots.TTL in seconds, decimals allowed, at most a day
//	ROBOTS_DENY_TTL_SECONDS       Robots.DenyTTL in seconds, decimals allowed
//	ROBOTS_DEFAULT_DELAY_SECONDS  Hosts: delay where crawl-delay asks for no longer one
//
// A value that can't be read is an error that names its variable; all such
// errors are joined, and c is returned unchanged. The budget variables need a
// Budget that is nil or a *budget.Memory, the delay variable Hosts that are nil or
// a *hostlimit.Memory; both are replaced by new, unspent ones with the other
// limits kept. A Budget that was nil warns at 80 %.
func (c Config) WithEnv() (Config, error) {
	e := env{}
	changed := c
	if ua, ok := e.lookup("USER_AGENT"); ok {
		changed.UserAgent = ua
	}
	if d, ok := e.duration("ROBOTS_TTL_SECONDS", time.Second, 24*time.Hour); ok {
		changed.Robots.TTL = d
	}
	if d, ok := e.duration("ROBOTS_DENY_TTL_SECONDS", time.Second, longest); ok {
		changed.Robots.DenyTTL = d
	}
	changed.Budget = e.budget(c.Budget)
	changed.Hosts = e.hosts(c.Hosts)
	if len(e.errs) > 0 {
		return c, errors.Join(e.errs...)
	}
	return changed, nil
}

// env reads variables and collects what is wrong with them.
type env struct{ errs []error }

func (e *env) lookup(name string) (string, bool) {
	v := strings.TrimSpace(os.Getenv(name))
	return v, v != ""
}

func (e *env) bad(name, value, want string) {
	e.errs = append(e.errs, fmt.Errorf("politeness: environment variable %s=%q is not %s", name, clip(value), want))
}

// longest is what no duration in the environment may exceed; a typing error, not
// a policy, is longer than ten years.
const longest = 10 * 365 * 24 * time.Hour

// duration reads a positive number of units, up to most.
func (e *env) duration(name string, unit, most time.Duration) (time.Duration, bool) {
	v, ok := e.lookup(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(v, 64)
	if err == nil && n <= most.Seconds()/unit.Seconds() { // before multiplying; not so for NaN
		if d := time.Duration(n * float64(unit)); d > 0 {
			return d, true
		}
	}
	units := strings.ToLower(name[strings.LastIndexByte(name, '_')+1:])
	e.bad(name, v, fmt.Sprintf("a positive number of %s, at most %.0f", units, most.Seconds()/unit.Seconds()))
	return 0, false
}

func (e *env) budget(b budget.Budget) budget.Budget {
	var pages int64
	if v, ok := e.lookup("MAX_PAGES"); ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 {
			e.bad("MAX_PAGES", v, "a whole number of at least 1")
		}
		pages = n
	}
	duration, _ := e.duration("MAX_SCAN_TIME_MINUTES", time.Minute, longest)
	if pages == 0 && duration == 0 {
		return b
	}
	limits := budget.Limits{WarnAt: warnAt}
	switch m := b.(type) {
	case nil:
	case *budget.Memory:
		limits = m.Limits()
	default:
		e.errs = append(e.errs, fmt.Errorf("politeness: MAX_PAGES and MAX_SCAN_TIME_MINUTES don't apply to a Budget of type %T", b))
		return b
	}
	if pages != 0 {
		limits.Pages = pages
	}
	if duration != 0 {
		limits.Duration = duration
	}
	return budget.New(limits)
}

func (e *env) hosts(h hostlimit.Limiter) hostlimit.Limiter {
	delay, ok := e.duration("ROBOTS_DEFAULT_DELAY_SECONDS", time.Second, longest)
	if !ok {
		return h
	}
	var cfg hostlimit.Config
	switch m := h.(type) {
	case nil:
	case *hostlimit.Memory:
		cfg = m.Config()
	default:
		e.errs = append(e.errs, fmt.Errorf("politeness: ROBOTS_DEFAULT_DELAY_SECONDS doesn't apply to Hosts of type %T", h))
		return h
	}
	cfg.Delay.Min, cfg.Delay.Max, cfg.Delay.DangerouslyNone = delay, delay, false
	limiter, err := hostlimit.New(cfg)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("politeness: environment variable ROBOTS_DEFAULT_DELAY_SECONDS: %w", err))
		return h
	}
	return limiter
}
