//go:build !linux

package redislimit

import "time"

func nap(time.Duration) {}
