//go:build unix

package main

import "syscall"

// keepPrivate makes new files readable only by their owner. Pages may be private, and databases
// make files beside their own.
func keepPrivate() { syscall.Umask(0o077) }
