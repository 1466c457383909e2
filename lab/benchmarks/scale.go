package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/lab/benchmarks/internal/plot"
	"github.com/go-politeness/politeness/lab/benchmarks/limits"
	"github.com/go-politeness/politeness/lab/benchmarks/rivals"
)

// serverEnv is the environment variable that makes this program the server of [scaleServer].
const serverEnv = "POLITENESS_BENCH_SERVER"

func scaleSection() section {
	return section{
		name: "scale", title: "Scale", run: runScale,
		rivals: []string{rivals.Bare, rivals.Politeness, rivals.DIY, rivals.Colly, scrapyName, crawlPackage, ourPool},
	}
}

const (
	wantCPUOfBare   = 1.5 // times the processor time of a request by net/http
	wantCPUOfDIY    = 1.5 // of one by x/time/rate
	wantCPUOfColly  = 1.0
	wantCPUOfScrapy = 1.0
	wantFetches     = 1.0 // fetches of robots.txt a host, whatever the bound, with a state directory
	wantOfPossible  = 0.95
	wantOfChannel   = 10.0 // times the pages of a channel of URLs with 32 workers
	wantHostBytes   = 500.0
	wantHostsGC     = 1. / 2 // of what a host costs a collection with x/time/rate
	wantHostOfDIY   = 1. / 2
	wantLogBytes    = 1500.0 // a request
	wantAuditOfMake = 1.0    // share of the time that the crawler took to write the lines
	wantAuditHeap   = 256e6
)

func runScale(b *bench) (result, error) {
	r := resultOf("scale", count(b.robotsHosts), count(b.lineCount))
	targets := newGoals("at scale")
	for _, part := range []func(*goals, *result) (table, error){
		b.scaleRequests,
		b.scaleRobots,
		b.scaleCrawl,
		b.scaleHosts,
		b.scaleLog,
	} {
		t, err := part(targets, &r)
		if err != nil {
			return r, err
		}
		r.tables = append(r.tables, t)
	}
	r.tables = append(r.tables, targets.table)
	return r, nil
}

// scaleRequests compares the processor time of requests over HTTP.
func (b *bench) scaleRequests(goals *goals, r *result) (table, error) {
	t := table{
		caption: "Processor time of a request over HTTP:",
		header:  []string{"by", "time", "/ net/http"},
	}
	all, err := b.scaleCPU()
	if err != nil {
		return t, err
	}
	scrapy, err := b.scaleScrapy()
	if err != nil {
		return t, err
	}
	group := plot.Group{Name: "a request"}
	for i, s := range all {
		t.add(s.by, duration(s.median()), times(s.times(all[0])))
		group.Bars = append(group.Bars, plot.Bar{Name: s.by, Value: s.median(), Ours: i == 1})
	}
	t.add(scrapyName, duration(scrapy), times(scrapy/all[0].median()))
	group.Bars = append(group.Bars, plot.Bar{Name: scrapyName, Value: scrapy})
	bars := plot.Bars{
		Title:    "Processor time of a request over HTTP",
		Subtitle: "client only; loopback, one connection, 5 KB",
		Format:   duration,
		Groups:   []plot.Group{group},
	}
	r.plots = []figure{{"scale", "Bars: processor time of a request, by client", bars}}

	ours := all[1]
	goals.atMost(
		"processor time of a request, of net/http's", ours.times(all[0]), wantCPUOfBare, times,
		"one line around a client isn't to need another machine")
	goals.atMost(
		"processor time of a request, of x/time/rate's", ours.times(all[2]), wantCPUOfDIY, times,
		"who writes it by hand saves no more than that")
	goals.atMost(
		"processor time of a request, of colly's", ours.times(all[3]), wantCPUOfColly, times,
		"who comes from colly pays no more")
	goals.atMost(
		"processor time of a request, of Scrapy's", ours.median()/scrapy, wantCPUOfScrapy, times,
		"who comes from Scrapy pays no more")
	return t, nil
}

