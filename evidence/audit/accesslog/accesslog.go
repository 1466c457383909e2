// Package accesslog compares the evidence of a crawler with a site's own log of its requests. It
// finds what no evidence can show by itself: requests that the evidence leaves out, and answers
// that it tells otherwise.
package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/printable"
)

// Options say what an access log doesn't.
type Options struct {
	// Host is the host that the log is of. It is needed where the lines don't name their host
	// (Apache's vhost_combined and Caddy do) and the crawler has been on several hosts.
	Host string
	// Agent is a part of the User-Agent that tells this crawler's requests from others'. "" is the
	// product token that the evidence names; if it names several, each of the first 64.
	Agent string
}

// ErrNothing is the error where two logs couldn't be compared: no request is in both, or most lines
// aren't in a known format. It says nothing about what the crawler did.
var ErrNothing = errors.New("accesslog: nothing was compared")

// Compare compares the evidence of a crawler (a log, or a bundle) with a site's own logs of it: the
// combined format of nginx, Apache and Varnish, with or without a virtual host before the line and
// more behind it, or Caddy's JSON. Each may be compressed by gzip, and lines may come in
// any order, as when rotated files are given one after the other.
//
// Requests are matched by host, method, path with query, and time: a site may note one up to
// five seconds before its start or after its end. How far the site's clock is ahead, be it days,
// is found out from the requests themselves; a clock that drifts or was set meanwhile makes
// findings of honest requests, so compare a day at a time then. More than two million requests
// of the crawler are an error.
//
// With an error that is [ErrNothing] comes a Comparison too, which says what was read.
func Compare(evidence io.Reader, o Options, access ...io.Reader) (*Comparison, error) {
	c := &comparer{host: hostname.Key(o.Host), hosts: map[string]bool{}, fold: tokens}
	c.Missing.Name = "missing from the evidence"
	c.Unsent.Name = "seen by the site, and given back unused by the evidence"
	c.Left.Name = "answered with 429, and without an answer by the evidence"
	c.Outside.Name = "before or after all of the evidence"
	c.Status.Name = "with another status in the evidence"
	c.Unseen.Name = "of the evidence never seen by the site"
	if o.Agent != "" {
		c.agents, c.fold = []string{o.Agent}, strings.ToLower
	}
	if err := c.readEvidence(evidence, o.Agent); err != nil {
		return nil, err
	}
	if c.agents == nil {
		return nil, errors.New("accesslog: the evidence names no crawler: is it another file? Otherwise say which requests in the access log are its own (Options.Agent, -agent)")
	}
	c.agent = strings.Join(c.agents[:min(len(c.agents), 3)], ", ")
	for i, agent := range c.agents {
		c.agents[i] = c.fold(agent)
	}
	for i, log := range access {
		file := 0
		if len(access) > 1 {
			file = i + 1
		}
		if err := c.readAccess(log, file); err != nil {
			return nil, err
		}
	}
	c.compare()
	return &c.Comparison, c.nothing()
}

// nothing returns why c compares nothing, nil if it does.
func (c *Comparison) nothing() error {
	switch {
	case c.Lines == 0:
		return fmt.Errorf("%w: the access log is empty", ErrNothing)
	case 2*c.Unreadable > c.Lines:
		return fmt.Errorf("%w: %d of %d lines are in no format that is known here: combined, as nginx, Apache and Varnish have it, or Caddy's JSON", ErrNothing, c.Unreadable, c.Lines)
	case c.Requests == 0:
		return fmt.Errorf("%w: no line of the access log is a request of %s: it is the log of another host or day, or the crawler has another User-Agent (Options.Agent, -agent)", ErrNothing, c.agent)
	case c.Matched == 0:
		return fmt.Errorf("%w: the site saw %s of %s, and none is in the evidence", ErrNothing, lines.Count(c.Requests, "request"), c.agent)
	}
	return nil
}

// A Comparison is what Compare found.
type Comparison struct {
	Lines      int           `json:"lines"`      // lines of the access log
	Unreadable int           `json:"unreadable"` // lines of it that are in no known format
	Requests   int           `json:"requests"`   // lines of it that are requests of this crawler
	Elsewhere  int           `json:"elsewhere"`  // others of this crawler that name another host than Options.Host
	Evidence   int           `json:"evidence"`   // requests in the evidence, to these hosts and in this time
	Matched    int           `json:"matched"`    // requests that both have
	Offset     time.Duration `json:"-"`          // how far the site's clock is ahead

	Missing Findings `json:"missing"` // requests that the site saw and the evidence lacks
	Outside Findings `json:"outside"` // the same, before or after all of the evidence
	Unsent  Findings `json:"unsent"`  // requests that the site saw, and that were never sent by the evidence: their turns were given back
	Left    Findings `json:"left"`    // requests that the site answered with 429, and that the caller gave up, or got no answer to, by the evidence
	Status  Findings `json:"status"`  // matched, and the statuses differ
	Unseen  Findings `json:"unseen"`  // requests that the evidence has, answer included, and the site never saw

	Closer []string `json:"closer,omitempty"` // where the site saw requests closer together than the evidence has them, in words

	agent string // of which requests were looked for
}

