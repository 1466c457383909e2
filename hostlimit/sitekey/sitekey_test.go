package sitekey

import (
	"strings"
	"testing"
)

func TestSites(t *testing.T) {
	same := [][]string{
		{"a.example.com", "b.example.com:8080", "example.com", "x.y.example.com:81"},
		{"a.example.co.uk", "example.co.uk"},
		{"user.github.io", "a.user.github.io"},
		{"other.github.io"},
		{"github.io"},
		{"127.0.0.1", "127.0.0.1:8080", "0x7f.1", "2130706433:81", "0177.0.0.1"},
		{"127.0.0.2"},
		{"[::1]", "[::1]:8080"},
		{"localhost", "localhost:8080"},
		{"co.uk"},
		{""},
		{"a key of one's own"},
	}
	seen := make(map[string]string)
	for _, keys := range same {
		site := Of(keys[0])
		if other, ok := seen[site]; ok {
			t.Errorf("%q and %q have the same site, %q", keys[0], other, site)
		}
		seen[site] = keys[0]
		for _, key := range keys {
			if got := Of(key); got != site {
				t.Errorf("%q: %q, not %q", key, got, site)
			}
		}
	}
}

// A judge compares the revisions of two lists, so one that isn't known has to be told from another.
func TestListHasARevision(t *testing.T) {
	if revision := List(); len(revision) != 12 || strings.Trim(revision, "0123456789abcdef") != "" {
		t.Errorf("%q", revision)
	}
}
