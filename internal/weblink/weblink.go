// Package weblink reads links as the web has them: references, by the URL standard
// (https://url.spec.whatwg.org), and Link header fields (RFC 8288).
package weblink

import (
	"slices"
	"strings"
)

// A Link is one link of a field. Its context is the page that the field came with: links with
// another one, by the parameter anchor, are left out.
type Link struct {
	Target string   // as written: it may be relative to the URL of the page
	Rel    []string // relation types, in lower case
	Type   string   // media type in lower case, without parameters; empty: not stated
}

// Is reports whether the link has a relation of that type.
func (l *Link) Is(rel string) bool { return slices.Contains(l.Rel, rel) }

// Relations returns the relation types of a rel attribute, or of the parameter rel, in lower case.
// They are separated by white space (HTML, section 4.6.7), or by commas: Google documents
// "ugc,nofollow".
func Relations(rel string) []string {
	if rel == "" {
		return nil
	}
	return strings.FieldsFunc(strings.ToLower(rel), func(r rune) bool {
		return r == ' ' || r == ',' || '\t' <= r && r <= '\r'
	})
}

// Parse returns the links of a page by the lines of its Link field, as RFC 8288, appendix B.2, has
// it. What follows an error in a line doesn't count.
func Parse(lines []string) (links []Link) {
	for _, line := range lines {
		for {
			line = strings.TrimLeft(line, " \t,")
			target, rest, closed := strings.Cut(line, ">")
			if !closed || target == "" || target[0] != '<' {
				break
			}
			link := Link{Target: strings.TrimSpace(target[1:])}
			var ofPage bool
			ofPage, line = link.parameters(rest)
			if ofPage {
				links = append(links, link)
			}
			line = strings.TrimLeft(line, " \t")
			if line != "" && line[0] != ',' { // an error: the rest of the line doesn't count
				break
			}
		}
	}
	return links
}

// parameters reads the parameters that line begins with into l, and returns what remains of line.
// ofPage is false if the link is about something else than the page.
func (l *Link) parameters(line string) (ofPage bool, rest string) {
	ofPage = true
	named := map[string]bool{} // parameters that came before
	for {
		rest := strings.TrimLeft(line, " \t")
		if rest == "" || rest[0] != ';' {
			return ofPage, line
		}
		var name, value string
		name, value, line = parameter(rest[1:])
		if named[name] {
			continue // the first one counts
		}
		named[name] = true
		switch name {
		case "rel":
			l.Rel = Relations(value)
		case "type":
			media, _, _ := strings.Cut(value, ";")
			l.Type = strings.ToLower(strings.TrimSpace(media))
		case "anchor":
			ofPage = value == ""
		}
	}
}

// parameter reads a parameter that s begins with, and returns what remains of s. name is in lower
// case; value is without its quotes.
func parameter(s string) (name, value, rest string) {
	end := strings.IndexAny(s, "=;,")
	if end < 0 {
		end = len(s)
	}
	name = strings.ToLower(strings.Trim(s[:end], " \t"))
	rest = s[end:]
	if rest == "" || rest[0] != '=' {
		return name, "", rest
	}
	rest = strings.TrimLeft(rest[1:], " \t")
	if rest == "" || rest[0] != '"' {
		end = strings.IndexAny(rest, ";,")
		if end < 0 {
			end = len(rest)
		}
		return name, strings.Trim(rest[:end], " \t"), rest[end:]
	}
	var b strings.Builder
	for i := 1; i < len(rest); i++ {
		c := rest[i]
		if c == '"' {
			return name, b.String(), rest[i+1:]
		}
		if c == '\\' && i+1 < len(rest) {
			i++
			c = rest[i]
		}
		b.WriteByte(c)
	}
	return name, b.String(), "" // the end of the quotes is missing
}
