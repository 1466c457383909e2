#!/usr/bin/env bash
# Runs every fuzz target of the module in the current directory, one after the
# other, each for the duration given (go test -fuzz takes one target at a time).
# A crasher that it finds is left in testdata/fuzz, to be committed with its fix.
set -euo pipefail

fuzztime=${1:?usage: fuzz.sh DURATION}

# go test -list prints a package's targets, and after them "ok PACKAGE TIME".
listing=$(go test -list '^Fuzz' ./...)
awk '
  /^Fuzz/   { target[n++] = $1 }
  $1 == "ok" { for (i = 0; i < n; i++) print $2, target[i]; n = 0 }
' <<<"$listing" |
  while read -r package target; do
    echo "== $package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package"
  done
