#!/usr/bin/env bash
# LiteLLM's proxy (Python), from PyPI at a pinned version. bench/gateway_peers.go says what is expected of this script.
set -euo pipefail
version=1.109.1
case "$1" in
prepare)
  [ -x "$CACHE/venv-$version/bin/litellm" ] && exit 0
  python3 -m venv --clear "$CACHE/venv-$version"
  "$CACHE/venv-$version/bin/pip" install -q "litellm[proxy]==$version"
  ;;
run)
  config=$(mktemp)
  cat > "$config" <<EOF
model_list:
  - {model_name: scripted, litellm_params: {model: openai/scripted, api_base: "$UPSTREAM", api_key: none}}
general_settings: {master_key: "$KEY"}
litellm_settings: {telemetry: false}
EOF
  exec "$CACHE/venv-$version/bin/litellm" --config "$config" --host 127.0.0.1 --port "$PORT" --num_workers 1
  ;;
esac
