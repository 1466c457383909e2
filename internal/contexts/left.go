package contexts

import (
	"context"
	"errors"
	"slices"
)

// Left reports whether err is a context's own error: the caller has left. The timeouts of package
// net answer errors.Is(err, context.DeadlineExceeded) with yes as well, but a host that doesn't
// answer a dial in time has failed: so a deadline counts only where it is the very error of the
// context.
func Left(err error) bool {
	if errors.Is(err, context.Canceled) || err == context.DeadlineExceeded { //nolint:errorlint // identity is the point
		return true
	}
	switch e := err.(type) { //nolint:errorlint // this is the walk
	case interface{ Unwrap() error }:
		return Left(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), Left)
	}
	return false
}
