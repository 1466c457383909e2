// Command audit proves a crawl's log again and draws it.
//
//	go run github.com/go-politeness/politeness/examples/audit crawl.jsonl
//
// It prints what was proved and which promises were broken, and writes
// report.html: one page with a timeline of each host, which needs no network.
// The exit status is 1 if a promise was broken, and 2 if the log could not be
// read.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-politeness/politeness/evidence/audit"
)

func main() {
	ok, err := run(os.Args[1:], os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// run does what main says and reports whether every promise was kept.
func run(args []string, out io.Writer) (ok bool, err error) {
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it all
	asJSON := flags.Bool("json", false, "print the report as JSON")
	html := flags.String("o", "report.html", "`file` to draw the crawl to; empty: none")
	err = flags.Parse(args)
	if err == nil && flags.NArg() != 1 {
		err = fmt.Errorf("one log wanted, got %d arguments", flags.NArg())
	}
	if err != nil {
		var usage strings.Builder
		flags.SetOutput(&usage)
		flags.PrintDefaults()
		return false, fmt.Errorf("%w\nusage: audit [-json] [-o report.html] LOG\n%s", err, &usage)
	}

	log, err := os.Open(flags.Arg(0))
	if err != nil {
		return false, err
	}
	defer log.Close()
	report, err := audit.Check(log)
	if err != nil {
		return false, err
	}

	if *asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = report.WriteText(out)
	}
	if err != nil || *html == "" {
		return report.OK(), err
	}

	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return false, fmt.Errorf("drawing reads the log once more: %w", err)
	}
	p, err := newPage(filepath.Base(log.Name()), bufio.NewReader(log), report)
	if err != nil {
		return false, err
	}
	file, err := os.OpenFile(*html, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	if err := p.write(file); err != nil {
		file.Close()
		return false, err
	}
	if !*asJSON {
		fmt.Fprintf(out, "\ndrawn in %s\n", *html)
	}
	return report.OK(), file.Close()
}
