#!/usr/bin/env bash
# AISIX (Rust), built from its public source at a pinned commit; needs cargo and protoc. Its semantic guardrail links ONNX Runtime, which comes
# from PyPI here; the guardrail itself stays off. AISIX_SOURCE names another place to clone it from. The release profile of the source is used
# (fat LTO): on two processors that takes the better part of an hour, once. bench/gateway_peers.go says what is expected of this script.
set -euo pipefail
commit=100fef65054baa7857310940bcd786174a2fda26
runtime="$CACHE/onnxruntime-1.32.0"
case "$1" in
prepare)
  [ -x "$CACHE/aisix-${commit:0:8}" ] && exit 0
  command -v protoc > /dev/null || { echo 'protoc was not found. On Debian: apt-get install protobuf-compiler' >&2; exit 1; }
  rm -rf "$CACHE/source" "$runtime"
  python3 -m pip install -q --no-deps --target "$runtime" onnxruntime==1.32.0
  for name in libonnxruntime.so libonnxruntime.so.1; do
    ln -sf libonnxruntime.so.1.32.0 "$runtime/onnxruntime/capi/$name"
  done
  git clone -q "${AISIX_SOURCE:-https://github.com/api7/aisix}" "$CACHE/source"
  cd "$CACHE/source"
  git checkout -q "$commit"
  export ORT_LIB_PATH="$runtime/onnxruntime/capi" ORT_PREFER_DYNAMIC_LINK=1
  cargo build -q --locked --release -p aisix-server
  cp target/release/aisix "$CACHE/aisix-${commit:0:8}"
  ;;
run)
  work=$(mktemp -d)
  cat > "$work/config.yaml" <<EOF
resources_file: "$work/resources.yaml"
proxy: {addr: "127.0.0.1:$PORT"}
admin: {enabled: false}
observability:
  log_level: error
  access_log: false
  metrics: {prometheus: {enabled: false}}
EOF
  cat > "$work/resources.yaml" <<EOF
_format_version: "1"
provider_keys:
  - {display_name: bench, provider: openai, adapter: openai, api_base: "$UPSTREAM", api_key: none}
models:
  - {display_name: scripted, provider: openai, model_name: scripted, provider_key: bench}
api_keys:
  - {display_name: bench, key_env: PEER_KEY, allowed_models: ["*"]}
EOF
  export PEER_KEY="$KEY" LD_LIBRARY_PATH="$runtime/onnxruntime/capi"
  while read -r name; do unset "$name"; done < <(compgen -v AISIX_) # it reads them as configuration
  exec "$CACHE/aisix-${commit:0:8}" --config "$work/config.yaml"
  ;;
esac
