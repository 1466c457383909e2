package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/pgqueue"
	"github.com/go-politeness/politeness/internal/pgtest"
	"github.com/go-politeness/politeness/internal/redistest"
)

// A fleet is the crawler processes. Each stands in a lane; when it is killed another one takes its
// place there.
type fleet struct {
	out   io.Writer
	web   *web
	env   []string
	began time.Time

	mu     sync.Mutex
	lanes  []*process
	number int                    // of processes so far
	killed map[string][]time.Time // when a process was killed, or stopped, by its name
	shown  int                    // requests that lines have shown
	err    error                  // of a process that wasn't killed
}

// A process is one crawler.
type process struct {
	name   string
	cmd    *exec.Cmd
	ended  chan struct{}
	killed bool
}

// lead starts everything, lets processes crawl and kills some, and judges.
func lead(ctx context.Context, out io.Writer, o options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	postgres, err := pgtest.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.Stop()) }()
	redis, err := redistest.Run()
	if err != nil {
		return err
	}
	defer redis.Close()
	w := startWeb(o.sites, o.pages)
	defer w.close()
	fmt.Fprintf(out, "Postgres at %s, Redis at %s, %d sites of %d pages, a request each %v, and %d processes.\n\n",
		postgres.URL, redis.Addr, o.sites, o.pages, delay, o.processes)

	f := &fleet{
		out:    out,
		web:    w,
		began:  time.Now(),
		killed: make(map[string][]time.Time),
		lanes:  make([]*process, o.processes),
		env: append(os.Environ(),
			envRedis+"="+redis.Addr,
			envPostgres+"="+postgres.URL,
			envURLs+"="+w.sites[0].URL+"/1"),
	}
	defer f.end()
	for lane := range f.lanes {
		if err := f.start(ctx, lane); err != nil {
			return err
		}
	}
	if err := f.play(ctx, o); err != nil {
		return err
	}
	queue, err := pgqueue.Open(ctx, postgres.URL, crawlName)
	if err != nil {
		return err
	}
	defer queue.Close()
	count, err := queue.Count(ctx)
	if err != nil {
		return err
	}
	return f.judge(o, count)
}

// play shows what happens each second, and kills processes, until all have come to their ends.
func (f *fleet) play(ctx context.Context, o options) error {
	fmt.Fprintf(f.out, "%7s  %5s  %s\n", "seconds", "pages", "hosts that each process asked in the last second")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	left := o.kills
	paused := o.pause == 0
	var next time.Time // of a kill; zero: before the first page
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		running, pages, err := f.show()
		if err != nil {
			return err
		}
		if next.IsZero() && pages > 0 { // a limiter whose server was just started lets nothing start for a while
			next = time.Now().Add(o.every)
		}
		if running == 0 {
			return nil
		}
		allDone := running < o.processes || (left == 0 && paused) // one that has ended: nothing is left
		isTime := !next.IsZero() && !time.Now().Before(next)
		if allDone || !isTime {
			continue
		}
		next = time.Now().Add(o.every)
		lane := rand.IntN(o.processes)
		if !paused {
			paused = true
			if err := f.pause(ctx, lane, o.pause); err != nil {
				return err
			}
			continue
		}
		left--
		f.kill(lane)
		if err := f.start(ctx, lane); err != nil {
			return err
		}
	}
}

// start starts a process in a lane.
func (f *fleet) start(ctx context.Context, lane int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	p := &process{name: fmt.Sprint(f.number), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, os.Args[0])
	p.cmd.Env = append(f.env, envName+"="+p.name)
	p.cmd.Stderr = os.Stderr
	said, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.lanes[lane] = p
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			f.say("%s", lines.Text())
		}
		err := p.cmd.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil && !p.killed && f.err == nil {
			f.err = fmt.Errorf("process %s: %w", p.name, err)
		}
		close(p.ended)
	}()
	return nil
}

func (f *fleet) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "%7.1f  %5s  %s\n", time.Since(f.began).Seconds(), "", fmt.Sprintf(format, args...))
}

// kill ends a process as kill -9 does.
func (f *fleet) kill(lane int) {
	f.mu.Lock()
	p := f.lanes[lane]
	p.killed = true
	name := f.number + 1
	f.mu.Unlock()
	_ = p.cmd.Process.Kill()
	<-p.ended
	f.halted(p)
	f.say("process %s is killed, and process %d takes its place; its hosts are free when its lease ends", p.name, name)
}

// halted notes that p sends no requests from now on.
func (f *fleet) halted(p *process) {
	f.mu.Lock()
	f.killed[p.name] = append(f.killed[p.name], time.Now())
	f.mu.Unlock()
}

