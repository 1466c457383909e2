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
)

const (
	maxRequests = 2 << 20 // requests of each side that are compared
	maxTarget   = 160     // bytes of a path and query that are kept for showing
	maxAgents   = 64      // product tokens that are taken from the evidence
)

var errMany = fmt.Errorf("accesslog: more than %d requests of this crawler: compare a shorter time, such as a day", maxRequests)

// A request is one side's record of a request.
type request struct {
	key    uint64 // hash of host, method and path
	query  uint64 // hash of the query; 0: not known
	host   string // shared by all requests to it
	method string
	target string // clipped
	time   time.Time
	took   time.Duration // -1: the site hasn't noted it
	status int           // 0: unknown
	bytes  int64         // -1: unknown
	file   int
	line   int
	from   string // address of the client
	end    ending // in the evidence
	met    bool   // whether the other side has it
}

// An ending is how a request ended, by the evidence.
type ending uint8

const (
	unknown ending = iota
	answered
	failed
	left   // by the caller
	unsent // the turn was given back
)

// An ownKey names a request within the evidence: by the number of the start, or, where the limiter
// doesn't number them, by the try.
type ownKey struct {
	host, transport string
	seq, trip       uint64
	attempt         int
}

// A comparer compares.
type comparer struct {
	Comparison
	agents  []string // parts of User-Agents
	learned bool     // whether agents are product tokens
	host    string   // the only one; "": all
	unit    time.Duration
	file    int             // number of the access log that is read
	hosts   map[string]bool // those of the access log

	own, site   []request
	first, last time.Time // of the evidence
	from, to    time.Time // of the access log
}

// once returns s, the same string for all that are equal.
func once(s string) string { return unique.Make(s[:min(len(s), hostname.MaxLen)]).Value() }

// seed makes the hashes by which requests are told apart.
var seed = maphash.MakeSeed()

// fill fills in what a request is for.
func (c *comparer) fill(r *request, host, method, target string) {
	path, query, _ := strings.Cut(target, "?")
	r.key = maphash.Comparable(seed, [3]string{host, method, path})
	if !strings.Contains(query, evidence.Redacted) && !strings.HasSuffix(target, evidence.Clipped) {
		r.query = maphash.String(seed, query) | 1
	}
	r.host, r.method, r.target = once(host), once(method), strings.Clone(target[:min(len(target), maxTarget)])
}

// stretch widens a time to hold t.
func stretch(from, to *time.Time, t time.Time) {
	if from.IsZero() || t.Before(*from) {
		*from = t
	}
	if t.After(*to) {
		*to = t
	}
}

// plain returns what r holds: decompressed, if it is in gzip.
func plain(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if begin, _ := in.Peek(2); string(begin) != "\x1f\x8b" {
		return in, nil
	}
	out, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("accesslog: %w", err)
	}
	return out, nil
}

func (c *comparer) readEvidence(log io.Reader, learn bool) error {
	log, err := plain(log)
	if err != nil {
		return err
	}
	c.learned = learn
	open := map[ownKey]int{} // requests without an end, by index
	many, records, seen := false, false, map[string]bool{}
	err = lines.Each(log, func(text []byte, line int) {
		var d evidence.Decision
		if d.UnmarshalJSON(text) != nil || d.Type == "" {
			return
		}
		records = true
		agent := d.Agent
		if d.Policy != nil {
			agent = d.Policy.Product
		}
		if learn && agent != "" && !seen[agent] && len(seen) < maxAgents {
			seen[agent] = true
			c.agents = append(c.agents, strings.Clone(agent))
		}
		if !d.Time.IsZero() && d.Type != evidence.LogClosed && d.Type != evidence.Checkpoint {
			stretch(&c.first, &c.last, d.Time)
		}
		k := ownKey{host: d.Host, transport: d.Transport, seq: d.Seq}
		if d.Seq == 0 {
			k.trip, k.attempt = d.Trip, d.Attempt
		}
		switch d.Type {
		case evidence.Started, evidence.Resent:
			host := hostname.Key(sites.Authority(d.URL))
			if c.host != "" && host != c.host {
				return
			}
			if many = many || len(c.own) == maxRequests; many {
				return
			}
			r := request{time: d.Start, bytes: -1, line: line}
			if r.time.IsZero() {
				r.time = d.Time
			}
			_, target := sites.SplitURL(d.URL)
			c.fill(&r, host, cmp.Or(d.Method, "GET"), target)
			open[k] = len(c.own)
			c.own = append(c.own, r)
		case evidence.Fetched, evidence.Failed:
			i, ok := open[k]
			if !ok {
				return
			}
			delete(open, k)
			r := &c.own[i]
			r.status, r.took, r.end = d.Status, max(d.Duration, 0), failed
			switch {
			case d.Type == evidence.Fetched:
				r.bytes, r.end = d.Bytes, answered
			case d.Status != 0:
			case d.Left:
				r.end = left
			case d.Err == "" && d.Latency == 0:
				r.end = unsent
			}
		}
	})
	switch {
	case err != nil:
	case many:
		err = errMany
	case !records && learn:
		err = errors.New("accesslog: no line of the evidence is a record: is it another file?")
	}
	c.agent = strings.Join(c.agents[:min(len(c.agents), 3)], ", ")
	return err
}

