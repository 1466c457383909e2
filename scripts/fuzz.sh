#!/usr/bin/env bash
# Runs every fuzz target of the module in the current directory, one after the
# other, each for the duration given (go test -fuzz takes one target at a time).
# What is interesting is made smaller by a few tries only: left to itself, go test spends a minute
# on each such input of a slow target, and runs hardly anything else.
# A crasher that it finds is left in testdata/fuzz, to be committed with its fix.
set -euo pipefail

fuzztime=${1:?usage: fuzz.sh DURATION}

# go test -list prints a package's targets, and after them "ok PACKAGE TIME".
listing=$(go test -list '^Fuzz' ./...)
targets=()
while read -r first second _; do
  case $first in
    Fuzz*) targets+=("$first") ;;
    ok)
      for target in ${targets[@]+"${targets[@]}"}; do
        echo "== $second $target"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 20x "$second"
      done
      targets=()
      ;;
  esac
done <<<"$listing"
