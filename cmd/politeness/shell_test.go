package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/localsite"
)

// jsonLines returns the value of a member in each line of a file of JSON.
func jsonLines(t *testing.T, name, member string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for line := range strings.Lines(string(text)) {
		var members map[string]any
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		value, _ := members[member].(string)
		values = append(values, value)
	}
	slices.Sort(values)
	return values
}

// write writes a file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestURLsFromAList of a file and of standard input, named as a flag or as a URL.
func TestURLsFromAList(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	text := "\ufeff# pages\n\n  " + s.URL + "/a\r\n" + s.URL + "/b\n"
	list := write(t, text)
	for _, args := range [][]string{{"-urls", list, s.URL + "/c"}, {"-urls", "-", s.URL + "/c"}, {s.URL + "/c", "-"}} {
		out := filepath.Join(t.TempDir(), "pages.jsonl")
		cmd := prepare(t, nil, append([]string{"crawl", "-agent", agent, "-delay", "10ms", "-follow", "none", "-private", "-o", out}, args...)...)
		cmd.Stdin = strings.NewReader(text)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, said)
			continue
		}
		if got, want := jsonLines(t, out, "url"), []string{s.URL + "/a", s.URL + "/b", s.URL + "/c"}; !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", args, got, want)
		}
	}

	before := len(s.Visits())
	bad := write(t, s.URL+"/a\nnonsense\n# no URL, either\nftp://example.com/\n")
	r := polite(t, nil, "crawl", "-urls", bad, s.URL+"/c")
	r.expect(t, 2, "", bad+":2: no URL: nonsense (a URL begins with https:// or http://)")
	r.expect(t, 2, "", bad+":4: ftp://example.com/: ")
	if n := len(s.Visits()); n > before {
		t.Errorf("%d requests although lines aren't URLs", n-before)
	}
}

// TestPrivateAddresses are reached where they were typed, and not where a list or a link has them,
// unless -private says so.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	list := write(t, s.URL+"/a\n")
	polite(t, nil, "crawl", "-agent", agent, "-urls", list).expect(t, 1, "", "or with -private")
	if n := len(s.Visits()); n > 0 {
		t.Errorf("%d requests", n)
	}
	polite(t, nil, "crawl", "-agent", agent, "-private", "-urls", list).expect(t, 0, s.URL+"/a", "")

	typed := localsite.New(t, 0)
	typed.Handle("/far", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<a href="+s.URL+"/b>there</a>")
	})
	before := len(s.Visits())
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", "all", "-depth", "1", "-tries", "1", typed.URL+"/far").expect(t, 0, "/far", "")
	if n := len(s.Visits()); n > before {
		t.Errorf("%d requests to an address that nobody has typed", n-before)
	}
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", "all", "-depth", "1", "-private", typed.URL+"/far").expect(t, 0, s.URL+"/b", "")
}

// TestIncludeAndExclude select links, not the URLs that were typed.
func TestIncludeAndExclude(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	for _, test := range []struct{ flags, want string }{
		{"-include /[ab]$", "/ /a /b"},
		{"-exclude /[abd]$ -exclude moved -exclude trap -exclude busy", "/ /c"},
		{"-include /[abc]$ -exclude b$", "/ /a /c"},
	} {
		out := filepath.Join(t.TempDir(), "pages.jsonl")
		args := append([]string{"crawl", "-agent", agent, "-delay", "10ms", "-o", out}, strings.Fields(test.flags)...)
		polite(t, nil, append(args, s.URL+"/")...).expect(t, 0, "", "")
		var got []string
		for _, url := range jsonLines(t, out, "url") {
			got = append(got, strings.TrimPrefix(url, s.URL))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.flags, got, test.want)
		}
	}
}

// TestFailedHasALineForEachURL that wasn't visited: together with the pages, nothing is missing.
func TestFailedHasALineForEachURL(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	closed := localsite.Closed(t)
	dir := t.TempDir()
	out, failed := filepath.Join(dir, "pages.jsonl"), filepath.Join(dir, "failed.jsonl")
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-tries", "1", "-o", out, "-failed", failed,
		s.URL+"/", s.URL+"/broken", closed+"/").expect(t, 0, "", "")
	text, err := os.ReadFile(failed)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"url":"` + s.URL + `/private/diary","time":"20`, `"outcome":"disallowed"`, `"from":"` + s.URL + `/"`,
		`"url":"` + s.URL + `/broken"`, `"outcome":"refused","status":503`,
		`"url":"` + closed + `/"`, `"outcome":"unreachable"`, "connection refused",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	pages, missed := jsonLines(t, out, "url"), jsonLines(t, failed, "url")
	for _, url := range pages {
		if slices.Contains(missed, url) && !strings.HasSuffix(url, "/broken") && !strings.HasSuffix(url, "/busy") { // which have an answer, and were refused
			t.Errorf("%s was visited", url)
		}
	}
	for _, path := range []string{"/", "/a", "/b", "/c", "/d", "/moved", "/busy", "/private/diary", "/broken"} {
		if !slices.Contains(pages, s.URL+path) && !slices.Contains(missed, s.URL+path) {
			t.Errorf("nothing is said of %s", path)
		}
	}
	if info, err := os.Stat(failed); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if runtime.GOOS == "linux" {
		polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-failed", "/dev/full", s.URL+"/").expect(t, 2, "", "no space left")
	}
}

