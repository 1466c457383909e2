// Package dossier draws pages for the owner of a site. They show a crawler's requests there, from
// its evidence, and compare them with the site's own access log. Each page is one HTML file that
// fetches nothing and needs no JavaScript.
package dossier

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/cmd/politeness/internal/document"
	"github.com/go-politeness/politeness/cmd/politeness/internal/hostname"
	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

var (
	//go:embed page.css
	pageCSS string
	//go:embed dossier.html
	dossierHTML string
	//go:embed comparison.html
	comparisonHTML string

	functions = template.FuncMap{
		"join": strings.Join,
		"utc": func(t time.Time) string {
			if t.IsZero() {
				return ""
			}
			return t.UTC().Format("2006-01-02 15:04:05")
		},
		"utcms":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
		"short":     printable.Span,
		"bytes":     bytesOf,
		"printable": printable.Text,
	}
	dossierTemplate    = document.Template(dossierHTML, pageCSS, false, functions)
	comparisonTemplate = document.Template(comparisonHTML, pageCSS, false, functions)
)

// What a page shows at most of each kind.
const (
	maxVisits   = 10_000
	maxRules    = 200
	maxExamples = 5
	maxBlocks   = 500
	maxFetches  = 200
)

// A Dossier is what a crawler did on one site.
type Dossier struct {
	Site        []string
	UserAgents  []string
	From        string   // the contact
	Products    []string // tokens by which robots.txt addresses the crawler
	Slots       int      // requests under way to a host at most; 0: the records don't say it
	First, Last time.Time
	Requests    int
	Bytes       int64
	MinGap      time.Duration // shortest gap between two requests to one host
	MedianGap   time.Duration
	Delay       time.Duration // shortest delay in force after a start
	CrawlDelay  time.Duration // longest that robots.txt asked for
	Gaps        []Bar
	Statuses    []Bar
	Robots      []Fetch
	MoreRobots  int
	Refused     []*Rule
	MoreRefused int
	Preferences []Bar
	Reserved    int
	Blocks      []*Block
	MoreBlocks  int
	Visits      []*Visit
	MoreVisits  int
	Report      *audit.Report
	Checkpoint  string // of the log, if it is signed

	starts      map[string][]time.Time // by host
	open        map[string]*Visit      // requests that haven't ended, by keyOf
	rules       map[string]*Rule       // Refused, by Why
	statuses    map[string]int         // number of each of Statuses
	preferences map[string]int         // number of each of Preferences
}

// A Bar is one bar of a chart.
type Bar struct {
	Name string
	N    int
	Part int // of the longest bar, in percent
}

// A Fetch is one of robots.txt.
type Fetch struct {
	Time   time.Time
	What   string
	SHA256 string
}

// A Rule is why some URLs weren't fetched.
type Rule struct {
	Why      string
	N        int
	Examples []string
}

// A Block is a time in which the site asked to be left alone.
type Block struct {
	Time, Until time.Time
	Host, Why   string
	Next        time.Time // first request to the host after it was set; zero: none

	host string
}

// A Visit is one request.
type Visit struct {
	Start  time.Time
	Gap    time.Duration // since the one before to the same host; 0: it is the first
	What   string        // method, if it isn't GET, and URL
	Status int
	Bytes  int64
	Note   string

	host string
}

// New reads a log, or a bundle, and returns what is in it of the given hosts. The report judges the
// same records: see [audit.CheckSite] and [bundle.Verify].
func New(log io.Reader, report *audit.Report, hosts ...string) (*Dossier, error) {
	d := &Dossier{
		Site:        hosts,
		Report:      report,
		Checkpoint:  report.Signed.Latest,
		starts:      map[string][]time.Time{},
		open:        map[string]*Visit{},
		rules:       map[string]*Rule{},
		statuses:    map[string]int{},
		preferences: map[string]int{},
	}
	in := bufio.NewReader(log)
	for {
		text, err := in.ReadBytes('\n')
		if strings.HasPrefix(string(text), `{"type":"`) {
			var e evidence.Decision
			if json.Unmarshal(text, &e) == nil && d.isAbout(&e) {
				d.add(&e)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the dossier: %w", err)
		}
	}
	d.finish()
	d.Statuses = bars(d.statuses)
	d.Preferences = bars(d.preferences)
	for _, r := range d.rules {
		d.Refused = append(d.Refused, r)
	}
	slices.SortFunc(d.Refused, func(a, b *Rule) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Why, b.Why)) })
	return d, nil
}

