package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
)

// smallDisk mounts a file system of 512 KiB, or skips the test with the reason why it can't.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		if os.Getenv("POLITENESS_NETWORKS") != "" {
			t.Fatal(err)
		}
		t.Skipf("this machine mounts no tmpfs: %v; that needs root", err)
	}
	t.Cleanup(func() {
		// The process holds the lock of the state until it ends.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no byte of the disk, until the returned function is called.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(file.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// doors counts the requests that many sites get on one server. Those whose path is /refused are
// refused for an hour.
type doors struct {
	mu   sync.Mutex
	seen map[string]int // by host and path
}

func (d *doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	d.seen[r.Host+r.URL.Path]++
	d.mu.Unlock()
	switch r.URL.Path {
	case "/robots.txt":
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
	case "/refused":
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

func (d *doors) count(url string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[url]
}

// TestFullDisk: a crawl whose state and evidence are on a disk that is full goes on, as polite as ever,
// and says what is lost. Once there is space again everything is kept as before, and nothing is damaged.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	state, logName := filepath.Join(disk, "state"), filepath.Join(disk, "evidence.jsonl")
	site := &doors{seen: map[string]int{}}
	server := httptest.NewServer(site)
	defer server.Close()
	base := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	defer base.CloseIdleConnections()
	crawler := func(sinks ...evidence.Evidence) (*politeness.Transport, func(url string) (int, error)) {
		t.Helper()
		transport := mustNew(t, politeness.Config{
			UserAgent: agent, Base: base, Evidence: evidence.Multi(sinks...),
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Max: time.Millisecond}, MaxWait: time.Minute},
		}.WithState(state))
		client := &http.Client{Transport: transport}
		return transport, func(url string) (int, error) {
			resp, err := client.Get("http://" + url)
			if err != nil {
				return 0, err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return resp.StatusCode, err
		}
	}
	log, err := evidence.OpenFile(logName, evidence.LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	recorder := new(evidence.Recorder)
	transport, get := crawler(log, recorder)

	// refuse has a site refuse for an hour, and looks whether it is left alone.
	refuse := func(host string) {
		t.Helper()
		if status, err := get(host + "/refused"); status != http.StatusTooManyRequests {
			t.Errorf("%s: %d, %v", host, status, err)
		}
		if status, err := get(host + "/later"); !errors.Is(err, politeness.ErrBlocked) {
			t.Errorf("%s: %d, %v, want it to be blocked", host, status, err)
		}
	}
	fetch := func(phase string) {
		t.Helper()
		for i := range 100 {
			if status, err := get(fmt.Sprintf("%s-%d.test/page", phase, i%10)); status != http.StatusOK {
				t.Fatalf("%s: %d, %v", phase, status, err)
			}
		}
		refuse(phase + ".test")
	}
	fetch("before")
	free := fill(t, disk)
	fetch("full")
	time.Sleep(1100 * time.Millisecond) // after which the log writes
	fetch("still-full")
	lost := recorder.Decisions(evidence.StateLost)
	if len(lost) == 0 {
		t.Error("nobody was told that state is lost")
	}
	for _, d := range lost {
		if !strings.Contains(d.Reason, syscall.ENOSPC.Error()) {
			t.Errorf("state_lost: %s", d.Reason)
		}
	}
	if err := log.Err(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the log says %v of a full disk", err)
	}
	free()
	fetch("after")
	if err := transport.EvidenceErr(); err == nil || !strings.HasPrefix(err.Error(), "state: ") || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("EvidenceErr: %v, want the state that was lost", err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}

	// The log is whole.
	text, err := os.ReadFile(logName)
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(recorder.Decisions()); !report.OK() || bytes.Count(text, []byte("\n")) < n {
		t.Errorf("%d of %d lines are in the file:\n%s", bytes.Count(text, []byte("\n")), n, report)
	}

	// So is the state: a crawler that begins anew knows what was kept, and meets no damage.
	recorder = new(evidence.Recorder)
	transport, get = crawler(recorder)
	for host, kept := range map[string]bool{"before.test": true, "full.test": false, "after.test": true} {
		status, err := get(host + "/later")
		if blocked := errors.Is(err, politeness.ErrBlocked); blocked != kept {
			t.Errorf("%s: %d, %v", host, status, err)
		}
	}
	fetch("anew")
	if lost := recorder.Decisions(evidence.StateLost); len(lost) > 0 {
		t.Errorf("%+v", lost)
	}
	if err := transport.EvidenceErr(); err != nil {
		t.Error(err)
	}
	if err := filepath.WalkDir(state, func(name string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s is left", name)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if n := site.count("before.test/later"); n > 0 {
		t.Errorf("%d requests into a block", n)
	}
}
