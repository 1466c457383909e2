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
	r := resultOf("redis")
	goals := newGoals("of redislimit")

	found, err := goBench("BenchmarkFree", b.redisFree)
	if err != nil {
		return r, err
	}
	t := table{
		caption: "Free hosts:",
		header:  []string{"by", "starts a second", "server's CPU a start", "calls a start"},
	}
	bars := plot.Bars{
		Title:    "CPU of the Redis server for a start and its release",
		Subtitle: "5,000 free hosts, 64 callers",
		Format:   duration,
	}
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
	goals.atMost(
		"server's CPU a start", 1e3*ours["redis-us/op"], 35e3, duration,
		"one processor of a server is to do for a fleet of 10,000 starts a second, three times over")
	goals.atLeast("starts a second", ours["acquires/s"], 20_000, number, "a process isn't to be held up by its limiter")

	for _, d := range b.delays {
		found, err := goBench("BenchmarkSaturated/"+d.String(), strconv.Itoa(max(2, int(b.pacing[d]/d)))+"x")
		if err != nil {
			return r, err
		}
		t := table{
			caption: fmt.Sprintf("One host, d = %v:", d),
			header:  []string{"by", "share of the rate", "too soon", "calls a start"},
		}
		for _, by := range redisSection().rivals {
			f := found[by]
			t.add(by, digits(f["%rate"])+" %", digits(f["%short"])+" %", digits(f["trips/op"]))
		}
		r.tables = append(r.tables, t)
		ours := found[fleetLimiter]
		least := 0.99
		if d < 100*time.Millisecond {
			least = 0.95
		}
		goals.atLeast(
			fmt.Sprintf("share of the rate, d = %v", d), ours["%rate"]/100, least, perCent,
			"a fleet is as fast as one process may be")
		goals.atMost(
			fmt.Sprintf("too soon, d = %v", d), ours["%short"]/100, 0, perCent,
			"a fleet is as polite as one process")
	}
	r.tables = append(r.tables, goals.table)
	return r, nil
}

// goBench runs benchmarks of redis/ and returns their metrics, by limiter and unit.
func goBench(name, benchtime string) (map[string]map[string]float64, error) {
	cmd := exec.CommandContext(
		context.Background(), "go", "test", "-C", "redis", "-count=1", "-run=^$",
		"-bench=^"+strings.ReplaceAll(name, "/", "$/^")+"$", "-benchtime="+benchtime, ".")
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
