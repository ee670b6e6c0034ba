#!/usr/bin/env bash
# Portkey's gateway (Node), from npm at a pinned version, with an older @hono/node-server: newer ones break its streams. It checks no key and
# passes on what it gets; where to is said by each request. bench/gateway_peers.go says what is expected of this script.
set -euo pipefail
version=1.15.2
home="$CACHE/node-$version"
case "$1" in
prepare)
  [ -e "$home/ready" ] && exit 0
  rm -rf "$home"
  mkdir -p "$home"
  cd "$home"
  cat > package.json <<EOF
{"private": true, "dependencies": {"@portkey-ai/gateway": "$version", "@hono/node-server": "1.13.8"}, "overrides": {"@hono/node-server": "1.13.8"}}
EOF
  npm install --ignore-scripts --no-audit --no-fund --loglevel=error
  touch ready
  ;;
headers)
  echo "x-portkey-provider: openai"
  echo "x-portkey-custom-host: $UPSTREAM"
  ;;
run)
  export NODE_ENV=production
  exec node "$home/node_modules/@portkey-ai/gateway/build/start-server.js" "--port=$PORT" --headless
  ;;
esac
