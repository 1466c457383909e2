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
		switch fieldOf(l.key) {
		case fieldLicense:
			if unlicensed {
				c.extras.add(l)
			}
		case fieldContentSignal:
			c.extras.add(l)
		}
	}
	r.extras = c.extras.keep()
	r.compiled = c.compile()
	return r
}

// A collector gathers what a crawler's groups say.
type collector struct {
	builder
	file   *File
	rules  *Rules
	named  naming
	extras extras
	usages statedUsages
}

// all takes in all groups of the crawler's.
func (c *collector) all() {
	taken := -1
	for i := range c.file.agents {
		a := &c.file.agents[i]
		if a.group == taken {
			continue
		}
		if _, ok := c.named(a.value); ok {
			taken = a.group
			c.group(c.file.groups[taken])
		}
	}
}

// group takes in one group of the crawler's.
func (c *collector) group(g group) {
	c.texts = slices.Grow(c.texts, g.end-g.start+4*g.rules)
	c.drafts = slices.Grow(c.drafts, g.rules)
	x := lex(c.file.text[:g.end], g.start, g.line)
	// An agent that joins a list late shares the rules of all of it, as Google has it, but what
	// stands before was said to the others. When to come is said to the agents directly above
	// alone: after "User-agent: Bot", "Crawl-delay: 1", "User-agent: *", "Crawl-delay: 30" the second
	// delay isn't Bot's.
	joined, above, inRun := false, false, false
	var l line
	for x.next(&l) {
		if l.kind == kindUserAgent {
			_, named := c.named(l.value)
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

// A naming is one way in which a User-agent line can name the crawler. It returns the name, and
// whether the line does.
type naming func(value string) (string, bool)

// choose returns the naming by which the crawler's groups are chosen, the first that a line of
// the file answers to, and the name. It returns nil if there is no such line.
func (f *File) choose(product []string) (naming, string) {
	for _, n := range f.namings(product) {
		for i := range f.agents {
			if name, ok := n(f.agents[i].value); ok {
				return n, name
			}
		}
	}
	return nil, ""
}

// namings returns the ways to name the crawler, best first.
func (f *File) namings(product []string) []naming {
	var exact, patterns, parts, wholes []naming
	if f.opt.GoogleExact {
		exact = append(exact, googleNaming(product))
	} else {
		for _, p := range product {
			if p = ProductToken(p); p == "" || isGlobal(p) {
				continue
			}
			exact = append(exact, exactNaming(p))
			if f.opt.LenientAgents {
				patterns = append(patterns, f.longest(patternNaming(p)))
				parts = append(parts, f.longest(partNaming(p)))
				wholes = append(wholes, f.shortest(wholeNaming(p)))
			}
		}
	}
	return slices.Concat(exact, patterns, parts, wholes, []naming{everyone})
}

// everyone is the naming by a star.
func everyone(value string) (string, bool) { return "*", isGlobal(value) }

// googleNaming names crawlers as Google's matcher does: any of them, by a token that is taken
// as it is, so that "FooBot/1.0" is never named, and "" by a line without a name.
func googleNaming(products []string) naming {
	return func(value string) (string, bool) {
		token := leading(value, isNameChar)
		return token, !isGlobal(value) && slices.ContainsFunc(products, func(p string) bool {
			return equalFold(token, p)
		})
	}
}

// exactNaming names a crawler by its product token. A token of RFC 9309 is compared to what a
// line has of one, as Google does, any other to what it has of RFC 9110's.
func exactNaming(product string) naming {
	in := isNameChar
	if leading(product, isNameChar) != product {
		in = isTokenChar
	}
	return func(value string) (string, bool) {
		token := leading(value, in)
		return token, equalFold(token, product)
	}
}

// patternNaming names a crawler by a pattern of its whole token: "bot*", "*bot", "b*t".
func patternNaming(product string) naming {
	product = strings.ToLower(product)
	return func(value string) (string, bool) {
		token := leading(value, isTokenChar) // which may have stars
		if !strings.Contains(token, "*") || strings.Trim(token, "*") == "" {
			return "", false
		}
		p := parsePattern(strings.ToLower(token), true, true)
		return token, p.matches(product)
	}
}

// partNaming names a crawler by a part of its token, as the convention of 1994 recommends: "bot"
// is FooBot.
func partNaming(product string) naming {
	product = strings.ToLower(product)
	return func(value string) (string, bool) {
		token := leading(value, isTokenChar)
		if token == "" || strings.Contains(token, "*") {
			return "", false
		}
		return token, strings.Contains(product, strings.ToLower(token))
	}
}

// wholeNaming names a crawler by a longer token that holds its own: "FooBot-Images" is FooBot.
func wholeNaming(product string) naming {
	product = strings.ToLower(product)
	return func(value string) (string, bool) {
		token := leading(value, isTokenChar)
		return token, !strings.Contains(token, "*") && strings.Contains(strings.ToLower(token), product)
	}
}

// longest narrows n to the longest name that lines of the file have by it.
func (f *File) longest(n naming) naming {
	return f.best(n, func(name, best string) bool { return len(name) > len(best) })
}

// shortest narrows n to the shortest name that lines of the file have by it.
func (f *File) shortest(n naming) naming {
	return f.best(n, func(name, best string) bool { return best == "" || len(name) < len(best) })
}

// best narrows n to the name that is better than all others which lines of the file have by it.
func (f *File) best(n naming, better func(name, best string) bool) naming {
	best := ""
	for i := range f.agents {
		if name, ok := n(f.agents[i].value); ok && better(name, best) {
			best = name
		}
	}
	return func(value string) (string, bool) {
		name, ok := n(value)
		return name, ok && equalFold(name, best)
	}
}
