package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// leaves is how many pages a section of a Site links to.
const leaves = 29

// Private is the path that every site's robots.txt disallows and every section links to.
const Private = "/private/"

// A Site is a tree of pages: the root links to the sections, and each section to its leaves.
type Site struct {
	Sections   int
	CrawlDelay int // seconds, in robots.txt; 0: none is stated
}

// Pages returns the number of pages that a crawler can find, the private ones not among them.
func (s Site) Pages() int { return 1 + s.Sections + s.Sections*leaves }

// IsPage reports whether path is one of the site's pages. Apache logs the root as /index.html.
func (s Site) IsPage(path string) bool {
	if path == "/" || path == "/index.html" {
		return true
	}
	return strings.HasPrefix(path, "/s") && strings.HasSuffix(path, ".html")
}

// Paths returns the paths of all pages: the root, the sections, their leaves.
func (s Site) Paths() []string {
	paths := []string{"/"}
	for section := range s.Sections {
		paths = append(paths, sectionPath(section))
	}
	for section := range s.Sections {
		for leaf := range leaves {
			paths = append(paths, leafPath(section, leaf))
		}
	}
	return paths
}

func sectionPath(section int) string { return fmt.Sprintf("/s%03d.html", section) }

func leafPath(section, leaf int) string {
	return fmt.Sprintf("/s%03d-%05d.html", section, section*leaves+leaf)
}

func privatePath(section int) string { return fmt.Sprintf("%sp%03d.html", Private, section) }

// Write writes the site's files into dir. Leaves are numbered through the site, and the number ends
// their names, so that a server can answer a share of them differently.
func (s Site) Write(dir string) error {
	files := map[string]string{}
	var root strings.Builder
	for section := range s.Sections {
		name := sectionPath(section)
		fmt.Fprintf(&root, "<li><a href=%q>Section %d</a>\n", name, section)
		var links strings.Builder
		for leaf := range leaves {
			leafName := leafPath(section, leaf)
			fmt.Fprintf(&links, "<li><a href=%q>Page %d</a>\n", leafName, leaf)
			files[leafName] = page("Page "+leafName, "<a href=\"/\">home</a> <a href=\""+name+"\">up</a>")
		}
		fmt.Fprintf(&links, "<li><a href=%q>Private</a>\n", privatePath(section))
		files[name] = page("Section "+name, links.String())
		files[privatePath(section)] = page("Private", "")
	}
	files["/index.html"] = page("Home", root.String())
	robots := "User-agent: *\nDisallow: " + Private + "\n"
	if s.CrawlDelay > 0 {
		robots += fmt.Sprintf("Crawl-delay: %d\n", s.CrawlDelay)
	}
	files["/robots.txt"] = robots
	if err := os.MkdirAll(filepath.Join(dir, Private), 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func page(title, links string) string {
	const words = "All of this page is here so that it has the size of a small page of the real web. "
	return "<!doctype html>\n" +
		"<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + title + "</title></head>\n" +
		"<body><h1>" + title + "</h1>\n" +
		"<ul>\n" + links + "</ul>\n" +
		"<p>" + strings.Repeat(words, 25) + "</p></body></html>\n"
}
