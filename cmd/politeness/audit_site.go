package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-politeness/politeness/cmd/politeness/internal/dossier"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/evidence/audit/bundle"
	"github.com/go-politeness/politeness/hostlimit/sitekey"
)

const extractUsage = `Usage: politeness audit extract -host HOST [flags] LOG

Writes a bundle for the owner of a site: the records of a signed log about HOST
and the names below it, with a proof that they are in the log. The bundle names
no other host. "politeness audit verify" checks it without the log.

  -host HOST         the site; may be given more than once
  -o FILE            write to a file (default: standard output)
  -key KEY           check the log's signatures first
  -checkpoint FILE   have the bundle prove that the log extends an earlier
                     checkpoint; may be given more than once

  politeness audit extract -host example.com -o example.com.bundle crawl.jsonl

Exit status: 0 written, 2 the log isn't signed, was changed after it was signed,
or can't be read.
`

const verifyUsage = `Usage: politeness audit verify [flags] BUNDLE

Checks a bundle of "politeness audit extract" without the log. It proves that
each record is in the log of the checkpoint, and checks the records. If a start
was left out, the report has a violation "sequence".

  -key KEY           the crawler's verifier key, from its web page; without
                     a key, nothing shows who wrote the log
  -checkpoint FILE   a checkpoint that you were given earlier, which the log
                     must extend; may be given more than once
  -json              the result as JSON; if the bundle isn't right, "not_proved"
                     has the reason
  -html FILE         also write the page for the owner of the site, if the
                     bundle is right

  politeness audit verify -key "example.com/crawler+c74f20a3+AR..." example.com.bundle

Exit status: 0 the bundle is right and proves all, 1 it isn't right, or a
promise is broken, 2 it can't be read, 3 it is right and nothing is broken, but
something is open. The report names the open points.
`

const accessUsage = `Usage: politeness audit access [flags] LOG ACCESSLOG...

Finds requests that only one of two logs has: a crawl's evidence (a log or a
bundle), and the site's own access log. It reads the combined format of nginx,
Apache, Varnish and others, and the JSON of Caddy, Traefik and nginx. Lines may
be wrapped by syslog, journald, docker or kubectl, and files compressed by gzip.
The clocks needn't agree, and rotated files may come in any order. If a clock
was set or drifts, compare a day at a time.

  -host HOST    a name of the access log's server, if the lines don't name their
                host; may be given more than once, for each name
  -agent TEXT   a part of the crawler's User-Agent (default: the one in LOG)
  -json         the result as JSON
  -html FILE    also write a page with both logs side by side

  politeness audit access -host example.com -host www.example.com crawl.jsonl access.log access.log.1

Exit status: 0 the evidence has every request of the crawler that the site saw,
1 a request is missing, 2 a log can't be read, 3 nothing was compared, because
no line is a request of this crawler, no request is in the evidence, or most
lines can't be read.
`

// A list is a flag that may be given more than once.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// trustFlags adds the flags with facts from outside of the log, and returns the function that reads
// them.
func trustFlags(flags *flag.FlagSet) func() (audit.Trust, error) {
	key := flags.String("key", "", "")
	var files list
	flags.Var(&files, "checkpoint", "")
	return func() (audit.Trust, error) {
		trust := audit.Trust{Key: *key, Site: sitekey.Of, SiteList: sitekey.List()}
		for _, name := range files {
			signed, err := os.ReadFile(name)
			if err != nil {
				return trust, err
			}
			trust.Checkpoints = append(trust.Checkpoints, signed)
		}
		return trust, nil
	}
}

