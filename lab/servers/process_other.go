//go:build !linux

package servers

import (
	"errors"
	"os/exec"
)

// run fails: the addresses that servers and crawlers have are there on Linux only.
func (*instance) run(string, ...string) error { return errors.ErrUnsupported }

func bind(*exec.Cmd) {}
