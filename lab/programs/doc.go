// Package programs puts the one line of README.md into real programs and libraries, at pinned
// versions, crawls a site on loopback with each of them, and judges what came of it by the site's
// own log: nothing is lost, no gap is short, nothing disallowed is asked for, and nothing inside of
// a Retry-After. RESULTS.md has what the runs gave.
//
// The source of the programs comes through the module proxy when the test runs. Nothing of it is
// kept here but the lines that are replaced.
//
//	POLITENESS_PROGRAMS=1 go test -v ./programs      # make programs
//	POLITENESS_PROGRAMS=/other/checkout go test ...  # the same programs with that politeness
package programs
