//go:build !unix

package proxy

import "io/fs"

// ownedBy isn't implemented here: files have access lists instead of a mode.
func ownedBy(fs.FileInfo, int) bool { return true }
