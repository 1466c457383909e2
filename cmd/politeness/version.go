package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version returns what "politeness version" prints: of the module, as it was installed or built, of
// Go and of the system.
func version() string {
	text := "politeness"
	if info, ok := debug.ReadBuildInfo(); ok {
		text += " " + info.Main.Version
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		revision := settings["vcs.revision"]
		if revision != "" {
			text += " " + revision[:min(12, len(revision))]
			if settings["vcs.modified"] == "true" {
				text += " modified"
			}
		}
	}
	return fmt.Sprintf("%s %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