func (d *Dossier) isAbout(e *evidence.Decision) bool {
	host := e.Host
	if e.URL != "" {
		_, rest, _ := strings.Cut(e.URL, "://")
		host = rest
		end := strings.IndexAny(rest, "/?#")
		if end >= 0 {
			host = rest[:end]
		}
	}
	if host == "" && e.Policy != nil {
		return true
	}
	return slices.ContainsFunc(d.Site, func(site string) bool { return hostname.Within(host, site) })
}

// add takes one record.
func (d *Dossier) add(e *evidence.Decision) {
	d.addCrawler(e)
	d.CrawlDelay = max(d.CrawlDelay, e.CrawlDelay)
	if e.Preferences != "" && len(d.preferences) < maxRules {
		d.preferences[printable.Text(e.Preferences)]++
	}
	switch e.Type {
	case evidence.Started, evidence.Resent:
		d.addStart(e)
	case evidence.Fetched, evidence.Failed:
		d.addEnd(e)
	case evidence.BlockedByRobots, evidence.BlockedByRule, evidence.Reserved, evidence.ResponseRejected:
		d.addRefusal(e)
	case evidence.RobotsFetched, evidence.RobotsRevalidated, evidence.RobotsUnreachable:
		if len(d.Robots) == maxFetches {
			d.MoreRobots++
			return
		}
		d.Robots = append(d.Robots, Fetch{e.Time, fetchOf(e), printable.Text(e.SHA256)})
	case evidence.HostBlocked:
		d.addBlock(e)
	}
}

// addCrawler adds the names under which the crawler came, and its contact.
func (d *Dossier) addCrawler(e *evidence.Decision) {
	name := e.Agent
	if e.Policy != nil {
		name = e.Policy.UserAgent
		d.From = cmp.Or(d.From, printable.Text(e.Policy.From))
		d.Slots = max(d.Slots, e.Policy.Slots)
		d.addProduct(e.Policy.Product)
	}
	agent := printable.Text(name)
	if agent != "" && len(d.UserAgents) < 8 && !slices.Contains(d.UserAgents, agent) {
		d.UserAgents = append(d.UserAgents, agent)
	}
}

// addProduct adds a name by which robots.txt addresses the crawler.
func (d *Dossier) addProduct(name string) {
	product := printable.Text(name)
	if product != "" && len(d.Products) < 8 && !slices.Contains(d.Products, product) {
		d.Products = append(d.Products, product)
	}
}

// keyOf returns what the records of one try have in common.
func keyOf(e *evidence.Decision) string {
	return fmt.Sprintf("%s %s %d %d %d", e.Transport, e.Host, e.Seq, e.Trip, e.Attempt)
}

func (d *Dossier) addStart(e *evidence.Decision) {
	d.Requests++
	start := cmp.Or(e.Start, e.Time)
	d.starts[e.Host] = append(d.starts[e.Host], start)
	if e.Delay > 0 && (d.Delay == 0 || e.Delay < d.Delay) {
		d.Delay = e.Delay
	}
	v := &Visit{Start: start, What: printable.Text(e.URL), host: e.Host}
	if e.Method != "" && e.Method != "GET" {
		v.What = printable.Text(e.Method) + " " + v.What
	}
	switch {
	case e.RobotsTxt:
		v.Note = "robots.txt"
	case e.Probe:
		v.Note = "first request after a block"
	case e.Redirects > 0:
		v.Note = "redirect"
	case e.Attempt > 1:
		v.Note = "try " + strconv.Itoa(e.Attempt)
	}
	d.open[keyOf(e)] = v
	if len(d.Visits) < maxVisits {
		d.Visits = append(d.Visits, v)
	} else {
		d.MoreVisits++
	}
}

