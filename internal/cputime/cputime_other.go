//go:build !unix

package cputime

import "time"

var origin = time.Now()

func used() time.Duration { return time.Since(origin) }
