package politeness

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/env"
)

// WithEnv returns c, changed by the environment variables below. A variable that isn't set, or is
// empty, changes nothing. Use WithEnv, as in SiteAudit(ua).WithEnv(), to let the operator of a
// crawler change a preset.
//
//	USER_AGENT                    UserAgent
//	MAX_PAGES                     Spend.Pages, a whole number of at least 1
//	MAX_SCAN_TIME_MINUTES         Spend.Duration in minutes, decimals allowed
//	ROBOTS_TTL_SECONDS            Robots.TTL in seconds, decimals allowed, at most a day
//	ROBOTS_CACHE_TTL_SEC          the same, where ROBOTS_TTL_SECONDS isn't set
//	ROBOTS_DENY_TTL_SECONDS       Robots.DenyTTL in seconds, decimals allowed
//	ROBOTS_DEFAULT_DELAY_SECONDS  Hosts.Delay in seconds, decimals allowed; a longer crawl-delay wins
//
// A random Delay stays random. Min and Max are scaled so that ROBOTS_DEFAULT_DELAY_SECONDS is their
// mean. With 2, Responsive's 0.5 to 1.5 s become 1 to 3 s. A fixed Delay, or one that isn't set,
// becomes the given time exactly. If Spend was zero, and a variable sets a limit, the budget warns
// at 80 % of the limit.
//
// If a value can't be read, the error names the variable. A variable that can have no effect is an
// error too. This is ROBOTS_DEFAULT_DELAY_SECONDS if Limiter is set, and MAX_PAGES and
// MAX_SCAN_TIME_MINUTES if Budget is set. All errors are joined, and c is returned unchanged. To
// share a limiter or a budget that the environment may change, call WithEnv first. Then make the
// limiter or the budget from the result:
//
//	cfg, err := politeness.SiteAudit(ua).WithEnv()
//	cfg.Budget = budget.New(cfg.Spend)
func (c Config) WithEnv() (Config, error) {
	var e env.Reader
	changed := c
	ua, _ := e.Text("USER_AGENT")
	changed.UserAgent = cmp.Or(ua, c.UserAgent)
	ttl, _ := e.Duration("ROBOTS_TTL_SECONDS", time.Second, 24*time.Hour)
	other, _ := e.Duration("ROBOTS_CACHE_TTL_SEC", time.Second, 24*time.Hour)
	changed.Robots.TTL = cmp.Or(ttl, other, c.Robots.TTL)
	deny, _ := e.Duration("ROBOTS_DENY_TTL_SECONDS", time.Second, env.Longest)
	changed.Robots.DenyTTL = cmp.Or(deny, c.Robots.DenyTTL)
	if d, ok := e.Duration("ROBOTS_DEFAULT_DELAY_SECONDS", time.Second, env.Longest); ok {
		changed.Hosts.Delay = scaled(c.Hosts.Delay, d)
		// New's error would name Config.Hosts. This one names the variable.
		if err := (hostlimit.Config{Concurrency: 1, Delay: changed.Hosts.Delay}).Validate(); err != nil {
			v, _ := e.Text("ROBOTS_DEFAULT_DELAY_SECONDS")
			err = fmt.Errorf("politeness: environment variable ROBOTS_DEFAULT_DELAY_SECONDS=%s: %w", v, err)
			e.Errs = append(e.Errs, err)
		}
		needs(&e, c.Limiter == nil, "ROBOTS_DEFAULT_DELAY_SECONDS", "Limiter", "memory.New(cfg.Hosts)")
	}
	pages, limited := e.Count("MAX_PAGES")
	if limited {
		changed.Spend.Pages = pages
		needs(&e, c.Budget == nil, "MAX_PAGES", "Budget", "budget.New(cfg.Spend)")
	}
	if d, ok := e.Duration("MAX_SCAN_TIME_MINUTES", time.Minute, env.Longest); ok {
		changed.Spend.Duration = d
		limited = true
		needs(&e, c.Budget == nil, "MAX_SCAN_TIME_MINUTES", "Budget", "budget.New(cfg.Spend)")
	}
	// A preset has a WarnAt of its own, or none on purpose.
	if limited && c.Spend == (budget.Limits{}) {
		changed.Spend.WarnAt = warnAt
	}
	if len(e.Errs) > 0 { // then nothing is changed
		return c, errors.Join(e.Errs...)
	}
	return changed, nil
}

// scaled returns delay with mean as the mean of its range.
func scaled(delay hostlimit.Delay, mean time.Duration) hostlimit.Delay {
	least := float64(delay.Min)
	most := float64(delay.Max)
	delay.Min = mean
	delay.Max = mean
	delay.DangerouslyNone = false
	if 0 <= least && least < most {
		delay.Min = time.Duration(2 * float64(mean) * (least / (least + most)))
		delay.Max = 2*mean - delay.Min
	}
	return delay
}

// needs adds an error if a field is set that leaves a variable without effect.
func needs(e *env.Reader, unset bool, name, field, shared string) {
	if !unset {
		e.Errs = append(e.Errs, fmt.Errorf("politeness: environment variable %s can't change Config.%s, which is set: "+
			"call WithEnv first and make the shared one from its result, %s", name, field, shared))
	}
}
