package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/redis/redisbudget"
	"github.com/go-politeness/politeness/redis/redislimit"
	"github.com/go-politeness/politeness/redis/redisrobots"
)

const userAgent = "SiteAudit/1.0 (+https://example.com/bot; bot@example.com)"

// options are the flags.
type options struct {
	log      io.Writer // for the user who watches
	db       string
	redis    string
	state    string
	evidence string
	from     string
	flow     bool
	base     http.RoundTripper
}

// An auditor is the polite transport of a command, and what has to be closed after it.
type auditor struct {
	*politeness.Transport
	spend   budget.Limits // of the audit
	budget  budget.Budget
	closers []func() error
}

// Close closes what newAuditor opened, the last first.
func (a *auditor) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}

// newAuditor makes the policy of a command. change, if it isn't nil, may change the Config of the
// preset and the environment before it is used.
func newAuditor(
	ctx context.Context, o options, name string, change func(*politeness.Config), sinks ...evidence.Evidence,
) (_ *auditor, err error) {
	cfg, err := politeness.SiteAudit(userAgent).WithEnv()
	if err != nil {
		return nil, err
	}
	a := &auditor{spend: cfg.Spend}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	cfg.Base = o.base
	cfg.From = cmp.Or(o.from, strings.TrimSpace(os.Getenv("FROM")))
	if change != nil {
		change(&cfg)
	}
	sinks = append(sinks, evidence.Console(o.log)) // shows why nothing happens
	if o.evidence != "" {
		log, err := evidence.OpenFile(o.evidence, evidence.LogConfig{})
		if err != nil {
			return nil, err
		}
		a.closers = append(a.closers, log.Close)
		sinks = append(sinks, log)
	}
	cfg.Evidence = evidence.Multi(sinks...)
	if o.redis == "" {
		cfg = cfg.WithState(o.state)
		if cfg.Budget == nil {
			cfg.Budget = budget.New(cfg.Spend) // asked for what is spent
		}
	} else if err := a.share(ctx, o, name, &cfg); err != nil {
		return nil, fmt.Errorf("-redis %s: %w", o.redis, err)
	}
	a.budget = cfg.Budget
	a.Transport, err = politeness.New(cfg)
	if err != nil && cfg.From == "" && strings.Contains(err.Error(), "Config.UserAgent") {
		return nil, fmt.Errorf("%w\nor give a mail address by -from you@example.com, "+
			"or in the environment variable FROM", err)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// share puts slots, delays, robots.txt and budget on a Redis server. All processes on it are as
// polite as one, and those of one audit, the database's, spend one budget.
func (a *auditor) share(ctx context.Context, o options, name string, cfg *politeness.Config) error {
	if o.state != "" {
		return errors.New("-state is for one process: the server remembers for all")
	}
	opts := &redis.Options{Addr: o.redis}
	if strings.Contains(o.redis, "://") {
		var err error
		opts, err = redis.ParseURL(o.redis)
		if err != nil {
			return err
		}
	}
	client := redis.NewClient(opts)
	a.closers = append(a.closers, client.Close)
	ping, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := client.Ping(ping).Err(); err != nil {
		return err
	}
	hosts, err := redislimit.New(redislimit.Config{Client: client, Limits: cfg.Hosts})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, hosts.Close)
	problems, err := hosts.Check(ctx)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(o.log, "siteaudit: redis:", p)
	}
	spent, err := redisbudget.New(redisbudget.Config{Client: client, Name: name, Limits: cfg.Spend})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, spent.Close)
	robots, err := redisrobots.New(redisrobots.Config{Client: client})
	if err != nil {
		return err
	}
	cfg.Limiter = hosts
	cfg.Budget = spent
	cfg.Robots.Store = robots
	return nil
}
