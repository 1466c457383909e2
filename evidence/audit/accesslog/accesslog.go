// Package accesslog compares the evidence of a crawler with a site's own log of it: which requests
// does one of them lack?
package accesslog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/internal/lines"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/printable"
)

// Options say what an access log doesn't.
type Options struct {
	// Host is the host that the log is of. It is needed where the lines don't begin with the virtual
	// host (Apache's vhost_combined) and the crawler has been on several hosts.
	Host string
	// Agent is a part of the User-Agent that tells this crawler's requests from others'. "" is the
	// product token that the evidence names; if it names several, each of the first 64.
	Agent string
	// TimeUnit is the unit of a request time without decimals. 0 is a microsecond, as Apache's %D has
	// it; times with decimals, as nginx has them, are seconds.
	TimeUnit time.Duration
}

const (
	// maxRequests is how many requests of each side are compared.
	maxRequests = 2 << 20
	// maxTarget is how much of a path and query is kept for showing.
	maxTarget = 160
	// maxAgents is how many product tokens are taken from the evidence.
	maxAgents = 64
	// inexact is how far two records of one request may be apart, when the clocks are set right.
	// Access logs know whole seconds.
	inexact = 5 * time.Second
	// maxFindings is how many findings of a kind a Comparison names one by one.
	maxFindings = 1000
)

// Compare compares the evidence of a crawler with a site's own log of it, in the combined format
// of Apache and nginx, with or without a virtual host before the line and a request time behind it.
// It shows what no evidence can show by itself: requests that it leaves out.
//
// Requests are matched by host, method, path with query, and time: two records of one request may
// be five seconds apart. The difference between the two clocks may be hours and may drift; it is
// estimated from the requests themselves. That a clock was set is known if fifteen requests to
// pages that were asked for once show it. Lines of the access log may come in any order, as when
// rotated files are put one after the other. More than two million requests of the crawler are an
// error: compare a day at a time then.
func Compare(evidence, access io.Reader, o Options) (*Comparison, error) {
	c := &comparer{agents: map[string]bool{}, hosts: map[string]bool{}, noted: map[string]string{}}
	c.own = ownSide{open: map[ownKey]int{}}
	if o.Agent != "" {
		c.agents[strings.ToLower(o.Agent)] = true
	}
	if o.Host != "" {
		c.host = hostname.Key(o.Host)
	}
	c.unit = cmp.Or(o.TimeUnit, time.Microsecond)
	if err := c.readEvidence(evidence, o.Agent == ""); err != nil {
		return nil, err
	}
	if len(c.agents) == 0 {
		return nil, errors.New("audit: the evidence names no crawler: say which requests in the access log are its own (Options.Agent, -agent)")
	}
	if err := c.readAccess(access); err != nil {
		return nil, err
	}
	return c.compare(), nil
}

// A Comparison is what Compare found.
type Comparison struct {
	Lines      int           `json:"lines"`      // lines of the access log
	Unreadable int           `json:"unreadable"` // lines of it that aren't in combined format
	Requests   int           `json:"requests"`   // lines of it that are requests of this crawler
	Evidence   int           `json:"evidence"`   // requests in the evidence, to these hosts and in this time
	Matched    int           `json:"matched"`    // requests that both have
	Offset     time.Duration `json:"-"`          // how far the site's clock is ahead
	Drift      time.Duration `json:"-"`          // by how much that changed from the first match to the last
	AtEnd      bool          `json:"atEnd"`      // whether the site notes when requests end (nginx), not when they start (Apache)

	Missing Findings `json:"missing"` // requests that the site saw and the evidence lacks
	Outside Findings `json:"outside"` // the same, before or after all of the evidence
	Unseen  Findings `json:"unseen"`  // requests that the evidence has, answer included, and the site never saw
	Status  Findings `json:"status"`  // matched, and the statuses differ
	Bytes   Findings `json:"bytes"`   // matched, and the bytes of the body differ, as they do where it was compressed

	Hosts []SiteView `json:"hosts"` // by name
}

