// Package rivals runs the tests of colly and resty, at the versions of go.mod, through a Transport.
package rivals