// Findings are findings of one kind.
type Findings struct {
	Name  string    `json:"-"`     // what they are, behind their number: "2 requests missing from the evidence"
	N     int       `json:"n"`     // number of all
	First []Finding `json:"first"` // the first 1,000
}

// A Finding is one request on which the two logs don't agree.
type Finding struct {
	Host       string    `json:"host"`
	Method     string    `json:"method"`
	Target     string    `json:"target"`              // path and query, as far as the first 160 bytes
	Time       time.Time `json:"time"`                // by the clock of whoever has noted it; the site's where both have
	File       int       `json:"file,omitzero"`       // number of the access log, from 1; 0 where there is one
	Line       int       `json:"line,omitzero"`       // in the access log
	Record     int       `json:"record,omitzero"`     // line of its start in the evidence
	Address    string    `json:"address,omitzero"`    // of the client, as the site saw it
	Status     int       `json:"status,omitzero"`     // in the evidence
	SiteStatus int       `json:"siteStatus,omitzero"` // in the access log
}

// String returns the finding as one line of text.
func (f Finding) String() string {
	where := fmt.Sprintf("line %d, from %s", f.Line, f.Address)
	switch {
	case f.Line == 0:
		where = fmt.Sprintf("record %d", f.Record)
	case f.Record > 0:
		where = fmt.Sprintf("line %d says %d; record %d says %d", f.Line, f.SiteStatus, f.Record, f.Status)
	}
	if f.File > 0 {
		where = fmt.Sprintf("file %d, %s", f.File, where)
	}
	return printable.Text(fmt.Sprintf("%s  %s %s%s: %s", f.Time.UTC().Format(time.DateTime), f.Method, f.Host, f.Target, where))
}

// MarshalJSON writes durations in seconds.
func (c *Comparison) MarshalJSON() ([]byte, error) {
	type fields Comparison
	return json.Marshal(struct {
		OK bool `json:"ok"`
		*fields
		Offset float64 `json:"offset"`
	}{c.OK(), (*fields)(c), c.Offset.Seconds()})
}

// OK reports whether something was compared, and the evidence has every request that the site saw
// of this crawler, with the same status where it has one, and not as unanswered where that was 429.
func (c *Comparison) OK() bool {
	return c.nothing() == nil && max(c.Missing.N, c.Outside.N, c.Unsent.N, c.Left.N, c.Status.N) == 0
}

// Kinds returns the findings by their kinds, the gravest first.
func (c *Comparison) Kinds() []Findings {
	return []Findings{c.Missing, c.Unsent, c.Left, c.Outside, c.Status, c.Unseen}
}

// Sentences say what was found, one by one, for people.
func (c *Comparison) Sentences() []string {
	out := []string{fmt.Sprintf("%s of this crawler in the access log, %s in the evidence for that time; %d are the same.",
		lines.Count(c.Requests, "request"), lines.Count(c.Evidence, "request"), c.Matched)}
	if c.Matched > 0 {
		out = append(out, fmt.Sprintf("The site's clock is %v ahead.", c.Offset.Round(time.Second)))
	}
	for _, k := range c.Kinds() {
		if k.N > 0 {
			out = append(out, lines.Count(k.N, "request")+" "+k.Name+".")
		}
	}
	out = append(out, c.Closer...)
	if c.Unseen.N > 0 && c.Missing.N > 0 {
		out = append(out, "Requests are missing on both sides: if one of the clocks was set or drifts, compare a shorter time, such as a day.")
	}
	if c.Elsewhere > 0 {
		out = append(out, lines.Count(c.Elsewhere, "request")+" of this crawler in lines of another host.")
	}
	if c.Unreadable > 0 {
		out = append(out, lines.Count(c.Unreadable, "line")+" of the access log in no known format.")
	}
	if c.OK() {
		out = append(out, "The evidence has every request that the site saw of this crawler.")
	} else if err := c.nothing(); err != nil {
		out = append(out, printable.Text(strings.TrimPrefix(err.Error(), "accesslog: ")+"."))
	}
	return out
}

// String returns the comparison as text.
func (c *Comparison) String() string {
	var b strings.Builder
	for _, s := range c.Sentences() {
		fmt.Fprintln(&b, s)
	}
	for _, kind := range c.Kinds() {
		if kind.N == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", kind.Name)
		shown := kind.First[:min(len(kind.First), 20)]
		for _, f := range shown {
			fmt.Fprintf(&b, "  %s\n", f)
		}
		if more := kind.N - len(shown); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	return b.String()
}
