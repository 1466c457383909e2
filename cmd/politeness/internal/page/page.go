// Package page draws a crawl's log as one HTML page, with a timeline of each host. The page needs
// no network.
package page

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/cmd/politeness/internal/document"
	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// The page's parts are joined to one file, which fetches nothing.
var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	pageTemplate = document.Template(pageHTML, pageCSS, true, nil)
)

// A page is what is shown. Times in it are counted in ticks of 100 µs
// from the first record on, which keeps the numbers short and is finer than a
// screen can show.
type page struct {
	Log        string          `json:"log"`
	From       int64           `json:"from"` // ms since 1970
	Span       int64           `json:"span"`
	OK         bool            `json:"ok"`
	Complete   bool            `json:"complete"`
	Promised   []string        `json:"promised"` // what the policies state
	Promises   []audit.Promise `json:"promises"`
	Records    int             `json:"records"`
	Violations []violation     `json:"violations"`
	More       int             `json:"more"` // violations that aren't named
	Hosts      []*host         `json:"hosts"`
	Drained    []event         `json:"drained"` // when a person has ended the work, on all hosts

	text  string
	from  time.Time
	trips map[tripKey]trip
}

// A tripKey names a trip of one of the Transports whose records are in a log.
type tripKey struct {
	transport string
	trip      uint64
}

// An exchangeKey names an exchange with a host. An exchange without a seq has the number of its
// trip and attempt.
type exchangeKey struct {
	transport string
	number    uint64
}

// A trip is what is known of one while its records are read.
type trip struct{ low, sent bool }

type violation struct {
	Kind   audit.Kind `json:"kind"`
	Host   int        `json:"host"` // index; -1: none
	Lines  []int      `json:"lines"`
	Detail string     `json:"detail"`
	At     int64      `json:"at"` // -1: unknown
}

// A host holds its exchanges in columns, one entry each.
type host struct {
	Name   string           `json:"name"`
	Report audit.HostReport `json:"report"`
	Base   string           `json:"base"` // what most URLs begin with

	Start     []int64  `json:"start"`
	Latency   []int64  `json:"latency"`
	Duration  []int64  `json:"duration"` // -1: no end
	Delay     []int64  `json:"delay"`
	WaitSlot  []int64  `json:"waitSlot"`
	WaitDelay []int64  `json:"waitDelay"`
	WaitBlock []int64  `json:"waitBlock"`
	Status    []int    `json:"status"` // 0: no response
	Flags     []int    `json:"flags"`
	Bytes     []int64  `json:"bytes"`
	Line      []int    `json:"line"`
	URL       []string `json:"url"` // without Base

	Errors map[int]string `json:"errors"` // by exchange
	Blocks []block        `json:"blocks"`
	Events []event        `json:"events"`
}

// Flags of an exchange.
const (
	robotsTxt = 1 << iota
	probe
	redirect
	again // not the first try
	low   // robots.txt couldn't be fetched, but the page was
)

type block struct {
	From     int64  `json:"from"`
	Until    int64  `json:"until"`
	Status   int    `json:"status"`
	Refusals int    `json:"refusals"`
	Reason   string `json:"reason"`
	Line     int    `json:"line"`
	Hand     bool   `json:"hand"` // a person has set it
}

// byHand is in the reason of a block that a person has set, also where a process has met it again.
const byHand = "by hand: "

// An event is a refusal, or something else worth a mark.
type event struct {
	At   int64         `json:"at"`
	Type evidence.Type `json:"type"`
	URL  string        `json:"url"` // without the host's Base
	Why  string        `json:"why"`
	Line int           `json:"line"`
	Sent bool          `json:"sent"` // a refusal of an answer: its request had been sent
}

func ticks(d time.Duration) int64 { return int64(d / (100 * time.Microsecond)) }

// Draw writes the page of a log of that name, which is read once more, and of its report.
func Draw(w io.Writer, name string, log io.Reader, report *audit.Report) error {
	p, err := newPage(name, bufio.NewReader(log), report)
	if err != nil {
		return err
	}
	return p.write(w)
}

// newPage reads a log once more, for drawing.
func newPage(name string, log *bufio.Reader, report *audit.Report) (*page, error) {
	p := &page{
		Log:        name,
		OK:         report.OK(),
		Complete:   report.Complete(),
		Promised:   report.Promised,
		Promises:   report.Promises,
		text:       report.String(),
		Hosts:      []*host{},
		Drained:    []event{},
		Violations: []violation{},
		from:       report.First,
	}
	d := &drawing{
		page:   p,
		byName: map[string]*host{},
		wanted: map[int]int64{},
		open:   map[string]map[exchangeKey]int{},
	}
	p.trips = map[tripKey]trip{}
	for _, r := range report.Hosts {
		h := &host{Name: r.Host, Report: r, Errors: map[int]string{}, Blocks: []block{}, Events: []event{}}
		p.Hosts = append(p.Hosts, h)
		d.byName[r.Host] = h
	}
	for _, v := range report.Violations {
		d.wanted[lastLine(v)] = -1
	}
	if err := d.read(log); err != nil {
		return nil, err
	}
	d.addViolations(report)
	p.From = p.from.UnixMilli()
	return p, nil
}

