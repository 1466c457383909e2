package redislimit

import (
	"testing"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hostlimittest"
)

func TestPromises(t *testing.T) {
	hostlimittest.Run(t, func(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
		return newTest(t, shared, cfg)
	})
}
