package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
)

// Limits of what programs may do. They are generous for programs and tight for whoever wants the
// proxy to run out of something.
const (
	maxConnections = 4096     // open at once, tunnels included; further ones wait to be accepted
	maxIdle        = 512      // connections open at once in the open on which no request is under way
	maxSilent      = 256      // tunnels open at once in which no request is under way
	maxHeader      = 64 << 10 // bytes of a request's line and headers
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	endTimeout     = 10 * time.Second // for what is under way when the proxy ends
)

// Listen listens on an address, which has to be one of this machine's loopback unless remote is
// set.
func Listen(ctx context.Context, address string, remote bool) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if !remote && !resolved.IP.IsLoopback() {
		return nil, fmt.Errorf("%s isn't a loopback address: programs that reach it could crawl in your name. "+
			"-remote allows it", address)
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", resolved.String())
}

// Serve serves until ctx is done, and lets what has begun come to its end then, for ten seconds at
// most. What goes wrong with a connection is written to messages, a line each: that a program
// doesn't trust the Authority, for instance. When Serve returns, all requests have ended.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener, messages io.Writer) error {
	return p.serve(ctx, netutil.LimitListener(listener, maxConnections), messages)
}

func (p *Proxy) serve(ctx context.Context, listener net.Listener, messages io.Writer) error {
	life, kill := context.WithCancel(context.WithoutCancel(ctx)) // of all requests
	defer kill()
	outside := server(life, p, messages)
	inside := server(life, http.HandlerFunc(p.inside), messages)
	p.forward.ErrorLog = outside.ErrorLog
	outside.ConnContext = p.programs.with
	idle := &silence{most: maxIdle}
	outside.ConnState = func(c net.Conn, state http.ConnState) {
		follow(c, state)
		p.programs.state(c, state)
		idle.state(c, state)
	}
	inside.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return p.programs.with(withTarget(ctx, c), c)
	}
	p.quiet.most = p.silent
	inside.ConnState = func(c net.Conn, state http.ConnState) {
		follow(c, state)
		p.programs.state(c, state)
		p.quiet.state(c, state)
	}
	var both sync.WaitGroup
	errs := make([]error, 2)
	ended, end := context.WithCancel(ctx)
	defer end()
	both.Go(func() { errs[0] = outside.Serve(&requestConns{listener, p.wraps}); end() })
	both.Go(func() { errs[1] = inside.Serve(&requestConns{p.tunnels, p.wraps}); end() })
	<-ended.Done()
	limited, cancel := context.WithTimeout(life, p.grace)
	defer cancel()
	// No tunnel is opened any more once the first has ended.
	stopped := []error{outside.Shutdown(limited), inside.Shutdown(limited)}
	// Requests that haven't ended by now end, and connections that were switched to another protocol,
	// which Shutdown doesn't know.
	kill()
	stopped = append(stopped, outside.Close(), inside.Close())
	both.Wait()
	over := make(chan struct{})
	go func() { p.underWay.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(time.Second): // a program whose connection was switched doesn't read; its request has ended
	}
	return errors.Join(slices.DeleteFunc(append(stopped, errs...), func(err error) bool {
		return errors.Is(err, http.ErrServerClosed) || errors.Is(err, context.DeadlineExceeded)
	})...)
}

// server returns a server of h whose requests end with ctx.
func server(ctx context.Context, h http.Handler, messages io.Writer) *http.Server {
	return &http.Server{
		Handler: h, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(&escaped{messages}, "", 0), //nolint:forbidigo // what a Server takes
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
}

// escaped writes the lines that it is given without control characters.
type escaped struct{ io.Writer }

func (e *escaped) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintln(e.Writer, printable.Clipped(strings.TrimSuffix(string(p), "\n"), 500)); err != nil {
		return 0, err
	}
	return len(p), nil
}
