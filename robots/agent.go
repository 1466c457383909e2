package robots

import (
	"slices"
	"strings"
)

// Agent compiles the rules that apply to one crawler, known by its product tokens in order of
// preference. The first token that the file names decides, with all its groups merged. If the file
// names none of them, the groups of "*" apply. You can also pass a whole User-Agent header, whose
// ProductToken is taken.
//
// Tokens compare without regard to ASCII case. If a token has only letters, "_" and "-" (RFC 9309),
// it is compared to the beginning of the name in the file, up to the first other character. So a
// group for FooBot/2.1 names FooBot. Any other token, such as "MJ12bot", is compared to the
// beginning of the name, up to the first character that RFC 9110 doesn't allow in a token.
//
// With GoogleExact, tokens aren't changed, as in Google's matcher. The groups of all tokens are
// merged.
//
// Agent never returns nil. It reads the text again, so keep its result.
func (f *File) Agent(product ...string) *Rules {
	rules := new(Rules)
	groups := collector{
		builder: builder{exact: f.opt.GoogleExact},
		file:    f,
		rules:   rules,
		usages:  make(statedUsages),
	}
	named, group := f.choose(product)
	if named != nil {
		groups.named = named
		rules.group = strings.Clone(group) // a part of the text would keep all of it in memory
		groups.all()
	}
	// Content-Signal before all groups holds for every crawler, besides its own groups'. License
	// there is a default (RSL 1.0): a group's own replaces it.
	unlicensed := len(groups.extras.licenses) == 0
	for l := range f.preamble() {
		switch fieldOf(l.key) {
		case fieldContentSignal:
			groups.extras.add(l)
		case fieldLicense:
			if unlicensed {
				groups.extras.add(l)
			}
		}
	}
	rules.extras = groups.extras.keep()
	rules.compiled = groups.compile()
	return rules
}

// A collector collects the lines of a crawler's groups.
type collector struct {
	builder
	file   *File
	rules  *Rules
	named  func(value string) bool // reports whether a User-agent line is the crawler's
	extras extras
	usages statedUsages
}

// all collects all groups of the crawler.
func (c *collector) all() {
	taken := -1
	for i := range c.file.agents {
		a := &c.file.agents[i]
		// A group may name the crawler in several of its User-agent lines, which follow each other.
		if a.group != taken && c.named(a.value) {
			taken = a.group
			c.group(c.file.groups[taken])
		}
	}
}

// group collects one group of the crawler.
func (c *collector) group(g group) {
	// A rule takes the bytes of its line, three of the line's number and a line end.
	c.texts = slices.Grow(c.texts, g.end-g.start+4*g.rules)
	c.drafts = slices.Grow(c.drafts, g.rules)
	x := lex(c.file.text[:g.end], g.start, g.line)
	// An agent that joins a list late shares the list's rules, as in Google's matcher, but not the
	// other lines before it. Crawl-delay, Request-rate and Visit-time hold for the agents directly
	// above: after "User-agent: Bot", "Crawl-delay: 1", "User-agent: *", "Crawl-delay: 30" the
	// second delay isn't Bot's.
	joined := false
	above := false
	inRun := false
	var l line
	for x.next(&l) {
		if l.kind == kindUserAgent {
			named := c.named(l.value)
			joined = joined || named
			above = named || (above && inRun)
			inRun = true
			continue
		}
		if l.text != "" {
			inRun = false // comments and blank lines don't end a run of User-agent lines
		}
		switch l.kind {
		case kindAllow, kindDisallow:
			c.add(&l)
		case kindOther:
			c.other(&l, joined, above)
		}
	}
}

// other collects a line of a group that isn't a rule. joined reports whether a User-agent line of
// the group so far names the crawler; above reports the same of those directly above.
func (c *collector) other(l *line, joined, above bool) {
	switch fieldOf(l.key) {
	case fieldCrawlDelay:
		delay, ok := parseSeconds(l.value)
		if ok && above {
			// The longest of several delays keeps all of them.
			c.rules.delay = max(c.rules.delay, delay)
			c.rules.hasDelay = true // even if the delay is 0
		}
	case fieldRequestRate, fieldVisitTime:
		if above {
			c.extras.add(l)
		}
	case fieldContentUsage:
		if joined && c.usages.adds(l.value) {
			c.extras.add(l)
		}
	default:
		if joined {
			c.extras.add(l)
		}
	}
}

