// Package tokens puts golang.org/x/oauth2 around a Transport and below it: a token reaches the
// pages, and never robots.txt.
package tokens
