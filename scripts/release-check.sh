#!/usr/bin/env bash
# Checks, after the root module is tagged and before the nested ones are, that each published nested
# module requires that version and carries no replace, that no module was forgotten, and that the
# programs build with them. cmd/politeness requires crawl/sqlitequeue, so until that is tagged it
# counts as a program. The script tells what is wrong, and exits with 1. With -modules it lists the
# published nested modules. With -play it plays the release of the last commit, before any tag:
# package lab/release.
set -euo pipefail
cd "$(dirname "$0")/.."

usage='usage: release-check.sh vX.Y.Z | -modules | -play vX.Y.Z'
version=${1:?$usage}
root=github.com/go-politeness/politeness
published='crawl/pgqueue crawl/sqlitequeue cmd/politeness evidence/otelevidence redis'

if [[ $version == -modules ]]; then
  printf '%s\n' $published
  exit
fi
play=
[[ $version != -play ]] || { play=1; version=${2:?$usage}; }
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "$usage" >&2; exit 2; }
[[ -z $play ]] || exec go run -C lab ./release "$version" $published

tagged() { git rev-parse -q --verify "refs/tags/$1" >/dev/null; }
later=cmd/politeness # empty when it can be released
! tagged "crawl/sqlitequeue/$version" || later=

status=0
wrong() { echo "$*"; status=1; }

[[ -z $(git status --porcelain) ]] || wrong 'the tree has changes that are not committed'
tagged "$version" || wrong "the root is not tagged $version"
grep -qF "## [${version#v}]" CHANGELOG.md || wrong "CHANGELOG.md has no section for ${version#v}"

while read -r file; do
  module=${file%/go.mod}
  case $module in
    tools) continue ;;
    examples/* | lab | "${later:-none}")
      (cd "$module" && GOWORK=off go list ./... >/dev/null 2>&1) || wrong "$module doesn't build: run go mod tidy there"
      continue
      ;;
  esac
  [[ " $published " == *" $module "* ]] || wrong "$module is neither published nor a program: add it to this script and to CONTRIBUTING.md"
done < <(git ls-files '*/go.mod' | grep -v /testdata/)

for module in $published; do
  [[ $module != "$later" ]] || continue
  [[ -f $module/go.mod ]] || { wrong "$module is gone: take it off this script and CONTRIBUTING.md"; continue; }
  ! grep -qE '^[[:space:]]*replace([[:space:]]|$)' "$module/go.mod" || wrong "$module has a replace"
  grep -qE "^([[:space:]]*|require )$root v" "$module/go.mod" || wrong "$module doesn't require $root"
  while read -r required at; do
    [[ $at == "$version" ]] || wrong "$module doesn't require $required $version"
  done < <(grep -oE "$root[^ ]* v[^ ]+" "$module/go.mod")
done
exit $status
