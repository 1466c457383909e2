// Package accesslog compares the evidence of a crawler with a site's own log of its requests. It
// finds differences that no evidence can show by itself. These are requests that the evidence
// leaves out, and responses that it reports otherwise.
//
//	accesslog.go  Compare; a Comparison, in words and in JSON
//	read.go       the lines of both sides
//	formats.go    the formats of access logs
//	names.go      the names of hosts, which servers and crawlers know differently
//	match.go      which requests are the same, and how far the site's clock is ahead
//	gaps.go       how far apart the requests were
//	sides.go      the requests of both logs, side by side
package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/printable"
)

// Options fill in for facts that an access log lacks. Set them if the log has no hosts, or the
// crawler has several names.
type Options struct {
	// Host is a host that the access log is of. It is needed if the lines don't name their host
	// (Apache's vhost_combined and Caddy do) and the crawler has been on several hosts. A host
	// without a port has the requests of all its ports, unless the evidence has the host itself. By
	// default the log is of each host that its lines name or, if they name none, of the only host
	// of the evidence.
	Host string
	// Aliases are further names of the same server (nginx's server_name, Apache's ServerAlias). A
	// request that was made under one of Host and Aliases may stand in the access log under any of
	// them, or without a name.
	Aliases []string
	// Agent is a part of the User-Agent that only this crawler's requests have. The default is the
	// product token that the evidence names, or the first 64 if it names several.
	Agent string
}

// ErrNothing is the error if two logs couldn't be compared. No request is in both, or most lines
// aren't in a known format. It is no finding about the crawler.
var ErrNothing = errors.New("accesslog: nothing was compared")

var errNoAgent = errors.New("accesslog: the evidence names no crawler: is it another file? " +
	"Otherwise say which requests in the access log are its own (Options.Agent, -agent)")

