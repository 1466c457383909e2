package audit_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// A row is a small log and the verdict that it must get.
//
// The log has a record on each line: when it was made, in seconds, its type, the number of its trip,
// and what else it says, by the names that the members have in JSON:
//
//	policy slots=1 delayMin=2
//	site "User-agent: *\nDisallow: /no\n"
//	1   page 1
//	3   allow 2 url=/two
//	3   start 2 url=/two
//	3.1 block 2 until=@4.1
//	3.5 end 2 status=429
//
// policy opens the log of the Transport T (T' in the next log of the file), which keeps two slots and half a second between starts
// where the line doesn't say otherwise; site is the fetch of robots.txt a minute before, as start 1;
// page is a whole trip, robots_allowed to fetched, and refused and cleared have the record of a
// block or its end in it, too. Starts are numbered by themselves, and an end repeats what its start
// says. A value with @ is a moment, and - leaves the member out. A policy with clock=100 is one of a
// process whose limiter's clock, by which its starts have a stamp, is 100 s ahead. closed is what
// Close seals a log with, file begins another log, which is read beside the one before, and log one
// that follows in the same file.
//
// The verdict has a line for each violation, and one for each reason why something is open. That the
// lines aren't chained is left out.
type row struct{ name, log, want string }

func (r row) check(t *testing.T) {
	t.Run(r.name, func(t *testing.T) {
		report := judge(t, r.log)
		if got, want := strings.Join(verdictOf(report), "\n"), trimLines(r.want); got != want {
			t.Errorf("%s\n%s\ngot the verdict\n%s\nwant\n%s", trimLines(r.log), number(write(t, r.log)), cmp.Or(got, "(proved)"), cmp.Or(want, "(proved)"))
		}
	})
}

// checkRows checks rows, each of which follows these lines.
func checkRows(t *testing.T, before string, rows []row) {
	t.Helper()
	for _, r := range rows {
		r.log = before + "\n" + r.log
		r.check(t)
	}
}

// closed makes of the rows logs that end as Close leaves them: nothing is missing as it may be after a kill.
func closed(rows []row) []row {
	for i := range rows {
		rows[i].log += "\n9999 closed"
	}
	return rows
}

// usual is how most rows begin: lines 1 to 4 of the log.
const usual = `
	policy
	site ""
`

// number puts numbers before the lines of logs, for reading.
func number(files []string) string {
	var b strings.Builder
	for _, f := range files {
		for i, line := range strings.Split(strings.TrimSpace(f), "\n") {
			fmt.Fprintf(&b, "%d: %s\n", i+1, line)
		}
	}
	return b.String()
}