// Findings are findings of one kind.
type Findings struct {
	N     int       `json:"n"`     // number of all
	First []Finding `json:"first"` // the first 1,000
}

// A Finding is one request on which the two logs don't agree.
type Finding struct {
	Host       string    `json:"host"`
	Method     string    `json:"method"`
	Target     string    `json:"target"`              // path and query, as far as the first 160 bytes
	Time       time.Time `json:"time"`                // by the clock of whoever has noted it; the site's where both have
	Line       int       `json:"line,omitzero"`       // in the access log
	Record     int       `json:"record,omitzero"`     // line of its start in the evidence
	Address    string    `json:"address,omitzero"`    // of the client, as the site saw it
	Status     int       `json:"status,omitzero"`     // in the evidence
	SiteStatus int       `json:"siteStatus,omitzero"` // in the access log
	Bytes      int64     `json:"bytes,omitzero"`
	SiteBytes  int64     `json:"siteBytes,omitzero"`
}

// String returns the finding as one line of text.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s %s%s", f.Time.UTC().Format(time.DateTime), f.Method, f.Host, f.Target)
	if f.Line > 0 {
		fmt.Fprintf(&b, ": line %d", f.Line)
		if f.Record == 0 {
			fmt.Fprintf(&b, ", from %s", f.Address)
		}
	}
	switch {
	case f.Record > 0 && f.Line > 0:
		fmt.Fprintf(&b, " says %d, %d bytes; record %d says %d, %d bytes", f.SiteStatus, f.SiteBytes, f.Record, f.Status, f.Bytes)
	case f.Record > 0:
		fmt.Fprintf(&b, ": record %d", f.Record)
	}
	return printable.Text(b.String())
}

// A SiteView is what the crawler did on one host, as the site saw it. Access logs know whole
// seconds, so gaps are a second longer or shorter.
type SiteView struct {
	Host       string        `json:"host"`
	Requests   int           `json:"requests"`
	First      time.Time     `json:"first"`      // by the site's clock
	Last       time.Time     `json:"last"`       //
	MinGap     time.Duration `json:"-"`          // shortest gap between two requests
	OwnMinGap  time.Duration `json:"-"`          // the same by the evidence
	BusySecond int           `json:"busySecond"` // most requests within a second of the clock
	BusyMinute int           `json:"busyMinute"` // most requests within a minute of the clock
	InFlight   int           `json:"inFlight"`   // requests that surely were in flight at once; 0: the log has no request times
}

// comparisonFields is a Comparison without its methods; siteFields is a SiteView.
type (
	comparisonFields Comparison
	siteFields       SiteView
)

// MarshalJSON writes durations in seconds.
func (c *Comparison) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		OK bool `json:"ok"`
		*comparisonFields
		Offset float64 `json:"offset"`
		Drift  float64 `json:"drift"`
	}{c.OK(), (*comparisonFields)(c), c.Offset.Seconds(), c.Drift.Seconds()})
}

// MarshalJSON writes durations in seconds.
func (v SiteView) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		siteFields
		MinGap    float64 `json:"minGap"`
		OwnMinGap float64 `json:"ownMinGap"`
	}{siteFields(v), v.MinGap.Seconds(), v.OwnMinGap.Seconds()})
}

// OK reports whether the evidence has every request that the site saw of this crawler, and with the
// same status.
func (c *Comparison) OK() bool { return c.Missing.N == 0 && c.Outside.N == 0 && c.Status.N == 0 }

// String returns the comparison as text.
func (c *Comparison) String() string {
	var b strings.Builder
	_ = c.WriteText(&b) // a Builder takes everything
	return b.String()
}