// Compare compares the evidence of a crawler (a log, or a bundle) with a site's own logs of it.
// Each may be compressed by gzip, and lines may come in any order, as when rotated files are given
// one after the other. These formats of access logs are read:
//
//   - the combined format of nginx, Apache, Varnish, lighttpd and Traefik, with or without a virtual
//     host or forwarded addresses before the client's address, and more behind the User-Agent;
//   - the JSON of Caddy and Traefik, and JSON whose fields have the names of nginx's variables;
//   - each of them behind the words, or inside of the JSON, that syslog, journald, docker or kubectl
//     have around a line.
//
// Requests are matched by method, path with query, time, and host. A site may note a request up to
// five seconds before its start or after its end. A server that notes another of its names than the
// one that was asked for makes no difference if the status is the same. See Comparison.Aliases. How
// far the site's clock is ahead, be it days, is found out from the requests themselves. A clock
// that drifts or was set meanwhile makes differences of honest requests, so compare a day at a time
// then. More than two million requests of the crawler are an error.
//
// With an error that is [ErrNothing] comes a Comparison too, with the numbers of lines that were
// read.
func Compare(evidence io.Reader, o Options, access ...io.Reader) (*Comparison, error) {
	// The evidence comes first: it names the hosts, and the agents that requests are found by.
	c := newComparer(o)
	if err := c.readEvidence(evidence, o.Agent); err != nil {
		return nil, err
	}
	if c.agents == nil {
		return nil, errNoAgent
	}
	c.names.settle()
	for _, o := range c.own {
		o.setServer(c.names.server(o.Host, known))
	}
	// A fleet may have many: a few are enough for a message.
	c.agent = strings.Join(c.agents[:min(len(c.agents), 3)], ", ")
	for i, agent := range c.agents {
		c.agents[i] = c.fold(agent)
	}
	for i, log := range access {
		file := 0 // a single log has no number
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

func newComparer(o Options) *comparer {
	c := &comparer{
		names: newNames(append([]string{o.Host}, o.Aliases...)...),
		fold:  tokens,
	}
	if o.Agent != "" {
		// The user's part may be any text, not a token alone.
		c.agents = []string{o.Agent}
		c.fold = strings.ToLower
	}
	c.Missing.Name = "missing from the evidence"
	c.Unsent.Name = "seen by the site, and given back unused by the evidence"
	c.Left.Name = "refused with 429, and without a response in the evidence"
	c.Outside.Name = "before or after all of the evidence"
	c.Status.Name = "with another status in the evidence"
	c.Unseen.Name = "of the evidence never seen by the site"
	return c
}

// Reasons why nothing was compared.
const (
	noFormat = "%w: %d of %d lines are in no format that is known here: " +
		"combined, as nginx, Apache and Varnish have it, or the JSON of Caddy, Traefik or nginx"
	noRequest = "%w: no line of the access log is a request of %s: it is the log of another host or day, " +
		"or the crawler has another User-Agent (Options.Agent, -agent)"
	noMatch = "%w: the site saw %s of %s, and none is in the evidence"
)

// nothing returns why c compares nothing, nil if it does.
func (c *Comparison) nothing() error {
	switch {
	case c.Lines == 0:
		return fmt.Errorf("%w: the access log is empty", ErrNothing)
	case 2*c.Unreadable > c.Lines: // a few garbled lines are in every log
		return fmt.Errorf(noFormat, ErrNothing, c.Unreadable, c.Lines)
	case c.Requests == 0:
		return fmt.Errorf(noRequest, ErrNothing, c.agent)
	case c.Matched == 0:
		return fmt.Errorf(noMatch, ErrNothing, lines.Count(c.Requests, "request"), c.agent)
	}
	return nil
}

// A Comparison is the result of Compare.
type Comparison struct {
	Lines      int           `json:"lines"`      // lines of the access log
	Unreadable int           `json:"unreadable"` // lines of it that are in no known format
	Requests   int           `json:"requests"`   // lines of it that are requests of this crawler
	Elsewhere  int           `json:"elsewhere"`  // others of this crawler, to hosts of other servers
	Evidence   int           `json:"evidence"`   // requests in the evidence, to these hosts and in this time
	Matched    int           `json:"matched"`    // requests that both have
	Offset     time.Duration `json:"-"`          // how far the site's clock is ahead

	// Missing are requests that the site saw and the evidence lacks. Outside are the same, before or
	// after all of the evidence.
	Missing Differences `json:"missing"`
	Outside Differences `json:"outside"`
	// Unsent are requests that the site saw, and that were never sent by the evidence.
	Unsent Differences `json:"unsent"`
	// Left are requests that the site answered with 429, and that got no response by the evidence,
	// as their callers gave them up, for instance.
	Left Differences `json:"left"`
	// Status are requests that both have, with different statuses.
	Status Differences `json:"status"`
	// Unseen are requests that the evidence has with a response, and the site never saw.
	Unseen Differences `json:"unseen"`

	// Closer has a sentence for each host at which the site saw requests closer together than the
	// evidence has them.
	Closer []string `json:"closer,omitempty"`
	// Unshown has a sentence for each other host at which the access log notes requests closer
	// together than the evidence has them. The durations in the evidence explain it, and the access
	// log doesn't show them. A server may note when a request ends, or the crawler may hide a
	// burst.
	Unshown []string `json:"unshown,omitempty"`

	// Aliases are the names of hosts that differ between the logs. Their requests are the same in all
	// else, and count as Matched.
	Aliases []Alias `json:"aliases,omitempty"`

	// Hosts are the hosts as each log has them, those with the most requests first.
	Hosts []HostSides `json:"-"`
	// Pairs are the first 1,000 requests as each log has them, in the order of their times.
	Pairs []Pair `json:"-"`

	agent string // of which requests were looked for
}

// An Alias is a host that the two logs call by different names.
type Alias struct {
	Log      string `json:"log"`      // name in the access log
	Evidence string `json:"evidence"` // name that was asked for
	N        int    `json:"n"`        // number of requests
}

// Differences are differences of one kind.
type Differences struct {
	Name  string       `json:"-"`     // the kind, to stand behind the number, such as "missing from the evidence"
	N     int          `json:"n"`     // number of all
	First []Difference `json:"first"` // the first 1,000
}

// A Difference is one request on which the two logs don't agree. Use it to show the request to the
// site's owner.
type Difference struct {
	Host       string    `json:"host"`
	Method     string    `json:"method"`
	Target     string    `json:"target"`              // path and query, as far as the first 160 bytes
	Time       time.Time `json:"time"`                // by the site's clock, if both have the request
	File       int       `json:"file,omitzero"`       // number of the access log, from 1, 0 if there is one
	Line       int       `json:"line,omitzero"`       // in the access log
	Record     int       `json:"record,omitzero"`     // line of its start in the evidence
	Address    string    `json:"address,omitzero"`    // of the client, as the site saw it
	Status     int       `json:"status,omitzero"`     // in the evidence
	SiteStatus int       `json:"siteStatus,omitzero"` // in the access log
}

// String returns the difference as one line of text.
func (d Difference) String() string {
	where := fmt.Sprintf("line %d, from %s", d.Line, d.Address)
	switch {
	case d.Line == 0: // the site lacks it
		where = fmt.Sprintf("record %d", d.Record)
	case d.Record > 0: // both have it
		where = fmt.Sprintf("line %d says %d; record %d says %d", d.Line, d.SiteStatus, d.Record, d.Status)
	}
	if d.File > 0 {
		where = fmt.Sprintf("file %d, %s", d.File, where)
	}
	at := d.Time.UTC().Format(time.DateTime)
	return printable.Text(fmt.Sprintf("%s  %s %s%s: %s", at, d.Method, d.Host, d.Target, where))
}

// MarshalJSON writes durations in seconds.
func (c *Comparison) MarshalJSON() ([]byte, error) {
	type fields Comparison
	return json.Marshal(struct {
		OK bool `json:"ok"`
		*fields
		Offset float64 `json:"offset"`
	}{
		OK:     c.OK(),
		fields: (*fields)(c),
		Offset: c.Offset.Seconds(),
	})
}

// OK reports whether something was compared, and the evidence has every request that the site saw
// of this crawler, with the same status if it has one, and not as unanswered if that was 429. Use
// it in CI.
func (c *Comparison) OK() bool {
	return c.nothing() == nil && max(c.Missing.N, c.Outside.N, c.Unsent.N, c.Left.N, c.Status.N) == 0
}

// Kinds returns the differences by their kinds, the gravest first.
func (c *Comparison) Kinds() []Differences {
	return []Differences{c.Missing, c.Unsent, c.Left, c.Outside, c.Status, c.Unseen}
}

const (
	numbers = "%s of this crawler in the access log, %s in the evidence for that time; %d are the same."
	bothWay = "Requests are missing on both sides: " +
		"if one of the clocks was set or drifts, compare a shorter time, such as a day."
	otherHost = " of this crawler in lines of another host."
	aliased   = " under %s in the access log and under %s in the evidence, and the same in all else."
	allThere  = "The evidence has every request that the site saw of this crawler."
)

// clocks returns a sentence on how far the clocks are apart. Most access logs note whole seconds,
// so a second is no difference.
func (c *Comparison) clocks() string {
	apart := c.Offset.Round(time.Second)
	switch {
	case apart.Abs() <= time.Second:
		return "The two clocks agree within a second."
	case apart < 0:
		return fmt.Sprintf("The site's clock is %v behind.", -apart)
	}
	return fmt.Sprintf("The site's clock is %v ahead.", apart)
}

// Sentences returns the results one by one, for people. Use it for a terminal.
func (c *Comparison) Sentences() []string {
	site := lines.Count(c.Requests, "request")
	evidence := lines.Count(c.Evidence, "request")
	out := []string{fmt.Sprintf(numbers, site, evidence, c.Matched)}
	if c.Matched > 0 {
		out = append(out, c.clocks())
	}
	for _, k := range c.Kinds() {
		if k.N > 0 {
			out = append(out, lines.Count(k.N, "request")+" "+k.Name+".")
		}
	}
	for _, a := range c.Aliases {
		names := fmt.Sprintf(aliased, printable.Text(a.Log), printable.Text(a.Evidence))
		out = append(out, lines.Count(a.N, "request")+names)
	}
	out = append(out, c.Closer...)
	out = append(out, c.Unshown...)
	if c.Unseen.N > 0 && c.Missing.N > 0 { // they may be the same requests
		out = append(out, bothWay)
	}
	if c.Elsewhere > 0 {
		out = append(out, lines.Count(c.Elsewhere, "request")+otherHost)
	}
	if c.Unreadable > 0 {
		out = append(out, lines.Count(c.Unreadable, "line")+" of the access log in no known format.")
	}
	// The verdict, if there is one: otherwise the lists show why not.
	if c.OK() {
		out = append(out, allThere)
	} else if err := c.nothing(); err != nil {
		out = append(out, printable.Text(strings.TrimPrefix(err.Error(), "accesslog: ")+"."))
	}
	return out
}

// shown is how many differences of a kind a text names.
const shown = 20

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
		first := kind.First[:min(len(kind.First), shown)]
		for _, d := range first {
			fmt.Fprintf(&b, "  %s\n", d)
		}
		if more := kind.N - len(first); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	return b.String()
}
