#!/usr/bin/env bash
# GoModel (Go), built from its public source at a pinned commit. GOMODEL_SOURCE names another place to clone it from.
# bench/gateway_peers.go says what is expected of this script.
set -euo pipefail
commit=a26fbd1c
case "$1" in
prepare)
  [ -x "$CACHE/gomodel-$commit" ] && exit 0
  rm -rf "$CACHE/source"
  git clone -q "${GOMODEL_SOURCE:-https://github.com/ENTERPILOT/GoModel}" "$CACHE/source"
  cd "$CACHE/source"
  git checkout -q "$commit"
  go build -o "$CACHE/gomodel-$commit" ./cmd/gomodel
  ;;
run)
  work=$(mktemp -d)
  cd "$work" # it keeps its database and cache where it starts
  export GOMODEL_MASTER_KEY="$KEY" OPENAI_API_KEY=none OPENAI_BASE_URL="$UPSTREAM" OPENAI_MODELS=scripted MODEL_LIST_URL= LOG_LEVEL=error LOGGING_ENABLED=false
  exec "$CACHE/gomodel-$commit"
  ;;
esac
