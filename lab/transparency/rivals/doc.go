// Package rivals runs the tests of colly, resty and eleven other libraries, at the versions of
// go.mod, through a Transport.
package rivals
