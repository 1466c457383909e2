//go:build !unix

package pgtest

import (
	"context"
	"os"
	"os/exec"
)

// An account is whom a server runs as: this process's.
type account struct{}

func serverUser() (account, error) { return account{}, nil }

func (account) directory(context.Context) (string, error) { return os.MkdirTemp("", "pgtest") }

func (account) run(*exec.Cmd) {}
