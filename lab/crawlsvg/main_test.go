package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestThePictureIsWhatTheReadmePrints runs the first program of README.md. Its times differ.
func TestThePictureIsWhatTheReadmePrints(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../../docs/crawl.svg")
	if err != nil {
		t.Fatal(err)
	}
	output, err := crawl(t.Context(), string(readme))
	if err != nil {
		t.Fatal(err)
	}
	times := regexp.MustCompile(`\d\d:\d\d:\d\d|\d+(\.\d+)?(ns|µs|ms|s|\x{a0}s)\b`)
	now := times.ReplaceAllString(string(draw(strings.Split(strings.TrimSpace(output), "\n"))), "TIME")
	if then := times.ReplaceAllString(string(picture), "TIME"); now != then {
		t.Errorf("the picture is old: go -C lab generate ./crawlsvg\n%s\nwas\n%s", now, then)
	}
}
