// Package pgtest starts Postgres servers for tests, examples and benchmarks, each on a free port of
// 127.0.0.1 and with its data in a directory of its own.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/go-politeness/politeness/internal/freeport"
)

// A Server is a running Postgres.
type Server struct {
	URL string // of its database, as clients take it

	bin, dir string
	port     *freeport.Port
	args     []string
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd has ended
	log      *bytes.Buffer // what it has said; read it when it has ended
}

var errMissing = errors.New("pgtest: there is no Postgres; install it with: apt-get install -y postgresql")

// Start makes a database and starts a server. Each setting is NAME=VALUE of postgresql.conf. As
// root it runs the server as the user postgres, or else nobody, since Postgres refuses root. Stop
// it.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	user, err := serverUser()
	if err != nil {
		return nil, err
	}
	dir, err := user.directory(ctx)
	if err != nil {
		return nil, err
	}
	server := &Server{bin: bin, dir: dir}
	for _, setting := range settings {
		server.args = append(server.args, "-c", setting)
	}
	err = server.start(ctx, user)
	if err != nil {
		server.letGo()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return server, nil
}

// start makes the database, and starts the server on a free port.
func (s *Server) start(ctx context.Context, user account) error {
	initdb := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"),
		"-D", filepath.Join(s.dir, "data"), "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")
	user.run(initdb)
	initdb.Dir = s.dir
	out, err := initdb.CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	for range 4 { // another program may take the port
		s.letGo()
		s.port, err = freeport.Keep(ctx)
		if err == nil {
			err = s.run(ctx, user)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// letGo lets others have the port.
func (s *Server) letGo() {
	if s.port != nil {
		s.port.Close()
		s.port = nil
	}
}

// programs returns the directory with the programs of a server.
func programs() (string, error) {
	var dirs []string
	path, err := exec.LookPath("postgres")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.Reverse(found) // the latest version first
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", errMissing
}

// run starts the server and waits until it answers.
func (s *Server) run(ctx context.Context, user account) error {
	port := strconv.Itoa(s.port.Addr.Port)
	args := append([]string{
		"-D", filepath.Join(s.dir, "data"), "-p", port, "-k", "",
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200",
	}, s.args...)
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(s.bin, "postgres"), args...)
	user.run(s.cmd)
	s.cmd.Dir = s.dir
	s.log = new(bytes.Buffer)
	s.cmd.Stdout = s.log
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		_ = s.cmd.Wait()
		close(ended)
	}()
	s.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", port)
	for {
		ready := exec.CommandContext(ctx, filepath.Join(s.bin, "pg_isready"),
			"-q", "-h", "127.0.0.1", "-p", port, "-U", "postgres")
		if ready.Run() == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ended:
			return fmt.Errorf("postgres has ended:\n%s", s.log)
		case <-ctx.Done():
			s.Kill()
			return ctx.Err()
		}
	}
}

// Kill ends the server as a crash does. Restart starts it again.
func (s *Server) Kill() { s.end(quit) }

// Restart starts the server again, on the same data, port and URL.
func (s *Server) Restart(ctx context.Context) error {
	s.end(interrupt)
	user, err := serverUser()
	if err != nil {
		return err
	}
	return s.run(ctx, user)
}

// Stop ends the server and removes its data.
func (s *Server) Stop() error {
	s.end(quit)
	s.letGo()
	return os.RemoveAll(s.dir)
}

func (s *Server) end(signal os.Signal) {
	if runtime.GOOS == "windows" {
		signal = os.Kill
	}
	_ = s.cmd.Process.Signal(signal)
	<-s.ended
}

var (
	interrupt = os.Interrupt // a fast shutdown
	quit      = os.Kill
)
