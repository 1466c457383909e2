package politeness

import (
	"errors"
	"path/filepath"
	"reflect"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// WithState returns c with a memory in dir that outlives the process, so that a crawler that is
// started every hour is as polite as one that never stops:
//
//	DIR/hosts/    state of hosts: blocks, refusals in a row, learned delays, far next starts (hostlimit.Dir)
//	DIR/robots/   robots.txt, and which origins can't be asked for it (robotscache.Dir)
//
// Each host and each origin has a file of its own, under a hashed name; files are 0600 and
// directories 0700. Processes may share dir. New fails where dir can't be written to. A later loss
// stops no request: evidence says state_lost, and EvidenceErr, the status page and crawl.Progress
// say why; so it is where others may write to dir. See docs/restarts.md. An empty dir keeps
// nothing.
//
// WithState changes Hosts and Robots, so set them before. It can't reach a limiter that Limiter has
// already. New says so in both cases. To share a limiter that remembers, make it from the result:
//
//	cfg := politeness.Bulk(ua).WithState("state")
//	cfg.Limiter, err = memory.New(cfg.Hosts)
func (c Config) WithState(dir string) Config {
	if dir == "" {
		return c
	}
	c.state = dir
	c.Hosts.Store = hostlimit.Dir(filepath.Join(dir, "hosts"))
	c.Robots.Store = robotscache.Dir(filepath.Join(dir, "robots"))
	return c
}

// checkStore refuses a Store that can have no effect.
func (c Config) checkStore() error {
	store := c.Hosts.Store
	// Setting Hosts or Robots after WithState drops the Store that WithState has set.
	lostHosts := c.Limiter == nil && store == nil
	lostRobots := !c.DangerouslyIgnoreRobots && c.Robots.Store == nil
	if c.state != "" && (lostHosts || lostRobots) {
		return errors.New("or Robots.Store is gone: set Hosts and Robots before WithState, which changes them")
	}
	if c.Limiter == nil || store == nil {
		return nil
	}
	// Stores that can't be compared may be the same.
	if !reflect.ValueOf(store).Comparable() || c.Limiter.Config().Store == store {
		return nil
	}
	return errors.New("has no effect, because Limiter is set: make Limiter from the Config that WithState returns, " +
		"by memory.New(cfg.Hosts), or set it after WithState to what was made from the same Hosts")
}
