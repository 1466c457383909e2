package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/go-politeness/politeness/crawl"
)

// startURLs returns the URLs of the arguments, among which "-" stands for a list on standard input,
// and those of the list that a file has, "-" for standard input as well. The error names all that
// aren't URLs.
func startURLs(sh *shell, args []string, file string) ([]string, error) {
	var l urlList
	for _, arg := range args {
		if arg != "-" {
			l.add(arg, "")
		} else if err := l.read("standard input", sh.in); err != nil {
			return nil, err
		}
	}
	switch file {
	case "":
	case "-":
		if err := l.read("standard input", sh.in); err != nil {
			return nil, err
		}
	default:
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("-urls: %w", err)
		}
		defer f.Close()
		if err := l.read(file, f); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(l.errs...); err != nil {
		return nil, usageError{err}
	}
	if len(l.urls) == 0 {
		return nil, misused("there is no URL in the list")
	}
	return l.urls, nil
}

// A urlList collects URLs, and an error for each text that isn't one.
type urlList struct {
	urls []string
	errs []error
}

// add adds a URL, which an error names by where it stands.
func (l *urlList) add(raw, where string) {
	if _, err := crawl.Normalize(raw); err != nil {
		l.errs = append(l.errs, fmt.Errorf("%s%w", where, noURL(raw, err)))
		return
	}
	l.urls = append(l.urls, raw)
}

// read adds the lines of r but for blank ones and comments, which begin with "#".
func (l *urlList) read(name string, r io.Reader) error {
	lines := bufio.NewScanner(r)
	n := 1
	for ; lines.Scan(); n++ {
		text := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff")) // a byte order mark of an editor
		if text != "" && !strings.HasPrefix(text, "#") {
			l.add(text, fmt.Sprintf("%s:%d: ", name, n))
		}
		if len(l.errs) == maxURLErrors {
			l.errs = append(l.errs, errors.New("and maybe more"))
			return nil
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return misused("%s:%d: the line is too long for a URL", name, n)
	} else if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// maxURLErrors is how many lines of a list that aren't URLs are named.
const maxURLErrors = 20

// noURL returns the error about raw, which isn't the URL of a web page.
func noURL(raw string, err error) error {
	if !strings.Contains(raw, "://") {
		return fmt.Errorf("no URL: %s (a URL begins with https:// or http://)", raw)
	}
	return fmt.Errorf("%s: %w", raw, err)
}

// patterns are a flag that may be given several times: regular expressions, one of which is to
// match a URL.
type patterns []*regexp.Regexp

// String implements flag.Value.
func (p *patterns) String() string { return "" }

// Set implements flag.Value.
func (p *patterns) Set(text string) error {
	re, err := regexp.Compile(text)
	if err != nil {
		return err
	}
	*p = append(*p, re)
	return nil
}

func (p patterns) match(url string) bool {
	for _, re := range p {
		if re.MatchString(url) {
			return true
		}
	}
	return false
}

// A scope is which URLs a crawl takes in beside those that it begins with.
type scope struct{ include, exclude patterns }

// has reports whether url is in the scope: -exclude goes before -include.
func (s *scope) has(url string) bool {
	return !s.exclude.match(url) && (len(s.include) == 0 || s.include.match(url))
}

// follow narrows a Config.Follow. Nil follows redirects only.
func (s *scope) follow(f func(*crawl.Page, crawl.Link) bool) func(*crawl.Page, crawl.Link) bool {
	if len(s.include)+len(s.exclude) == 0 {
		return f
	}
	if f == nil {
		f = func(_ *crawl.Page, l crawl.Link) bool { return l.Element == "redirect" }
	}
	return func(p *crawl.Page, l crawl.Link) bool { return f(p, l) && s.has(l.URL) }
}

// prepare is a Config.Prepare: Follow isn't called for the target of a start URL's redirect.
func (s *scope) prepare(r crawl.Request, _ *http.Request) error {
	if r.Via != "" && s.exclude.match(r.URL) {
		return errors.New("left out by -exclude: " + r.Via + " redirects there")
	}
	return nil
}
