package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
)

// The benchmarks of what speaks to Redis are in a package of their own, redis/, which this section
// runs.

const (
	fleetLimiter = "redislimit"
	fleetRate    = "redis_rate"
	fleetBucket  = "token bucket in Lua"
)

func redisSection() section {
	return section{
		name: "redis", title: "A fleet on Redis: cost and pace", run: runRedis,
		rivals: []string{fleetLimiter, fleetRate, fleetBucket},
	}
}

func runRedis(b *bench) (result, error) {
	r := result{
		what: "One Redis, and 64 callers in one process. On 5,000 hosts that are free, a limiter has nothing to do but to know it: what does a start cost, its release included? On one host that all want, every d: how near to one start each d does it come, and how many starts follow the one before too soon? " +
			"`go test -bench .` in [redis](redis) shows these figures alone.",
		read: "CPU is that of the server, as its INFO tells it, for each start; “calls” are round trips for each start. A redislimit turn is queued, holds a slot, has a number and an end; the others count a rate, and who is refused sleeps and asks again, which is what their calls on the saturated host are. " +
			"Its cost is had by sharing what calls have in common: one script serves all turns that are waiting, 15 of them with 64 callers, so that reading the time, the generation and the signs of life is paid for once; a host is one packed key; the release isn't waited for and goes along with the next call. " +
			"A gap counts from the start, of which the release tells the server, or a call of its own where others wait and a 64th of the delay would be lost. What a short delay loses is how late a process is woken, and how well it knows the server's clock.",
		limits: "Server and callers share one machine, whose processors limit the starts a second of all three: no network, one process. Callers in many processes have fewer turns to send together: with two callers each turn is a call of its own, which took 86 µs where one of redis_rate took 35. Too soon is told by the callers' own clock, just after they were let go, and a caller that the machine holds up there makes the next start look too soon: redislimit's stamps have no gap that is short.",
	}
	goals := newGoals("of redislimit")

	found, err := goBench("BenchmarkFree", b.redisFree)
	if err != nil {
		return r, err
	}
	t := table{caption: "Free hosts:", header: []string{"by", "starts a second", "server's CPU a start", "calls a start"}}
	bars := plot.Bars{Title: "CPU of the Redis server for a start and its release", Subtitle: "5,000 free hosts, 64 callers", Format: duration}
	var group plot.Group
	for _, by := range redisSection().rivals {
		f := found[by]
		t.add(by, count(int(f["acquires/s"])), duration(1e3*f["redis-us/op"]), digits(f["trips/op"]))
		group.Bars = append(group.Bars, plot.Bar{Name: by, Value: 1e3 * f["redis-us/op"], Ours: by == fleetLimiter})
	}
	bars.Groups = append(bars.Groups, group)
	r.plots = append(r.plots, figure{"redis", "Bars: CPU of the server for each start, by limiter", bars})
	r.tables = append(r.tables, t)
	ours := found[fleetLimiter]
	goals.atMost("server's CPU a start", 1e3*ours["redis-us/op"], 35e3, duration, "one processor of a server is to do for a fleet of 10,000 starts a second, three times over")
	goals.atLeast("starts a second", ours["acquires/s"], 20_000, number, "a process isn't to be held up by its limiter")

	for _, d := range b.delays {
		found, err := goBench("BenchmarkSaturated/"+d.String(), strconv.Itoa(max(2, int(b.pacing[d]/d)))+"x")
		if err != nil {
			return r, err
		}
		t := table{caption: fmt.Sprintf("One host, d = %v:", d), header: []string{"by", "share of the rate", "too soon", "calls a start"}}
		for _, by := range redisSection().rivals {
			f := found[by]
			t.add(by, digits(f["%rate"])+" %", digits(f["%short"])+" %", digits(f["trips/op"]))
		}
		r.tables = append(r.tables, t)
		ours, least := found[fleetLimiter], 0.99
		if d < 100*time.Millisecond {
			least = 0.95
		}
		goals.atLeast(fmt.Sprintf("share of the rate, d = %v", d), ours["%rate"]/100, least, perCent, "a fleet is as fast as one process may be")
		goals.atMost(fmt.Sprintf("too soon, d = %v", d), ours["%short"]/100, 0, perCent, "a fleet is as polite as one process")
	}
	r.tables = append(r.tables, goals.table)
	return r, nil
}

// goBench runs benchmarks of redis/ and returns their metrics, by limiter and unit.
func goBench(name, benchtime string) (map[string]map[string]float64, error) {
	cmd := exec.CommandContext(context.Background(), "go", "test", "-C", "redis", "-count=1", "-run=^$", "-bench=^"+strings.ReplaceAll(name, "/", "$/^")+"$", "-benchtime="+benchtime, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	found := map[string]map[string]float64{}
	for line := range bytes.Lines(out) {
		f := strings.Fields(string(line))
		if len(f) < 2 || !strings.HasPrefix(f[0], name+"/") {
			continue
		}
		by, _, _ := strings.Cut(strings.TrimPrefix(f[0], name+"/"), "-")
		if by == "bucket" {
			by = fleetBucket
		}
		found[by] = map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			if found[by][f[i+1]], err = strconv.ParseFloat(f[i], 64); err != nil {
				return nil, err
			}
		}
	}
	if len(found) < len(redisSection().rivals) {
		return nil, fmt.Errorf("%v measured %d limiters:\n%s", cmd.Args, len(found), out)
	}
	return found, nil
}