func (c *comparer) readAccess(log io.Reader) error {
	log, err := plain(log)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	only := c.host
	for i := range c.own {
		known[c.own[i].host] = true
	}
	if only == "" && len(known) == 1 {
		only = c.own[0].host
	}
	var fault error
	namesHost := false
	err = lines.Each(log, func(text []byte, line int) {
		c.Lines++
		l, ok := parse(string(text), c.unit)
		if !ok {
			c.Unreadable++
			return
		}
		stretch(&c.from, &c.to, l.time)
		host := only
		if l.host != "" {
			namesHost = true
			if host = hostname.Key(l.host); c.host != "" && host != c.host {
				return
			}
			if known[host] {
				c.hosts[once(host)] = true
			}
		}
		switch {
		case fault != nil || !c.isOurs(l.agent):
			return
		case host == "":
			fault = errors.New("accesslog: the lines of the access log don't name their host, and the evidence has several: say which one the log is of (Options.Host, -host)")
			return
		case len(c.site) == maxRequests:
			fault = errMany
			return
		}
		r := request{time: l.time, took: l.took, status: l.status, bytes: l.bytes, file: c.file, line: line, from: once(l.address)}
		c.fill(&r, host, l.method, l.target)
		c.hosts[r.host] = true
		c.site = append(c.site, r)
	})
	if only != "" && !namesHost {
		c.hosts[only] = true
	}
	return errors.Join(err, fault)
}

// isOurs reports whether a User-Agent is this crawler's. A product token is whole: Bot isn't
// Googlebot.
func (c *comparer) isOurs(agent string) bool {
	agent = strings.ToLower(agent)
	inToken := func(r rune) bool { return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	return slices.ContainsFunc(c.agents, func(part string) bool {
		for rest := agent; ; {
			before, after, ok := strings.Cut(rest, strings.ToLower(part))
			if !ok || !c.learned || strings.TrimRightFunc(before, inToken) == before && strings.TrimLeftFunc(after, inToken) == after {
				return ok
			}
			rest = after
		}
	})
}

// An accessLine is one line of an access log.
type accessLine struct {
	host, address, method, target, agent string

	time   time.Time
	status int
	bytes  int64         // -1: unknown
	took   time.Duration // -1: unknown
}

// parse reads a line of an access log.
func parse(s string, unit time.Duration) (l accessLine, ok bool) {
	if strings.HasPrefix(s, "{") {
		return parseCaddy(s)
	}
	return parseCombined(s, unit)
}

// parseCaddy reads a line of Caddy's access log: JSON, written when the request has ended.
func parseCaddy(s string) (l accessLine, ok bool) {
	var in struct {
		TS, Duration json.RawMessage
		Status       int
		Size         int64
		Request      struct {
			Method, Host, URI string
			RemoteIP          string `json:"remote_ip"`
			ClientIP          string `json:"client_ip"`
			Headers           map[string][]string
		}
		RespHeaders map[string][]string `json:"resp_headers"`
	}
	err := json.Unmarshal([]byte(s), &in)
	if err != nil || in.Request.Method == "" {
		return l, false
	}
	l = accessLine{
		host: in.Request.Host, address: cmp.Or(in.Request.ClientIP, in.Request.RemoteIP),
		method: in.Request.Method, target: in.Request.URI, status: in.Status, bytes: in.Size, took: -1,
	}
	if agent := in.Request.Headers["User-Agent"]; len(agent) > 0 {
		l.agent = agent[0]
	}
	if in.RespHeaders["Content-Encoding"] != nil {
		l.bytes = -1
	}
	if seconds, err := strconv.ParseFloat(string(in.Duration), 64); err == nil && seconds >= 0 {
		l.took = time.Duration(min(seconds, 1e9) * 1e9)
	}
	stamp := strings.Trim(string(in.TS), `"`)
	if at, err := strconv.ParseFloat(stamp, 64); err == nil && at > 0 && at < 1e11 {
		l.time = time.UnixMicro(int64(at * 1e6))
		return l, true
	}
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.000Z0700"} {
		if l.time, err = time.Parse(layout, stamp); err == nil {
			return l, true
		}
	}
	return l, false
}

