package politeness

import (
	"cmp"
	"net/http"
	"reflect"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/sitekey"
	"github.com/go-politeness/politeness/internal/recorder"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// policyOf returns the promises of a Transport made of cfg, with every default filled in.
func policyOf(cfg *Config, product string, hosts hostlimit.Config, spend budget.Limits) *evidence.Policy {
	perSite := hosts.PerSite // 0 if the limiter doesn't know it: then nothing is promised
	// A promise is the value in force: a zero that means a default is recorded as the default.
	hosts = hosts.WithDefaults()
	p := &evidence.Policy{
		UserAgent:    cfg.UserAgent,
		From:         cfg.From,
		Product:      product,
		Overrides:    hosts.Override != nil,
		MaxInFlight:  hosts.MaxInFlight,
		SlotTimeout:  hosts.SlotTimeout,
		LeaseTTL:     hosts.LeaseTTL,
		Upgrades:     max(cmp.Or(cfg.Upgrades, defaultUpgrades), 0),
		Streams:      cfg.Streams,
		MaxWait:      hosts.MaxWait,
		HostKey:      keyName(cfg.HostKey),
		OwnRefused:   cfg.IsRefusal != nil,
		OwnRules:     cfg.Refuse != nil,
		Pages:        spend.Pages,
		PagesPerHost: spend.PagesPerHost,
		Bytes:        spend.Bytes,
		MaxTime:      spend.Duration,
		Every:        spend.Every,
		Retries:      cfg.Retry.Max,
		Robots:       "ignored",
	}
	if perSite > 0 { // a negative one is no bound
		p.PerSite = perSite
		p.SiteList = sitekey.List()
	}
	recorder.StateLimits(p, hostlimit.Limits{Concurrency: hosts.Concurrency, Delay: hosts.Delay})
	recorder.StatePurposes(p, cfg.Purposes)
	recorder.StateRefusals(p, hosts.Backoff.(backoff.Refusals))
	if !cfg.DangerouslyIgnoreRobots {
		rules := cfg.Robots.WithDefaults()
		p.Robots = "obeyed"
		p.RobotsTTL = rules.TTL
		p.DenyTTL = rules.DenyTTL
		p.Unreachable = "deny"
		p.ServeStale = rules.ServeStale
		p.Lenient = rules.LenientAgents
		p.Patterns = rules.AgentPatterns
		p.RobotsText = rules.RecordText
		if rules.OnUnreachable == robotscache.Allow {
			p.Unreachable = "allow"
		}
	}
	return p
}

// keyName returns the name of a Config.HostKey in policies.
func keyName(key func(*http.Request) string) string {
	if key == nil {
		return "host"
	}
	switch reflect.ValueOf(key).Pointer() {
	case reflect.ValueOf(ByHost).Pointer():
		return "host"
	case reflect.ValueOf(BySite).Pointer():
		return "site"
	}
	return "own"
}
