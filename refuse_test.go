package politeness_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/go-politeness/politeness"
)

// A rule over paths can't be passed by a query, nor by escapes.
func TestRefusePathsSeesThroughQueriesAndEscapes(t *testing.T) {
	refuse := politeness.RefusePaths(regexp.MustCompile(`^/login$`), regexp.MustCompile(`[?&]page=\d{3}`), regexp.MustCompile(`/a%2Fb`))
	for url, want := range map[string]bool{
		"https://example.com/login":             true,
		"https://example.com/login?next=%2F":    true,
		"https://example.com/%6cogin":           true,
		"https://example.com/login/help":        false,
		"https://example.com/":                  false,
		"https://example.com":                   false,
		"https://example.com/list?page=100":     true,
		"https://example.com/list?x=1&page=100": true,
		"https://example.com/list?page=10":      false,
		"https://example.com/a%2Fb":             true,
		"https://example.com/a/b":               false,
	} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := refuse(req); (err != nil) != want {
			t.Errorf("%s: %v, want a refusal: %t", url, err, want)
		}
	}
}