// TestFailedNamesWhatWasLeft by a crawl that stopped.
func TestFailedNamesWhatWasLeft(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	failed := filepath.Join(t.TempDir(), "failed.jsonl")
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-pages", "2", "-failed", failed, s.URL+"/").expect(t, 0, "", "")
	if left := jsonLines(t, failed, "outcome"); !slices.Contains(left, "left") && !slices.Contains(left, "over budget") {
		t.Errorf("%v", left)
	}
}

// TestCrawlSaysWhichAnswerItWaitsFor after a second, once, when nothing else happens.
func TestCrawlSaysWhichAnswerItWaitsFor(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/slow", func(http.ResponseWriter, *http.Request) { time.Sleep(2500 * time.Millisecond) })
	r := polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", s.URL+"/slow", s.URL+"/slow?2")
	if n := strings.Count(r.errs, "waiting for a response from "+s.URL+"/slow"); r.status != 0 || n != 1 {
		t.Errorf("status %d, said %d times:\n%s", r.status, n, r.errs)
	}
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-q", s.URL+"/slow").expect(t, 0, "", "")
}

// TestDeadHostIsNotCalledDisallowed by the command: that word is for a rule of robots.txt.
func TestDeadHostIsNotCalledDisallowed(t *testing.T) {
	t.Parallel()
	closed := localsite.Closed(t)
	failed := filepath.Join(t.TempDir(), "failed.jsonl")
	r := polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-tries", "1", "-failed", failed, closed+"/")
	r.expect(t, 1, "", "not sent      "+closed+"/: no robots.txt (network: dial tcp 127.0.0.1:")
	text, err := os.ReadFile(failed)
	for _, said := range []string{r.errs, polite(t, nil, "check", closed+"/").out, string(text)} {
		if err != nil || said == "" || strings.Contains(strings.ToLower(said), "disallowed") || strings.Contains(said, "REFUSED") {
			t.Errorf("%v\n%s", err, said)
		}
	}
}

// TestLimitRate holds for all pages together.
func TestLimitRate(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	for _, path := range []string{"/big/1", "/big/2"} {
		s.Handle(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 50_000)) })
	}
	began := time.Now()
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-limit-rate", "50k", s.URL+"/big/1", s.URL+"/big/2").expect(t, 0, `"bytes":50000`, "")
	if took := time.Since(began); took < 1900*time.Millisecond {
		t.Errorf("100,000 bytes at 50,000 a second in %v", took)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"version", "-version", "--version", "help version"} {
		polite(t, nil, strings.Fields(args)...).expect(t, 0, " "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+"\n", "")
	}
}

// TestInterruptSaysThatItStops, ends in order at the first signal, and at once at the second.
func TestInterruptSaysThatItStops(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no interrupts from another process")
	}
	// A shell starts what runs in the background with interrupts ignored, and a process passes that on
	// unless it handles them.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	for _, again := range []bool{false, true} {
		s := localsite.New(t, 0)
		asked, answer := make(chan bool, 1), make(chan bool)
		s.Handle("/slow", func(w http.ResponseWriter, r *http.Request) {
			asked <- true
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		})
		out := filepath.Join(t.TempDir(), "pages.jsonl")
		cmd := prepare(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-q", "-o", out, s.URL+"/slow")
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-asked
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(errs)
		for said := ""; !strings.Contains(said, "stopping: ") || !strings.Contains(said, "Ctrl-C again stops immediately"); said = lines.Text() {
			if !lines.Scan() {
				t.Fatalf("it doesn't say that it stops; last: %q", said)
			}
		}
		if again {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		} else {
			close(answer)
		}
		for lines.Scan() {
		}
		_ = cmd.Wait() // its status is asked below
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if again && (!status.Signaled() || status.Signal() != syscall.SIGINT) {
			t.Errorf("after the second: %v", cmd.ProcessState)
		}
		if !again && (cmd.ProcessState.ExitCode() != 1 || len(jsonLines(t, out, "url")) != 1) {
			t.Errorf("%v, and what was asked for isn't written", cmd.ProcessState)
		}
	}
}

// TestAnswersThatCantBeWritten are no success.
func TestAnswersThatCantBeWritten(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no /dev/full")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	s := localsite.New(t, 0)
	for _, args := range []string{
		"check " + s.URL + "/a", "check -json " + s.URL + "/a", "lint main.go", "crawl -agent X/1(a@b.example) -n " + s.URL + "/a", "version", "lint -h",
	} {
		cmd := prepare(t, nil, strings.Fields(args)...)
		var errs strings.Builder
		cmd.Stdout, cmd.Stderr = full, &errs
		_ = cmd.Run() // its status is asked below
		if status := cmd.ProcessState.ExitCode(); status != 2 || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%s: status %d, %q", args, status, errs.String())
		}
	}
}

// TestOneSignalEndsWhatOnlyReads: an audit, and what waits for standard input.
func TestOneSignalEndsWhatOnlyReads(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signals from another process")
	}
	for _, args := range []string{"audit /dev/stdin", "lint -", "lint /dev/stdin", "crawl -agent a@b.example -urls -", "crawl -agent a@b.example -urls /dev/stdin"} {
		cmd := prepare(t, nil, strings.Fields(args)...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The pipe takes no more once it is full; when it does, the command reads.
		line := []byte("# " + strings.Repeat("x", 1000) + "\n")
		for range 200 {
			if _, err := in.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s: ended as if it had read all", args)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: doesn't end", args)
			_ = cmd.Process.Kill()
			t.Log(<-ended)
		}
	}
}
