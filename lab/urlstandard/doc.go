// Package urlstandard holds the reading of URLs against the Web Platform Tests' url data, and
// against an implementation of the URL standard. Both come with github.com/nlnwa/whatwg-url, which
// is in no other module: in the root it would cost every user two modules and a second parser.
package urlstandard