// Sentences say what was found, one by one, for people: what is well first.
func (c *Comparison) Sentences() []string {
	out := []string{fmt.Sprintf("%s of this crawler in the access log, %s in the evidence for that time; %d are the same.",
		lines.Count(c.Requests, "request"), lines.Count(c.Evidence, "request"), c.Matched)}
	if c.Matched > 0 {
		when := "start"
		if c.AtEnd {
			when = "end"
		}
		out = append(out, fmt.Sprintf("The site's clock is %v ahead, with a drift of %v; it notes the %s of a request.",
			c.Offset.Round(time.Second), c.Drift.Round(time.Second), when))
	}
	say := func(n int, one, many string) {
		switch n {
		case 0:
		case 1:
			out = append(out, "1 "+one)
		default:
			out = append(out, fmt.Sprintf("%d %s", n, many))
		}
	}
	say(c.Missing.N, "request that the site saw isn't in the evidence.", "requests that the site saw aren't in the evidence.")
	say(c.Outside.N, "request that the site saw is older or newer than all of the evidence.", "requests that the site saw are older or newer than all of the evidence.")
	say(c.Unseen.N, "request of the evidence was never seen by the site.", "requests of the evidence were never seen by the site.")
	say(c.Status.N, "request has another status in the evidence.", "requests have another status in the evidence.")
	say(c.Bytes.N, "request has another size in the evidence, as it has where the body was sent compressed or wasn't read to the end.",
		"requests have another size in the evidence, as they have where bodies were sent compressed or weren't read to the end.")
	say(c.Unreadable, "line of the access log isn't in combined format.", "lines of the access log aren't in combined format.")
	if c.OK() && c.Matched > 0 {
		out = append(out, "The evidence has every request that the site saw of this crawler.")
	}
	return out
}

