package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/examples/internal/localsite"
	"github.com/go-politeness/politeness/examples/internal/virtual"
)

func TestDiscoveryKeepsWhatRobotsAllows(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		for _, name := range []string{"MAX_PAGES", "MAX_SCAN_TIME_MINUTES", "USER_AGENT"} {
			t.Setenv(name, "")
		}
		var out strings.Builder
		if err := run(t.Context(), &out, t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		remain := regexp.MustCompile(`2 of 4 URLs remain: \["http://127.0.0.1:\d+/" "http://127.0.0.1:\d+/page"\]`)
		if n := len(remain.FindAllString(out.String(), -1)); n != 2 {
			t.Errorf("%d sites of which / and /page remain, want 2", n)
		}
		for _, want := range []string{
			`/admin +allowed: false +line 2, group \*, "Disallow: /admin"`,
			`/api/users +allowed: false +line 6, group SiteAudit, "Disallow: /api"`,
		} {
			if !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("the output has no %s", want)
			}
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
}

func TestDiscoveryFallsBackToTheUsualPathsAndFollowsIndexes(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		mux := http.NewServeMux()
		server := localsite.Serve(mux)
		defer server.Close()
		mux.HandleFunc("/sitemap_index.xml", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<sitemapindex><sitemap><loc>" + server.URL + "/one.txt</loc></sitemap>" +
				"<sitemap><loc>" + server.URL + "/sitemap_index.xml</loc></sitemap></sitemapindex>")) // itself, too
		})
		mux.HandleFunc("/one.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(server.URL + "/found\n")) })
		var out strings.Builder
		if err := run(t.Context(), &out, "", []string{server.URL}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "1 of 1 URLs remain") || !strings.Contains(out.String(), "/sitemap.xml: 404") {
			t.Errorf("output:\n%s", out.String())
		}
	})
}
