package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/statuspage"
)

// serveStatus serves the status page of t on addr, which is that of -status. The function ends it.
// If addr is empty, nothing is served. The page names the hosts that are crawled and asks for no
// password, so addr has to be a loopback address.
func serveStatus(ctx context.Context, sh *shell, addr string, t *politeness.Transport) (end func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	resolved, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, misused("-status: %v: give a host and a port, as in localhost:6060", err)
	}
	if !resolved.IP.IsLoopback() {
		return nil, misused("-status: %s is no loopback address: give one, as in localhost:6060", addr)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", resolved.String())
	if err != nil {
		return nil, fmt.Errorf("-status: %w", withFreePort(err))
	}
	server := &http.Server{Handler: statuspage.Handler(t), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(sh.errs, "politeness crawl: status page: http://%s/\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	return func() error {
		_ = server.Close() // of a page that is only looked at
		err := <-ended
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}, nil
}

// withFreePort returns err, with the way out if it says that the port is taken.
func withFreePort(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another program uses this port, so choose another one", err)
	}
	return err
}
