//go:build unix

package proxy

import (
	"io/fs"
	"syscall"
)

// ownedBy reports whether the file belongs to the user with this id.
func ownedBy(info fs.FileInfo, user int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == user
}
