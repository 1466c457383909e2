// Package interop holds what we write by ourselves against what others have written, so that those
// are in nobody's module graph: signatures of package botauth against two verifiers of RFC 9421,
// our parser of structured fields against a library, how long an answer lasts against another, and
// the pages of feeds against a third.
package interop
