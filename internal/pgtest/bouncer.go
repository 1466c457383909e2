package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-politeness/politeness/internal/freeport"
)

// A Bouncer is a running pgbouncer before a Server.
type Bouncer struct {
	URL string // of the server's database through it, as clients take it

	dir   string
	port  *freeport.Port
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
	log   *bytes.Buffer // output; read it when cmd has ended
}

// ErrNoBouncer is the error if there is no pgbouncer.
var ErrNoBouncer = errors.New("pgtest: there is no pgbouncer; install it with: apt-get install -y pgbouncer")

const bouncerConf = `
[databases]
postgres = host=127.0.0.1 port=%d user=postgres dbname=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 10
server_login_retry = 1
`

// StartBouncer starts a pgbouncer before s, with Debian's settings and a pool_mode: session,
// transaction or statement. Stop it.
func StartBouncer(ctx context.Context, s *Server, mode string) (*Bouncer, error) {
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer" // where Debian keeps servers
		if _, err := os.Stat(path); err != nil {
			return nil, ErrNoBouncer
		}
	}
	user, err := serverUser()
	if err != nil {
		return nil, err
	}
	dir, err := user.directory(ctx)
	if err != nil {
		return nil, err
	}
	port, err := freeport.Keep(ctx)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	conf := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(bouncerConf, s.port.Addr.Port, port.Addr.Port, mode)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		port.Close()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	b := &Bouncer{
		URL:   fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", port.Addr),
		dir:   dir,
		port:  port,
		ended: make(chan struct{}),
		log:   new(bytes.Buffer),
	}
	b.cmd = exec.CommandContext(context.WithoutCancel(ctx), path, conf)
	user.run(b.cmd)
	b.cmd.Dir = dir
	b.cmd.Stdout = b.log
	b.cmd.Stderr = b.log
	if err := b.cmd.Start(); err != nil {
		port.Close()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		_ = b.cmd.Wait()
		close(b.ended)
	}()
	if err := b.ready(ctx, port.Addr.String()); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// ready waits until the bouncer takes connections.
func (b *Bouncer) ready(ctx context.Context, addr string) error {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-b.ended:
			return fmt.Errorf("pgbouncer has ended:\n%s", b.log)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stop ends the bouncer.
func (b *Bouncer) Stop() error {
	_ = b.cmd.Process.Signal(os.Kill)
	<-b.ended
	b.port.Close()
	return os.RemoveAll(b.dir)
}
