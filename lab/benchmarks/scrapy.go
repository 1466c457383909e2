package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const scrapyName = "Scrapy"

//go:embed spider.py
var spider []byte

// scaleScrapy measures what requests of Scrapy take of processors, in nanoseconds each: what a
// process takes that makes them, without what one takes that makes a single one.
func (b *bench) scaleScrapy() (float64, error) {
	program, err := exec.LookPath("scrapy")
	if err != nil {
		return 0, fmt.Errorf("%w; install it with: apt-get install -y python3-scrapy", err)
	}
	addr, stop, err := scaleServer()
	if err != nil {
		return 0, err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "spider.py")
	if err := os.WriteFile(file, spider, 0o600); err != nil {
		return 0, err
	}
	crawl := func(requests int) (time.Duration, error) {
		cmd := exec.CommandContext(
			context.Background(), program, "runspider", file, "-a", "url=http://"+addr+"/page", "-a",
			"requests="+strconv.Itoa(requests))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}
	var each []float64
	for range min(3, b.rounds) {
		one, err := crawl(1)
		if err != nil {
			return 0, err
		}
		all, err := crawl(1 + b.requests)
		if err != nil {
			return 0, err
		}
		each = append(each, float64(all-one)/float64(b.requests))
	}
	return median(each), nil
}
