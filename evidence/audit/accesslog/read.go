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
	maxRequests = 2 << 20 // requests of each side that are compared
	maxTarget   = 160     // bytes of a path and query that are kept for showing
	maxAgents   = 64      // product tokens that are taken from the evidence
	maxFindings = 1000    // findings of a kind that are named one by one
)

var errMany = fmt.Errorf("accesslog: more than %d requests of this crawler: compare a shorter time, such as a day", maxRequests)

// A request is one side's record of a request.
type request struct {
	Finding // Record and Status are the evidence's, File, Line, Address and SiteStatus the site's
	page    pageID
	start   time.Time     // by the site's clock, as far as the site knows it
	took    time.Duration // by the evidence
	left    bool          // its caller gave it up, or it got no answer, by the evidence
	unsent  bool          // its turn was given back, by the evidence
	matched bool          // the evidence has this request of the site
}

// A comparer compares.
type comparer struct {
	Comparison
	fold      func(string) string // what is done to User-Agents before agents are looked for in them
	agents    []string            // parts of User-Agents
	host      string              // the only one; "": all
	hosts     map[string]bool     // those of the evidence, and whether the access log has them
	own, site []*request
	covered   span // by the access log
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

// once returns s for people to read, the same string for all that are equal.
func once(s string) string {
	return unique.Make(printable.Text(s[:min(len(s), hostname.MaxLen)])).Value()
}

// seed makes the hashes by which requests are told apart.
var seed = maphash.MakeSeed()

// fill fills in what a request is for.
func (r *request) fill(host, method, target string) {
	path, query, _ := strings.Cut(target, "?")
	r.page.path = maphash.Comparable(seed, [3]string{host, method, path})
	if !strings.Contains(query, evidence.Redacted) && !strings.HasSuffix(target, evidence.Clipped) {
		r.page.query = maphash.String(seed, query) | 1
	}
	r.Host, r.Method, r.Target = once(host), once(method), printable.Text(strings.Clone(target[:min(len(target), maxTarget)]))
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

// readEvidence reads the crawler's requests, and the product tokens that it had unless agent is
// given.
func (c *comparer) readEvidence(log io.Reader, agent string) error {
	in, err := open(log)
	if err != nil {
		return err
	}
	type try struct {
		host, transport string
		seq, trip       uint64
		attempt         int
	}
	pending := map[try]*request{} // those without an end
	for line, text := range in.All() {
		var d evidence.Decision
		if d.UnmarshalJSON(text) != nil || d.Type == "" {
			continue
		}
		token := d.Agent
		if d.Policy != nil {
			token = d.Policy.Product
		}
		if agent == "" && token != "" && len(c.agents) < maxAgents && !slices.Contains(c.agents, token) {
			c.agents = append(c.agents, token)
		}
		k := try{d.Host, d.Transport, d.Seq, d.Trip, d.Attempt}
		switch r := pending[k]; {
		case d.Type == evidence.Started || d.Type == evidence.Resent:
			host := hostname.Key(sites.Authority(d.URL))
			if c.host != "" && host != c.host {
				continue
			}
			if len(c.own) == maxRequests {
				return errMany
			}
			r = &request{Finding: Finding{Time: d.Start, Record: line}}
			_, target := sites.SplitURL(d.URL)
			r.fill(host, d.Method, target)
			c.hosts[r.Host] = false
			pending[k] = r
			c.own = append(c.own, r)
		case r != nil && (d.Type == evidence.Fetched || d.Type == evidence.Failed):
			delete(pending, k)
			r.Status, r.took = d.Status, max(d.Duration, 0)
			failed := d.Type == evidence.Failed && d.Status == 0
			r.unsent = failed && !d.Left && d.Err == "" && d.Latency == 0
			r.left = failed && !r.unsent
		}
	}
	return in.Err()
}

// readAccess reads the crawler's requests in the access log of that number.
func (c *comparer) readAccess(log io.Reader, file int) error {
	in, err := open(log)
	if err != nil {
		return err
	}
	only := c.host // of lines that name none
	if only == "" && len(c.hosts) == 1 {
		only = c.own[0].Host
	}
	for line, text := range in.All() {
		c.Lines++
		parse := parseCombined
		if text[0] == '{' {
			parse = parseCaddy
		}
		r, agent, ok := parse(string(text))
		if !ok {
			c.Unreadable++
			continue
		}
		c.covered.add(r.Time)
		host := cmp.Or(hostname.Key(r.Host), only)
		if _, known := c.hosts[host]; known {
			c.hosts[host] = true
		}
		agent = c.fold(agent)
		switch {
		case !slices.ContainsFunc(c.agents, func(part string) bool { return strings.Contains(agent, part) }):
			continue
		case c.host != "" && host != c.host:
			c.Elsewhere++
			continue
		case host == "":
			return errors.New("accesslog: the lines of the access log don't name their host, and the evidence has several: say which one the log is of (Options.Host, -host)")
		case len(c.site) == maxRequests:
			return errMany
		}
		r.File, r.Line, r.Address, r.start = file, line, once(r.Address), r.Time
		r.fill(host, r.Method, r.Target)
		c.site = append(c.site, &r)
	}
	return in.Err()
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

// parseCaddy reads a line of Caddy's access log: JSON, written when the request has ended.
func parseCaddy(s string) (r request, agent string, ok bool) {
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
	if json.Unmarshal([]byte(s), &in) != nil || in.Request.Method == "" {
		return r, "", false
	}
	r.Host, r.Address = in.Request.Host, cmp.Or(in.Request.ClientIP, in.Request.RemoteIP)
	r.Method = in.Request.Method
	r.Target = in.Request.URI
	r.SiteStatus = in.Status
	seconds, err := strconv.ParseFloat(string(in.TS), 64)
	r.Time, ok = time.UnixMicro(int64(seconds*1e6)), err == nil && seconds > 0 && seconds < 1e11
	for _, layout := range [...]string{`"2006-01-02T15:04:05Z07:00"`, `"2006-01-02T15:04:05Z0700"`} { // its "rfc3339", its "iso8601"
		if at, err := time.Parse(layout, string(in.TS)); err == nil {
			r.Time, ok = at, true
		}
	}
	return r, strings.Join(in.Request.Headers["User-Agent"], " "), ok
}

const quoted = ` *("(?:[^"\\]|\\.)*")`

// combined matches a line in combined format, with or without more behind it:
//
//	[vhost:port] address ident user [time] "request" status bytes "referer" "agent"
//
// Brackets, and times, may also stand in the name of a host or a user, which a crawler chooses; the
// request is right behind the time of the line.
var combined = regexp.MustCompile(`^(.*?)\[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [-+]\d{4})\]` + quoted + ` *(\d{1,3}) +(?:\d+|-)` + quoted + quoted)

func parseCombined(s string) (r request, agent string, ok bool) {
	part := combined.FindStringSubmatch(s)
	if part == nil {
		return r, "", false
	}
	at, err1 := time.Parse("02/Jan/2006:15:04:05 -0700", part[2])
	line, err2 := strconv.Unquote(part[3]) // Apache and nginx escape as Go does
	agent, err3 := strconv.Unquote(part[6])
	names := strings.Fields(part[1])
	if err1 != nil || err2 != nil || err3 != nil || len(names) < 3 {
		return r, "", false
	}
	r.Time, r.Address = at, strings.TrimSuffix(names[0], ",") // the first of a list, as proxies forward it
	r.SiteStatus, _ = strconv.Atoi(part[4])
	_, noAddress := netip.ParseAddr(names[0])
	if _, err := netip.ParseAddr(names[1]); len(names) > 3 && noAddress != nil && err == nil && r.Address == names[0] {
		r.Host, r.Address = names[0], names[1]
	}
	// "GET /path HTTP/1.1", with Varnish "GET http://host/path HTTP/1.1"; a request that couldn't be
	// read is "-" or garbage.
	if method, rest, ok := strings.Cut(line, " "); ok {
		r.Method = method
		r.Target, _, _ = strings.Cut(rest, " ")
	}
	if !strings.HasPrefix(r.Target, "/") && strings.Contains(r.Target, "://") {
		r.Host = cmp.Or(r.Host, sites.Authority(r.Target))
		_, r.Target = sites.SplitURL(r.Target)
	}
	return r, agent, true
}
