package robots

import (
	"bytes"
	"io"

	"golang.org/x/net/html"
)

// maxHead is how much of a page is looked at for <meta name="robots">.
const maxHead = 64 << 10

// ReadMeta reads the directives of a page for the crawler of these product tokens (or
// User-Agent headers): those of <meta name="robots"> and of <meta name="...">, the crawler's
// own name. It reads up to </head>, at most 64 KB, and little beyond. An error is page's own;
// the directives read before it are returned with it.
func ReadMeta(page io.Reader, product ...string) (Directives, error) {
	s := NewMetaScanner(product...)
	buf := make([]byte, 4<<10)
	for !s.Done() {
		n, err := page.Read(buf)
		_, _ = s.Write(buf[:n]) // never fails
		if err == io.EOF {
			break
		}
		if err != nil {
			return s.Directives(), err
		}
	}
	return s.Directives(), nil
}

// A MetaScanner is ReadMeta for a page that is handed on while it arrives: an io.Writer to
// which the page is written piece by piece. It holds at most 64 KB, and nothing once it is
// Done. It is for one goroutine at a time.
type MetaScanner struct {
	names  []string
	head   []byte // what was written so far
	sought int    // how much of head was looked through for its end
	read   int    // how much of head was read in vain
	tries  int
	done   bool
	found  Directives
}

// NewMetaScanner returns a MetaScanner for the crawler of these product tokens.
func NewMetaScanner(product ...string) *MetaScanner {
	return &MetaScanner{names: tokens(product)}
}

// Write takes the page's next bytes. It never fails.
func (s *MetaScanner) Write(p []byte) (int, error) {
	if s.done {
		return len(p), nil
	}
	s.head = append(s.head, p[:min(len(p), maxHead-len(s.head))]...)
	if len(s.head) == maxHead {
		s.tokenize(true)
	} else if s.endInSight() {
		s.tokenize(false)
	}
	return len(p), nil
}

// Done reports whether the head of the page is over, or 64 KB of it, so that what is written
// from now on changes nothing.
func (s *MetaScanner) Done() bool { return s.done }

// Directives returns what was found in all that was written. It is complete once Done reports
// true or the page is at its end.
func (s *MetaScanner) Directives() Directives {
	if !s.done {
		d, _ := readHead(s.head, s.names)
		return d
	}
	return s.found
}

// endInSight reports whether something like </head> was written since it was last asked. (It
// may be part of a script.)
func (s *MetaScanner) endInSight() bool {
	const end = "</head"
	for {
		rest := s.head[s.sought:]
		i := bytes.IndexByte(rest, '<')
		if i < 0 {
			s.sought = len(s.head)
			return false
		}
		s.sought += i
		if rest = rest[i:]; len(rest) < len(end) || !equalFold(string(rest[:len(end)]), end) {
			if len(rest) < len(end) {
				return false // the rest of it may follow
			}
			s.sought++
			continue
		}
		if bytes.IndexByte(rest, '>') < 0 {
			return false
		}
		s.sought++
		return true
	}
}

// tokenize reads the head as far as it is there.
func (s *MetaScanner) tokenize(last bool) {
	// A page that is full of false ends must not make us read it over and over: after a few it
	// is read again only when it has grown by half.
	if s.tries++; s.tries > 8 && !last && len(s.head) < s.read+s.read/2 {
		return
	}
	s.read = len(s.head)
	d, over := readHead(s.head, s.names)
	if over || last {
		s.found, s.done, s.head = d, true, nil
	}
}

// readHead reads the directives for any of names in the beginning of a page, and reports
// whether the head is over.
func readHead(page []byte, names []string) (Directives, bool) {
	var d Directives
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return d, false
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == "head" {
				return d, true
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attributes := z.TagName()
			switch {
			case string(name) == "noscript":
				z.NextIsNotRawText() // it is there for the likes of us
			case string(name) == "meta" && attributes:
				d = d.Merge(readMeta(z, names))
			}
		}
	}
}

// readMeta reads the attributes of a <meta>.
func readMeta(z *html.Tokenizer, names []string) Directives {
	var name, content string
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "name":
			name = trim(string(value))
		case "content":
			content = string(value)
		}
	}
	if !isOneOf(name, names) {
		return Directives{}
	}
	return parseDirectives(content, names, false)
}
