package hostlimit

import "github.com/go-politeness/politeness/internal/statedir"

// A Fault is the failure of one file operation.
type Fault struct {
	At     int   // number of the operation, from 1
	Err    error // error that it returns
	After  bool  // the operation is done nevertheless
	Broken bool  // all later operations fail too
}

// FaultyDir returns Dir(path) on a disk with the fault, and the number of operations so far.
func FaultyDir(path string, f Fault) (store Store, operations func() int) {
	disk := &faultyFS{fail: f.At, err: f.Err, after: f.After, broken: f.Broken}
	return &dirStore{debtsIn(statedir.New(path, disk))}, func() int { return len(disk.ops) }
}
