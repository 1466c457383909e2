package robots

import (
	"slices"
	"strings"
)

// Agent compiles the rules that hold for one crawler, known by its product tokens in order of
// preference: the first one that the file names decides, all its groups merged. Where the file
// names none of them the groups of "*" hold. A whole User-Agent header serves as well: its
// ProductToken is taken.
//
// Tokens compare without regard to ASCII case. A token of letters, "_" and "-" (RFC 9309) is
// compared to the leading run of such characters in the file, so "User-agent: FooBot/2.1" names
// FooBot; any other token ("MJ12bot") to the leading run of RFC 9110's.
//
// Under GoogleExact tokens are taken as they are, as Google's matcher takes them, and the
// groups of all of them are merged.
//
// Agent never returns nil. It reads the text again, so keep its result.
func (f *File) Agent(product ...string) *Rules {
	r := new(Rules)
	c := collector{file: f, rules: r, usages: make(statedUsages)}
	c.exact = f.opt.GoogleExact
	if named, group := f.choose(product); named != nil {
		c.named, r.group = named, strings.Clone(group)
		c.all()
	}
	unlicensed := len(c.extras.licenses) == 0
	for l := range f.preamble() {
		if field := fieldOf(l.key); field == fieldContentSignal || field == fieldLicense && unlicensed {
			c.extras.add(l)
		}
	}
	r.extras = c.extras.keep()
	r.compiled = c.compile()
	return r
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
		if a := &c.file.agents[i]; a.group != taken && c.named(a.value) {
			taken = a.group
			c.group(c.file.groups[taken])
		}
	}
}

// group collects one group of the crawler.
func (c *collector) group(g group) {
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
			above = named || above && inRun
			inRun = true
			continue
		}
		if l.text != "" {
			inRun = false
		}
		switch l.kind {
		case kindAllow, kindDisallow:
			c.add(&l)
		case kindOther:
			switch fieldOf(l.key) {
			case fieldCrawlDelay:
				if d, ok := parseSeconds(l.value); ok && above {
					c.rules.delay, c.rules.hasDelay = max(c.rules.delay, d), true
				}
			case fieldRequestRate, fieldVisitTime:
				if above {
					c.extras.add(&l)
				}
			case fieldContentUsage:
				if joined && c.usages.adds(l.value) {
					c.extras.add(&l)
				}
			default:
				if joined {
					c.extras.add(&l)
				}
			}
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
	most := exactName
	if f.opt.GoogleExact {
		named = func(value string) bool {
			token := leading(value, isNameChar)
			return !isGlobal(value) && slices.ContainsFunc(products, func(p string) bool { return equalFold(token, p) })
		}
		if i := slices.IndexFunc(f.agents, func(a agentLine) bool { return named(a.value) }); i >= 0 {
			return named, leading(f.agents[i].value, isNameChar)
		}
		products = nil
	} else if f.opt.LenientAgents {
		most = wholeName
	} else if f.opt.AgentPatterns {
		most = patternName
	}
	for n := exactName; n <= most; n++ {
		for _, p := range products {
			if p = ProductToken(p); p == "" || isGlobal(p) {
				continue
			}
			if name, ok := f.bestName(n, p); ok {
				return func(value string) bool {
					token, ok := n.match(value, p)
					return ok && equalFold(token, name)
				}, name
			}
		}
	}
	if slices.ContainsFunc(f.agents, func(a agentLine) bool { return isGlobal(a.value) }) {
		return isGlobal, "*"
	}
	return nil, ""
}

// bestName returns the best name that lines of the file have for product by n: the longest pattern
// or part, or the shortest token that holds it.
func (f *File) bestName(n naming, product string) (best string, ok bool) {
	for _, a := range f.agents {
		if name, named := n.match(a.value, product); named &&
			(!ok || n == wholeName && len(name) < len(best) || n != wholeName && len(name) > len(best)) {
			best, ok = name, true
		}
	}
	return best, ok
}

// match returns the name in a User-agent line, and whether it stands for product by n. RFC 9309's
// tokens are compared to the leading characters of such tokens, as Google does, others to RFC
// 9110's.
func (n naming) match(value, product string) (name string, ok bool) {
	if n == exactName && leading(product, isNameChar) == product {
		name = leading(value, isNameChar)
		return name, equalFold(name, product)
	}
	name = leading(value, isTokenChar) // which may have stars
	token, product := strings.ToLower(name), strings.ToLower(product)
	star := strings.Contains(token, "*")
	switch n {
	case exactName:
		return name, token == product
	case patternName:
		p := parsePattern(token, true, true)
		q := question{path: product, searches: -maxLine} // few enough to do without suffixes
		return name, star && strings.Trim(token, "*") != "" && q.matches(p.text, p.flags)
	case partName:
		return name, token != "" && !star && strings.Contains(product, token)
	}
	return name, !star && strings.Contains(token, product)
}
