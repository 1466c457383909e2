// Command politeness makes the library's features available in a shell. It checks URLs against
// robots.txt, crawls, makes other programs polite, and proves that a crawl kept its promises.
//
//	go install github.com/go-politeness/politeness/cmd/politeness@latest
//
//	politeness check https://example.com/page     # may I fetch it, by which rule, from when?
//	politeness lint robots.txt                    # what is wrong with a robots.txt?
//	politeness crawl -agent "..." https://example.com/
//	politeness audit crawl.jsonl                  # prove that a crawl kept its promises
//	politeness proxy -agent "..." -ca DIR         # make curl, wget, Scrapy and browsers polite
//	politeness version
//
// "politeness COMMAND -h" explains each command. docs/command.md is the guide.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf16"

	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
)

// The exit statuses.
const (
	exitOK    = 0
	exitNo    = 1 // the answer is no: not allowed, findings, broken promises, nothing fetched
	exitError = 2 // wrong usage, or it couldn't be found out
	exitHeld  = 4 // crawl: another run uses -state
	exitOpen  = 3 // audit: nothing is broken, but not everything is proved; audit access: nothing was compared
)

// A shell is what a command talks to.
type shell struct {
	in        io.Reader
	out, errs io.Writer
	colour    bool   // whether out is a terminal
	unhook    func() // lets the next signal end the program at once
	clearLine string // clears the progress line of a terminal; "" if errs isn't one
}

// A command is one of politeness. It returns the exit status; an error is shown and means
// exitError.
type command struct {
	about string
	usage string
	run   func(ctx context.Context, sh *shell, args []string) (status int, err error)
}

var commands = map[string]command{
	"audit": {"prove from its log that a crawl kept its promises", auditUsage, runAudit},
	"check": {"print if URLs may be fetched, by which rule, from when", checkUsage, runCheck},
	"crawl": {"crawl sites politely, a line of JSON for each page", crawlUsage, runCrawl},
	"lint":  {"list the mistakes of a robots.txt", lintUsage, runLint},
	"proxy": {"make curl, wget, Scrapy and browsers polite", proxyUsage, runProxy},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	sh := &shell{
		in:     os.Stdin,
		out:    os.Stdout,
		errs:   os.Stderr,
		unhook: stop,
		colour: isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "",
	}
	if isTerminal(os.Stderr) {
		sh.clearLine = "\r\x1b[K"
	}
	os.Exit(run(ctx, sh, os.Args[1:]))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// run runs the command that args name and returns the exit status. An answer that couldn't be
// written is an error.
func run(ctx context.Context, sh *shell, args []string) int {
	out := &output{Writer: sh.out}
	sh.out = out
	status := runCommand(ctx, sh, args)
	if out.err == nil || status == exitError || errors.Is(out.err, syscall.EPIPE) { // the last such as by "| head"
		return status
	}
	fmt.Fprintf(sh.errs, "politeness: %s\n", plain(out.err))
	return exitError
}

// An output keeps the first error of its writes.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func runCommand(ctx context.Context, sh *shell, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(sh.errs, usage())
		return exitError
	}
	name := args[0]
	args = args[1:]
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, name) {
		if len(args) == 0 {
			fmt.Fprint(sh.out, usage())
			return exitOK
		}
		// "help crawl" is "crawl -h".
		name = args[0]
		args = []string{"-h"}
	}
	if slices.Contains([]string{"version", "-version", "--version"}, name) {
		fmt.Fprintln(sh.out, version())
		return exitOK
	}
	c, ok := commands[name]
	if !ok {
		meant := nearest(name, maps.Keys(commands))
		if meant != "" {
			meant = ": did you mean " + meant + "?"
		}
		fmt.Fprintf(sh.errs, "politeness: there is no command %q%s\n\n%s", name, meant, usage())
		return exitError
	}
	status, err := c.run(ctx, sh, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(sh.out, c.usage)
		return exitOK
	case err != nil:
		if name == "audit" && len(args) > 0 && auditCommands[args[0]].run != nil {
			name += " " + args[0] // it has its own -h
		}
		fmt.Fprintf(sh.errs, "politeness %s: %s\n", name, plain(inFlags(err)))
		if errors.As(err, new(usageError)) {
			fmt.Fprintf(sh.errs, "see: politeness %s -h\n", name)
		}
		return exitError
	}
	return status
}

func usage() string {
	var b strings.Builder
	b.WriteString("Politeness fetches from the web without harm to sites, and proves it.\n\n" +
		"Usage: politeness COMMAND [flags] [arguments]\n\n")
	for _, name := range []string{"check", "lint", "crawl", "audit", "proxy"} {
		fmt.Fprintf(&b, "  %-8s%s\n", name, commands[name].about)
	}
	b.WriteString("  version print the version\n")
	b.WriteString("\npoliteness COMMAND -h explains a command.\n")
	return b.String()
}

// A usageError is a mistake in the arguments.
type usageError struct{ error }

func misused(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// parse reads the flags of a command and returns its arguments, of which there must be some.
func parse(flags *flag.FlagSet, args []string, wanted string) ([]string, error) {
	flags.SetOutput(io.Discard) // run says what is wrong
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, err
	} else if err != nil {
		return nil, usageError{withNearest(flags, err)}
	}
	list := flags.Lookup("urls") // a file that may have them instead
	hasList := list != nil && list.Value.String() != ""
	switch {
	case wanted != "" && flags.NArg() == 0 && !hasList:
		return nil, misused("%s is missing", wanted)
	case wanted == "" && flags.NArg() > 0:
		return nil, misused("%q is too much: this command has only flags", flags.Arg(0))
	}
	for _, arg := range flags.Args() {
		if strings.HasPrefix(arg, "-") && arg != "-" {
			return nil, misused("%s comes too late: flags go before %s", arg, wanted)
		}
	}
	return flags.Args(), nil
}

// stopping says when ctx ends that the command stops, what it still does, and how to stop at once.
// Call the function that it returns when the command has ended.
func (sh *shell) stopping(ctx context.Context, command, what string) (ended func() bool) {
	return context.AfterFunc(ctx, func() {
		sh.unhook()
		fmt.Fprintf(sh.errs, "%spoliteness %s: stopping: %s; Ctrl-C again stops immediately\n",
			sh.clearLine, command, what)
	})
}

// reading ends the program with ctx while something is read that may never end, such as standard
// input. Call the function that it returns when it has been read.
func (sh *shell) reading(ctx context.Context) (ended func() bool) {
	return context.AfterFunc(ctx, func() { os.Exit(exitError) })
}

// plain returns the text of an error, in which a server may have had a hand, fit for a terminal.
func plain(err error) string {
	lines := strings.Split(err.Error(), "\n") // of joined errors
	for i := range lines {
		lines[i] = printable.Clipped(lines[i], 1000)
	}
	return strings.Join(lines, "\n  ")
}

// writeJSON writes v and a line end, with everything escaped that a server may have put into it to
// act on a terminal.
func writeJSON(w io.Writer, v any, indent string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range text.String() { // whose strings have no control characters of ASCII any more
		if r < 0x7f || strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// The colours of answers.
const (
	green  = "32"
	red    = "31"
	yellow = "33"
	bold   = "1"
)

// paint returns text in a colour, if the output is a terminal.
func (sh *shell) paint(colour, text string) string {
	if !sh.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