// A naming is a way in which the name in a User-agent line can stand for a crawler.
type naming uint8

// The namings, best first.
const (
	exactName   naming = iota // the crawler's token
	patternName               // a pattern of it: "bot*", "*bot", "b*t"
	partName                  // a part of it, as the convention of 1994 recommends: "bot" is FooBot
	wholeName                 // a longer token that holds it: "FooBot-Images" is FooBot
)

// choose chooses the crawler's groups. It returns a func that reports whether a User-agent line
// with the given value names the crawler, nil if no line of the file does, and the name.
func (f *File) choose(products []string) (named func(value string) bool, name string) {
	if f.opt.GoogleExact {
		named, name = f.chooseAll(products)
	} else {
		named, name = f.chooseBest(products)
	}
	if named == nil && slices.ContainsFunc(f.agents, func(a agentLine) bool { return isGlobal(a.value) }) {
		return isGlobal, "*"
	}
	return named, name
}

// chooseAll is choose with GoogleExact, without "*": lines with any of the products count.
func (f *File) chooseAll(products []string) (named func(value string) bool, name string) {
	named = func(value string) bool {
		token := leading(value, isNameChar)
		return !isGlobal(value) && slices.ContainsFunc(products, func(p string) bool { return equalFold(token, p) })
	}
	first := slices.IndexFunc(f.agents, func(a agentLine) bool { return named(a.value) })
	if first < 0 {
		return nil, ""
	}
	// A Verdict has room for one name, whatever the number of groups.
	return named, leading(f.agents[first].value, isNameChar)
}

// chooseBest is choose by RFC 9309 and the namings of Options, without "*": lines count that have
// the best name of the first product that the file names.
func (f *File) chooseBest(products []string) (named func(value string) bool, name string) {
	last := exactName
	if f.opt.LenientAgents {
		last = wholeName
	} else if f.opt.AgentPatterns {
		last = patternName
	}
	// The naming comes before the order of products: the exact name of the second product is surer
	// to mean the crawler than a part of the first one.
	for n := exactName; n <= last; n++ {
		for _, product := range products {
			token := ProductToken(product)
			if token == "" || isGlobal(token) {
				continue // it names no crawler
			}
			best, ok := f.bestName(n, token)
			if !ok {
				continue
			}
			return func(value string) bool {
				name, ok := n.match(value, token)
				return ok && equalFold(name, best)
			}, best
		}
	}
	return nil, ""
}

// bestName returns the best name that lines of the file have for product by n.
func (f *File) bestName(n naming, product string) (best string, ok bool) {
	for _, a := range f.agents {
		name, named := n.match(a.value, product)
		if named && (!ok || n.prefers(name, best)) {
			best = name
			ok = true
		}
	}
	return best, ok
}

// prefers reports whether name is better than other, when both stand for a product by n: a longer
// pattern or part of the product, or a shorter token that holds it.
func (n naming) prefers(name, other string) bool {
	if n == wholeName {
		return len(name) < len(other)
	}
	return len(name) > len(other)
}

// match returns the name in a User-agent line, and whether it stands for product by n. RFC 9309's
// tokens are compared to the leading characters of such tokens, as Google does, others to RFC
// 9110's.
func (n naming) match(value, product string) (name string, ok bool) {
	if n == exactName && leading(product, isNameChar) == product {
		// "FooBot/2.1" and "FooBot 2" in the file are FooBot.
		name = leading(value, isNameChar)
		return name, equalFold(name, product)
	}
	name = leading(value, isTokenChar) // which may have stars
	token := strings.ToLower(name)
	product = strings.ToLower(product)
	star := strings.Contains(token, "*")
	switch n {
	case exactName:
		return name, token == product
	case patternName:
		p := parsePattern(token, true, true)
		q := question{path: product, searches: -maxLine} // few enough to do without suffixes
		// A pattern of stars alone would name every crawler, which is for "*" to do.
		return name, star && strings.Trim(token, "*") != "" && q.matches(p.text, p.flags)
	case partName:
		return name, token != "" && !star && strings.Contains(product, token)
	}
	return name, !star && strings.Contains(token, product)
}
