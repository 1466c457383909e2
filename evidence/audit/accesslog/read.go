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
	Finding                  // Record and Status are the evidence's, File, Line, Address and SiteStatus the site's
	key, query uint64        // hashes of host, method and path, and of the query; 0: not known
	took       time.Duration // by the evidence
	left       bool          // its caller gave it up, by the evidence
	unsent     bool          // its turn was given back, by the evidence
	other      *request      // of the other side; nil: it has none
}

// An ownKey names a request within the evidence.
type ownKey struct {
	host, transport string
	seq, trip       uint64
	attempt         int
}

// A comparer compares.
type comparer struct {
	Comparison
	agents  []string        // parts of User-Agents
	learned bool            // whether agents are product tokens
	host    string          // the only one; "": all
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
func (r *request) fill(host, method, target string) {
	path, query, _ := strings.Cut(target, "?")
	r.key = maphash.Comparable(seed, [3]string{host, method, path})
	if !strings.Contains(query, evidence.Redacted) && !strings.HasSuffix(target, evidence.Clipped) {
		r.query = maphash.String(seed, query) | 1
	}
	r.Host, r.Method, r.Target = once(host), once(method), strings.Clone(target[:min(len(target), maxTarget)])
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
	many, records := false, false
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
		if learn && agent != "" && len(c.agents) < maxAgents && !slices.Contains(c.agents, agent) {
			c.agents = append(c.agents, agent)
		}
		if !d.Time.IsZero() && d.Type != evidence.LogClosed && d.Type != evidence.Checkpoint {
			stretch(&c.first, &c.last, d.Time)
		}
		k := ownKey{d.Host, d.Transport, d.Seq, d.Trip, d.Attempt}
		switch d.Type {
		case evidence.Started, evidence.Resent:
			host := hostname.Key(sites.Authority(d.URL))
			if c.host != "" && host != c.host {
				return
			}
			if many = many || len(c.own) == maxRequests; many {
				return
			}
			r := request{Finding: Finding{Time: d.Start, Record: line}}
			if d.Start.IsZero() {
				r.Time = d.Time
			}
			_, target := sites.SplitURL(d.URL)
			r.fill(host, cmp.Or(d.Method, "GET"), target)
			open[k] = len(c.own)
			c.own = append(c.own, r)
		case evidence.Fetched, evidence.Failed:
			i, ok := open[k]
			if !ok {
				return
			}
			delete(open, k)
			r := &c.own[i]
			r.Status, r.took = d.Status, max(d.Duration, 0)
			failed := d.Type == evidence.Failed && d.Status == 0
			r.left = failed && d.Left
			r.unsent = failed && !d.Left && d.Err == "" && d.Latency == 0
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
		known[c.own[i].Host] = true
	}
	if only == "" && len(known) == 1 {
		only = c.own[0].Host
	}
	var fault error
	namesHost := false
	err = lines.Each(log, func(text []byte, line int) {
		c.Lines++
		r, agent, ok := parse(string(text))
		if !ok {
			c.Unreadable++
			return
		}
		stretch(&c.from, &c.to, r.Time)
		host := only
		if r.Host != "" {
			namesHost = true
			if host = hostname.Key(r.Host); c.host != "" && host != c.host {
				return
			}
			if known[host] {
				c.hosts[once(host)] = true
			}
		}
		switch {
		case fault != nil || !c.isOurs(agent):
			return
		case host == "":
			fault = errors.New("accesslog: the lines of the access log don't name their host, and the evidence has several: say which one the log is of (Options.Host, -host)")
			return
		case len(c.site) == maxRequests:
			fault = errMany
			return
		}
		r.File, r.Line, r.Address = c.file, line, once(r.Address)
		r.fill(host, r.Method, r.Target)
		c.hosts[r.Host] = true
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

// parse reads a line of an access log, and the User-Agent in it.
func parse(s string) (r request, agent string, ok bool) {
	if strings.HasPrefix(s, "{") {
		return parseCaddy(s)
	}
	return parseCombined(s)
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
	r.Method, r.Target, r.SiteStatus = in.Request.Method, in.Request.URI, in.Status
	agent = strings.Join(in.Request.Headers["User-Agent"], " ")
	stamp := strings.Trim(string(in.TS), `"`)
	if at, err := strconv.ParseFloat(stamp, 64); err == nil && at > 0 && at < 1e11 {
		r.Time = time.UnixMicro(int64(at * 1e6))
		return r, agent, true
	}
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05Z0700"} { // with a fraction, too
		if at, err := time.Parse(layout, stamp); err == nil {
			r.Time = at
			return r, agent, true
		}
	}
	return r, agent, false
}

// parseCombined reads a line in combined format, with or without more behind it:
//
//	[vhost:port] address ident user [time] "request" status bytes "referer" "agent"
func parseCombined(s string) (r request, agent string, ok bool) {
	names, rest, ok := r.cutTime(s)
	before := strings.Fields(names)
	if !ok || len(before) < 3 {
		return r, "", false
	}
	r.Address = before[0]
	if len(before) > 3 && !isAddress(before[0]) && isAddress(before[1]) {
		r.Host, r.Address = before[0], before[1]
	}
	line, rest, ok1 := cutQuoted(rest)
	status, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	size, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	_, rest, ok2 := cutQuoted(rest) // the referer
	agent, _, ok3 := cutQuoted(rest)
	code, err1 := strconv.ParseUint(status, 10, 10)
	_, err2 := strconv.ParseUint(size, 10, 64)
	if r.SiteStatus = int(code); !ok1 || !ok2 || !ok3 || err1 != nil || code > 999 || err2 != nil && size != "-" {
		return r, "", false
	}
	// "GET /path HTTP/1.1", with Varnish "GET http://host/path HTTP/1.1"; a request that couldn't be
	// read is "-" or garbage.
	method, rest, ok := strings.Cut(line, " ")
	if !ok {
		return r, agent, true
	}
	r.Method = method
	if r.Target, _, _ = strings.Cut(rest, " "); !strings.HasPrefix(r.Target, "/") && strings.Contains(r.Target, "://") {
		r.Host = cmp.Or(r.Host, sites.Authority(r.Target))
		_, r.Target = sites.SplitURL(r.Target)
	}
	return r, agent, true
}

// cutTime reads the time of the line s, and returns what stands before it and behind it. Brackets,
// and times, may also stand in the name of a host or a user, which a crawler chooses; the request
// is right behind the time of the line.
func (r *request) cutTime(s string) (before, after string, ok bool) {
	const layout = "02/Jan/2006:15:04:05 -0700"
	for end := 0; ; end++ {
		i := strings.IndexByte(s[end:], ']')
		if i < 0 {
			return "", "", false
		}
		end += i
		begin := end - len(layout)
		if after = strings.TrimLeft(s[end+1:], " "); begin <= 0 || s[begin-1] != '[' || !strings.HasPrefix(after, `"`) {
			continue
		}
		var err error
		if r.Time, err = time.Parse(layout, s[begin:end]); err == nil {
			return s[:begin-1], after, true
		}
	}
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

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
