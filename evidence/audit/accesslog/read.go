package accesslog

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
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
	maxTarget      = 160     // bytes of a path and query that are kept for showing
	maxAgents      = 64      // product tokens that are taken from the evidence
	maxDifferences = 1000    // differences of a kind that are named one by one
)

var errMany = fmt.Errorf(
	"accesslog: more than %d requests of this crawler: compare a shorter time, such as a day", maxRequests)

var errNoHost = errors.New("accesslog: the lines of the access log don't name their host, " +
	"and the evidence has several: say which one the log is of (Options.Host, -host)")

// A request is one side's record of a request. Of its Difference, Record and Status are the
// evidence's, and File, Line, Address and SiteStatus the site's.
type request struct {
	Difference
	page    pageID
	start   time.Time     // by the site's clock, as far as the site knows it
	took    time.Duration // by the evidence
	left    bool          // by the evidence, its caller gave it up, or it got no answer
	unsent  bool          // by the evidence, its turn was given back
	matched bool          // of the site: the evidence has this request
}

// A comparer compares.
type comparer struct {
	Comparison
	fold    func(string) string // applied to User-Agents before agents are looked for in them
	agents  []string            // parts of User-Agents
	host    string              // the only one; "": all
	hosts   map[string]bool     // hosts of the evidence; true: the access log has them
	own     []*request          // of the evidence
	site    []*request          // of the access logs
	covered span                // by the access logs
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

// once returns s for people to read, the same string for all that are equal.
func once(s string) string {
	return unique.Make(printable.Text(s[:min(len(s), hostname.MaxLen)])).Value()
}

// seed makes the hashes of requests.
var seed = maphash.MakeSeed()

// fill sets the host, method and target of r.
func (r *request) fill(host, method, target string) {
	path, query, _ := strings.Cut(target, "?")
	r.page.path = maphash.Comparable(seed, [3]string{host, method, path})
	// The evidence may have a query without values, or a part of it.
	if !strings.Contains(query, evidence.Redacted) && !strings.HasSuffix(target, evidence.Clipped) {
		r.page.query = maphash.String(seed, query) | 1 // 0 is an unknown one
	}
	r.Host = once(host)
	r.Method = once(method)
	r.Target = printable.Text(strings.Clone(target[:min(len(target), maxTarget)]))
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
// the request is to another host than that of the access log.
func (c *comparer) ownRequest(d *evidence.Decision, line int) (*request, error) {
	// Not d.Host: several hosts of a site may share its slots.
	host := hostname.Key(sites.Authority(d.URL))
	if c.host != "" && host != c.host {
		return nil, nil
	}
	if len(c.own) == maxRequests {
		return nil, errMany
	}
	r := &request{Difference: Difference{Time: d.Start, Record: line}}
	_, target := sites.SplitURL(d.URL)
	r.fill(host, d.Method, target)
	c.hosts[r.Host] = false
	c.own = append(c.own, r)
	return r, nil
}

// end takes the end d of r.
func (r *request) end(d *evidence.Decision) {
	r.Status = d.Status
	r.took = max(d.Duration, 0)
	// Without an answer it was given up. If it has no trace of an exchange either, it wasn't sent.
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
	// Lines that name no host are of the only one.
	only := c.host
	if only == "" && len(c.hosts) == 1 {
		only = c.own[0].Host
	}
	for line, text := range in.All() {
		c.Lines++
		r, agent, ok := parse(text)
		if !ok {
			c.Unreadable++
			continue
		}
		c.covered.add(r.Time) // lines of other crawlers show, too, which time the log is of
		host := cmp.Or(hostname.Key(r.Host), only)
		if _, known := c.hosts[host]; known {
			c.hosts[host] = true
		}
		if !c.isOurs(agent) {
			continue
		}
		if c.host != "" && host != c.host {
			c.Elsewhere++
			continue
		}
		if host == "" { // any guess would make differences of honest requests
			return errNoHost
		}
		if len(c.site) == maxRequests {
			return errMany
		}
		r.File = file
		r.Line = line
		r.Address = once(r.Address)
		r.start = r.Time
		r.fill(host, r.Method, r.Target)
		c.site = append(c.site, &r)
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

// parse reads a line of an access log, and the User-Agent in it.
func parse(line []byte) (r request, agent string, ok bool) {
	if line[0] == '{' {
		return parseCaddy(line)
	}
	return parseCombined(string(line))
}

// caddyTimes are the forms of Caddy's time that are no number: "rfc3339" and "iso8601".
var caddyTimes = [...]string{`"2006-01-02T15:04:05Z07:00"`, `"2006-01-02T15:04:05Z0700"`}

// parseCaddy reads a line of Caddy's access log: JSON, written when the request has ended.
func parseCaddy(line []byte) (r request, agent string, ok bool) {
	var in struct {
		TS      json.RawMessage
		Status  int
		Request struct {
			Method, Host, URI string
			RemoteIP          string `json:"remote_ip"`
			ClientIP          string `json:"client_ip"`
			Headers           map[string][]string
		}
	}
	if json.Unmarshal(line, &in) != nil || in.Request.Method == "" {
		return request{}, "", false
	}
	// Caddy's filters may have left out any other field.
	at, ok := caddyTime(string(in.TS))
	r.Time = at
	r.Host = in.Request.Host
	r.Address = cmp.Or(in.Request.ClientIP, in.Request.RemoteIP) // the first is behind trusted proxies
	r.Method = in.Request.Method
	r.Target = in.Request.URI
	r.SiteStatus = in.Status
	return r, strings.Join(in.Request.Headers["User-Agent"], " "), ok
}

// caddyTime reads the time of a line, JSON in one of three forms.
func caddyTime(ts string) (time.Time, bool) {
	for _, layout := range caddyTimes {
		if at, err := time.Parse(layout, ts); err == nil {
			return at, true
		}
	}
	seconds, err := strconv.ParseFloat(ts, 64)
	if err != nil || seconds <= 0 || seconds >= 1e11 { // others are no seconds since 1970
		return time.Time{}, false
	}
	return time.UnixMicro(int64(seconds * 1e6)), true
}

const quoted = ` *("(?:[^"\\]|\\.)*")`

// combined matches a line in combined format, with or without more behind it:
//
//	[vhost:port] address ident user [time] "request" status bytes "referer" "agent"
//
// Brackets, and times, may also stand in the name of a host or a user, which a crawler chooses; the
// request is right behind the time of the line.
var combined = regexp.MustCompile(
	`^(.*?)\[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [-+]\d{4})\]` + quoted +
		` *(\d{1,3}) +(?:\d+|-)` + quoted + quoted)

// parseCombined reads a line in combined format.
func parseCombined(s string) (r request, agent string, ok bool) {
	part := combined.FindStringSubmatch(s)
	if part == nil {
		return request{}, "", false
	}
	// Any text may be within the quotes: the crawler chooses its path and its User-Agent.
	at, err1 := time.Parse("02/Jan/2006:15:04:05 -0700", part[2])
	line, err2 := strconv.Unquote(part[3]) // Apache and nginx escape as Go does
	agent, err3 := strconv.Unquote(part[6])
	names := strings.Fields(part[1])
	if err1 != nil || err2 != nil || err3 != nil || len(names) < 3 {
		return request{}, "", false
	}
	r.Time = at
	r.SiteStatus, _ = strconv.Atoi(part[4])
	r.Host, r.Address = hostAndAddress(names)
	// "GET /path HTTP/1.1"; a request that couldn't be read is "-" or garbage.
	if method, rest, ok := strings.Cut(line, " "); ok {
		r.Method = method
		r.Target, _, _ = strings.Cut(rest, " ")
	}
	// With Varnish "GET http://host/path HTTP/1.1".
	if !strings.HasPrefix(r.Target, "/") && strings.Contains(r.Target, "://") {
		r.Host = cmp.Or(r.Host, sites.Authority(r.Target))
		_, r.Target = sites.SplitURL(r.Target)
	}
	return r, agent, true
}

// hostAndAddress returns the virtual host, if there is one, and the client's address from the names
// at the beginning of a line.
func hostAndAddress(names []string) (host, address string) {
	first := names[0]
	address = strings.TrimSuffix(first, ",")
	if len(names) == 3 || address != first { // no host, or the first of a list, as proxies forward it
		return "", address
	}
	// Only a host may be no address, and have an address behind it.
	_, notFirst := netip.ParseAddr(first)
	_, notSecond := netip.ParseAddr(names[1])
	if notFirst != nil && notSecond == nil {
		return first, names[1]
	}
	return "", address
}
