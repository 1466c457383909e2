// Package sitemap reads sitemaps (https://www.sitemaps.org/protocol.html) for the
// example programs.
package sitemap

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// The protocol's limits for one file, after decompression.
const (
	maxBytes = 50 << 20
	maxURLs  = 50_000
)

// A Sitemap is one file: the pages that it lists, or the sitemaps if it is an index.
type Sitemap struct {
	Pages    []string
	Sitemaps []string
}

// Read reads a sitemap: XML or one URL a line, gzipped or not, whatever its name
// and its Content-Type say. What was read before an error is returned with it.
// URLs that aren't absolute http or https are left out.
func Read(r io.Reader) (Sitemap, error) {
	text, err := decompress(r)
	if err != nil {
		return Sitemap{}, err
	}
	limited := &io.LimitedReader{R: text, N: maxBytes}
	start := bufio.NewReader(limited)
	var s Sitemap
	if first, _ := start.Peek(512); bytes.HasPrefix(bytes.TrimLeft(first, "\ufeff \t\r\n"), []byte("<")) {
		err = s.readXML(start)
	} else {
		err = s.readLines(start)
	}
	if limited.N == 0 {
		err = fmt.Errorf("sitemap is longer than %d bytes", maxBytes)
	}
	return s, err
}

// decompress undoes gzip where the first bytes say so.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	magic, _ := b.Peek(2)
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	return gzip.NewReader(b)
}

var errTooMany = fmt.Errorf("sitemap lists more than %d URLs", maxURLs)

// readXML reads the <loc> of each <url> and <sitemap>. Extensions, such as
// <image:loc>, have other parents.
func (s *Sitemap) readXML(r io.Reader) error {
	d := xml.NewDecoder(r)
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var open []string // elements
	var loc strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("sitemap: %w", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, token.Name.Local)
			loc.Reset()
		case xml.CharData:
			loc.Write(token)
		case xml.EndElement: // of the innermost element: the decoder sees to that
			inner, outer := open[len(open)-1], ""
			open = open[:len(open)-1]
			if len(open) > 0 {
				outer = open[len(open)-1]
			}
			room := true
			switch {
			case inner != "loc":
			case outer == "url":
				room = add(&s.Pages, loc.String())
			case outer == "sitemap":
				room = add(&s.Sitemaps, loc.String())
			}
			loc.Reset()
			if !room {
				return errTooMany
			}
		}
	}
}

func (s *Sitemap) readLines(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if !add(&s.Pages, strings.TrimPrefix(lines.Text(), "\ufeff")) {
			return errTooMany
		}
	}
	return lines.Err()
}

// add reports whether there was room.
func add(list *[]string, loc string) bool {
	loc = strings.TrimSpace(loc)
	u, err := url.Parse(loc)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return true
	}
	if len(*list) == maxURLs {
		return false
	}
	*list = append(*list, loc)
	return true
}
