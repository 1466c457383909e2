package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Markdown returns the tables of the results. A figure that misses its goal is bold.
func Markdown(results []Result, length, p99, worst time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Each cell lasted %v. Timers of the machine were up to %v late, 99 %% of them at most %v.\n",
		length, worst.Round(time.Millisecond), p99.Round(time.Millisecond))
	const share = "Pages fetched, in % of the pages that the server's rule and the crawler's delays allow"
	grid(&b, "Pages fetched / refusals (403, 429, 5xx, dropped)", results, refusalsOf)
	grid(&b, share, results, shareOf)
	grid(&b, "Pages that were never fetched, if the crawl ended early", results, lostOf)
	grid(&b, "Requests during a Retry-After", results, retryAfterOf)
	return b.String()
}

// A figure returns the text of a cell, "-" if it has none; missed reports whether the cell misses
// the goal of a name.
type figure func(r *Result, missed func(goal string) bool) string

func refusalsOf(r *Result, missed func(string) bool) string {
	refusals := bold(fmt.Sprint(r.Refusals), missed("refusals") || missed("ban"))
	return fmt.Sprintf("%d/%s", r.Pages, refusals)
}

func shareOf(r *Result, missed func(string) bool) string {
	return bold(fmt.Sprint(int(100*r.Share())), missed("share"))
}

func lostOf(r *Result, missed func(string) bool) string {
	if !r.Ended {
		return "-"
	}
	return bold(fmt.Sprint(r.Lost()), missed("lost"))
}

func retryAfterOf(r *Result, _ func(string) bool) string {
	if !r.Server.RetryAfter {
		return "-"
	}
	return fmt.Sprint(r.InRetryAfter)
}

func bold(text string, yes bool) string {
	if yes {
		return "**" + text + "**"
	}
	return text
}

// grid writes a table with a row for each server and a column for each crawler. Rows without a
// figure are left out, and so is a table without rows.
func grid(b *strings.Builder, title string, results []Result, cell figure) {
	var rows strings.Builder
	for _, s := range Servers {
		row := "| " + s.Rule + " |"
		figures := false
		for _, c := range Crawlers {
			text := "-"
			i := slices.IndexFunc(results, func(r Result) bool { return r.Server == s && r.Crawler == c })
			if i >= 0 {
				text = cell(&results[i], results[i].missed)
			}
			figures = figures || text != "-"
			row += " " + text + " |"
		}
		if figures {
			rows.WriteString(row + "\n")
		}
	}
	if rows.Len() == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n\n| rule |", title)
	for _, c := range Crawlers {
		b.WriteString(" " + c.Name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Crawlers)) + "\n" + rows.String())
}

// missed reports whether a cell of ours misses the goal of this name.
func (r *Result) missed(goal string) bool {
	return r.Crawler.Slots > 0 && slices.ContainsFunc(Goals(r), func(p Problem) bool { return p.Bound == goal })
}

// Replace puts text between the two marks in a file.
func Replace(file, text string) error {
	const begin, end = "<!-- The tables are made by: make servers -->\n", "<!-- end of the tables -->\n"
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(old, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return errors.New(file + " has no marks for the tables")
	}
	return os.WriteFile(file, []byte(string(head)+begin+"\n"+text+"\n"+end+string(tail)), 0o644)
}
