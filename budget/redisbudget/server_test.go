package redisbudget

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A testServer is a redis-server process of its own, on a free port.
type testServer struct {
	addr string
	dir  string
	args []string
	cmd  *exec.Cmd
}

func startServer(args ...string) (*testServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w\nthese tests need a real server; install it with:\n\n\tapt-get install -y redis-server", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().(*net.TCPAddr)
	if err := ln.Close(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redisbudget")
	if err != nil {
		return nil, err
	}
	s := &testServer{addr: addr.String(), dir: dir}
	s.args = append([]string{
		path, "--port", fmt.Sprint(addr.Port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning",
	}, args...)
	if err := s.start(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// start starts the process, again after a kill: then it is empty.
func (s *testServer) start() error {
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer client.Close()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := client.Ping(context.Background()).Err()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("redis-server on %s: %w", s.addr, err)
		}
	}
}

func (s *testServer) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *testServer) close() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.kill()
	}
	_ = os.RemoveAll(s.dir)
}

// shared is the server of the tests that don't harm it.
var shared *testServer

func TestMain(m *testing.M) {
	if work := os.Getenv(workerEnv); work != "" {
		worker(work)
		return
	}
	flag.Parse()
	var err error
	if shared, err = startServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	shared.close()
	os.Exit(code)
}

// ownServer starts a server for one test.
func ownServer(t *testing.T, args ...string) *testServer {
	t.Helper()
	s, err := startServer(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func newClient(t testing.TB, s *testServer) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
