package robots

import (
	"fmt"
	"slices"
	"strings"
)

// A Finding is a mistake or a doubt in a robots.txt, for the owner of the site.
type Finding struct {
	Line    int // from 1, 0 for the file as a whole
	Problem Problem
	Text    string // a sentence for people, in which a quotation of the file is cut after 60 bytes
}

// String returns the finding as text, with its line and its code.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.Problem, f.Text)
	}
	return fmt.Sprintf("line %d: %s: %s", f.Line, f.Problem, f.Text)
}

// A Problem is a kind of Finding.
type Problem string

// The problems that Lint finds.
const (
	HTMLPage        Problem = "html-page"         // the file is an HTML page
	TooLarge        Problem = "too-large"         // beyond 500 KiB crawlers needn't read
	RepeatedBOM     Problem = "repeated-bom"      // a second byte order mark spoils the first line
	BadEncoding     Problem = "bad-encoding"      // the line has NULs, or isn't UTF-8
	LongLine        Problem = "long-line"         // beyond 16,663 bytes a line isn't read
	NoSeparator     Problem = "no-separator"      // the line isn't a key with a value
	MissingColon    Problem = "missing-colon"     // a space stands for the colon
	UnknownKey      Problem = "unknown-key"       // no crawler reads it
	MisspelledKey   Problem = "misspelled-key"    // a misspelling that some crawlers accept
	RuleBeforeAgent Problem = "rule-before-agent" // the rule applies to no crawler
	BadAgent        Problem = "bad-agent"         // the agent isn't a product token
	EmptyGroup      Problem = "empty-group"       // agents without rules, at the end
	SharedGroup     Problem = "shared-group"      // agents without rules, which share the rules of the next group
	NeverMatches    Problem = "never-matches"     // the pattern begins with neither a slash nor a star
	Conflict        Problem = "conflict"          // the same pattern is allowed and disallowed, and Allow wins
	Duplicate       Problem = "duplicate"         // the group has the rule already
	BadValue        Problem = "bad-value"         // the value can't be read
)

// maxRead is how much of a file crawlers must read at least (RFC 9309 section 2.5).
const maxRead = 500 << 10

// Lint returns the findings in the file, sorted by line. None of them keeps the file from being
// used.
func (f *File) Lint() []Finding {
	t := linter{text: f.text, ruled: map[string]bool{}, rules: map[ruleOf]int{}}
	if t.file() {
		return t.findings // no line of a page is one of robots.txt
	}
	x := lex(f.text, bom(f.text), 0)
	var l line
	for x.next(&l) {
		t.line(&l)
	}
	if !t.listed {
		t.unruled()
	}
	slices.SortStableFunc(t.findings, func(a, b Finding) int { return a.Line - b.Line })
	return t.findings
}

// A linter collects the findings of one file.
type linter struct {
	text     string
	findings []Finding

	agents []agentAt // the current list
	listed bool      // whether a rule has ended the list
	others bool      // whether lines of the group that aren't rules followed the list's last agent

	// Groups of the same agent are one, so these are by agent.
	ruled map[string]bool // whether the agent has rules
	rules map[ruleOf]int  // the first line with the rule
	extra int             // how many of rules are there because a list has several agents
}

// An agentAt is a User-agent line.
type agentAt struct {
	token string // in lower case
	line  int
}

// A ruleOf is a rule of an agent's.
type ruleOf struct {
	token string
	norm  string // the pattern, normalised
	kind  kind
}

// maxExtra bounds the cost of lists of many agents with many rules. Real files are far from it.
const maxExtra = 1 << 17

func (t *linter) find(line int, p Problem, format string, args ...any) {
	t.findings = append(t.findings, Finding{Line: line, Problem: p, Text: fmt.Sprintf(format, args...)})
}

// file looks at the text as a whole, and reports whether it is a page.
func (t *linter) file() bool {
	if len(t.text) > maxRead {
		t.find(0, TooLarge, "%d bytes; crawlers needn't read more than %d", len(t.text), maxRead)
	}
	const mark = "\xef\xbb\xbf"
	rest, marked := strings.CutPrefix(t.text, mark)
	// Crawlers skip one mark. Editors that add a second one make the first key unknown.
	if marked && strings.HasPrefix(rest, mark) {
		t.find(1, RepeatedBOM, "a second byte order mark spoils this line")
	}
	rest = trim(rest)
	// A page may begin with comments.
	for strings.HasPrefix(rest, "<!--") {
		_, rest, _ = strings.Cut(rest, "-->")
		rest = trim(rest)
	}
	if !hasAnyPrefix(rest, pageTags) {
		return false
	}
	t.find(0, HTMLPage, "this is a page, not a robots.txt")
	return true
}

// pageTags are the beginnings of pages.
var pageTags = []string{"<!doctype", "<html", "<head", "<title", "<body", "<?xml"}

// line looks at one line.
func (t *linter) line(l *line) {
	raw := strings.TrimRight(t.text[l.start:l.next], "\r\n")
	if l.over {
		t.find(l.num, LongLine, "%d bytes; what goes beyond %d isn't read", len(raw), maxLine)
	}
	// A file in UTF-16 was decoded before, so NULs are mistakes, and one finding a line is enough.
	if strings.IndexByte(raw, 0) >= 0 {
		t.find(l.num, BadEncoding, "a NUL: what follows it isn't read")
	} else if strings.ToValidUTF8(raw, "") != raw {
		t.find(l.num, BadEncoding, "not UTF-8")
	}
	if l.kind == kindNone {
		if l.text != "" {
			t.find(l.num, NoSeparator, "not read: %s", quote(l.text))
		}
		return
	}
	t.key(l)
	switch l.kind {
	case kindUserAgent:
		t.agent(l)
	case kindAllow, kindDisallow:
		t.rule(l)
	case kindSitemap:
		if !strings.Contains(l.value, "://") {
			t.find(l.num, BadValue, "a sitemap's address has to be a whole one: %s", quote(l.value))
		}
	default:
		t.other(l)
	}
}

