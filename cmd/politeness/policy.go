package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/cmd/politeness/internal/hostname"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/publicnet"
	"github.com/go-politeness/politeness/robots"
)

// A policy has the flags about how to crawl. A flag replaces the environment, which replaces the
// preset.
type policy struct {
	agent, preset, state, evidence string
	own                            string // User-Agent if none is given
	delay, maxWait, duration       time.Duration
	perHost, pages                 int
	purposes                       purposes
	ignoreRobots, private          bool
	set                            func(flag string) bool // whether it was given
}

func (p *policy) register(flags *flag.FlagSet) {
	flags.StringVar(&p.agent, "agent", "", "")
	flags.StringVar(&p.preset, "preset", "", "")
	flags.StringVar(&p.state, "state", "", "")
	flags.StringVar(&p.evidence, "evidence", "", "")
	flags.Var((*duration)(&p.delay), "delay", "")
	flags.Var((*duration)(&p.maxWait), "max-wait", "")
	flags.Var((*duration)(&p.duration), "time", "")
	flags.IntVar(&p.perHost, "per-host", 0, "")
	flags.IntVar(&p.pages, "pages", 0, "")
	flags.Var(&p.purposes, "purpose", "")
	flags.BoolVar(&p.private, "private", false, "")
	p.set = func(name string) bool { return isSet(flags, name) }
	flags.BoolVar(&p.ignoreRobots, "dangerously-ignore-robots", false, "")
}

var presets = map[string]func(userAgent string) politeness.Config{
	"":             func(ua string) politeness.Config { return politeness.Config{UserAgent: ua} },
	"audit":        politeness.SiteAudit,
	"bulk":         politeness.Bulk,
	"conservative": politeness.Conservative,
	"responsive":   politeness.Responsive,
}

// config returns the Config that the policy stands for, over base.
func (p *policy) config(base http.RoundTripper) (politeness.Config, error) {
	preset, ok := presets[p.preset]
	if !ok {
		names := slices.Sorted(maps.Keys(presets))[1:]
		return politeness.Config{}, misused("there is no preset %q, only %s", p.preset, strings.Join(names, ", "))
	}
	cfg, err := preset("").WithEnv()
	if err != nil {
		return cfg, err
	}
	cfg.UserAgent = cmp.Or(p.agent, cfg.UserAgent, p.own)
	if cfg.UserAgent == "" {
		return cfg, misused("-agent is missing: name your crawler and how to reach you, as in " +
			`-agent "MyBot/1.0 (+https://example.com/bot; me@example.com)"`)
	}
	if err := p.checkNumbers(); err != nil {
		return cfg, err
	}
	if p.delay > 0 {
		cfg.Hosts.Delay.Min = p.delay
		cfg.Hosts.Delay.Max = p.delay
	}
	cfg.Hosts.MaxWait = cmp.Or(p.maxWait, cfg.Hosts.MaxWait)
	cfg.Hosts.Concurrency = cmp.Or(p.perHost, cfg.Hosts.Concurrency)
	cfg.Spend.Pages = cmp.Or(int64(p.pages), cfg.Spend.Pages)
	cfg.Spend.Duration = cmp.Or(p.duration, cfg.Spend.Duration)
	cfg.Purposes = p.purposes
	cfg.DangerouslyIgnoreRobots = p.ignoreRobots
	cfg.Base = base
	rules := []func(*http.Request) error{refusePorts}
	if cfg.Refuse != nil {
		rules = append(rules, cfg.Refuse)
	}
	cfg.Refuse = politeness.RefuseAny(rules...)
	return cfg.WithState(p.state), nil
}

// checkNumbers returns an error if a flag is negative, or 0 by the user's wish.
func (p *policy) checkNumbers() error {
	for name, value := range map[string]int64{
		"-delay":    int64(p.delay),
		"-max-wait": int64(p.maxWait),
		"-time":     int64(p.duration),
		"-per-host": int64(p.perHost),
		"-pages":    int64(p.pages),
	} {
		switch {
		case value < 0:
			return misused("%s is negative", name)
		case value == 0 && p.set != nil && p.set(name[1:]):
			return misused("%s is 0: %s", name, cmp.Or(whyNotZero[name], "leave it out for the preset's"))
		}
	}
	return nil
}

// whyNotZero says of a flag why it can't be 0.
var whyNotZero = map[string]string{
	"-delay": "each site needs a pause between requests, even your own; " +
		"leave it out for the preset's delay, or give a short one if the site is yours, as in -delay 10ms",
	"-per-host": "nothing could be fetched then; leave it out for the preset's",
}

// keep makes the directory of -state, if there is to be one, and tries it: a crawl that forgets
// what it is told to remember comes back too early the next time.
func (p *policy) keep() error {
	if p.state == "" {
		return nil
	}
	if err := tryDir(p.state); err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	return nil
}

