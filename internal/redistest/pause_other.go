//go:build !unix

package redistest

import (
	"errors"
	"os"
)

// Pause fails: this system has no way to stop a process for a while.
func Pause(*os.Process) error { return errors.ErrUnsupported }

// Resume fails as well.
func Resume(*os.Process) error { return errors.ErrUnsupported }
