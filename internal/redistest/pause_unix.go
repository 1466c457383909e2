//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// Pause stops a process, as a network that is cut would, and Resume lets it go on.
func Pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
