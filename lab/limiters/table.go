package limiters

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/lab/servers"
)

// columns are the crawlers, by their names in package servers.
var columns = []string{"zero value", "Bulk", "Responsive"}

// Crawlers returns the columns of the table.
func Crawlers() []*servers.Crawler {
	isColumn := func(c *servers.Crawler) bool { return slices.Contains(columns, c.Name) }
	return slices.DeleteFunc(slices.Clone(servers.Crawlers), func(c *servers.Crawler) bool { return !isColumn(c) })
}

// A Cell is what one crawler had of a limiter.
type Cell struct {
	servers.Result

	Limiter *Limiter
}

// mostInside is how many requests of a cell may fall inside the windows and bans of its refusals.
const mostInside = 10

// Inside returns the number of requests inside the window or the ban of a refusal. The limiters of
// npm and of Go log until when they refuse. Debian's state it in Retry-After, or don't: of these a
// refusal counts whose last request before was refused as well.
func (c *Cell) Inside() int {
	if c.Limiter.From != debian || c.Limiter.RetryAfter {
		return c.InRetryAfter
	}
	return c.Repeated
}

// Lost returns the number of pages that the crawler gave up, took a refusal for, or never had
// though it ended by itself.
func (c *Cell) Lost() int { return max(c.GivenUp, c.Result.Lost()) }

// Problems returns what is wrong with the cell.
func (c *Cell) Problems() []string {
	var problems []string
	if c.Lost() > 0 {
		problems = append(problems, fmt.Sprintf("%d pages are lost", c.Lost()))
	}
	if c.Inside() > mostInside {
		problems = append(problems, fmt.Sprintf("%d requests inside the window or the ban of a refusal", c.Inside()))
	}
	if c.Limiter.Told && c.Foreseeable > 0 {
		problems = append(problems, fmt.Sprintf("%d refusals, and the answers before told when", c.Foreseeable))
	}
	if c.Pages == 0 {
		problems = append(problems, "no page was served")
	}
	return problems
}

func (c *Cell) String() string {
	share := "-"
	if c.Limiter.Rate > 0 {
		share = fmt.Sprintf("%.0f %%", 100*c.Share())
	}
	text := fmt.Sprintf("%d/%d/%d/%d, %s, %.0f s", c.Pages, c.Lost(), c.Refusals, c.Inside(), share, c.Span().Seconds())
	if len(c.Problems()) > 0 {
		return "**" + text + "**"
	}
	return text
}

// Markdown returns the table. cells has those of each limiter in the order of the crawlers.
func Markdown(all []*Limiter, cells map[*Limiter][]Cell) string {
	var b strings.Builder
	b.WriteString("Of each crawler: pages had / lost / refusals / requests inside a window or ban, share, time.\n\n")
	b.WriteString("| | limiter | pages |")
	for _, name := range columns {
		b.WriteString(" " + name + " |")
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, l := range all {
		if len(cells[l]) == 0 {
			continue
		}
		rule := l.Rule
		if l.Told {
			rule += " (told)"
		}
		fmt.Fprintf(&b, "| %s | %s | %d |", l.From, rule, cells[l][0].Site.Pages())
		for _, c := range cells[l] {
			b.WriteString(" " + c.String() + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
