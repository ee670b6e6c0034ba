#!/usr/bin/env bash
# Any gateway that is installed already: PEER_COMMAND starts it, in a shell that knows PORT, KEY and UPSTREAM; PEER_HEADERS, if set, are
# headers that each request needs, a line each, which may name these, too. bench/gateway_peers.go says what is expected of this script.
set -euo pipefail
case "$1" in
prepare)
  [ -n "${PEER_COMMAND:-}" ] || { echo 'PEER_COMMAND names no program' >&2; exit 1; }
  ;;
headers)
  [ -z "${PEER_HEADERS:-}" ] || eval "printf '%s\n' \"$PEER_HEADERS\""
  ;;
run)
  eval "exec $PEER_COMMAND"
  ;;
esac
