package robots

import (
	"bytes"
	"io"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/go-politeness/politeness/internal/weblink"
)

// maxHead is how much of a page is looked at for <meta name="robots">.
const maxHead = 64 << 10

// ReadMeta reads the directives of a page for a crawler. The crawler is known by its product
// tokens, or by User-Agent headers. ReadMeta reads <meta name="robots">, and <meta> elements with
// the crawler's own name. It reads little more than the part up to </head>, and at most 64 KB of
// that. If reading page fails, ReadMeta returns that error, with the directives that it has read.
func ReadMeta(page io.Reader, product ...string) (Directives, error) {
	s := NewMetaScanner(product...)
	buf := make([]byte, 4<<10)
	for !s.Done() {
		n, err := page.Read(buf)
		_, _ = s.Write(buf[:n]) // never fails
		if err == io.EOF {
			break // a page without an end of its head is over as well
		}
		if err != nil {
			return s.Directives(), err
		}
	}
	return s.Directives(), nil
}

// A MetaScanner is ReadMeta for a page that is passed on while it arrives. It is an io.Writer to
// which you write the page piece by piece. It buffers at most 64 KB, and nothing once it is Done.
// It is for one goroutine at a time.
type MetaScanner struct {
	names  []string
	typed  bool // the markup is known; else it is HTML or, if it has the namespace of XHTML, XHTML, too
	markup weblink.Markup
	head   []byte // the page so far
	sought int    // bytes of head that were searched for its end
	read   int    // bytes tokenized without reaching </head>, over all attempts
	done   bool
	found  asked
	added  asked // by Add
}

// asked holds the contents of a page's <meta> elements.
type asked struct {
	directives  Directives
	preferences Preferences // by TDMRep
}

// NewMetaScanner returns a MetaScanner for the crawler of these product tokens.
func NewMetaScanner(product ...string) *MetaScanner {
	return &MetaScanner{names: tokens(product)}
}

// SetType sets the media type of the page. Call it before the first Write. Pass a Content-Type in
// lower case and without parameters. Types of XML, such as "application/xhtml+xml", are read as
// XML, and anything else as HTML. Use it if you know the type. Without it a page that might be
// XHTML is read in both ways, and the statements of both count.
func (s *MetaScanner) SetType(mediaType string) {
	s.typed = true
	s.markup = weblink.HTML
	if m, isPage := weblink.MarkupOf(mediaType); isPage {
		s.markup = m
	}
}

// Add adds the statement of a <meta> element that the caller has found, by its attributes name and
// content. Use it instead of Write, or beside it, if the page is parsed already.
func (s *MetaScanner) Add(name, content string) { s.added.add(name, content, s.names) }

// Write takes the page's next bytes. It never fails.
func (s *MetaScanner) Write(p []byte) (int, error) {
	if s.done {
		return len(p), nil
	}
	s.head = append(s.head, p[:min(len(p), maxHead-len(s.head))]...)
	if len(s.head) == maxHead {
		s.tokenize(true)
	} else if s.endInSight() {
		// The tokenizer reads head from its beginning, so it isn't started for each piece of a page.
		s.tokenize(false)
	}
	return len(p), nil
}

// Done reports whether the head of the page, or its first 64 KB, has been read. Then no further
// byte of the page changes anything.
func (s *MetaScanner) Done() bool { return s.done }

// Directives returns the directives in the page so far. They are complete once Done reports true or
// the page is at its end.
func (s *MetaScanner) Directives() Directives { return s.asked().directives }

// Preferences returns the statements about the page's use in the part read so far. It reads noai
// and noml in <meta name="robots">. It also reads <meta name="tdm-reservation"> and <meta
// name="tdm-policy"> (TDMRep). When Directives are complete, Preferences are complete too.
func (s *MetaScanner) Preferences() Preferences {
	a := s.asked()
	return a.directives.preferences("meta", false).Merge(a.preferences)
}

func (s *MetaScanner) asked() asked {
	if s.done || len(s.head) == 0 {
		return s.found.merge(s.added)
	}
	// More may be written, so this result isn't kept.
	a, _ := s.readHead()
	return a.merge(s.added)
}