func (d *Dossier) addEnd(e *evidence.Decision) {
	v := d.open[keyOf(e)]
	delete(d.open, keyOf(e))
	if v == nil {
		return
	}
	v.Status = e.Status
	v.Bytes = e.Bytes
	d.Bytes += e.Bytes
	name := "no response"
	if e.Status > 0 {
		name = strconv.Itoa(e.Status)
	}
	if len(d.statuses) == maxRules && d.statuses[name] == 0 {
		name = "others"
	}
	d.statuses[name]++
	why := cmp.Or(e.Err, e.Reason)
	if why != "" {
		v.Note = printable.Text(why)
	}
}

func (d *Dossier) addRefusal(e *evidence.Decision) {
	if e.Type == evidence.Reserved {
		d.Reserved++
	}
	why := ruleOf(e)
	r := d.rules[why]
	if r == nil {
		if len(d.rules) == maxRules {
			d.MoreRefused++
			return
		}
		r = &Rule{Why: why}
		d.rules[why] = r
	}
	r.N++
	url := printable.Text(e.URL)
	if len(r.Examples) < maxExamples && !slices.Contains(r.Examples, url) {
		r.Examples = append(r.Examples, url)
	}
}

func (d *Dossier) addBlock(e *evidence.Decision) {
	if len(d.Blocks) == maxBlocks {
		d.MoreBlocks++
		return
	}
	why := printable.Text(e.Reason)
	if e.Status > 0 {
		why = strings.TrimSuffix(fmt.Sprintf("status %d, %s", e.Status, why), ", ")
	}
	d.Blocks = append(d.Blocks, &Block{
		Time:  e.Time,
		Until: e.Until,
		Host:  printable.Text(e.Host),
		Why:   why,
		host:  e.Host,
	})
}

// ruleOf returns what kept the crawler from a URL.
func ruleOf(e *evidence.Decision) string {
	var why string
	switch {
	case e.MatchedRule != "" && e.Line > 0:
		why = fmt.Sprintf("%s (robots.txt, line %d, for %s)", e.MatchedRule, e.Line, cmp.Or(e.Group, "*"))
	case e.MatchedRule != "":
		why = e.MatchedRule
	case e.Type == evidence.Reserved:
		why = "reserved: " + cmp.Or(e.Reason, e.Preferences)
	case e.Type == evidence.BlockedByRule:
		why = "a rule of the crawler's own: " + e.Reason
	default:
		why = cmp.Or(e.Reason, e.Err, string(e.Type))
	}
	return printable.Text(strings.TrimSuffix(why, ": "))
}

func fetchOf(e *evidence.Decision) string {
	switch e.Type {
	case evidence.RobotsRevalidated:
		return "unchanged"
	case evidence.RobotsUnreachable:
		return printable.Text("couldn't be fetched: " + cmp.Or(e.Reason, e.Err, "status "+strconv.Itoa(e.Status)))
	}
	return fmt.Sprintf("status %d, %s", e.Status, bytesOf(e.Bytes))
}

// gapLimits are the upper limits of the bars that gaps are drawn in.
var gapLimits = []time.Duration{
	100 * time.Millisecond, 300 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 10 * time.Minute, time.Hour, 1 << 62,
}

