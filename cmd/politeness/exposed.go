package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// warnExposed warns if others may write to a log of evidence, or to its directory: they can accuse
// the crawler, or clear it.
func (sh *shell) warnExposed(log string) {
	if runtime.GOOS == "windows" { // where the mode says nothing
		return
	}
	for _, name := range [...]string{log, filepath.Dir(log)} {
		info, err := os.Stat(name)
		if err != nil || !(info.Mode().IsRegular() || info.IsDir()) { // such as /dev/stdout
			continue
		}
		// In a sticky directory, such as /tmp, others can't replace a file.
		if info.Mode()&(0o002|fs.ModeSticky) == 0o002 {
			fmt.Fprintf(sh.errs, "others may write to %s (%v), and so change the evidence: chmod o-w\n",
				name, info.Mode())
			return
		}
	}
}
