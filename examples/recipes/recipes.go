// Package recipes has short answers to questions about package crawl. Each is a function to copy,
// and is tested on sites in memory. README.md lists them by question.
//
// All of them use a Transport t, which politeness.New makes:
//
//	t, err := politeness.New(politeness.Config{
//		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
//	})
package recipes

import (
	"context"

	"github.com/go-politeness/politeness/crawl"
)

// run makes a Crawler and runs it.
func run(ctx context.Context, cfg crawl.Config, urls ...string) (crawl.Summary, error) {
	c, err := crawl.New(cfg)
	if err != nil {
		return crawl.Summary{}, err
	}
	return c.Run(ctx, urls...)
}
