package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/cmd/politeness/internal/hostname"
	"github.com/go-politeness/politeness/cmd/politeness/internal/page"
	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

const auditUsage = `Usage: politeness audit [flags] LOG...

Proves from a crawl's evidence that it kept its promises: delays, concurrency,
blocks, robots.txt, budget. Several logs, of one crawl's runs or of a fleet, are
checked together. It trusts no field that it can compute. A LOG of "-" means
standard input.

  -json              the report as JSON
  -html FILE         also write a page with a timeline of each host; with -host,
                     the page for the owner of that site
  -host HOST         check only requests to HOST and the names below it
  -key KEY           the verifier key of a signed log
  -checkpoint FILE   an earlier checkpoint, which the log must extend

  politeness audit -html report.html crawl.jsonl
  politeness audit -host example.com -html dossier.html crawl.jsonl

More commands, each with its own -h: write a bundle of one site's records, check
a bundle, and compare evidence with the site's access log.

  politeness audit extract | verify | access

Exit status: 0 all is proved, 1 something is broken, 2 a log can't be read,
3 nothing is broken, but something is open. The report names the open points.
`

// auditCommands are the commands of "politeness audit", by name.
var auditCommands = map[string]struct {
	usage string
	run   func(sh *shell, args []string) (int, error)
}{
	"extract": {extractUsage, runExtract},
	"verify":  {verifyUsage, runVerify},
	"access":  {accessUsage, runAccess},
}

func runAudit(_ context.Context, sh *shell, args []string) (int, error) {
	sh.unhook() // nothing has to be ended in order
	if len(args) > 0 && auditCommands[args[0]].run != nil {
		c := auditCommands[args[0]]
		return helped(sh, c.usage, c.run, args[1:])
	}
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	html := flags.String("html", "", "")
	var hosts list
	flags.Var(&hosts, "host", "")
	known := trustFlags(flags)
	names, err := parse(flags, args, "LOG")
	if err != nil {
		return 0, err
	}
	names, remove, err := sh.fromStdin(names)
	if err != nil {
		return 0, err
	}
	defer remove()
	if *html != "" && len(names) > 1 {
		return 0, misused("-html draws one log, not %d", len(names))
	}
	if hosts != nil && len(names) > 1 {
		return 0, misused("-host judges one log, not %d", len(names))
	}
	trust, err := known()
	if err != nil {
		return 0, err
	}
	logs := make([]io.Reader, len(names))
	for i, name := range names {
		log, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		defer log.Close()
		sh.warnExposed(name)
		logs[i] = log
	}
	report, err := trust.Check(logs...)
	if err == nil && !isLog(report) {
		return 0, fmt.Errorf("no line of %s is a record of evidence: is it compressed, or another file?",
			strings.Join(names, ", "))
	}
	if err == nil && hosts != nil {
		report, err = siteReport(names[0], report, hosts)
	}
	if err != nil {
		return 0, err
	}
	err = tell(sh, report, *asJSON, *html, func() error {
		if hosts != nil {
			return drawDossier(names[0], *html, report, hosts)
		}
		return draw(names[0], *html, report)
	})
	return verdict(report), err
}

// isLog reports whether what was read may be a log: it is empty, or has records that every log has
// in its first lines. Any other JSON may have a type, too.
func isLog(r *audit.Report) bool {
	if len(r.Records) == 0 {
		return r.OK()
	}
	return slices.ContainsFunc([]evidence.Type{
		evidence.PolicyStated, evidence.RobotsAllowed, evidence.BlockedByRobots, evidence.RobotsFetched,
		evidence.Started, evidence.Fetched, evidence.Failed, evidence.Waiting, evidence.LogClosed,
	}, func(typ evidence.Type) bool { return r.Records[typ] > 0 })
}

// siteReport judges what a log says of some hosts. Signed and "log whole" are taken from the report
// on the whole log, without what it says of other hosts.
func siteReport(name string, all *audit.Report, hosts []string) (*audit.Report, error) {
	log, err := reopen(name)
	if err != nil {
		return nil, fmt.Errorf("judging a site: %w", err)
	}
	defer log.Close()
	report, err := audit.CheckSite(log, hosts...)
	if err != nil {
		return nil, err
	}
	report.Signed = all.Signed
	for _, kind := range ofLines {
		n := all.Broken[kind]
		if n > 0 {
			report.Broken[kind] = n
		}
	}
	for _, v := range all.Violations {
		same := func(w audit.Violation) bool { return slices.Equal(v.Lines, w.Lines) && v.Detail == w.Detail }
		if v.Host != "" || slices.ContainsFunc(report.Violations, same) {
			continue
		}
		report.Violations = append(report.Violations, v)
		if v.Kind == audit.Contradiction { // of records without a host
			report.Broken[v.Kind]++
		}
	}
	i := slices.IndexFunc(all.Promises, func(p audit.Promise) bool { return p.Name == "log whole" })
	report.Promises[i] = wholeOf(all.Promises[i], report, hosts)
	return report, nil
}

// ofLines are the kinds of violations that lines have, and no host.
var ofLines = []audit.Kind{audit.MissingLine, audit.BrokenChain, audit.BrokenSignature, audit.Unreadable}

// wholeOf returns the promise "log whole" for some hosts, given that of the whole log.
func wholeOf(all audit.Promise, report *audit.Report, hosts []string) audit.Promise {
	whole := all
	whole.Broken = report.Broken[audit.MissingStart] + report.Broken[audit.Contradiction]
	for _, kind := range ofLines {
		whole.Broken += report.Broken[kind]
	}
	// A break that concerns only other hosts leaves the promise proved for these.
	whole.Proved += all.Broken - whole.Broken
	for _, host := range hosts {
		isThere := slices.ContainsFunc(report.Hosts, func(h audit.HostReport) bool {
			return hostname.Within(h.Host, host)
		})
		if !isThere {
			whole.Open++
			whole.Why = append(whole.Why, fmt.Sprintf("no record is about %s: is that its name?", printable.Text(host)))
		}
	}
	return whole
}

// reopen opens a log that was read before. It refuses a pipe, which would be empty by now.
func reopen(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is read twice and is no regular file: write it to one first", name)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

// helped runs a command below audit, whose help is its own.
func helped(sh *shell, usage string, run func(*shell, []string) (int, error), args []string) (int, error) {
	status, err := run(sh, args)
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(sh.out, usage)
	}
	return status, err
}

// tell prints what was found, and draws it if there is a name for that file.
func tell(sh *shell, found fmt.Stringer, asJSON bool, html string, draw func() error) error {
	var err error
	if asJSON {
		err = writeJSON(sh.out, found, "  ")
	} else {
		_, err = io.WriteString(sh.out, found.String())
	}
	if err != nil || html == "" {
		return err
	}
	return draw()
}

// verdict is the exit status for a report.
func verdict(report *audit.Report) int {
	switch {
	case !report.OK():
		return exitNo
	case !report.Complete():
		return exitOpen
	}
	return exitOK
}

// draw draws a log into a file that only its user can read.
func draw(name, to string, report *audit.Report) error {
	log, err := reopen(name)
	if err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	defer log.Close()
	return writeFile(to, []string{name}, func(w io.Writer) error {
		return page.Draw(w, filepath.Base(name), log, report)
	})
}
