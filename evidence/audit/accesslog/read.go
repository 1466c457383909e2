package accesslog

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unique"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/evidence/internal/lines"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/printable"
)

const (
	maxRequests    = 2 << 20 // requests of each side that are compared
	maxStrangers   = 1 << 18 // requests of the evidence to other hosts than those that the caller names
	maxTarget      = 160     // bytes of a path and query that are kept for showing
	maxAgents      = 64      // product tokens that are taken from the evidence
	maxDifferences = 1000    // differences of a kind that are named one by one
)

var errMany = fmt.Errorf(
	"accesslog: more than %d requests of this crawler: compare a shorter time, such as a day", maxRequests)

var errNoHost = errors.New("accesslog: the lines of the access log don't name their host, " +
	"and the evidence has several: name the hosts of the log's server " +
	"(Options.Host and Options.Aliases, or -host once for each)")

// A request is one side's record of a request. Of its Difference, Record and Status are the
// evidence's, and File, Line, Address and SiteStatus the site's.
type request struct {
	Difference
	pages  pageHashes
	start  time.Time     // by the site's clock, as the evidence has it
	took   time.Duration // by the evidence
	left   bool          // by the evidence, its caller gave it up, or it got no response
	unsent bool          // by the evidence, its turn was given back
	named  naming        // of the site: how its line names the host
	other  *request      // the record of the other side; nil: it has none
}

// pageHashes are hashes of the parts of a request that tell pages apart.
type pageHashes struct {
	server uint64 // of the server, the method and the path
	any    uint64 // of the method and the path alone
	query  uint64 // of the query; 0: it isn't known
}

// A comparer compares.
type comparer struct {
	Comparison
	fold    func(string) string // applied to User-Agents before agents are looked for in them
	agents  []string            // parts of User-Agents
	names   names
	own     []*request // of the evidence
	site    []*request // of the access logs
	covered span       // by the access logs

	strangers int    // requests in own to hosts that the caller doesn't name
	pairs     []pair // requests of both sides that count
}

// A span is the time that some records cover.
type span struct{ from, to time.Time }

func (s *span) add(t time.Time) {
	if s.from.IsZero() || t.Before(s.from) {
		s.from = t
	}
	if t.After(s.to) {
		s.to = t
	}
}

// around reports whether the whole time from one moment to another is inside of s, and farther from
// its ends than records are inexact.
func (s *span) around(from, to time.Time) bool {
	return from.After(s.from.Add(inexact)) && to.Before(s.to.Add(-inexact))
}

// beyond reports whether t is outside of s, as far as records are exact.
func (s *span) beyond(t time.Time) bool {
	return t.Before(s.from.Add(-inexact)) || t.After(s.to.Add(inexact))
}

// readable returns s for people to read.
func readable(s string) string { return printable.Text(s[:min(len(s), hostname.MaxLen)]) }

// once returns s for people to read, the same string for all that are equal.
func once(s string) string { return unique.Make(readable(s)).Value() }

// seed makes the hashes of requests.
var seed = maphash.MakeSeed()

// fill sets the host, method and target of r.
func (r *request) fill(host, method, target string) {
	path, query, _ := strings.Cut(target, "?")
	r.pages.any = maphash.Comparable(seed, [2]string{method, path})
	// The evidence may have a query without values, or a part of it.
	if !strings.Contains(query, evidence.Redacted) && !strings.HasSuffix(target, evidence.Clipped) {
		r.pages.query = maphash.String(seed, query) | 1 // 0 is an unknown one
	}
	r.Host = once(host)
	r.Method = once(method)
	r.Target = printable.Text(strings.Clone(target[:min(len(target), maxTarget)]))
}

// setServer sets the server of r. A server is named by its host or, if the caller names the hosts
// of one server, by "".
func (r *request) setServer(server string) {
	type page struct {
		server string
		any    uint64
	}
	r.pages.server = maphash.Comparable(seed, page{server: server, any: r.pages.any})
}

// open returns the lines of a log, which may be compressed by gzip.
func open(log io.Reader) (*lines.Reader, error) {
	in := bufio.NewReaderSize(log, 64<<10)
	if begin, _ := in.Peek(2); string(begin) != "\x1f\x8b" {
		return lines.NewReader(in), nil
	}
	plain, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("accesslog: %w", err)
	}
	return lines.NewReader(plain), nil
}

