// Package redistest runs real redis-server processes, each on a free port of the loopback interface
// and with a folder of its own, for tests and programs of the modules that speak to Redis.
package redistest

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/freeport"
)

// A Server is one redis-server process. It keeps nothing on disk.
type Server struct {
	Addr string // "127.0.0.1:12345"

	dir  string
	args []string
	cmd  *exec.Cmd
	port *freeport.Port
}

// executable returns the path of the server: POLITENESS_REDIS_SERVER, such as that of another
// version, or else the redis-server or valkey-server that is installed.
func executable() (string, error) {
	name := os.Getenv("POLITENESS_REDIS_SERVER")
	if name != "" {
		return exec.LookPath(name)
	}
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path, nil
	}
	if path, err := exec.LookPath("valkey-server"); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%w\nthis needs a real server; install it with:\n\n"+
		"\tapt-get install -y redis-server, or valkey-server", err)
}

// Main is a TestMain: it starts the server that the tests share, runs them and ends the process.
// Listing tests and fuzzing ask no server, and each worker that fuzzes would start one.
func Main(m *testing.M, shared **Server) {
	flag.Parse()
	for _, name := range []string{"test.list", "test.fuzz"} {
		if flag.Lookup(name).Value.String() != "" {
			os.Exit(m.Run())
		}
	}
	var err error
	*shared, err = Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	(*shared).Close()
	os.Exit(code)
}

// Run starts a server with further arguments and waits until it answers. Close it.
func Run(args ...string) (*Server, error) {
	path, err := executable()
	if err != nil {
		return nil, err
	}
	s, port, err := newServer()
	if err != nil {
		return nil, err
	}
	s.args = append([]string{
		path, "--port", fmt.Sprint(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", s.dir, "--loglevel", "warning",
	}, args...)
	if err := s.Start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// New is Run for one test: it fails t if the server can't be started, and closes it when t ends.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := Run(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// newServer returns a Server on a free port of the loopback interface, with a folder and without a
// command line.
func newServer() (_ *Server, port int, err error) {
	kept, err := freeport.Keep(context.Background())
	if err != nil {
		return nil, 0, err
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		kept.Close()
		return nil, 0, err
	}
	return &Server{Addr: kept.Addr.String(), dir: dir, port: kept}, kept.Addr.Port, nil
}

// Start starts the process again after a Kill: it is empty then.
func (s *Server) Start() error {
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := s.ping()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s on %s: %w", s.args[0], s.Addr, err)
		}
	}
}

func (s *Server) ping() error {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "+PONG") && !strings.HasPrefix(answer, "-NOAUTH") {
		err = fmt.Errorf("PING was answered with %q", answer)
	}
	return err
}

// Kill ends the process at once, as a crash would.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Process returns the server's process, for Pause and Resume.
func (s *Server) Process() *os.Process { return s.cmd.Process }

// Close ends the process and removes its folder.
func (s *Server) Close() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.Kill()
	}
	s.port.Close()
	_ = os.RemoveAll(s.dir)
}
