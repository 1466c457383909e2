// Package urlstandard compares our reading of URLs with the url data of the Web Platform Tests, and
// with an implementation of the URL standard. Both come with github.com/nlnwa/whatwg-url, which
// only this module requires. In the root it would cost every user two modules and a second parser.
package urlstandard
