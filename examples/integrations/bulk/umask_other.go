//go:build !unix

package main

// keepPrivate does nothing: new files have the rights of their directory.
func keepPrivate() {}
