package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/robots"
)

const lintUsage = `Usage: politeness lint [flags] FILE|URL...

Lists the mistakes of a robots.txt by line: lines that crawlers don't read,
rules that apply to no crawler, and contradictions. A URL stands for the
robots.txt of its site, "-" for standard input.

  -agent UA   User-Agent of the fetch
  -private    fetch from hosts whose names lead to private addresses, too

  politeness lint robots.txt
  politeness lint https://example.com
  curl -s https://example.com/robots.txt | politeness lint -

Exit status: 0 nothing was found, 1 something was found, 2 it can't be read.
`

// maxLint is how much of a robots.txt is read: more than any crawler does.
const maxLint = 4 << 20

func runLint(ctx context.Context, sh *shell, args []string) (int, error) {
	p := policy{own: ownAgent(), ignoreRobots: true} // nothing else is fetched
	flags := flag.NewFlagSet("lint", flag.ContinueOnError)
	flags.StringVar(&p.agent, "agent", "", "")
	flags.BoolVar(&p.private, "private", false, "")
	names, err := parse(flags, args, "FILE or URL")
	if err != nil {
		return 0, err
	}
	cfg, err := p.config(p.reach(names))
	if err != nil {
		return 0, err
	}
	transport, err := politeness.New(cfg)
	if err != nil {
		return 0, err
	}
	status := exitOK
	for _, name := range names {
		text, err := readRobots(ctx, sh, &http.Client{Transport: transport}, name)
		if err != nil {
			if errors.As(err, new(*fs.PathError)) {
				return 0, err // names the file
			}
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		for _, f := range robots.Parse(text).Lint() {
			status = exitNo
			where := name
			if f.Line > 0 {
				where = fmt.Sprintf("%s:%d", name, f.Line)
			}
			fmt.Fprintf(sh.out, "%s: %s: %s\n",
				printable.Text(where), sh.paint(yellow, string(f.Problem)), printable.Text(f.Text))
		}
	}
	return status, nil
}

// readRobots returns a robots.txt.
func readRobots(ctx context.Context, sh *shell, client *http.Client, name string) ([]byte, error) {
	isURL := strings.Contains(name, "://")
	if !isURL {
		defer sh.reading(ctx)() // a file may be a pipe
	}
	if name == "-" {
		return io.ReadAll(io.LimitReader(sh.in, maxLint))
	}
	if !isURL {
		file, err := os.Open(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "."):
			return nil, fmt.Errorf("%w; a URL begins with https:// or http://", err)
		case err != nil:
			return nil, err
		}
		defer file.Close()
		return io.ReadAll(io.LimitReader(file, maxLint))
	}
	normal, err := crawl.Normalize(name)
	if err != nil {
		return nil, noURL(name, err)
	}
	u, err := url.Parse(normal)
	if err != nil {
		return nil, err
	}
	u = u.ResolveReference(&url.URL{Path: "/robots.txt"})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returns %s", req.URL, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxLint))
}
