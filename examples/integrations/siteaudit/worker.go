package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

// work fetches the URLs of the database, and writes its results there.
func work(ctx context.Context, out io.Writer, o options, s *store) (err error) {
	id, err := s.id(ctx)
	if err != nil {
		return err
	}
	sinks := []evidence.Evidence{s}
	show := &flow{out: out, trips: make(map[uint64]*trip)}
	if o.flow {
		sinks = append(sinks, show)
	}
	a, err := newAuditor(ctx, o, id, func(cfg *politeness.Config) {
		cfg.Base = gate{cfg.Base, s}
		if o.redis == "" {
			cfg.Budget = &spend{store: s, limits: cfg.Spend}
		}
	}, sinks...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	show.budget = a.budget
	if a.budget.Check(ctx, "", time.Time{}) == nil {
		if err := s.budgetLeft(ctx); err != nil {
			return err
		}
	}
	c, err := crawl.New(crawl.Config{
		Transport: a.Transport,
		Queue:     s,
		MaxDepth:  -1,
		Progress:  crawl.ProgressLine(o.log),
		Visit: func(_ context.Context, p *crawl.Page) error {
			s.visited(p.FinalURL, examine(p))
			return nil
		},
	})
	if err != nil {
		return err
	}

	err = errors.Join(runAlive(ctx, out, c, s), a.EvidenceErr())
	if err != nil {
		return err
	}
	usage, err := a.budget.Usage(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "spent: %d of %d pages, %.1f of %.0f s, %d bytes.\n",
		usage.Pages, usage.Limits.Pages, usage.Elapsed.Seconds(), usage.Limits.Duration.Seconds(), usage.Bytes)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.overBudget(ctx, a.budget)
}

// runAlive runs the crawl, and shows the other workers meanwhile that this one is alive. While
// these have URLs, it waits for what they may leave.
func runAlive(ctx context.Context, out io.Writer, c *crawl.Crawler, s *store) error {
	alive, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	ended := make(chan error, 1)
	go func() { ended <- s.live(alive) }()
	summary, err := c.Run(ctx)
	if err == nil {
		fmt.Fprintln(out, summary)
	}
	over()
	return errors.Join(err, <-ended)
}

// overBudget returns the error of a budget that is spent while URLs are left, nil if it isn't, or
// none are.
func (s *store) overBudget(ctx context.Context, b budget.Budget) error {
	spent := b.Check(ctx, "", time.Time{})
	if !errors.Is(spent, budget.ErrExceeded) {
		return spent
	}
	left, err := s.budgetSpent(ctx)
	if err != nil || left == 0 {
		return err
	}
	if left == 1 {
		return fmt.Errorf("1 URL is left: %w", spent)
	}
	return fmt.Errorf("%d URLs are left: %w", left, spent)
}

// A gate sends nothing once evidence could not be written. It stands between politeness and the
// network, so that the verdict on a page is written by then, or has failed to be.
type gate struct {
	next  http.RoundTripper
	store *store
}

func (g gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.store.Err(); err != nil {
		return nil, err
	}
	return g.next.RoundTrip(req)
}

// examine is the audit of one page. A real one would look at more.
func examine(p *crawl.Page) *result {
	sum := sha256.Sum256(p.Body)
	return &result{
		bytes:       len(p.Body),
		contentType: p.Response.Header.Get("Content-Type"),
		sha256:      hex.EncodeToString(sum[:]),
		title:       title(p),
		directives:  words(p.Directives),
		fetched:     time.Now(),
	}
}

// words writes what a page asks of crawlers.
func words(d robots.Directives) string {
	var said []string
	if d.NoIndex {
		said = append(said, "noindex")
	}
	if d.NoFollow {
		said = append(said, "nofollow")
	}
	return strings.Join(said, ", ")
}

// maxTitle is how many bytes of a title are kept.
const maxTitle = 200

// title returns the title of an HTML page, empty if there is none.
func title(p *crawl.Page) string {
	if !strings.Contains(p.Response.Header.Get("Content-Type"), "html") {
		return ""
	}
	z := html.NewTokenizer(bytes.NewReader(p.Body))
	for inTitle := false; ; {
		switch z.Next() {
		case html.ErrorToken, html.EndTagToken:
			if inTitle || z.Err() != nil {
				return ""
			}
		case html.StartTagToken:
			name, _ := z.TagName()
			inTitle = atom.Lookup(name) == atom.Title
		case html.TextToken:
			if inTitle {
				text := strings.Join(strings.Fields(string(z.Text())), " ")
				return strings.ToValidUTF8(text[:min(len(text), maxTitle)], "")
			}
		}
	}
}