// scaleCrawl compares crawls of many hosts, of which some are slow.
func (b *bench) scaleCrawl(goals *goals, _ *result) (table, error) {
	t := table{
		caption: "Pages of quick hosts a second, of " + count(b.manyHosts) + " hosts of which three in ten are slow:",
		header:  []string{"by", "pages a second", "of what is possible", "processor time of a page"},
	}
	worst := mix{
		slow:    b.manyHosts * 3 / 10,
		blocked: b.manyHosts / 100,
		drip:    1,
		patient: 1,
	}
	possible := float64(5 * (b.manyHosts - worst.troubled()))
	rates := make(map[string]float64)
	for _, by := range []string{crawlPackage, ourPool} {
		rate, cpu, err := b.crawlRate(by, worst)
		if err != nil {
			return t, fmt.Errorf("%s: %w", by, err)
		}
		rates[by] = rate
		t.add(by, number(rate), share(rate/possible), duration(cpu))
	}
	goals.atLeast(
		"pages a second by crawl, of what is possible",
		rates[crawlPackage]/possible, wantOfPossible, perCent,
		"no host is to wait for another one")
	goals.atLeast(
		"pages a second by crawl, of those by a channel",
		rates[crawlPackage]/max(rates[ourPool], 0.1), wantOfChannel, times,
		"slow hosts are what a crawl by hand stops at")
	return t, nil
}

func megabytes(b float64) string { return fmt.Sprintf("%.0f MB", b/1e6) }

func share(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// serveScale is the server of [bench.scaleCPU], in a process of its own until its standard input
// ends.
func serveScale() {
	page := strings.Repeat("a page ", 700)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			_, _ = io.WriteString(w, nineRules)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	}))
	fmt.Println(server.Listener.Addr()) //nolint:forbidigo // this is how it tells
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// scaleServer starts the server and returns its address.
func scaleServer() (addr string, stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(context.Background(), program)
	cmd.Env = append(os.Environ(), serverEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		in.Close()
		_ = cmd.Wait() // it ends once its input does
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, err
	}
	return strings.TrimSpace(line), stop, nil
}

// scaleCPU measures what requests over HTTP take of processors, round by round.
func (b *bench) scaleCPU() ([]samples, error) {
	addr, stop, err := scaleServer()
	if err != nil {
		return nil, err
	}
	defer stop()
	base := func() http.RoundTripper {
		return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}
	}
	polite, err := rivals.NewPoliteness(base(), unpaced)
	if err != nil {
		return nil, err
	}
	collector, err := rivals.NewColly(base(), unpaced)
	if err != nil {
		return nil, err
	}
	fetchers := []rivals.Fetcher{
		rivals.Client(base()),
		rivals.Client(polite),
		rivals.Client(rivals.NewDIY(base(), unpaced)),
		collector,
	}
	all := make([]samples, len(fetchers))
	for i, by := range []string{rivals.Bare, rivals.Politeness, rivals.DIY, rivals.Colly} {
		all[i].by = by
	}
	for round := range b.rounds + 1 { // the first warms up
		for i := range fetchers {
			i = (i + round) % len(fetchers)
			runtime.GC()
			before := processorTime()
			for range b.requests {
				if err := fetchers[i].Get(context.Background(), "http://example.test/page"); err != nil {
					return nil, fmt.Errorf("%s: %w", all[i].by, err)
				}
			}
			if took := processorTime() - before; round > 0 {
				all[i].ns = append(all[i].ns, float64(took)/float64(b.requests))
			}
		}
	}
	return all, nil
}

// ownRules answers from memory, robots.txt with rules that no other host has, and counts those.
type ownRules struct{ fetched atomic.Int64 }

func (o *ownRules) RoundTrip(req *http.Request) (*http.Response, error) {
	text := "hello"
	if req.URL.Path == "/robots.txt" {
		o.fetched.Add(1)
		text = nineRules + "\nUser-agent: *\nDisallow: /of/" + req.URL.Host + "/\n"
	}
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     header,
		Body:       io.NopCloser(strings.NewReader(text)),
		Request:    req,
	}, nil
}

