// Package programs adds the one line of README.md to real programs and libraries, at pinned
// versions. It crawls a site on loopback with each of them, and judges them by the site's own log.
// No page is lost, no gap is too short, no disallowed URL is requested, and no request comes inside
// a Retry-After. RESULTS.md has the results.
//
// The source of the programs comes through the module proxy when the test runs. This folder keeps
// only the lines that are replaced.
//
//	POLITENESS_PROGRAMS=1 go test -v ./programs      # make programs
//	POLITENESS_PROGRAMS=/other/checkout go test ...  # the same programs with that politeness
package programs