// tryDir makes a directory, and returns an error if no file can be made in it.
func tryDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, ".try-*")
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// record makes the Config keep evidence in the policy's file, if it names one, and warns if others
// may write there. Call done at the end.
func (p *policy) record(sh *shell, cfg *politeness.Config) (done func() error, err error) {
	if p.evidence == "" {
		return func() error { return nil }, nil
	}
	log, err := evidence.OpenFile(p.evidence, evidence.LogConfig{Chained: true})
	if err != nil {
		return nil, err
	}
	sh.warnExposed(p.evidence)
	cfg.Evidence = log
	cfg.Robots.RecordText = true // without it nobody could prove that the rules were kept
	return log.Close, nil
}

// ownAgent is the name of the command itself, for the few requests for which the user needs to give
// no name.
func ownAgent() string {
	version := "0"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		version = info.Main.Version[1:]
	}
	return "politeness/" + version + " (+https://github.com/go-politeness/politeness)"
}

// A duration is a flag whose error says how one is written.
type duration time.Duration

// String implements flag.Value.
func (d *duration) String() string { return "" }

// Set implements flag.Value.
func (d *duration) Set(s string) error {
	value, err := time.ParseDuration(s)
	if err != nil {
		return errors.New("write it with a unit, as in 500ms, 2s or 1m30s")
	}
	*d = duration(value)
	return nil
}

// purposes are a flag: "train,search".
type purposes []robots.Purpose

// String implements flag.Value.
func (p *purposes) String() string { return "" }

// Set implements flag.Value.
func (p *purposes) Set(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(allPurposes, func(known robots.Purpose) bool { return known.String() == name })
		if i < 0 {
			return errors.New("it is none of train, ground, search")
		}
		*p = append(*p, allPurposes[i])
	}
	return nil
}

var allPurposes = []robots.Purpose{robots.Train, robots.Ground, robots.Search}

// A reach sends requests to public addresses only, and to those that the user has named literally:
// a user who types 127.0.0.1:8000 means it, and a link to there may be an attack.
type reach struct {
	named  map[string]bool // keys of hosts
	public http.RoundTripper
	open   http.RoundTripper
}

// reach returns the Base of a crawl that begins at the URLs that the user has typed.
func (p *policy) reach(typed []string) http.RoundTripper {
	if p.private {
		return openTransport()
	}
	return reachOf(typed)
}

// openTransport returns a transport to any address. Headers have the bound of publicnet's.
func openTransport() http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	open := base.Clone()
	open.MaxResponseHeaderBytes = 256 << 10
	return open
}

func reachOf(urls []string) *reach {
	r := &reach{named: make(map[string]bool), public: publicnet.Transport(nil), open: openTransport()}
	for _, raw := range urls {
		normal, err := crawl.Normalize(raw) // as it will be asked for
		if err != nil {
			continue
		}
		u, err := url.Parse(normal)
		if err != nil {
			continue
		}
		_, err = netip.ParseAddr(u.Hostname())
		if err == nil || strings.EqualFold(u.Hostname(), "localhost") {
			r.named[hostname.Key(u.Host)] = true
		}
	}
	return r
}

// RoundTrip implements http.RoundTripper.
func (r *reach) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.named[hostname.Key(req.URL.Host)] {
		return r.open.RoundTrip(req)
	}
	resp, err := r.public.RoundTrip(req)
	return resp, advise(err, "your own host is reached if you name its address literally, "+
		"as in http://192.168.0.7/, or with -private")
}

// advise adds to an error about an address that isn't public what its user can do.
func advise(err error, advice string) error {
	if errors.Is(err, publicnet.ErrPrivate) {
		return fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

// badPorts are those of the Fetch standard (https://fetch.spec.whatwg.org/#bad-port): what listens
// there isn't a web server, and may take a request for something else.
var badPorts = func() map[int]bool {
	bad := make(map[int]bool)
	for _, port := range []int{
		0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95,
		101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179,
		389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587,
		601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
		6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
	} {
		bad[port] = true
	}
	return bad
}()

// refusePorts is a Config.Refuse.
func refusePorts(req *http.Request) error {
	if port, err := strconv.Atoi(req.URL.Port()); err == nil && badPorts[port] {
		return fmt.Errorf("port %d belongs to no web server: browsers block it, too", port)
	}
	return nil
}

// describe tells the policy in words.
func describe(cfg politeness.Config, limits hostlimit.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "as %s\n", cfg.UserAgent)
	apart := "200ms to 500ms"
	delay := limits.Delay
	switch {
	case delay.Max > delay.Min:
		apart = fmt.Sprintf("%v to %v", delay.Min, delay.Max)
	case delay.Min > 0:
		apart = delay.Min.String()
	}
	fmt.Fprintf(&b, "%d concurrent per host, %s apart, longer if robots.txt or the host asks for it",
		cmp.Or(limits.Concurrency, 2), apart)
	if cfg.Spend.Pages > 0 {
		fmt.Fprintf(&b, "; %d pages at most", cfg.Spend.Pages)
	}
	if cfg.Spend.Duration > 0 {
		fmt.Fprintf(&b, "; %v at most", cfg.Spend.Duration)
	}
	if cfg.DangerouslyIgnoreRobots {
		b.WriteString("; robots.txt ignored")
	}
	return b.String() + "\n"
}