// A try is a request of the evidence that has no end yet.
type try struct {
	host, transport string
	seq, trip       uint64
	attempt         int
}

// readEvidence reads the crawler's requests, and the product tokens that it had unless agent is
// given.
func (c *comparer) readEvidence(log io.Reader, agent string) error {
	in, err := open(log)
	if err != nil {
		return err
	}
	pending := map[try]*request{}
	for line, text := range in.All() {
		var d evidence.Decision
		if d.UnmarshalJSON(text) != nil || d.Type == "" {
			continue // a line of a bundle, or of no log: the judge reports it
		}
		if agent == "" {
			c.addAgent(&d)
		}
		// An end has the same fields as its start.
		id := try{d.Host, d.Transport, d.Seq, d.Trip, d.Attempt}
		ended := pending[id]
		switch {
		case d.Type == evidence.Started || d.Type == evidence.Resent:
			started, err := c.ownRequest(&d, line)
			if err != nil {
				return err
			}
			if started != nil {
				pending[id] = started
			}
		case ended != nil && (d.Type == evidence.Fetched || d.Type == evidence.Failed):
			delete(pending, id)
			ended.end(&d)
		}
	}
	return in.Err()
}

// addAgent adds the product token of the record d to those by which requests are found.
func (c *comparer) addAgent(d *evidence.Decision) {
	token := d.Agent
	if d.Policy != nil {
		token = d.Policy.Product
	}
	if token != "" && len(c.agents) < maxAgents && !slices.Contains(c.agents, token) {
		c.agents = append(c.agents, token)
	}
}

// ownRequest adds the request that starts with d, on that line of the evidence. It returns nil if
// the request isn't kept.
func (c *comparer) ownRequest(d *evidence.Decision, line int) (*request, error) {
	// Not d.Host: several hosts of a site may share its slots.
	host := hostname.Key(sites.Authority(d.URL))
	if !c.names.given(host) {
		// It can only explain a line that names the wrong host: a bounded number will do.
		if c.strangers == maxStrangers {
			return nil, nil
		}
		c.strangers++
	} else if len(c.own)-c.strangers == maxRequests {
		return nil, errMany
	}
	r := &request{Difference: Difference{Time: d.Start, Record: line}}
	_, target := sites.SplitURL(d.URL)
	r.fill(host, d.Method, target)
	c.names.addHost(r.Host)
	c.own = append(c.own, r)
	return r, nil
}

// end takes the end d of r.
func (r *request) end(d *evidence.Decision) {
	r.Status = d.Status
	r.took = max(d.Duration, 0)
	// Without a response it was given up. If it has no trace of an exchange either, it wasn't sent.
	failed := d.Type == evidence.Failed && d.Status == 0
	r.unsent = failed && !d.Left && d.Err == "" && d.Latency == 0
	r.left = failed && !r.unsent
}

// readAccess reads the crawler's requests in the access log of that number.
func (c *comparer) readAccess(log io.Reader, file int) error {
	in, err := open(log)
	if err != nil {
		return err
	}
	for line, text := range in.All() {
		c.Lines++
		entry, ok := parse(text)
		if !ok {
			c.Unreadable++
			continue
		}
		c.covered.add(entry.at) // lines of other crawlers show, too, which time the log is of
		host, named := c.names.resolve(entry)
		c.names.seen(host, named)
		if !c.isOurs(entry.agent) {
			continue
		}
		if host == "" { // any guess would make differences of honest requests
			return errNoHost
		}
		if len(c.site) == maxRequests {
			return errMany
		}
		r := &request{Difference: Difference{
			Time:       entry.at,
			File:       file,
			Line:       line,
			Address:    once(entry.address),
			SiteStatus: entry.status,
		}}
		r.start = r.Time
		r.named = named
		r.fill(host, entry.method, entry.target)
		r.setServer(c.names.server(host, named))
		c.site = append(c.site, r)
	}
	return in.Err()
}

// isOurs reports whether a User-Agent is that of the crawler.
func (c *comparer) isOurs(agent string) bool {
	agent = c.fold(agent)
	return slices.ContainsFunc(c.agents, func(part string) bool { return strings.Contains(agent, part) })
}

// tokens returns s in lower case between spaces, with a space for each character that isn't of a
// product token, so that " bot " is in the tokens of "Bot/1.0" and not in those of "Googlebot".
func tokens(s string) string {
	return " " + strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return ' '
	}, s) + " "
}