func trimLines(s string) string {
	lines := slices.DeleteFunc(strings.Split(s, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

// verdictOf says what a report finds, and what it leaves open.
func verdictOf(r *audit.Report) (lines []string) {
	for _, v := range r.Violations {
		if v.Host == "a.example" {
			v.Host = ""
		}
		lines = append(lines, v.String())
	}
	for _, p := range r.Promises {
		for _, why := range p.Why {
			if why != "the lines aren't chained, so the file could be changed" {
				lines = append(lines, "open, "+p.Name+": "+why)
			}
		}
	}
	return lines
}

// judge checks the logs that the text of a row makes.
func judge(t *testing.T, text string) *audit.Report {
	t.Helper()
	var files []io.Reader
	for _, f := range write(t, text) {
		files = append(files, strings.NewReader(f))
	}
	r, err := audit.Check(files...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var verbs = map[string]evidence.Type{
	"allow": evidence.RobotsAllowed, "deny": evidence.BlockedByRobots, "rule": evidence.BlockedByRule, "start": evidence.Started,
	"resent": evidence.Resent, "end": evidence.Fetched, "fail": evidence.Failed, "retry": evidence.Retried, "block": evidence.HostBlocked,
	"clear": evidence.HostCleared, "expired": evidence.LeaseExpired, "robots": evidence.RobotsFetched, "again": evidence.RobotsRevalidated,
	"gone": evidence.RobotsUnreachable, "warn": evidence.BudgetWarning, "over": evidence.BudgetExceeded, "reserved": evidence.Reserved,
	"closed": evidence.LogClosed, "waiting": evidence.Waiting,
}

// refuses tells the records that say "allowed": false.
var refuses = []string{"deny", "rule", "fail", "block", "expired", "over", "reserved", "gone"}

// trips are whole trips: the records of one.
var trips = map[string][]string{
	"page":    {"allow", "start", "end"},
	"failed":  {"allow", "start", "fail"},
	"refused": {"allow", "start", "block", "end"},
	"cleared": {"allow", "start", "clear", "end"},
	"down":    {"allow", "start", "block", "fail"},
}

// saidBy is what one record of a trip says; anything else is said by all of them.
var saidBy = map[string][]string{
	"end": {
		"noDate", "quota", "status", "bytes", "latency", "duration", "serverDate", "retryAfter", "rateLimit", "refused", "left", "location", "error",
	},
	"start": {"from", "prev", "at", "blockedUntil", "window", "delay", "slot", "slots", "seq", "instead", "insteadAt", "waitSlot", "waitDelay", "waitBlock"},
	"block": {"until", "kind", "refusals", "retryAt", "restored", "hand", "reason"},
}

// members are a record in the making: JSON by name.
type members map[string]string

func (m members) sure(name string, value any) {
	if _, ok := m[name]; !ok {
		b, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		m[name] = string(b)
	}
}

func moment(seconds string) time.Time {
	d, err := time.ParseDuration(seconds + "s")
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).Add(d)
}

// later is a moment so many seconds after another.
func later(at, after string) string {
	if after == "" {
		return at
	}
	d, err := time.ParseDuration(after + "s")
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%.9f", moment(at).Add(d).Sub(moment("0")).Seconds())
}

// A scribe writes the files of a row.
type scribe struct {
	t      *testing.T
	files  []*strings.Builder
	n      int                // number of the last line in its log
	by     string             // Transport
	clock  string             // how far its limiter's clock is ahead, in seconds; "": it is the same
	logs   int                // number of logs in the file before this one
	seq    map[string]int     // by host
	starts map[string]members // by trip and attempt
	times  map[string]string  // of them
	stamps map[string][]stamp // of all starts so far, by host
	ended  map[string]bool    // starts that have ended, by trip and attempt
	robots map[string]string  // trip of the last fetch of robots.txt, by host
	copies map[string]string  // beginning of the SHA-256 of the last text of robots.txt, by host
}

// A stamp is the moment of a start.
type stamp struct{ at, key string }

// prev returns the moment of the last start before at whose exchange has ended, "" if there is none.
func (s *scribe) prev(host, at string) (last string) {
	for _, st := range s.stamps[host] {
		if s.ended[st.key] && moment(st.at).Before(moment(at)) && (last == "" || moment(last).Before(moment(st.at))) {
			last = st.at
		}
	}
	return last
}

func write(t *testing.T, text string) []string {
	t.Helper()
	s := &scribe{t: t, files: []*strings.Builder{{}}, seq: map[string]int{}, starts: map[string]members{}, times: map[string]string{}, stamps: map[string][]stamp{}, ended: map[string]bool{}, robots: map[string]string{}, copies: map[string]string{}}
	for line := range strings.Lines(trimLines(text)) {
		if words := split(line); len(words) > 0 {
			s.line(words)
		}
	}
	var files []string
	for _, f := range s.files {
		files = append(files, f.String())
	}
	return files
}

// split cuts a line at its spaces, but for those in quotes, which it takes away.
func split(line string) (words []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word := ""
		for line != "" && line[0] != ' ' {
			if line[0] == '"' {
				quoted, err := strconv.QuotedPrefix(line)
				if err != nil {
					panic(line)
				}
				plain, _ := strconv.Unquote(quoted)
				word, line = word+plain, line[len(quoted):]
				continue
			}
			word, line = word+line[:1], line[1:]
		}
		words = append(words, word)
	}
	return words
}

// parseMembers reads "name=value"; a value that is no number or truth is a text.
func parseMembers(words []string) members {
	m := members{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			panic("no value: " + w)
		}
		switch {
		case value == "-":
			m[name] = value // left out
		case strings.HasPrefix(value, "@"):
			b, _ := json.Marshal(moment(value[1:]))
			m[name] = string(b)
		case slices.Contains([]string{"retryAfter", "rateLimit", "statuses", "sha256", "by"}, name) || !json.Valid([]byte(value)):
			b, _ := json.Marshal(value)
			m[name] = string(b)
		default:
			m[name] = value
		}
	}
	return m
}

func (s *scribe) line(words []string) {
	switch words[0] {
	case "file":
		s.files, s.n = append(s.files, &strings.Builder{}), 0
	case "log":
		s.n, s.seq, s.stamps, s.logs = 0, map[string]int{}, map[string][]stamp{}, s.logs+1
	case "policy":
		s.policy(parseMembers(words[1:]))
	case "site":
		s.site(words[1], parseMembers(words[2:]))
	default:
		trip := ""
		if len(words) > 2 && !strings.Contains(words[2], "=") {
			trip = words[2]
			words = slices.Delete(words, 2, 3)
		}
		s.told(words[0], words[1], trip, parseMembers(words[2:]))
	}
}

// policy states what the Transport T promises, or by=..., or what holds for a host.
func (s *scribe) policy(m members) {
	d := members{"type": `"policy"`, "allowed": "true"}
	for _, name := range []string{"host", "seq", "by", "timestamp"} {
		if v, ok := m[name]; ok {
			d[name] = v
			delete(m, name)
		}
	}
	if d["host"] == "" {
		for name, v := range map[string]any{
			"product": "TestBot", "slots": 2, "delayMin": 0.5, "delayMax": 0.5, "adaptive": "Fixed", "hostKey": "host", "backoff": "fibonacci",
			"backoffStep": 1, "backoffCap": 600, "inARow": 5, "maxRetryAfter": 86400, "forgive": 1800, "robots": "obeyed",
			"unreachable": "deny", "leaseTTL": 300, "retries": 2, "limiter": fmt.Sprint("L", strings.Repeat("'", s.logs)),
		} {
			m.sure(name, v)
		}
		s.clock = m["clock"]
		delete(m, "clock")
		if m["process"] != "" {
			s.seq = map[string]int{}
		}
		d.sure("by", fmt.Sprint("T", strings.Repeat("'", s.logs)))
		s.by = d["by"]
	} else {
		d.sure("by", json.RawMessage(s.by))
	}
	d.sure("timestamp", moment("-60"))
	d["policy"] = m.json()
	s.put(d)
}

// site is the fetch of a robots.txt.
func (s *scribe) site(text string, m members) {
	m.sure("url", "/robots.txt")
	m["robotsTxt"] = "true"
	at := "-60"
	if when, ok := m["at"]; ok {
		at = strings.Trim(when, `"`)
		delete(m, "at")
	}
	trip := fmt.Sprint(9000 + s.n)
	s.told(at, "start", trip, maps.Clone(m))
	s.told(later(at, "0.1"), "end", trip, maps.Clone(m))
	m.sure("text", text)
	m.sure("status", 200)
	s.told(later(at, "0.1"), "robots", "", m)
}

// told writes the record or the records of one line.
func (s *scribe) told(at, verb, trip string, m members) {
	if parts, ok := trips[verb]; ok {
		for _, part := range parts {
			of := maps.Clone(m)
			maps.DeleteFunc(of, func(name, _ string) bool {
				return slices.ContainsFunc([]string{"start", "end", "block"}, func(only string) bool {
					return strings.Replace(part, "fail", "end", 1) != only && slices.Contains(saidBy[only], name)
				})
			})
			after := ""
			switch part {
			case "block", "clear":
				if status, ok := m["status"]; ok {
					of["status"] = status
				}
				after = cmp.Or(m["latency"], "0.1")
			case "end", "fail":
				after = cmp.Or(m["duration"], "0.2")
			}
			if part == "block" {
				of.sure("kind", kindOf(m))
			}
			s.told(later(at, after), part, trip, of)
		}
		return
	}
	typ, ok := verbs[verb]
	if !ok {
		s.t.Fatalf("no such record: %s", verb)
	}
	m.sure("type", typ)
	m.sure("timestamp", moment(at))
	m.sure("allowed", !slices.Contains(refuses, verb))
	if s.by != "" && m["by"] == "" {
		m["by"] = s.by
	}
	if trip != "" {
		m["trip"] = trip
		m.sure("attempt", 1)
	}
	key := fmt.Sprint(m["by"], m["trip"], m["attempt"], " ", m["robotsTxt"])
	before := s.starts[key]
	if before == nil {
		before = s.starts[key+"true"]
	}
	for _, name := range []string{"url", "host", "redirects", "robotsTxt", "agent"} {
		if v, ok := before[name]; ok && m[name] == "" {
			m[name] = v
		}
	}
	m.sure("host", "a.example")
	if trip != "" {
		m.sure("url", "/"+trip)
	}
	if u := m["url"]; strings.HasPrefix(u, `"/`) {
		m["url"] = `"https://` + strings.Trim(m["host"], `"`) + u[1:]
	}
	switch verb {
	case "allow", "deny", "reserved":
		if sum := s.copies[m["host"]]; sum != "" {
			m.sure("copy", sum)
		}
	case "start", "resent":
		if m["robotsTxt"] == "true" {
			s.robots[m["host"]] = trip
		}
		if v, ok := m["seq"]; ok {
			s.seq[m["host"]], _ = strconv.Atoi(v)
		} else {
			s.seq[m["host"]]++
			m["seq"] = strconv.Itoa(s.seq[m["host"]])
		}
		m.sure("start", moment(at))
		m.sure("delay", 0.5)
		m.sure("slots", 2)
		stamped := later(at, s.clock)
		if s.clock != "" {
			m.sure("at", moment(stamped))
		}
		if prev := s.prev(m["host"], stamped); prev != "" {
			m.sure("prev", moment(prev))
		}
		s.stamps[m["host"]] = append(s.stamps[m["host"]], stamp{stamped, key})
		s.starts[key], s.times[key] = m, at
	case "end", "fail":
		for _, name := range []string{"seq", "start"} {
			if v, ok := before[name]; ok {
				m.sure(name, json.RawMessage(v))
			}
		}
		if verb == "end" {
			m.sure("status", 200)
			m.sure("bytes", 100)
		}
		if _, dated := m["serverDate"]; verb == "end" && !dated {
			m.sure("noDate", true)
		}
		s.ended[key] = true
		if from, ok := s.times[key]; ok {
			took := moment(at).Sub(moment(from)).Seconds()
			m.sure("duration", took)
			if verb == "end" {
				m.sure("latency", min(0.1, took))
			}
		}
	case "block":
		m.sure("status", 429)
		m.sure("refusals", 1)
		m.sure("kind", kindOf(m))
	case "clear":
		m.sure("status", 200)
	case "robots", "again", "gone":
		m["robotsTxt"] = "true"
		m.sure("url", "https://a.example/robots.txt")
		if text, ok := m["text"]; ok {
			var plain string
			if err := json.Unmarshal([]byte(text), &plain); err != nil {
				s.t.Fatal(err)
			}
			m.sure("bytes", len(plain))
			m.sure("sha256", sumOf(plain))
		}
		if trip := s.robots[m["host"]]; trip != "" {
			m.sure("trip", json.RawMessage(trip))
		}
		s.copies[m["host"]] = ""
		if sum := strings.Trim(m["sha256"], `"`); sum != "" {
			s.copies[m["host"]] = sum[:8]
		}
	}
	s.put(m)
}

// kindOf returns what a limiter counts the answer as that sets a block, but for the policy and the row that it is in.
func kindOf(m members) string {
	n, err := strconv.Atoi(m["status"])
	switch {
	case m["refusals"] == "0" || m["hand"] != "" || m["restored"] != "":
		return ""
	case m["refused"] != "" || err != nil:
	case n == 503 && m["retryAfter"] != "" && m["retryAfter"] != `"0"`:
	case n == 0 || n == 408 || n == 425 || n >= 500:
		return "unsure"
	case n == 401 || n == 402 || n == 403 || n == 451:
		return "ban"
	}
	return "refused"
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (m members) json() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] == "-" {
			continue
		}
		parts = append(parts, strconv.Quote(name)+":"+m[name])
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// put writes a line.
func (s *scribe) put(m members) {
	s.n++
	m.sure("n", s.n)
	last := s.files[len(s.files)-1]
	last.WriteString(m.json() + "\n")
}