// readHead is the function of that name, in the ways in which the page is read.
func (s *MetaScanner) readHead() (a asked, over bool) {
	a, over = readHead(s.head, s.names, s.markup)
	start := s.head[:min(len(s.head), 4<<10)]
	if !s.typed && bytes.Contains(start, []byte("http://www.w3.org/1999/xhtml")) {
		x, xOver := readHead(s.head, s.names, weblink.XHTML)
		a = a.merge(x)
		over = over && xOver
	}
	return a, over
}

// endInSight reports whether something like </head> was written since it was last asked, in XML
// with any prefix. (It may be part of a script.)
func (s *MetaScanner) endInSight() bool {
	for {
		rest := s.head[s.sought:]
		i := bytes.IndexByte(rest, '<')
		if i < 0 {
			s.sought = len(s.head)
			return false
		}
		s.sought += i
		isEnd, isWhole := headEnd(rest[i:])
		if isEnd && !isWhole {
			return false // the rest of it may follow; sought stays, so that it is looked at again
		}
		s.sought++ // past the "<": nothing is found twice
		if isEnd {
			return true
		}
	}
}

// maxPrefix is the length up to which a prefix of an end tag is looked at.
const maxPrefix = 100

// headEnd reports whether text begins with the end tag of a head, or may once it is longer.
func headEnd(text []byte) (isEnd, isWhole bool) {
	name, ok := bytes.CutPrefix(text, []byte("</"))
	if !ok {
		return len(text) < len("</"), false
	}
	const head = "head"
	near := name[:min(len(name), maxPrefix)]
	end := bytes.IndexAny(near, ":<> \t\r\n\f")
	if end >= 0 && near[end] == ':' {
		name = name[end+1:]
	}
	n := min(len(name), len(head))
	isEnd = equalFold(string(name[:n]), head[:n])
	mayHavePrefix := end < 0 && len(near) < maxPrefix
	return isEnd || mayHavePrefix, isEnd && n == len(head) && bytes.IndexByte(name, '>') >= 0
}

// tokenize reads the directives in head, and finishes if the head is over or last is set.
func (s *MetaScanner) tokenize(last bool) {
	// The cost of a page full of false ends is in proportion to its length. If attempts are left
	// out, the head is read up to its bound or to the end of the page instead.
	if s.read > 8*len(s.head) && !last {
		return
	}
	s.read += len(s.head)
	a, over := s.readHead()
	if over || last {
		s.found = a
		s.done = true
		s.head = nil // a body may be read for long after its head
	}
}

// readHead reads the <meta> elements at the beginning of a page that are for any of names, and
// reports whether the head is over.
func readHead(page []byte, names []string, m weblink.Markup) (a asked, over bool) {
	tags := weblink.NewReader(bytes.NewReader(fromUTF16(page)), m)
	for {
		switch tags.Next() {
		case html.ErrorToken:
			return a, !tags.IsPage() // io.EOF: page ends here, perhaps within a tag
		case html.EndTagToken:
			if tags.Name() == atom.Head && tags.IsHTML() {
				return a, true
			}
		case html.StartTagToken:
			if tags.Name() == atom.Meta && tags.IsHTML() {
				name, content := nameAndContent(tags.Attributes())
				a.add(name, content, names)
			}
		}
	}
}

// nameAndContent returns the values of these attributes, of which the first ones count.
func nameAndContent(attributes []weblink.Attribute) (name, content string) {
	for i := len(attributes) - 1; i >= 0; i-- {
		switch string(attributes[i].Name) {
		case "name":
			name = string(attributes[i].Value)
		case "content":
			content = string(attributes[i].Value)
		}
	}
	return name, content
}

// add adds the statement of a <meta>.
func (a *asked) add(name, content string, names []string) {
	name = trim(name)
	switch {
	case isOneOf(name, names):
		a.directives = a.directives.Merge(parseDirectives(content, names, false))
	case equalFold(name, "tdm-reservation"):
		a.preferences = a.preferences.Merge(reservation(content, "meta tdm-reservation"))
	case equalFold(name, "tdm-policy"):
		a.preferences = a.preferences.Merge(Preferences{License: terms(content)})
	}
}

// merge returns the statements of both.
func (a asked) merge(o asked) asked {
	return asked{
		directives:  a.directives.Merge(o.directives),
		preferences: a.preferences.Merge(o.preferences),
	}
}
