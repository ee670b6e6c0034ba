#!/usr/bin/env bash
# Starts three simulated engines, one native worker and a gateway that puts them behind one name, asks it for a few answers, and goes on until Ctrl-C.
# Needs bin/sluice and its models (make build pull). DATA names the data directory; without it, one that is removed in the end.
set -euo pipefail
[ -z "${DATA:-}" ] || { mkdir -p "$DATA"; DATA=$(realpath "$DATA"); }
cd "$(dirname "$0")"
sluice=$(cd ../..; pwd)/bin/sluice
listen=${LISTEN:-127.0.0.1:8080}
if [ -z "${DATA:-}" ]; then
  DATA=$(mktemp -d)
  remove=$DATA
fi
pids=()
end() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait || true
  [ -z "${remove:-}" ] || rm -rf "$remove"
}
trap end EXIT
trap 'exit 130' INT TERM

text=$(< sluice.yaml)
printf '%s\n' "${text//@DATA@/"$DATA"}" > "$DATA/sluice.yaml"
"$sluice" simulate --file fleet.yaml > "$DATA/simulators.log" 2>&1 & pids+=($!)
"$sluice" engine serve --config worker.yaml --data "$DATA" > "$DATA/worker.log" 2>&1 & pids+=($!)
ready=$DATA/ready.json
rm -f "$ready"
"$sluice" up --config "$DATA/sluice.yaml" --data "$DATA" --listen "$listen" --no-temporal --ready-file "$ready" > "$DATA/gateway.log" 2>&1 & gateway=$!
pids+=("$gateway")
until [ -s "$ready" ]; do
  kill -0 "$gateway" 2>/dev/null || { cat "$DATA/gateway.log" >&2; exit 1; }
  sleep 0.2
done
python3 - "$ready" "http://$listen" <<'PY'
import json, secrets, sys, urllib.error, urllib.request

started, base = json.load(open(sys.argv[1])), sys.argv[2]


def ask(method, path, token="", body=None):
    head = {"Content-Type": "application/json"}
    if token:
        head["Authorization"] = "Bearer " + token
    request = urllib.request.Request(base + path, json.dumps(body).encode() if body is not None else None, head, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


if not started["admin_password"]:
    sys.exit("this data directory was set up before; leave DATA unset, or sign in with the password of then")
session = ask("POST", "/api/v1/session", body={"user": started["admin_user"], "password": started["admin_password"]})["access_token"]
password = secrets.token_urlsafe(15)  # the first start demands a new one
session = ask("POST", "/api/v1/me/password", session, {"current_password": started["admin_password"], "new_password": password})["access_token"]
try:
    ask("POST", "/api/v1/model-versions", session, {"model": "pool", "version": "v1", "engine": "demo", "engine_model": "smollm2-135m-instruct"})
    for n in range(8):
        ask("POST", "/v1/chat/completions", started["api_key"], {"model": "pool@v1", "max_tokens": 8, "messages": [{"role": "user", "content": f"Say {n}."}]})
except urllib.error.HTTPError as error:
    sys.exit(f"{error.url}: {error.code} {error.read().decode()}")
for i in ask("GET", "/api/v1/instances", session)["items"]:
    if i["pool"] == "demo":
        print(f'{i["name"]:8} {i["kind"]:8} {i.get("profile", ""):8} {i["state"]:9} weight {i["weight"]}')
print(f"""
The pool answers as the model "pool@v1". Console: {base}, user {started["admin_user"]}, password {password}
API key: {started["api_key"]}
Drain an instance on the page System, stop a simulator, and see who answers. Ctrl-C ends everything.""")
PY
[ -n "${ONCE:-}" ] || wait "$gateway"
