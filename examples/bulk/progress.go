package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// An outcome is what became of a URL.
type outcome int

const (
	outcomeStored    outcome = iota // new or changed
	outcomeUnchanged                // 304, or the same as before
	outcomeFresh                    // not asked for: crawled lately
	outcomeNoIndex                  // fetched, but its body isn't to be kept
	outcomeMissing                  // 3xx without a goal, 4xx
	outcomeRefused                  // by robots.txt, type or size
	outcomeFailed                   // 429, 5xx or no answer, also after retries
	outcomes
)

func (o outcome) String() string {
	return [...]string{"stored", "unchanged", "fresh", "noindex", "missing", "refused", "failed"}[o]
}

// A progress shows how far a crawl is: on a terminal in one line that is written
// over, elsewhere in a line a second. It is Evidence, too, for what holds a crawl.
type progress struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	began    time.Time
	shown    time.Time
	width    int // of the line on the terminal
	total    int
	counts   [outcomes]int
	retries  int
	blocks   int
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, began: time.Now()}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			p.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	p.shown = p.began
	return p
}

// add says that n more URLs are to be crawled.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += n
}

// done says what became of a URL.
func (p *progress) done(o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[o]++
	interval := time.Second
	if p.terminal {
		interval = 100 * time.Millisecond
	}
	if time.Since(p.shown) >= interval {
		p.show()
	}
}

// say prints a line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(fmt.Sprintf(format, args...))
}

// line prints a line of its own. Call it with mu held, as show.
func (p *progress) line(text string) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r%-*s\n", p.width, text)
		p.width = 0
		return
	}
	fmt.Fprintln(p.out, text)
}

func (p *progress) show() {
	p.shown = time.Now()
	text := p.summary()
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, text)
	p.width = len(text)
}

func (p *progress) summary() string {
	done := 0
	var parts []string
	for o, n := range p.counts {
		done += n
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome(o)))
		}
	}
	if p.retries > 0 {
		parts = append(parts, fmt.Sprintf("%d retries", p.retries))
	}
	if p.blocks > 0 {
		parts = append(parts, fmt.Sprintf("%d times told to slow down", p.blocks))
	}
	return fmt.Sprintf("%d of %d URLs in %.1f s: %s", done, p.total, time.Since(p.began).Seconds(), strings.Join(parts, ", "))
}

// Record counts retries, and tells of hosts that want to be left alone.
func (p *progress) Record(_ context.Context, d evidence.Decision) {
	switch d.Type {
	case evidence.Retried:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.retries++
	case evidence.HostBlocked:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.blocks++
		p.line(fmt.Sprintf("%s answers %d: nobody asks it for %.0f s, %s", d.Host, d.Status, d.Until.Sub(d.Time).Seconds(), d.Reason))
	}
}

// end prints the result.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(p.summary())
}
