package overrides_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/hostlimit/overrides"
)

// Limits of single hosts live in a file, which is read again when it changes.
func ExampleRead() {
	dir, err := os.MkdirTemp("", "overrides")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "hosts.txt")
	text := "example.com   concurrency=1\n.example.org  delay=10s..20s adaptive=fixed\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		panic(err)
	}

	var cfg hostlimit.Config
	file, err := overrides.Read(path, cfg)
	if err != nil {
		panic(err)
	}
	cfg.Override = file.Limits
	if _, err := memory.New(cfg); err != nil {
		panic(err)
	}
	fmt.Print(file)
	limits, _ := file.Limits("www.example.org")
	fmt.Println(limits.Delay.Min)
	// Output:
	// .example.org delay=10s..20s adaptive=fixed
	// example.com concurrency=1
	// 10s
}
