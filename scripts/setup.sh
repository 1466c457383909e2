#!/usr/bin/env bash
# Installs what the full test run needs beyond Go, where it is missing:
#   a C and C++ compiler   the race detector; cgo in some of the examples
#   redis-server           the limiter and the budget that processes share
#   postgresql, pgbouncer  the URLs that they share
#   chromium               the audit's report, looked at in a real browser
#   scrapy, curl, wget, javac, python3-requests, python3-httpx, node, npm
#                          crawl through the proxy
#   nginx, haproxy, apache2 with mod_evasive and mod_qos, varnish (on Debian and Ubuntu)
#                          are crawled, each with a protection switched on
#   node, npm              run the rate limiters of npm, which are crawled too
#   cgit (on Debian and Ubuntu)
#                          is crawled: its URLs have no end
# It installs by itself as root on a machine with apt-get, and otherwise names
# the one command to run. With everything there it prints nothing.
set -euo pipefail

PATH=$PATH:/usr/sbin # where Debian keeps servers

has() { # has PROGRAM...: whether one of them can be run
  local program
  for program in "$@"; do
    if command -v "$program" >/dev/null 2>&1; then return 0; fi
  done
  return 1
}

missing=()
services=() # that are installed now, and that nobody asked to run
has g++ clang++ c++ || missing+=(g++) # which brings gcc along
has redis-server || { missing+=(redis-server); services+=(redis-server); }
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || has initdb || { missing+=(postgresql); services+=(postgresql); }
has pgbouncer || { missing+=(pgbouncer); services+=(pgbouncer); }
has chromium chromium-browser google-chrome google-chrome-stable \
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" || missing+=(chromium)
has scrapy || missing+=(python3-scrapy)
has curl || missing+=(curl)
has wget || missing+=(wget)
has javac || missing+=(default-jdk-headless) # which runs a source as it is
has node || missing+=(nodejs)
has npm || missing+=(npm)
if has apt-get; then # the tests are written for Debian's builds
  for module in requests httpx; do
    /usr/bin/python3 -c "import $module" 2>/dev/null || missing+=("python3-$module")
  done
  for server in nginx haproxy apache2; do has "$server" || { missing+=("$server"); services+=("$server"); }; done
  [[ -e /usr/lib/cgit/cgit.cgi ]] || missing+=(cgit)
  has varnishd || { missing+=(varnish); services+=(varnish varnishncsa); }
  modules=()
  [[ -e /usr/lib/apache2/modules/mod_evasive20.so ]] || modules+=(evasive)
  [[ -e /usr/lib/apache2/modules/mod_qos.so ]] || modules+=(qos)
  missing+=("${modules[@]/#/libapache2-mod-}")
  compgen -G '/usr/lib/*/varnish/vmods/libvmod_vsthrottle.so' >/dev/null || missing+=(varnish-modules)
fi
if ((${#missing[@]} == 0)); then exit 0; fi

if has apt-get && grep -q '^ID=ubuntu' /etc/os-release; then # where Debian's chromium has another name
  missing=("${missing[@]/%chromium/chromium-browser}")
fi
if has apt-get && ((EUID == 0)); then
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  policy=/usr/sbin/policy-rc.d # asked before a package starts its service
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  if [[ -d /run/systemd/system ]] && ((${#services[@]})); then
    systemctl disable --quiet "${services[@]}" # not after the next boot, either
  fi
  if ((${#modules[@]})); then # the packages load them into the system's own Apache
    a2dismod -q -f "${modules[@]}" >/dev/null
  fi
  exit 0
fi

{
  echo "setup: the full test run needs ${missing[*]}. Please install it with"
  echo
  if has apt-get; then
    echo "    sudo apt-get install -y ${missing[*]}"
  elif has brew; then
    missing=("${missing[@]/redis-server/redis}")
    missing=("${missing[@]/python3-scrapy/scrapy}")
    missing=("${missing[@]/g++/gcc}")
    missing=("${missing[@]/#nodejs/node}")
    missing=("${missing[@]/default-jdk-headless/openjdk}")
    echo "    brew install ${missing[*]}"
  else
    echo "    the package manager of this system."
  fi
  echo
  echo "and run make again."
} >&2
exit 1