// pause stops a process for a while, as a machine does that swaps, or sleeps.
func (f *fleet) pause(ctx context.Context, lane int, d time.Duration) error {
	f.mu.Lock()
	p := f.lanes[lane]
	f.mu.Unlock()
	if err := redistest.Pause(p.cmd.Process); err != nil {
		return err
	}
	f.halted(p)
	f.say("process %s is stopped for %v", p.name, d)
	go func() {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		if redistest.Resume(p.cmd.Process) == nil { // else it was killed meanwhile
			f.say("process %s goes on", p.name)
		}
	}()
	return nil
}

// end ends all processes.
func (f *fleet) end() {
	for _, p := range f.lanes {
		if p != nil {
			f.mu.Lock()
			p.killed = true
			f.mu.Unlock()
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
}

// show prints a line, and returns the numbers of processes that run, and of pages asked for, and
// the error of a process that wasn't killed.
func (f *fleet) show() (running, pages int, err error) {
	log := f.web.requests()
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := make(map[string]map[int]bool)
	for i, e := range log {
		if e.isPage() {
			pages++
		}
		if i >= f.shown && e.isPage() {
			if asked[e.process] == nil {
				asked[e.process] = make(map[int]bool)
			}
			asked[e.process][e.site] = true
		}
	}
	f.shown = len(log)
	var lanes []string
	for _, p := range f.lanes {
		select {
		case <-p.ended:
			lanes = append(lanes, fmt.Sprintf("%2s: ended", p.name))
		default:
			running++
			lanes = append(lanes, fmt.Sprintf("%2s: %-5d", p.name, len(asked[p.name])))
		}
	}
	line := strings.TrimSpace(strings.Join(lanes, "   "))
	fmt.Fprintf(f.out, "%7.1f  %5d  %s\n", time.Since(f.began).Seconds(), pages, line)
	return running, pages, f.err
}

// inFlight is how long before its process was killed a page may have been asked for whose result
// was lost: it was on its way, or being written, which takes a busy disk a while.
const inFlight = 5 * time.Second

// clock is how late a busy machine sends a request whose start was stamped; one in a hundred may be
// later. Processes that don't know of each other break the delay at every second request.
const clock = 50 * time.Millisecond

// judge reports, by the sites' logs, whether the fleet was one polite crawler.
func (f *fleet) judge(o options, count map[crawl.Outcome]int) error {
	log := f.web.requests()
	short, shortest := gaps(log)
	fetches := make(map[string][]entry) // of each page
	for _, e := range log {
		if e.isPage() {
			key := fmt.Sprint(e.site, e.path)
			fetches[key] = append(fetches[key], e)
		}
	}
	pages := 0
	again := 0
	wrong := 0
	for _, all := range fetches {
		pages += len(all)
		for i, e := range all[:len(all)-1] {
			again++
			if !f.wasKilled(e) {
				wrong++
				next := all[i+1]
				fmt.Fprintf(f.out, "\nProcess %s asked site %d for %s at %.1f, and process %s did %v later.\n",
					e.process, e.site, e.path, e.at.Sub(f.began).Seconds(), next.process, next.at.Sub(e.at))
			}
		}
	}
	lost := o.sites*o.pages - len(fetches)
	fmt.Fprintf(f.out, `
By the sites' own logs: %d requests, %d of them for robots.txt; %d pages, %d lost;
%d fetched again that were in flight when their process was killed, %d others;
%d gaps shorter than %v, the shortest %v. In Postgres: %v.
`, len(log), len(log)-pages, len(fetches), lost,
		again-wrong, wrong,
		short, delay-clock, shortest.Round(time.Millisecond), count)
	isWhole := lost <= 0 && count[crawl.Visited] == o.sites*o.pages && count[crawl.Left] == 0
	isPolite := wrong == 0 && short <= len(log)/100
	if !isWhole || !isPolite {
		return errors.New("that was not one polite crawler")
	}
	return nil
}

// gaps returns how many requests came too early after the one before to their site, and the
// shortest time between two.
func gaps(log []entry) (short int, shortest time.Duration) {
	last := make(map[int]time.Time) // arrival of the last request, by site
	shortest = time.Hour
	for _, e := range log {
		at, ok := last[e.site]
		last[e.site] = e.at
		if !ok {
			continue
		}
		gap := e.at.Sub(at)
		shortest = min(shortest, gap)
		if gap < delay-clock {
			short++
		}
	}
	return short, shortest
}

// wasKilled reports whether the process of e was killed, or stopped, while e may have been in
// flight.
func (f *fleet) wasKilled(e entry) bool {
	for _, at := range f.killed[e.process] {
		if !at.Add(clock).Before(e.at) && at.Sub(e.at) <= inFlight {
			return true
		}
	}
	return false
}