// key looks at the spelling of a line's key.
func (t *linter) key(l *line) {
	if !l.colon {
		t.find(l.num, MissingColon, "some crawlers don't read %s without a colon", quote(l.key))
	}
	for _, k := range kinds {
		proper := k.keys[0]
		// Google's parser accepts the typo, so a test with Google's tools doesn't show it.
		if k.kind == l.kind && !equalFold(l.key, proper) {
			t.find(l.num, MisspelledKey, "some crawlers don't take %s for %s", quote(l.key), proper)
		}
	}
}

func (t *linter) agent(l *line) {
	switch {
	case t.listed:
		t.agents = t.agents[:0]
		t.listed = false
	case t.others && len(t.agents) > 0:
		// Agents without a line between them share a group on purpose. Lines that aren't rules don't
		// end the list, which their author may not know.
		before := t.agents[len(t.agents)-1]
		const text = "no rule follows this agent, so it shares those of the agent in line %d"
		t.find(before.line, SharedGroup, text, l.num)
	}
	t.others = false
	token := leading(l.value, isTokenChar)
	t.agents = append(t.agents, agentAt{strings.ToLower(token), l.num})
	if token == "" || (token != l.value && !isGlobal(l.value)) {
		t.find(l.num, BadAgent, "%s is more than a crawler's name; it is read as %s", quote(l.value), quote(token))
	} else if token != "*" && strings.Contains(token, "*") {
		t.find(l.num, BadAgent, "%s: a star is only read alone", quote(l.value))
	}
}

func (t *linter) rule(l *line) {
	t.others = false
	if len(t.agents) == 0 {
		t.find(l.num, RuleBeforeAgent, "no agent stands before this rule, so it applies to no crawler")
		return
	}
	if !t.listed {
		t.listed = true
		for _, a := range t.agents {
			t.ruled[a.token] = true
		}
	}
	if l.value == "" {
		return // an empty pattern conflicts with no other
	}
	if l.value[0] != '/' && l.value[0] != '*' {
		t.find(l.num, NeverMatches, "no path begins like %s", quote(l.value))
		return
	}
	value, end := strings.CutSuffix(l.value, "$")
	norm := string(appendEscaped(nil, string(appendNormal(nil, value, true))))
	if end {
		norm += "\x00" // no pattern has one; it may well have an escaped dollar
	}
	t.repeated(l, norm)
}

// repeated looks for earlier rules of the same agents with the same pattern.
func (t *linter) repeated(l *line, norm string) {
	t.extra += len(t.agents) - 1
	if t.extra > maxExtra && len(t.agents) > 1 {
		return
	}
	contrary := kindAllow
	if l.kind == kindAllow {
		contrary = kindDisallow
	}
	same := 0    // a line with the rule
	against := 0 // the last line with the contrary
	fresh := false
	for _, a := range t.agents {
		rule := ruleOf{a.token, norm, l.kind}
		line, ok := t.rules[rule]
		if ok {
			same = line
			continue
		}
		t.rules[rule] = l.num
		fresh = true
		rule.kind = contrary
		against = max(against, t.rules[rule]) // which is 0 for none
	}
	switch {
	case against > 0:
		t.find(l.num, Conflict, "line %d says the contrary; Allow wins", against)
	case !fresh:
		// A rule that is new for one of the list's agents isn't in vain.
		t.find(l.num, Duplicate, "line %d says the same", same)
	}
}

// unruled looks at the agents at the end of the file, which no rule follows.
func (t *linter) unruled() {
	for _, a := range slices.Backward(t.agents) {
		// Groups of one agent are merged, so an earlier one may have rules.
		if !t.ruled[a.token] {
			t.find(a.line, EmptyGroup, "no rule follows this agent, which may fetch everything")
			return
		}
	}
}

// other looks at a line with a key that isn't Google's.
func (t *linter) other(l *line) {
	ok := true      // the value can be read
	grouped := true // the line is for the agents of a group
	switch fieldOf(l.key) {
	case fieldUnknown:
		if equalFold(l.key, "clean-param") {
			return // Yandex reads it, wherever it stands
		}
		t.others = true
		t.find(l.num, UnknownKey, "no crawler is known to read %s", quote(l.key))
		return
	case fieldCrawlDelay:
		_, ok = parseSeconds(l.value)
	case fieldRequestRate:
		_, ok = parseRate(l.value)
	case fieldVisitTime:
		_, ok = parseWindow(l.value)
	case fieldContentSignal:
		ok = signalPreferences(l.value, "") != (Preferences{})
		grouped = len(t.agents) > 0 // before all groups it is for everyone
	case fieldContentUsage:
		_, statement := usageLine(l.value)
		ok = usagePreferences(statement, "") != (Preferences{})
	case fieldLicense, fieldHost:
		ok = l.value != ""
		grouped = false
	}
	if !ok {
		t.find(l.num, BadValue, "%s can't be read as a %s", quote(l.value), strings.ToLower(l.key))
	}
	if !grouped {
		return
	}
	if len(t.agents) == 0 {
		const lost = "no agent stands before this %s, so it applies to no crawler"
		t.find(l.num, RuleBeforeAgent, lost, strings.ToLower(l.key))
	}
	t.others = true
}

// quote quotes the beginning of s.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