// WriteText writes the comparison for people.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, s := range c.Sentences() {
		fmt.Fprintln(&b, s)
	}
	if len(c.Hosts) > 0 {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "\nas the site saw it\trequests\tmin gap\tby the evidence\ta second\ta minute\tin flight\n")
		for _, h := range c.Hosts {
			flight := "unknown"
			if h.InFlight > 0 {
				flight = strconv.Itoa(h.InFlight)
			}
			fmt.Fprintf(table, "%s\t%d\t%v\t%v\t%d\t%d\t%s\n", printable.Text(h.Host), h.Requests, h.MinGap, printable.Duration(h.OwnMinGap), h.BusySecond, h.BusyMinute, flight)
		}
		table.Flush()
	}
	for _, kind := range c.Kinds() {
		if kind.N == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", kind.Name)
		for _, f := range kind.First[:min(len(kind.First), 20)] {
			fmt.Fprintf(&b, "  %s\n", f)
		}
		if more := kind.N - min(len(kind.First), 20); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A Kind names Findings, for showing.
type Kind struct {
	Name string
	Findings
}

// Kinds returns the findings by their kinds, the gravest first.
func (c *Comparison) Kinds() []Kind {
	return []Kind{
		{"missing from the evidence", c.Missing},
		{"outside the time of the evidence", c.Outside},
		{"another status", c.Status},
		{"never seen by the site", c.Unseen},
		{"another size", c.Bytes},
	}
}

func (f *Findings) add(x Finding) {
	if f.N++; len(f.First) < maxFindings {
		for _, text := range [...]*string{&x.Host, &x.Method, &x.Target, &x.Address} {
			*text = printable.Text(*text)
		}
		f.First = append(f.First, x)
	}
}

// A request is one side's record of a request.
type request struct {
	key    uint64 // hash of host, method and path
	query  uint64 // hash of the query; 0: not known
	host   string // shared by all requests to it
	method string
	target string // clipped
	time   time.Time
	took   time.Duration // unknown: -1 where the site has noted it, 0 in the evidence
	status int           // 0: unknown
	bytes  int64         // -1: unknown
	line   int
	from   string // address of the client
	met    bool   // whether the other side has it
	other  int    // where it is there
}

// An ownKey names a request within the evidence: by the number of the start, or, where the limiter
// doesn't number them, by the try.
type ownKey struct {
	host, transport string
	seq, trip       uint64
	attempt         int
}

func keyOf(d *evidence.Decision) ownKey {
	if d.Seq != 0 {
		return ownKey{host: d.Host, transport: d.Transport, seq: d.Seq}
	}
	return ownKey{host: d.Host, transport: d.Transport, trip: d.Trip, attempt: d.Attempt}
}

// seed makes the hashes by which URLs are told apart.
var seed = maphash.MakeSeed()

// An ownSide is the evidence.
type ownSide struct {
	requests    []request
	open        map[ownKey]int // requests without an end, by index
	first, last time.Time
}

// A comparer compares.
type comparer struct {
	agents map[string]bool // parts of User-Agents, in lower case
	host   string          // the only one; "": all
	hosts  map[string]bool // those of the access log
	unit   time.Duration

	own       ownSide
	site      []request
	from, to  time.Time // first and last line of the access log
	result    Comparison
	noted     map[string]string // methods, hosts and addresses, each once
	namesHost bool              // whether a line names its host
}

var errMany = fmt.Errorf("audit: more than %d requests of this crawler: compare a shorter time, such as a day", maxRequests)

// once returns s, the same string for all that are equal.
func (c *comparer) once(s string) string {
	if old, ok := c.noted[s]; ok {
		return old
	}
	s = strings.Clone(s[:min(len(s), hostname.MaxLen)])
	c.noted[s] = s
	return s
}

// fill fills in what a request is for.
func (c *comparer) fill(r *request, host, method, target string) {
	path, query, _ := strings.Cut(target, "?")
	var h maphash.Hash
	h.SetSeed(seed)
	for _, part := range [...]string{host, method, path} {
		_, _ = h.WriteString(part)
		_ = h.WriteByte(0)
	}
	r.key, r.host, r.method = h.Sum64(), c.once(host), c.once(method)
	if strings.Contains(query, evidence.Redacted) || strings.HasSuffix(target, evidence.Clipped) {
		r.query = 0
	} else {
		r.query = maphash.String(seed, query) | 1
	}
	r.target = strings.Clone(target[:min(len(target), maxTarget)])
}

func (c *comparer) readEvidence(log io.Reader, learnAgents bool) error {
	own := &c.own
	many := false
	err := lines.Each(log, func(text []byte, at int) {
		var d evidence.Decision
		if d.UnmarshalJSON(text) != nil {
			return
		}
		agent := d.Agent
		if d.Policy != nil {
			agent = d.Policy.Product
		}
		if agent != "" && learnAgents && len(c.agents) != maxAgents {
			c.agents[strings.ToLower(agent)] = true
		}
		if !d.Time.IsZero() && d.Type != evidence.LogClosed && d.Type != evidence.Checkpoint {
			if own.first.IsZero() || d.Time.Before(own.first) {
				own.first = d.Time
			}
			if d.Time.After(own.last) {
				own.last = d.Time
			}
		}
		k := keyOf(&d)
		switch d.Type {
		case evidence.Started, evidence.Resent:
			host := hostname.Key(lines.Authority(d.URL))
			if c.host != "" && host != c.host {
				return
			}
			if many = len(own.requests) == maxRequests; many {
				return
			}
			_, target := lines.SplitURL(d.URL)
			r := request{time: d.Start, bytes: -1, line: at}
			if r.time.IsZero() {
				r.time = d.Time
			}
			c.fill(&r, host, cmp.Or(d.Method, "GET"), target)
			own.open[k] = len(own.requests)
			own.requests = append(own.requests, r)
		case evidence.Fetched, evidence.Failed:
			i, ok := own.open[k]
			if !ok {
				return
			}
			delete(own.open, k)
			r := &own.requests[i]
			r.status, r.took = d.Status, max(d.Duration, 0)
			if d.Type == evidence.Fetched {
				r.bytes = d.Bytes
			}
		}
	})
	if many {
		err = errMany
	}
	clear(own.open)
	return err
}

func (c *comparer) readAccess(log io.Reader) error {
	known := map[string]bool{}
	for i := range c.own.requests {
		known[c.own.requests[i].host] = true
	}
	only := c.host
	if only == "" && len(known) == 1 {
		only = slices.Collect(maps.Keys(known))[0]
	}
	var fault error
	err := lines.Each(log, func(text []byte, at int) {
		c.result.Lines++
		l, ok := parseAccess(string(text), c.unit)
		if !ok {
			c.result.Unreadable++
			return
		}
		if c.from.IsZero() || l.time.Before(c.from) {
			c.from = l.time
		}
		if l.time.After(c.to) {
			c.to = l.time
		}
		host := only
		if l.host != "" {
			c.namesHost = true
			if host = hostname.Key(l.host); c.host != "" && host != c.host {
				return
			}
			if known[host] {
				c.hosts[c.once(host)] = true
			}
		}
		if fault != nil || !c.isOurs(l.agent) {
			return
		}
		if host == "" {
			fault = errors.New("audit: the lines of the access log don't name their host, and the evidence has several: say which one the log is of (Options.Host, -host)")
			return
		}
		if len(c.site) == maxRequests {
			fault = errMany
			return
		}
		r := request{time: l.time, took: l.took, status: l.status, bytes: l.bytes, line: at, from: c.once(l.address)}
		c.fill(&r, host, l.method, l.target)
		c.hosts[r.host] = true
		c.site = append(c.site, r)
	})
	if only != "" && !c.namesHost {
		c.hosts[only] = true
	}
	return errors.Join(err, fault)
}

func (c *comparer) isOurs(agent string) bool {
	agent = strings.ToLower(agent)
	for part := range c.agents {
		if strings.Contains(agent, part) {
			return true
		}
	}
	return false
}

// An accessLine is one line of an access log.
type accessLine struct {
	host, address, method, target, agent string

	time   time.Time
	status int
	bytes  int64         // -1: unknown
	took   time.Duration // -1: unknown
}

// parseAccess reads a line in combined format:
//
//	[vhost:port] address ident user [time] "request" status bytes "referer" "agent" [request time]
func parseAccess(s string, unit time.Duration) (l accessLine, ok bool) {
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

	// "GET /path HTTP/1.1"; a request that couldn't be read is "-" or garbage.
	method, rest, ok := strings.Cut(line, " ")
	if !ok {
		return l, true
	}
	target, _, _ := strings.Cut(rest, " ")
	l.method = method
	if !strings.HasPrefix(target, "/") && strings.Contains(target, "://") {
		_, target = lines.SplitURL(target)
	}
	l.target = target
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
		seconds, err := strconv.ParseFloat(f, 64)
		switch {
		case err != nil || !(seconds >= 0 && seconds < 1e12):
			continue
		case strings.Contains(f, "."):
			return time.Duration(min(seconds, 1e9) * 1e9)
		}
		return time.Duration(min(seconds*float64(unit), 1e18))
	}
	return -1
}

// cutQuoted returns the next string in double quotes without its escapes, which are those of Apache
// (\" \\ \n \xhh) and of nginx (\xHH), and what follows it.
func cutQuoted(s string) (text, rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	if s == "" || s[0] != '"' {
		return "", s, false
	}
	s = s[1:]
	end := strings.IndexAny(s, `"\`)
	if end != -1 && s[end] == '"' {
		return s[:end], s[end+1:], true
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return string(b), s[i+1:], true
		case c != '\\' || i+1 == len(s):
			b = append(b, c)
		case s[i+1] == 'x':
			if v, err := strconv.ParseUint(s[i+2:min(i+4, len(s))], 16, 8); err == nil {
				b = append(b, byte(v))
				i += 3
			} else {
				b = append(b, c)
			}
		default:
			i++
			switch e := s[i]; e {
			case 'n':
				b = append(b, '\n')
			case 't':
				b = append(b, '\t')
			case 'r':
				b = append(b, '\r')
			default:
				b = append(b, e)
			}
		}
	}
	return "", s, false
}
