// Package interop compares our code with other people's code for the same task, so that no other
// module depends on theirs. It tests signatures of package botauth against two verifiers of RFC
// 9421. It tests our parser of structured fields, our lifetimes of responses and our pages of feeds
// against one library each.
package interop
