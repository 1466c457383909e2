package hostlimit_test

import (
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/hostlimittest"
)

func newMemory(t testing.TB, cfg hostlimit.Config) hostlimit.Limiter {
	m, err := hostlimit.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestConformance(t *testing.T) { hostlimittest.Run(t, newMemory) }

func TestConformanceInVirtualTime(t *testing.T) {
	hostlimittest.RunIn(t, synctest.Test, newMemory)
}
