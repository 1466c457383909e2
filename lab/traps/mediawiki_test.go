package traps

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	articles  = 40
	revisions = 4 // of each
)

// dump is the articles with their histories, as MediaWiki imports them.
func dump() string {
	var b strings.Builder
	b.WriteString(`<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">`)
	day := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	page := func(title string, text func(revision int) string) {
		fmt.Fprintf(&b, "<page><title>%s</title><ns>0</ns>", title)
		for n := range revisions {
			day = day.Add(time.Hour)
			fmt.Fprintf(&b, "<revision><timestamp>%s</timestamp><contributor><username>A%d</username></contributor>"+
				`<model>wikitext</model><format>text/x-wiki</format><text xml:space="preserve">%s</text></revision>`,
				day.Format(time.RFC3339), n%3, text(n))
		}
		b.WriteString("</page>")
	}
	page("Main Page", func(int) string {
		var links strings.Builder
		for n := range articles / 4 {
			fmt.Fprintf(&links, "* [[Article %s]]\n", word(n))
		}
		return links.String()
	})
	for n := range articles {
		page("Article "+word(n), func(revision int) string {
			state := "as of now"
			if revision < revisions-1 {
				state = "as of draft " + word(revision)
			}
			return fmt.Sprintf("Lore of %s, %s.\n\nSee [[Article %s]] and [[Article %s]].\n",
				word(n), state, word((n*3+1)%articles), word((n*3+2)%articles))
		})
	}
	b.WriteString("</mediawiki>")
	return b.String()
}

var ofArticle = regexp.MustCompile(`<p>Lore of (\w+), as of now\.`)

// mediawiki serves articles with Debian's MediaWiki.
func mediawiki(t *testing.T) *software {
	t.Helper()
	const program = "/usr/share/mediawiki"
	_, err := os.Stat(program)
	if _, noPHP := exec.LookPath("php"); err != nil || noPHP != nil {
		t.Skip("MediaWiki isn't installed: apt-get install mediawiki php-cli php-sqlite3 php-mbstring php-xml")
	}
	dir := t.TempDir()
	settings := filepath.Join(dir, "LocalSettings.php")
	php := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "php", args...)
		cmd.Env = append(os.Environ(), "MW_CONFIG_FILE="+settings)
		return cmd
	}
	maintain := func(script string, args ...string) {
		t.Helper()
		out, err := php(t.Context(), append([]string{filepath.Join(program, "maintenance", script)}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	maintain("install.php", "--confpath", dir, "--dbtype", "sqlite", "--dbpath", dir, "--scriptpath", "",
		"--server", "http://localhost", "--pass", "not-a-secret-1", "Wiki", "Admin")
	f, err := os.OpenFile(settings, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("\n$wgServer = 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost');\n")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	pages := filepath.Join(dir, "pages.xml")
	if err := os.WriteFile(pages, []byte(dump()), 0o600); err != nil {
		t.Fatal(err)
	}
	maintain("importDump.php", "--quiet", pages)
	maintain("rebuildrecentchanges.php", "--quiet")

	// The server ends before its directory is removed.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	address := freeAddress(t) // asked for as late as can be: another program may take it
	server := php(ctx, "-S", address, "-t", program)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = server.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	return &software{
		handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Host = r.In.Host
		}},
		path: "/index.php", pages: articles,
		shows: func(_ *http.Request, body string) (pages []string) {
			if m := ofArticle.FindStringSubmatch(body); m != nil {
				pages = append(pages, m[1])
			}
			return pages
		},
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestMediaWiki: articles come before most versions, differences and special pages.
func TestMediaWiki(t *testing.T) {
	comparesOrders(t, mediawiki(t), 20, 3)
}
