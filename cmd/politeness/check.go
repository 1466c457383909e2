package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

const checkUsage = `Usage: politeness check [flags] URL...

Prints for each URL if robots.txt lets you fetch it, by which line, from when
and how fast. It also prints the site's preferences about the use of its pages.
Only robots.txt is fetched.

  -agent UA       User-Agent whose rules apply (default: USER_AGENT)
  -purpose LIST   train, ground, search: disallow pages that their site reserves
  -state DIR      use the blocks and robots.txt that a crawl saved in DIR
  -private        check hosts whose names lead to private addresses, too
  -json           a line of JSON for each URL

  politeness check https://example.com/private/page
  politeness check -agent "GPTBot/1.2 (+https://openai.com/gptbot)" https://...
  politeness check -purpose train -json https://example.com/ | jq .allowed

Exit status: 0 all may be fetched, 1 one may not, 2 one isn't known ("?").
`

// An answer is what check says of a URL.
type answer struct {
	URL         string             `json:"url"`
	Allowed     bool               `json:"allowed"`
	Rule        string             `json:"rule,omitempty"`
	Line        int                `json:"line,omitempty"`
	Group       string             `json:"group,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	From        time.Time          `json:"from,omitzero"`
	CrawlDelay  float64            `json:"crawlDelay,omitempty"` // seconds
	Preferences map[string]string  `json:"preferences,omitempty"`
	Error       string             `json:"error,omitempty"`   // why it can't be known
	AskAgain    time.Time          `json:"askAgain,omitzero"` // when a new check may have another result
	stated      robots.Preferences // as in Preferences, with their sources
}

func runCheck(ctx context.Context, sh *shell, args []string) (int, error) {
	p := policy{own: ownAgent()}
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.StringVar(&p.agent, "agent", "", "")
	flags.StringVar(&p.state, "state", "", "")
	flags.Var(&p.purposes, "purpose", "")
	flags.BoolVar(&p.private, "private", false, "")
	asJSON := flags.Bool("json", false, "")
	urls, err := parse(flags, args, "URL")
	if err != nil {
		return 0, err
	}
	if p.state != "" {
		if _, err := os.ReadDir(p.state); err != nil {
			return 0, fmt.Errorf("-state: %w", err)
		}
	}
	cfg, err := p.config(p.reach(urls))
	if err != nil {
		return 0, err
	}
	q, err := newQuestions(cfg)
	if err != nil {
		return 0, err
	}
	status := exitOK
	for i, raw := range urls {
		a := q.ask(ctx, raw)
		switch {
		case a.Error != "":
			status = exitError
		case !a.Allowed:
			status = max(status, exitNo)
		}
		if *asJSON {
			err = writeJSON(sh.out, a, "")
		} else {
			if i > 0 {
				fmt.Fprintln(sh.out)
			}
			a.print(sh)
		}
		if err != nil {
			return 0, err
		}
	}
	return status, nil
}

// questions asks a Transport about URLs, one at a time.
type questions struct {
	transport *politeness.Transport
	delay     atomic.Int64 // crawl-delay of the last verdict
}

func newQuestions(cfg politeness.Config) (*questions, error) {
	q := new(questions)
	cfg.Evidence = evidence.Func(func(_ context.Context, d evidence.Decision) {
		if d.CrawlDelay > 0 {
			q.delay.Store(int64(d.CrawlDelay))
		}
	})
	var err error
	q.transport, err = politeness.New(cfg)
	return q, err
}

func (q *questions) ask(ctx context.Context, raw string) answer {
	a := answer{URL: raw}
	normal, err := crawl.Normalize(raw)
	if err != nil {
		a.Error = noURL(raw, err).Error()
		return a
	}
	if u, err := url.Parse(normal); err == nil {
		if err := refusePorts(&http.Request{URL: u}); err != nil {
			a.Reason = err.Error()
			return a
		}
	}
	q.delay.Store(0)
	v, err := q.transport.Check(ctx, raw)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.Allowed = v.Allowed
	a.Rule = v.Rule
	a.Line = v.Line
	a.Group = v.Group
	a.Reason = v.Reason
	a.stated = v.Preferences
	a.Preferences = preferencesOf(v.Preferences)
	a.CrawlDelay = time.Duration(q.delay.Load()).Seconds()
	next, err := q.transport.Next(ctx, raw)
	if !v.Allowed {
		if errors.Is(err, politeness.ErrUnreachable) { // no rule is known
			a.Error = fmt.Sprintf("%v: %s", politeness.ErrUnreachable, a.Reason)
			a.Reason = ""
			if refused, ok := errors.AsType[*politeness.Error](err); ok {
				a.AskAgain = refused.RetryAt
			}
		}
		return a
	}
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.From = next
	return a
}

// preferencesOf returns those that a site states, by purpose; nil if there are none.
func preferencesOf(stated robots.Preferences) map[string]string {
	var names map[string]string
	for _, p := range allPurposes {
		preference := stated.For(p).Preference
		if preference == robots.Unstated {
			continue
		}
		if names == nil {
			names = make(map[string]string)
		}
		names[p.String()] = preference.String()
	}
	return names
}

// print prints the answer as text.
func (a *answer) print(sh *shell) {
	say := func(what, text string) { fmt.Fprintf(sh.out, "  %-6s%s\n", what, text) }
	fmt.Fprintln(sh.out, sh.paint(bold, printable.Text(a.URL)))
	if a.Error != "" && !a.Allowed {
		why := printable.Text(a.Error)
		if !a.AskAgain.IsZero() {
			why += "; ask again at " + a.AskAgain.Format(time.TimeOnly)
		}
		say(sh.paint(yellow, "?")+"    ", why)
		return
	}
	why := "no rule of robots.txt matches"
	switch {
	case a.Reason != "":
		why = printable.Text(a.Reason)
	case a.Line > 0:
		why = fmt.Sprintf("by line %d, %q, for %q", a.Line, a.Rule, a.Group)
	}
	if !a.Allowed {
		say(sh.paint(red, "no")+"  ", why)
		return
	}
	say(sh.paint(green, "yes")+" ", why)
	wait := time.Until(a.From)
	switch {
	case a.Error != "":
		say("from", printable.Text(a.Error))
	case wait > time.Second:
		say("from", fmt.Sprintf("%s, in %v", a.From.Format(time.DateTime), wait.Round(time.Second)))
	default:
		say("from", "now")
	}
	if a.CrawlDelay > 0 {
		say("pace", fmt.Sprintf("one request every %g s", a.CrawlDelay))
	}
	use := a.stated.String()
	say("use", cmp.Or(printable.Text(use), "the site states no preference"))
}