func runExtract(sh *shell, args []string) (int, error) {
	flags := flag.NewFlagSet("extract", flag.ContinueOnError)
	var hosts list
	flags.Var(&hosts, "host", "")
	to := flags.String("o", "", "")
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
	switch {
	case hosts == nil:
		return 0, misused("-host is missing: name the site of the bundle")
	case len(names) > 1:
		return 0, misused("one LOG is wanted, not %d", len(names))
	}
	trust, err := known()
	if err != nil {
		return 0, err
	}
	log, err := os.Open(names[0])
	if err != nil {
		return 0, err
	}
	defer log.Close()
	sh.warnExposed(names[0])
	var text bytes.Buffer
	out := io.Writer(&text)
	if *to == "" {
		out = sh.out
	}
	e, err := bundle.Extract(out, log, trust, hosts...)
	if err != nil {
		return 0, err
	}
	if *to != "" {
		err := writeFile(*to, names, func(w io.Writer) error {
			_, err := text.WriteTo(w)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	fmt.Fprintf(sh.errs, "%d records of %s, %d others left out\n", e.Records, strings.Join(hosts, ", "), e.Omitted)
	if e.Withheld > 0 {
		fmt.Fprintf(sh.errs, "%d records are withheld because they name other hosts: "+
			"give those by -host too, if they have the same owner\n", e.Withheld)
	}
	if e.After > 0 {
		fmt.Fprintf(sh.errs, "%d records aren't covered by a checkpoint yet\n", e.After)
	}
	return exitOK, nil
}

func runVerify(sh *shell, args []string) (int, error) {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	html := flags.String("html", "", "")
	known := trustFlags(flags)
	names, err := parse(flags, args, "BUNDLE")
	if err != nil {
		return 0, err
	}
	names, remove, err := sh.fromStdin(names)
	if err != nil {
		return 0, err
	}
	defer remove()
	if len(names) > 1 {
		return 0, misused("one BUNDLE is wanted, not %d", len(names))
	}
	trust, err := known()
	if err != nil {
		return 0, err
	}
	file, err := os.Open(names[0])
	if err != nil {
		return 0, err
	}
	defer file.Close()
	b, err := bundle.Verify(file, trust)
	if errors.Is(err, bundle.ErrNotProved) && *html != "" {
		fmt.Fprintf(sh.errs, "%s isn't written\n", *html) // nor is an older one replaced
	}
	switch {
	case errors.Is(err, bundle.ErrNotProved) && *asJSON:
		return exitNo, writeJSON(sh.out, map[string]string{"not_proved": plain(err)}, "  ")
	case errors.Is(err, bundle.ErrNotProved):
		fmt.Fprintf(sh.out, "%s %s\n", sh.paint(red, "not proved:"), plain(err))
		return exitNo, nil
	case err != nil:
		return 0, err
	}
	err = tell(sh, b, *asJSON, *html, func() error { return drawDossier(names[0], *html, b.Report, b.Hosts) })
	return verdict(b.Report), err
}

func runAccess(sh *shell, args []string) (int, error) {
	flags := flag.NewFlagSet("access", flag.ContinueOnError)
	var hosts list
	flags.Var(&hosts, "host", "")
	agent := flags.String("agent", "", "")
	asJSON := flags.Bool("json", false, "")
	html := flags.String("html", "", "")
	names, err := parse(flags, args, "LOG")
	if err != nil {
		return 0, err
	}
	names, remove, err := sh.fromStdin(names)
	if err != nil {
		return 0, err
	}
	defer remove()
	if len(names) < 2 {
		return 0, misused("ACCESSLOG is missing")
	}
	var logs []io.Reader
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		defer file.Close()
		logs = append(logs, file)
	}
	sh.warnExposed(names[0])
	o := accesslog.Options{Agent: *agent}
	if len(hosts) > 0 {
		o.Host = hosts[0]
		o.Aliases = hosts[1:]
	}
	c, err := accesslog.Compare(logs[0], o, logs[1:]...)
	nothing := errors.Is(err, accesslog.ErrNothing)
	if err != nil && !nothing {
		return 0, err
	}
	err = tell(sh, c, *asJSON, *html, func() error {
		return writeFile(*html, names, func(w io.Writer) error {
			return dossier.WriteComparison(w, filepath.Base(names[0])+" and "+filepath.Base(names[1]), c)
		})
	})
	switch {
	case nothing:
		return exitOpen, err
	case !c.OK():
		return exitNo, err
	}
	return exitOK, err
}

// drawDossier draws what a log or a bundle says of some hosts.
func drawDossier(name, to string, report *audit.Report, hosts []string) error {
	log, err := reopen(name)
	if err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	defer log.Close()
	d, err := dossier.New(log, report, hosts...)
	if err != nil {
		return err
	}
	return writeFile(to, []string{name}, d.WriteHTML)
}

// writeFile makes the file called to, or replaces it once all is written, readable by its user
// only. It must be none of those that were read. What isn't a regular file, such as /dev/stdout, is
// written to.
func writeFile(to string, read []string, write func(io.Writer) error) error {
	old, err := os.Stat(to)
	for _, name := range read {
		info, readErr := os.Stat(name)
		if err == nil && readErr == nil && os.SameFile(old, info) {
			return misused("%s was read: write to another file", to)
		}
	}
	if err == nil && !old.Mode().IsRegular() {
		file, err := os.OpenFile(to, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(to), ".politeness-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := errors.Join(write(file), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), to)
}