// parseCombined reads a line in combined format:
//
//	[vhost:port] address ident user [time] "request" status bytes "referer" "agent" [request time]
func parseCombined(s string, unit time.Duration) (l accessLine, ok bool) {
	names, rest, ok := l.cutTime(s)
	if !ok {
		return l, false
	}
	before := strings.Fields(names)
	if len(before) < 3 {
		return l, false
	}
	l.address = before[0]
	if len(before) > 3 && !isAddress(before[0]) && isAddress(before[1]) {
		l.host, l.address = before[0], before[1]
	}
	line, rest, ok := cutQuoted(rest)
	if !ok {
		return l, false
	}
	status, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	size, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	var err error
	if l.status, err = strconv.Atoi(status); err != nil || l.status < 0 || l.status > 999 {
		return l, false
	}
	if l.bytes, err = strconv.ParseInt(size, 10, 64); err != nil || l.bytes < 0 {
		if size != "-" {
			return l, false
		}
		l.bytes = 0 // Apache writes "-" for none
	}
	if _, rest, ok = cutQuoted(rest); !ok { // the referer
		return l, false
	}
	if l.agent, rest, ok = cutQuoted(rest); !ok {
		return l, false
	}
	l.took = requestTime(rest, unit)

	// "GET /path HTTP/1.1", with Varnish "GET http://host/path HTTP/1.1"; a request that couldn't be
	// read is "-" or garbage.
	method, rest, ok := strings.Cut(line, " ")
	if !ok {
		return l, true
	}
	l.method = method
	if l.target, _, _ = strings.Cut(rest, " "); !strings.HasPrefix(l.target, "/") && strings.Contains(l.target, "://") {
		l.host = cmp.Or(l.host, sites.Authority(l.target))
		_, l.target = sites.SplitURL(l.target)
	}
	return l, true
}

// cutTime reads the time of the line s, and returns what stands before it and behind it. Brackets,
// and times, may also stand in the name of a host or a user, which a crawler chooses; the request
// is right behind the time of the line.
func (l *accessLine) cutTime(s string) (before, after string, ok bool) {
	const layout = "02/Jan/2006:15:04:05 -0700"
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '[')
		if i < 0 {
			return "", "", false
		}
		from += i + 1
		stamp := s[from:min(from+len(layout), len(s))]
		after, ok := strings.CutPrefix(s[from+len(stamp):], "]")
		if after = strings.TrimLeft(after, " "); !ok || !strings.HasPrefix(after, `"`) {
			continue
		}
		var err error
		if l.time, err = time.Parse(layout, stamp); err == nil {
			return s[:from-1], after, true
		}
	}
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// requestTime returns the first number in fields, or behind a name such as "rt=", as a time; -1 if
// there is none.
func requestTime(fields string, unit time.Duration) time.Duration {
	for _, f := range strings.Fields(fields) {
		if _, v, ok := strings.Cut(f, "="); ok {
			f = v
		}
		f = strings.Trim(f, `"`)
		n, err := strconv.ParseFloat(f, 64)
		if err != nil || !(n >= 0 && n < 1e12) {
			continue
		}
		if strings.Contains(f, ".") {
			unit = time.Second
		}
		return time.Duration(min(n*float64(unit), 1e18))
	}
	return -1
}

// cutQuoted returns the next string in double quotes without its escapes, which Apache and nginx
// write as Go does, and what follows it.
func cutQuoted(s string) (text, rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil || quoted[0] != '"' {
		return "", s, false
	}
	text, err = strconv.Unquote(quoted)
	return text, s[len(quoted):], err == nil
}