// finish sums up what was read.
func (d *Dossier) finish() {
	var gaps []time.Duration
	for _, starts := range d.starts {
		slices.SortFunc(starts, time.Time.Compare)
		for i := 1; i < len(starts); i++ {
			gaps = append(gaps, starts[i].Sub(starts[i-1]))
		}
		if d.First.IsZero() || starts[0].Before(d.First) {
			d.First = starts[0]
		}
		last := starts[len(starts)-1]
		if last.After(d.Last) {
			d.Last = last
		}
	}
	slices.SortStableFunc(d.Visits, func(a, b *Visit) int { return a.Start.Compare(b.Start) })
	before := make(map[string]*Visit) // by host
	for _, v := range d.Visits {
		previous := before[v.host]
		if previous != nil {
			v.Gap = v.Start.Sub(previous.Start)
		}
		before[v.host] = v
	}
	slices.Sort(gaps)
	d.addGaps(gaps)

	slices.SortStableFunc(d.Blocks, func(a, b *Block) int { return a.Time.Compare(b.Time) })
	for _, b := range d.Blocks {
		starts := d.starts[b.host]
		next, _ := slices.BinarySearchFunc(starts, b.Time.Add(1), time.Time.Compare)
		if next < len(starts) {
			b.Next = starts[next]
		}
	}
}

// addGaps draws the gaps between starts, which are sorted, as bars. Empty ones at both ends are
// left out.
func (d *Dossier) addGaps(gaps []time.Duration) {
	if len(gaps) > 0 {
		d.MinGap = gaps[0]
		d.MedianGap = gaps[len(gaps)/2]
	}
	from := time.Duration(0)
	for _, to := range gapLimits {
		n := 0
		for n < len(gaps) && gaps[n] < to {
			n++
		}
		gaps = gaps[n:]
		name := printable.Span(from) + " to " + printable.Span(to)
		if to == 1<<62 {
			name = printable.Span(from) + " and more"
		}
		d.Gaps = append(d.Gaps, Bar{Name: name, N: n})
		from = to
	}
	for len(d.Gaps) > 0 && d.Gaps[0].N == 0 {
		d.Gaps = d.Gaps[1:]
	}
	for len(d.Gaps) > 0 && d.Gaps[len(d.Gaps)-1].N == 0 {
		d.Gaps = d.Gaps[:len(d.Gaps)-1]
	}
	scale(d.Gaps)
}

// bars makes bars of counts, the longest first.
func bars(counts map[string]int) []Bar {
	var out []Bar
	for name, n := range counts {
		out = append(out, Bar{Name: name, N: n})
	}
	slices.SortFunc(out, func(a, b Bar) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	scale(out)
	return out
}

func scale(bars []Bar) {
	most := 1
	for _, b := range bars {
		most = max(most, b.N)
	}
	for i := range bars {
		bars[i].Part = 100 * bars[i].N / most
	}
}

// bytesOf returns a number of bytes for people.
func bytesOf(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// Spared returns what conditional requests have saved the site; empty: there were none.
func (d *Dossier) Spared() string {
	var asked, unchanged int
	var spared int64
	for i := range d.Report.Hosts {
		h := &d.Report.Hosts[i]
		asked += h.Conditional
		unchanged += h.NotModified
		spared += h.Spared
	}
	if asked == 0 {
		return ""
	}
	size := bytesOf(spared)
	return fmt.Sprintf("%d, of which %d were answered 304: %s of pages, unpacked, not sent", asked, unchanged, size)
}

// Refusing returns a warning for each host of the site that refused more than a tenth of what it
// was asked for.
func (d *Dossier) Refusing() (warnings []string) {
	for i := range d.Report.Hosts {
		warning := d.Report.Hosts[i].Warning()
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return warnings
}

// WriteHTML writes the page.
func (d *Dossier) WriteHTML(w io.Writer) error { return dossierTemplate.Execute(w, d) }

// WriteComparison writes the page of a comparison with a site's own log.
func WriteComparison(w io.Writer, name string, c *accesslog.Comparison) error {
	hosts := c.Hosts[:min(len(c.Hosts), maxRules)]
	requests := c.Requests + c.Evidence - c.Matched // each once
	return comparisonTemplate.Execute(w, map[string]any{
		"Name":      printable.Text(name),
		"C":         c,
		"Hosts":     hosts,
		"MoreHosts": len(c.Hosts) - len(hosts),
		"MorePairs": requests - len(c.Pairs),
		"Text":      c.String(),
	})
}
