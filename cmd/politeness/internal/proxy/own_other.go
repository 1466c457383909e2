//go:build !unix

package proxy

import "io/fs"

// ownedBy reports true: who may write a file isn't its owner's to say here.
func ownedBy(fs.FileInfo, int) bool { return true }
