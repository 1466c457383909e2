// Package bundle hands the records of one site in a signed log to the owner of that site. [Extract]
// writes them with proofs that they are in the log, and without the name of any other host.
// [Verify] checks them with the key of the crawler and nothing else of the log.
//
//	bundle.go   the form of a bundle
//	extract.go  Extract
//	verify.go   Verify
package bundle

import "golang.org/x/mod/sumdb/tlog"

// A bundleLine is a line of a bundle that is no record. A bundle is JSON Lines. The first line
// names the hosts. Each other line is one of these:
//
//   - a record, exactly as it stands in the log;
//   - the number of lines that are left out there, with the hashes of the largest complete subtrees
//     of the log's Merkle tree that consist of them;
//   - the checkpoint of all lines before it, after which the lines of another tree may follow.
//
// So the bundle is the tree with branches cut off. A reader computes the root, and compares it with
// the checkpoint's.
type bundleLine struct {
	Bundle     int         `json:"bundle,omitempty"` // version; in the first line
	Hosts      []string    `json:"hosts,omitempty"`
	Omitted    uint64      `json:"omitted,omitempty"`
	Hashes     []tlog.Hash `json:"hashes,omitempty"`
	Checkpoint string      `json:"checkpoint,omitempty"`
}

// bundleVersion is the version of the bundles that Extract writes.
const bundleVersion = 1
