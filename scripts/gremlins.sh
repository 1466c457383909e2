#!/usr/bin/env bash
# Asks gremlins, which shares nothing with tools/mutants, about the tests of the packages given
# (backoff): whether they notice changes of the code. The result of a test is never a cached one: a
# mutant's time limit is a multiple of what the tests took.
set -euo pipefail
cd "$(dirname "$0")/.."

unset POLITENESS_LONG POLITENESS_BROWSER POLITENESS_SCRAPY
export GOWORK=off GOFLAGS=-count=1
for package in "${@:-backoff}"; do
  go tool -modfile="$PWD/tools/go.mod" gremlins unleash \
    --timeout-coefficient=30 --threshold-efficacy=95 --threshold-mcover=90 "./$package"
done
