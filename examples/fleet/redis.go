package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is a Redis or Valkey of the example's own, on a free port.
type server struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

func startRedis(ctx context.Context) (*server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		path, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		return nil, fmt.Errorf("%w; install it with: apt-get install -y redis-server, or valkey-server", err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := ln.Close(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return nil, err
	}
	s := &server{addr: ln.Addr().String(), dir: dir}
	s.cmd = exec.CommandContext(ctx, path, "--port", strconv.Itoa(ln.Addr().(*net.TCPAddr).Port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", dir)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer client.Close()
	for {
		if client.Ping(ctx).Err() == nil {
			return s, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			s.stop()
			return nil, ctx.Err()
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill() // it keeps nothing
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}
