package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Kind is the way in which a server's protection treats a crawler that is too fast. The goals
// depend on it.
type Kind int

// The kinds.
const (
	Free   Kind = iota // nothing is refused
	Paced              // a limit that counts each request for itself
	Window             // a limit that lets a burst pass and refuses what comes next
	Ban                // everything is refused until the client has been away for a while
	Broken             // some pages are never served; nothing is limited
)

// A Server is a web server with one protection.
type Server struct {
	Name string // of its row, and on the command line
	Rule string // what it does, in a few words
	Kind Kind
	Rate float64 // pages a second that it serves to one client in the long run; 0: unlimited

	// Broken is the share of the pages that answer an error.
	Broken float64

	// CrawlDelay is stated in robots.txt: seconds.
	CrawlDelay int

	// Closed is for how long the server is in maintenance after its start. Rate counts from then.
	Closed time.Duration

	// RetryAfter says that its refusals have that header.
	RetryAfter bool

	// Takes is how long a page takes.
	Takes time.Duration

	// Whole makes the site so small that a crawl at half of Rate has every page before the cell's
	// time is over.
	Whole bool

	root     bool     // it must be started by root
	programs []string // that it needs
	files    []string // that it needs beside them
	start    func(*instance) error
}

// Command returns a copy of s that runs a program of its own. args returns the command line for the
// address where it listens, the folder of the site, and the file of the log that it writes, in the
// form of ReadLog. The program serves until it is ended by SIGTERM.
func Command(s Server, args func(addr, site, log string) []string) *Server {
	s.start = func(r *instance) error { return r.run("", args(r.addr, r.path("site"), r.log)...) }
	return &s
}

// Missing returns what s needs and isn't here: programs, modules, root.
func (s *Server) Missing() []string {
	var missing []string
	if s.root && os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for _, p := range s.programs {
		if program(p) == "" {
			missing = append(missing, p)
		}
	}
	for _, f := range s.files {
		if _, err := os.Stat(f); err != nil {
			missing = append(missing, filepath.Base(f))
		}
	}
	return missing
}

// program returns the path of the program name; empty: it isn't there. Debian's servers are in
// directories that only root's PATH has.
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// Site returns the site that s serves for cells of the given length.
func (s *Server) Site(length time.Duration) Site {
	const fastest = 6 // pages a second of the fastest crawler, and a reserve
	pages := fastest * length.Seconds()
	if s.Whole {
		pages = 0.45 * s.Rate * length.Seconds() // the rest is for the bans
	}
	sections := pages / (leaves + 1)
	if !s.Whole {
		sections++
	}
	return Site{Sections: max(2, int(sections)), CrawlDelay: s.CrawlDelay}
}

// An instance is a Server that runs.
type instance struct {
	*Server
	dir  string // private
	site Site
	addr string // where crawlers connect
	log  string // file of the access log

	stops []func()
}

// launch starts s with a site in dir, which it makes. It is ready when launch returns. Stop it.
func (s *Server) launch(dir string, site Site) (_ *instance, err error) {
	r := &instance{Server: s, dir: dir, site: site, log: filepath.Join(dir, "access.log")}
	defer func() {
		if err != nil {
			r.Stop()
		}
	}()
	// Servers that give up root read the site as another user.
	for _, d := range []string{dir, r.path("site"), r.path("tmp"), r.path("origin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := site.Write(r.path("site")); err != nil {
		return nil, err
	}
	r.addr, err = freeAddr()
	if err != nil {
		return nil, err
	}
	if err := s.start(r); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return r, r.ready()
}

// URL is that of the site's root.
func (r *instance) URL() string { return "http://" + r.addr + "/" }

func (r *instance) path(name string) string { return filepath.Join(r.dir, name) }

// Stop stops the programs, the latest first, and waits for their ends.
func (r *instance) Stop() {
	for _, stop := range slices.Backward(r.stops) {
		stop()
	}
	r.stops = nil
}

// Lines stops the server and returns what its log has on client.
func (r *instance) Lines(client string) ([]Line, error) {
	r.Stop()
	f, err := os.Open(r.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := ReadLog(f, client)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return lines, nil
}

// ready waits until the server answers. It asks from an address that is no crawler's.
func (r *instance) ready() error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.Now().Add(time.Minute)
	for {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, r.URL()+"robots.txt", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(r.path("errors.log"))
			words := strings.TrimSpace(string(text))
			return errors.Join(fmt.Errorf("%s: doesn't answer: %w", r.Name, err), errors.New(words))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// serverIP is where servers listen: nothing else uses the ports of this address. The tests of two
// packages may run side by side, so it differs by process.
var serverIP = net.IPv4(127, 0, 2, byte(1+os.Getpid()%250)).String()

// given are the addresses that freeAddr has returned: their servers may not listen yet.
var given sync.Map

func freeAddr() (string, error) {
	for {
		ln, err := net.Listen("tcp", net.JoinHostPort(serverIP, "0"))
		if err != nil {
			return "", err
		}
		addr := ln.Addr().String()
		ln.Close()
		if _, taken := given.LoadOrStore(addr, true); !taken {
			return addr, nil
		}
	}
}

// conf writes a configuration file with the instance's values in the place of $DIR, $ADDR, $LOG and
// $SITE, and returns its path.
func (r *instance) conf(name, text string, more ...string) (string, error) {
	pairs := append([]string{"$DIR", r.dir, "$ADDR", r.addr, "$LOG", r.log, "$SITE", r.path("site")}, more...)
	file := r.path(name)
	return file, os.WriteFile(file, []byte(strings.NewReplacer(pairs...).Replace(text)), 0o644)
}
