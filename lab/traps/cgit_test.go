package traps

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	commits = 40
	files   = 24
)

// word returns a word for a number: in lines all digits are one.
func word(n int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'k' }, fmt.Sprint(n))
}

// repository makes a repository, each of whose commits changes one file in its directory.
func repository(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(),
			"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "--quiet", "--initial-branch=main")
	write := func(n, version int) {
		t.Helper()
		name := filepath.Join(dir, fmt.Sprintf("part-%s", word(n%4)), fmt.Sprintf("file-%s.txt", word(n)))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("The file %s begins.\nIts text is of version %s.\n", word(n), word(version))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for n := range files {
		write(n, 0)
	}
	for n := range commits {
		write(n%files, n+1)
		git("add", ".")
		git("commit", "--quiet", "-m", "change "+word(n), "-m", "The reason for commit "+word(n)+".")
	}
	return dir
}

var (
	ofCommit = regexp.MustCompile(`The reason for commit (\w+)\.`)
	ofFile   = regexp.MustCompile(`The file (\w+) begins\.`)
)

// cgit serves a repository with Debian's cgit.
func cgit(t *testing.T) *software {
	t.Helper()
	const program = "/usr/lib/cgit/cgit.cgi"
	if _, err := os.Stat(program); err != nil {
		t.Skip("cgit isn't installed: scripts/setup.sh installs it on Debian and Ubuntu")
	}
	dir := repository(t)
	config := filepath.Join(t.TempDir(), "cgitrc")
	text := "virtual-root=/\ncache-size=0\nenable-commit-graph=1\nenable-log-filecount=1\nsnapshots=tar.gz\n" +
		"robots=index, follow\n" + // its own default is nofollow
		"repo.url=project\nrepo.path=" + filepath.Join(dir, ".git") + "\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return &software{
		handler: &cgi.Handler{Path: program, Env: []string{"CGIT_CONFIG=" + config}},
		path:    "/", pages: commits + files,
		shows: func(r *http.Request, body string) (pages []string) {
			if m := ofCommit.FindStringSubmatch(body); strings.Contains(r.URL.Path, "/commit/") && m != nil {
				pages = append(pages, "commit "+m[1])
			}
			if m := ofFile.FindStringSubmatch(body); strings.Contains(r.URL.Path, "/tree/") && m != nil {
				pages = append(pages, "file "+m[1])
			}
			return pages
		},
	}
}

// TestCgit: the commits and files of a repository come long before all differences, versions and
// archives.
func TestCgit(t *testing.T) {
	comparesOrders(t, cgit(t), 8, 4)
}
