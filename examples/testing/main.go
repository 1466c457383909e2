// Testing shows how to test a crawler. watcher.go is the crawler. watcher_test.go runs it for a
// virtual week over a fake web, in much less than a second.
//
//	go test -v ./examples/testing
//
// The crawler also works on real pages. It prints a line when one of them changes:
//
//	go run ./examples/testing -every 10m URL...
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/go-politeness/politeness/examples/internal/reach"
)

func main() {
	every := flag.Duration("every", time.Hour, "`time` between two rounds")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: testing [-every TIME] URL...   fetches the URLs again and again, until Ctrl-C")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	transport, err := newTransport(reach.Base(flag.Args()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "testing:", err)
		os.Exit(1)
	}
	w := &watcher{
		client: &http.Client{Transport: transport},
		every:  *every,
		report: func(v visit) { fmt.Println(time.Now().Format(time.TimeOnly), v) },
	}
	w.run(ctx, flag.Args())
}