// lastLine returns the line at which a violation shows.
func lastLine(v audit.Violation) int { return v.Lines[len(v.Lines)-1] }

// A drawing fills a page while its log is read.
type drawing struct {
	*page
	byName map[string]*host
	wanted map[int]int64                  // lines of violations, and when they were written
	open   map[string]map[exchangeKey]int // exchanges under way, by host
}

// read adds the records of a log.
func (d *drawing) read(log *bufio.Reader) error {
	for line := 1; ; line++ {
		text, err := log.ReadBytes('\n')
		var record evidence.Decision
		if json.Unmarshal(text, &record) == nil {
			d.addRecord(&record, line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	for _, h := range d.Hosts {
		h.sort()
	}
	return nil
}

func (d *drawing) addRecord(record *evidence.Decision, line int) {
	d.Records++
	if _, ok := d.wanted[line]; ok {
		d.wanted[line] = d.at(cmp.Or(record.Start, record.Time))
	}
	if record.Type == evidence.Drained {
		d.Drained = append(d.Drained, event{At: d.at(record.Time), Type: record.Type, Why: why(record), Line: line})
	}
	h := d.byName[record.Host]
	if h == nil {
		h = d.byName[hostOf(record.URL)]
	}
	if h == nil {
		return
	}
	if d.open[h.Name] == nil {
		d.open[h.Name] = map[exchangeKey]int{}
	}
	d.add(h, record, line, d.open[h.Name])
}

// addViolations adds those of the report, and how many more there are.
func (d *drawing) addViolations(report *audit.Report) {
	index := map[string]int{}
	for i, h := range d.Hosts {
		index[h.Name] = i
	}
	for _, v := range report.Violations {
		i, ok := index[v.Host]
		if !ok {
			i = -1
		}
		d.Violations = append(d.Violations, violation{v.Kind, i, v.Lines, v.Detail, d.wanted[lastLine(v)]})
	}
	for _, n := range report.Broken {
		d.More += n
	}
	d.More -= len(d.Violations)
}

// hostOf returns the host of a URL, for records that aren't about a turn.
func hostOf(rawURL string) string {
	_, rest, _ := strings.Cut(rawURL, "://")
	name, _, _ := strings.Cut(rest, "/")
	return strings.ToLower(name)
}

// at returns t in ticks, and makes the page long enough for it.
func (p *page) at(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	at := ticks(t.Sub(p.from))
	p.Span = max(p.Span, at)
	return at
}

// add adds one record to the picture of h.
func (p *page) add(h *host, d *evidence.Decision, line int, open map[exchangeKey]int) {
	key := exchangeKey{d.Transport, d.Seq}
	if key.number == 0 {
		key.number = d.Trip<<8 | uint64(d.Attempt)
	}
	id := tripKey{d.Transport, d.Trip}
	switch d.Type {
	case evidence.Started:
		open[key] = len(h.Start)
		known := p.trips[id]
		if !d.RobotsTxt {
			known.sent = true
			p.trips[id] = known
		}
		h.started(d, line, p.at(cmp.Or(d.Start, d.Time)), known.low)
	case evidence.Fetched, evidence.Failed:
		i, ok := open[key]
		if !ok {
			return
		}
		delete(open, key)
		h.Status[i] = d.Status
		h.Latency[i] = ticks(d.Latency)
		h.Duration[i] = ticks(d.Duration)
		h.Bytes[i] = d.Bytes
		reason := cmp.Or(d.Err, d.Reason)
		if reason != "" {
			h.Errors[i] = printable.Text(reason)
		}
		p.at(d.Start.Add(d.Duration))
	case evidence.HostBlocked:
		// A block may reach far beyond the log: it doesn't stretch the picture.
		h.Blocks = append(h.Blocks, block{
			From:     p.at(d.Time),
			Until:    ticks(d.Until.Sub(p.from)),
			Status:   d.Status,
			Refusals: d.Refusals,
			Reason:   printable.Text(d.Reason),
			Line:     line,
			Hand:     d.Hand || strings.Contains(d.Reason, byHand),
		})
	case evidence.HostCleared:
		if d.Hand { // one by a success shows as the end of its block
			h.Events = append(h.Events, event{p.at(d.Time), d.Type, "", why(d), line, false})
		}
		for i := range h.Blocks {
			h.Blocks[i].Until = min(h.Blocks[i].Until, p.at(d.Time))
		}
	case evidence.RobotsAllowed:
		p.trips[id] = trip{low: d.Confidence == "low"}
	case evidence.RobotsFetched, evidence.RobotsRevalidated, evidence.LogClosed:
	case evidence.Waiting: // a wait is drawn with its start
	default:
		sent := d.Type == evidence.ResponseRejected
		if d.Type == evidence.BudgetExceeded { // before a page or within its body
			sent = p.trips[id].sent
		}
		h.Events = append(h.Events, event{p.at(d.Time), d.Type, h.cut(d.URL), why(d), line, sent})
	}
}

func (h *host) started(d *evidence.Decision, line int, start int64, unsure bool) {
	if h.Base == "" {
		if scheme, rest, ok := strings.Cut(d.URL, "://"); ok {
			authority, _, _ := strings.Cut(rest, "/")
			h.Base = scheme + "://" + authority
		}
	}
	flags := 0
	for flag, set := range map[int]bool{
		robotsTxt: d.RobotsTxt || strings.HasSuffix(d.URL, "/robots.txt"),
		probe:     d.Probe,
		redirect:  d.Redirects > 0,
		again:     d.Attempt > 1,
		low:       unsure,
	} {
		if set {
			flags |= flag
		}
	}
	h.Start = append(h.Start, start)
	h.Latency = append(h.Latency, 0)
	h.Duration = append(h.Duration, -1)
	h.Delay = append(h.Delay, ticks(d.Delay))
	h.WaitSlot = append(h.WaitSlot, ticks(d.WaitSlot))
	h.WaitDelay = append(h.WaitDelay, ticks(d.WaitDelay))
	h.WaitBlock = append(h.WaitBlock, ticks(d.WaitBlock))
	h.Status = append(h.Status, 0)
	h.Flags = append(h.Flags, flags)
	h.Bytes = append(h.Bytes, 0)
	h.Line = append(h.Line, line)
	h.URL = append(h.URL, h.cut(d.URL))
}

// cut cuts off what most URLs of h begin with.
func (h *host) cut(rawURL string) string {
	rawURL = printable.Text(rawURL)
	if rest, ok := strings.CutPrefix(rawURL, h.Base); ok && h.Base != "" && strings.HasPrefix(rest, "/") {
		return rest
	}
	return rawURL
}

// why returns the reasons in a record, the rule first.
func why(d *evidence.Decision) string {
	var parts []string
	if d.MatchedRule != "" {
		rule := d.MatchedRule
		if d.Line > 0 {
			rule += " (robots.txt, line " + strconv.Itoa(d.Line)
			if d.Group != "" {
				rule += ", for " + d.Group
			}
			rule += ")"
		}
		parts = append(parts, rule)
	}
	if d.Limit != "" && d.Reason == "" {
		parts = append(parts, strconv.FormatInt(d.Used, 10)+" of "+strconv.FormatInt(d.Max, 10)+" "+d.Limit)
	}
	if d.Status != 0 {
		parts = append(parts, "status "+strconv.Itoa(d.Status))
	}
	for _, s := range []string{d.Reason, d.Directives, d.Err} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return printable.Text(strings.Join(parts, "; "))
}

// sort puts the exchanges in the order of their starts: the log has them nearly so.
func (h *host) sort() {
	if slices.IsSorted(h.Start) {
		return
	}
	order := make([]int, len(h.Start))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(h.Start[a], h.Start[b]) })
	for _, column := range []*[]int64{
		&h.Start, &h.Latency, &h.Duration, &h.Delay, &h.WaitSlot, &h.WaitDelay, &h.WaitBlock, &h.Bytes,
	} {
		*column = permute(*column, order)
	}
	h.Status = permute(h.Status, order)
	h.Flags = permute(h.Flags, order)
	h.Line = permute(h.Line, order)
	h.URL = permute(h.URL, order)
	errs := make(map[int]string, len(h.Errors))
	for to, from := range order {
		if s, ok := h.Errors[from]; ok {
			errs[to] = s
		}
	}
	h.Errors = errs
}

func permute[T any](column []T, order []int) []T {
	out := make([]T, len(column))
	for to, from := range order {
		out[to] = column[from]
	}
	return out
}

// write writes the page as one file.
func (p *page) write(w io.Writer) error {
	var data bytes.Buffer
	// The encoder writes "<" as an escape, so that nothing in a log can end the
	// element that holds the data.
	if err := json.NewEncoder(&data).Encode(p); err != nil {
		return err
	}
	return pageTemplate.Execute(w, map[string]any{
		"Log":      p.Log,
		"OK":       p.OK,
		"Complete": p.Complete,
		"Text":     p.text,
		"JS":       template.JS(pageJS),
		"Data":     template.JS(data.String()),
	})
}
