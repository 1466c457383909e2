//go:build unix

package main

import "syscall"

// keepPrivate has the files that are made from now on be readable by their owner alone: pages may
// hold what isn't for everybody, and databases make files beside their own.
func keepPrivate() { syscall.Umask(0o077) }
