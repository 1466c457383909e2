package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(envName) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestFourProcessesAreOnePoliteCrawler runs the example; lead returns an error if it wasn't so.
func TestFourProcessesAreOnePoliteCrawler(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := lead(ctx, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{`BLOCKED for all: status 429`, `alone: first after the block`, `cleared for all`, `budget spent: pages`, ` 0 starts into the block`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
