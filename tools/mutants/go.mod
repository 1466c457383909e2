// The mutation testing of this repository: a program of the standard library alone.
module github.com/go-politeness/politeness/tools/mutants

go 1.26.0