// scaleRobots counts fetches of robots.txt, with a cache that has room for all and with one that
// hasn't.
func (b *bench) scaleRobots(goals *goals, _ *result) (table, error) {
	t := table{
		caption: "Fetches of robots.txt in three visits:",
		header:  []string{"by", "a host", "processor time of a page", "bytes held a host"},
	}
	state, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(state)
	const each = 400 // bytes: an eighth of the hosts or so fits
	for _, c := range []struct {
		by    string
		bound int64
		state string
	}{
		{"politeness, room for all", 0, ""},
		{"politeness, room for few", int64(b.robotsHosts) * each / 2, ""},
		{"politeness, room for few, with a state directory", int64(b.robotsHosts) * each / 2, state},
		{"colly, which keeps all", -1, ""},
	} {
		base := new(ownRules)
		before := heap()
		fetcher, err := fetcherOf(base, c.bound, c.state)
		if err != nil {
			return t, err
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		begin := processorTime()
		for range 3 {
			for _, i := range rnd.Perm(b.robotsHosts) {
				if err := fetcher.Get(context.Background(), "https://"+limits.Name(i)+"/page"); err != nil {
					return t, fmt.Errorf("%s: %w", c.by, err)
				}
			}
		}
		took := float64(processorTime()-begin) / float64(3*b.robotsHosts)
		fetches := float64(base.fetched.Load()) / float64(b.robotsHosts)
		held := float64(heap()) - float64(before)
		runtime.KeepAlive(fetcher)
		t.add(c.by, digits(fetches), duration(took), size(held/float64(b.robotsHosts)))
		if c.state != "" {
			goals.atMost(
				"fetches of robots.txt a host, beyond the cache's bound, with state", fetches, wantFetches, digits,
				"a site sees one fetch, whatever memory the crawler has")
		}
	}
	return t, nil
}

// fetcherOf returns politeness with a bound of its memory of robots.txt in bytes, 0 for the
// default, or colly if the bound is negative.
func fetcherOf(base http.RoundTripper, bound int64, state string) (rivals.Fetcher, error) {
	if bound < 0 {
		return rivals.NewColly(base, unpaced)
	}
	cfg := politeness.Config{
		UserAgent: rivals.UserAgent,
		Base:      base,
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: time.Microsecond}},
	}.WithState(state)
	cfg.Robots.MaxBytes = bound
	rt, err := politeness.New(cfg)
	if err != nil {
		return nil, err
	}
	return rivals.Client(rt), nil
}

// scaleHosts has a whole Transport fetch a page of each of very many hosts.
func (b *bench) scaleHosts(goals *goals, _ *result) (table, error) {
	t := table{
		caption: "A page of each host, by whole crawlers:",
		header:  []string{"by", "hosts", "bytes a host", "processor time of a garbage collection", "of a page"},
	}
	base := instant{nineRules, true}
	var bytes, collected [2]float64 // of a host
	for i, c := range []struct {
		by    string
		hosts int
	}{{rivals.Politeness, b.hosts}, {rivals.DIY, b.hosts / 10}} {
		before := heap()
		rt, err := rivals.NewPoliteness(base, unpaced)
		if err != nil {
			return t, err
		}
		if i == 1 {
			rt = rivals.NewDIY(base, unpaced)
		}
		fetcher := rivals.Client(rt)
		begin := processorTime()
		for host := range c.hosts {
			if err := fetcher.Get(context.Background(), "https://"+limits.Name(host)+"/page"); err != nil {
				return t, fmt.Errorf("%s: %w", c.by, err)
			}
		}
		page := float64(processorTime()-begin) / float64(c.hosts)
		bytes[i] = (float64(heap()) - float64(before)) / float64(c.hosts)
		begin = processorTime()
		runtime.GC()
		collection := float64(processorTime() - begin)
		collected[i] = collection / float64(c.hosts)
		runtime.KeepAlive(fetcher)
		t.add(c.by, count(c.hosts), size(bytes[i]), duration(collection), duration(page))
		if i == 0 {
			goals.atMost(
				"bytes of a host, of "+count(c.hosts), bytes[0], wantHostBytes, size,
				"a million hosts fit into half a gigabyte, robots.txt and all")
		}
	}
	goals.atMost(
		"processor time of a garbage collection a host, of x/time/rate's", collected[0]/collected[1],
		wantHostsGC, share, "the crawl's own memory is what a collection is to be about")
	goals.atMost(
		"bytes of a host, of x/time/rate's", bytes[0]/bytes[1], wantHostOfDIY, share,
		"who writes it by hand holds twice as much")
	return t, nil
}

