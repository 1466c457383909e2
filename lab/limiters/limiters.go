package limiters

import (
	"fmt"
	"slices"

	"github.com/go-politeness/politeness/lab/servers"
)

// A Limiter is a row of the table.
type Limiter struct {
	*servers.Server

	From string // who distributes it: npm, Go or Debian

	// Told says that the limiter's answers to requests that it serves state what is left of the
	// window, and when that ends: a crawler has no need to be refused. Limiters that cut off the
	// fraction of a second, or that state another window than they keep, aren't among them.
	Told bool

	// Short says that the limiter is one of those that the short form crawls.
	Short bool
}

// Ecosystems, as Limiter.From has them.
const (
	npm    = "npm"
	golang = "Go"
	debian = "Debian"
)

// A row is a Limiter before its program is installed.
type row struct {
	from  string
	name  string
	rule  string
	rate  float64 // pages a second in the long run; 0: the limiter answers ever later instead
	told  bool
	short bool
}

// minute is a number of requests a minute as a rate.
func minute(requests float64) float64 { return requests / 60 }

// rows are the limiters, but for those of Debian. The version of each stands in the lock file of
// testdata/npm, or in lab/go.mod.
var rows = []row{
	{npm, "express-draft-8", "express-rate-limit, draft-8, 60/min", minute(60), true, true},
	{npm, "express-draft-7", "express-rate-limit, draft-7, 60/min", minute(60), true, false},
	{npm, "express-draft-6", "express-rate-limit, draft-6, 60/min", minute(60), true, false},
	{npm, "express-legacy", "express-rate-limit, its default X-RateLimit, 60/min", minute(60), true, false},
	{npm, "express-bare", "express-rate-limit without headers, 60/min", minute(60), false, false},
	{npm, "express-420", "express-rate-limit without headers, status 420, 60/min", minute(60), false, false},
	{npm, "flexible-bare", "rate-limiter-flexible, README: 3/s, bare 429", 3, false, false},
	{npm, "flexible-headers", "rate-limiter-flexible, README's headers on refusals, 10 in 10 s", 1, false, true},
	{npm, "flexible-date", "the same, X-RateLimit-Reset as a date", 1, false, false},
	{npm, "flexible-block", "rate-limiter-flexible, 30/min, blockDuration 60 s", minute(30), false, false},
	{npm, "fastify", "@fastify/rate-limit, 60/min", minute(60), true, false},
	{npm, "fastify-ban", "@fastify/rate-limit, 60/min, ban: 2", minute(60), true, true},
	{npm, "koa", "koa-ratelimit, its default names, 15 in 10 s", 1.5, true, false},
	{npm, "koa-readme", "koa-ratelimit, README's names, 60/min", minute(60), true, false},
	{npm, "hapi", "hapi-rate-limit, userLimit 30 in 30 s", 1, true, false},
	{npm, "hono", "hono-rate-limiter, 60/min", minute(60), true, false},
	{npm, "slow-down", "express-slow-down, 30/min free, then 0.5 s more each", 0, false, false},
	{npm, "bottleneck", "Bottleneck queue, 1/s", 1, false, false},
	// It states the end of the minute, at which the requests of that minute still count in full.
	{golang, "httprate", "go-chi/httprate, 60/min, sliding", minute(60), false, false},
	{golang, "ulule", "ulule/limiter, 60-M, reset in whole seconds, cut off", minute(60), false, false},
	{golang, "tollbooth", "didip/tollbooth, 1/s", 1, true, false},
	{golang, "throttled", "throttled, README: GCRA 20/min, burst 5", minute(20), true, true},
	{golang, "go-limiter", "sethvargo/go-limiter, 30/min, dates in UTC, cut off", minute(30), false, false},
	{golang, "echo", "echo RateLimiter, 1/s, burst 3, bare 429", 1, false, false},
	{golang, "gin", "gin-rate-limit, 2/s", 2, false, false},
	{golang, "x-time-rate", "x/time/rate per visitor, 1/s, burst 3, bare 429", 1, false, true},
	{golang, "uber", "uber/ratelimit, 1/s: it answers late", 1, false, false},
	{golang, "fiber", "fiber limiter, its defaults: 5/min", minute(5), true, false},
	{golang, "fiber-sliding", "fiber limiter, 20 in 30 s, sliding", 20. / 30, false, false},
}

// packaged are the limiters of Debian, by their names in package servers.
var packaged = []struct {
	name  string
	short bool
}{
	{name: "nginx-503"},
	{name: "nginx-503-burst"},
	{name: "nginx-429-burst"},
	{name: "nginx-403"},
	{name: "nginx-403-burst"},
	{name: "nginx-430"},
	{name: "nginx-delay"},
	{name: "nginx-30rm"},
	{name: "haproxy-429"},
	{name: "haproxy-tarpit"},
	{name: "haproxy-ban", short: true},
	{name: "apache-evasive"},
	{name: "apache-qos"},
	{name: "varnish"},
}

// Programs are the programs of the limiters of npm and of Go. A limiter whose program is empty is
// left out.
type Programs struct {
	Server string // path of testdata/npm/server.mjs, beside its node_modules
	Go     string // path of the command golimiters
}

// Limiters returns the rows of the table whose programs are there.
func Limiters(p Programs) ([]*Limiter, error) {
	var all []*Limiter
	for _, r := range rows {
		command := []string{"node", p.Server}
		if r.from == golang {
			command = []string{p.Go}
		}
		if slices.Contains(command, "") {
			continue
		}
		s := servers.Server{Name: r.name, Rule: r.rule, Kind: servers.Window, Rate: r.rate}
		server := servers.Command(s, func(addr, site, log string) []string {
			return append(slices.Clone(command), r.name, addr, site, log)
		})
		all = append(all, &Limiter{Server: server, From: r.from, Told: r.told, Short: r.short})
	}
	ofDebian := slices.Concat(servers.Servers, servers.Forbidding)
	for _, d := range packaged {
		i := slices.IndexFunc(ofDebian, func(s *servers.Server) bool { return s.Name == d.name })
		if i < 0 {
			return nil, fmt.Errorf("package servers has no %s", d.name)
		}
		s := ofDebian[i]
		if len(s.Missing()) == 0 {
			all = append(all, &Limiter{Server: s, From: debian, Short: d.short})
		}
	}
	return all, nil
}
