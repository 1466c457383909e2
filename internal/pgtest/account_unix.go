//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"strconv"
	"syscall"
)

func init() { quit = syscall.SIGQUIT } // an immediate shutdown, of all its processes

// An account is whom a server runs as; 0: this process's.
type account struct{ uid, gid int }

func serverUser() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(u.Gid)
		if err == nil && uid > 0 {
			return account{uid, gid}, nil
		}
	}
	return account{}, fmt.Errorf("pgtest: Postgres doesn't run as root, and there is no user postgres or nobody")
}

// directory makes a directory of the account's. Another user may not be let into the one for
// temporary files of root's own.
func (a account) directory(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil || a.uid == 0 {
		return dir, err
	}
	if err := os.Chown(dir, a.uid, a.gid); err != nil {
		return "", err
	}
	see := exec.CommandContext(ctx, "ls", dir)
	a.run(see)
	if see.Run() == nil {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	dir, err = os.MkdirTemp("/tmp", "pgtest")
	if err != nil {
		return "", err
	}
	return dir, os.Chown(dir, a.uid, a.gid)
}

// run makes cmd run as the account.
func (a account) run(cmd *exec.Cmd) {
	if a.uid == 0 {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
		Uid:    uint32(a.uid),
		Gid:    uint32(a.gid),
		Groups: []uint32{}, // none of root's
	}}
	cmd.Dir = "/"
}