// scaleLog writes a log and audits it.
func (b *bench) scaleLog(goals *goals, r *result) (table, error) {
	t := table{
		caption: "The log of a crawl of 1,000 hosts, and its audit:",
		header:  []string{"of", "lines", "bytes a request", "processor time of a line", "heap at most"},
	}
	dir, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir)
	file, err := os.Create(filepath.Join(dir, "evidence.jsonl"))
	if err != nil {
		return t, err
	}
	defer file.Close()
	begin := processorTime()
	lines, requests, err := b.writeLog(file)
	if err != nil {
		return t, err
	}
	wrote := float64(processorTime()-begin) / float64(lines)
	written, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return t, err
	}
	perRequest := float64(written) / float64(requests)
	t.add("the crawl, which writes it", count(lines), size(perRequest), duration(wrote), "")

	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return t, err
	}
	before := heap()
	peakOf := watchHeap()
	begin = processorTime()
	report, err := audit.Check(file)
	read := float64(processorTime()-begin) / float64(lines)
	peak := float64(peakOf()) - float64(before)
	if err != nil {
		return t, err
	}
	if !report.OK() {
		r.broken += len(report.Violations)
		return t, errors.New(report.String())
	}
	t.add("the audit", count(lines), "", duration(read), megabytes(peak))
	goals.atMost(
		"bytes of the log a request", perRequest, wantLogBytes, size,
		"a million pages are 1.5 GB, before compression")
	goals.atMost(
		"processor time of the audit, of the crawl's that wrote the log", read/wrote, wantAuditOfMake,
		share, "a log is judged faster than it was written")
	goals.atMost(
		"heap of the audit of "+count(lines)+" lines", peak, wantAuditHeap, megabytes,
		"a log of a day is judged on a laptop")
	return t, nil
}

// writeLog crawls until the log in w has b.lineCount lines, and returns how many it has.
func (b *bench) writeLog(w io.Writer) (lines, requests int, err error) {
	log := evidence.JSONLines(w)
	sink := evidence.Multi(log, evidence.Func(func(context.Context, evidence.Decision) { lines++ }))
	rt, err := rivals.NewPoliteness(instant{nineRules, true}, rivals.Terms{Slots: 2, Evidence: sink})
	if err != nil {
		return 0, 0, err
	}
	fetcher := rivals.Client(rt)
	for lines < b.lineCount {
		url := fmt.Sprintf("https://%s/articles/2026/page-%d", limits.Name(requests%1000), requests)
		if err := fetcher.Get(context.Background(), url); err != nil {
			return 0, 0, err
		}
		requests++
	}
	return lines, requests, log.Close()
}

// watchHeap looks at the size of the heap until peak is called, which returns the largest.
func watchHeap() (peak func() uint64) {
	stop := make(chan struct{})
	most := make(chan uint64)
	go func() {
		var m runtime.MemStats
		largest := uint64(0)
		for {
			runtime.ReadMemStats(&m)
			largest = max(largest, m.HeapAlloc)
			select {
			case <-stop:
				most <- largest
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-most
	}
}
