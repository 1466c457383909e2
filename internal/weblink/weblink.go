// Package weblink parses Link header fields (RFC 8288).
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
			l := Link{Target: strings.TrimSpace(target[1:])}
			about := true
			named := map[string]bool{} // parameters that came before
			line = rest
			for {
				rest := strings.TrimLeft(line, " \t")
				if rest == "" || rest[0] != ';' {
					break
				}
				var name, value string
				name, value, line = parameter(rest[1:])
				if named[name] {
					continue // the first one counts
				}
				named[name] = true
				switch name {
				case "rel":
					l.Rel = strings.Fields(strings.ToLower(value))
				case "type":
					media, _, _ := strings.Cut(value, ";")
					l.Type = strings.ToLower(strings.TrimSpace(media))
				case "anchor":
					about = value == ""
				}
			}
			if about {
				links = append(links, l)
			}
			if rest := strings.TrimLeft(line, " \t"); rest != "" && rest[0] != ',' {
				break
			}
		}
	}
	return links
}

// parameter reads a parameter that s begins with, and returns what remains of s. name is in lower
// case; value is without its quotes.
func parameter(s string) (name, value, rest string) {
	end := strings.IndexAny(s, "=;,")
	if end < 0 {
		end = len(s)
	}
	name, rest = strings.ToLower(strings.Trim(s[:end], " \t")), s[end:]
	if rest == "" || rest[0] != '=' {
		return name, "", rest
	}
	rest = strings.TrimLeft(rest[1:], " \t")
	if rest == "" || rest[0] != '"' {
		if end = strings.IndexAny(rest, ";,"); end < 0 {
			end = len(rest)
		}
		return name, strings.Trim(rest[:end], " \t"), rest[end:]
	}
	var b strings.Builder
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			return name, b.String(), rest[i+1:]
		case c == '\\' && i+1 < len(rest):
			i++
			b.WriteByte(rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return name, b.String(), ""
}
