"""Qdrant's local mode behind the part of its REST interface that the package uses. Requests are read by the vendor's own models of the interface,
which refuse fields that they do not know. It prints its address and ends with its standard input."""
import json, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pydantic import TypeAdapter
from qdrant_client import QdrantClient
from qdrant_client.http import models

client, lock = QdrantClient(":memory:"), threading.Lock()
read = {m: TypeAdapter(m).validate_json for m in (models.CreateCollection, models.CreateFieldIndex, models.UpdateOperations, models.QueryRequestBatch)}


def answer(method, path, body):
    at = path.strip("/").split("/")
    if (method, at) == ("GET", ["collections"]):
        return models.CollectionsResponse(collections=[{"name": c.name} for c in client.get_collections().collections])
    name, rest = at[1], at[2:]
    if (method, rest) == ("PUT", []):
        c = read[models.CreateCollection](body)
        assert c.hnsw_config.m == 0 and c.shard_number == 1, c
        return client.create_collection(name, vectors_config=c.vectors, shard_number=c.shard_number, hnsw_config=c.hnsw_config)
    if (method, rest) == ("DELETE", []):
        return client.delete_collection(name)
    client.get_collection(name)
    if (method, rest) == ("PUT", ["index"]):
        i = read[models.CreateFieldIndex](body)
        return client.create_payload_index(name, i.field_name, field_schema=i.field_schema)
    if (method, rest) == ("POST", ["points", "batch"]):
        return client.batch_update_points(name, read[models.UpdateOperations](body).operations, wait=True)
    if (method, rest) == ("POST", ["points", "query", "batch"]):
        return client.query_batch_points(name, read[models.QueryRequestBatch](body).searches)
    raise NotImplementedError(method + " " + path)


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        status = 200
        try:
            if self.headers.get("api-key") != "hunter2":
                raise PermissionError
            if path.endswith("/points/batch"):
                assert "wait=true" in query and "ordering=strong" in query, query
            with lock:
                result = answer(self.command, path, body)
            plain = lambda r: r.model_dump(mode="json") if hasattr(r, "model_dump") else r
            out = {"result": [plain(r) for r in result] if isinstance(result, list) else plain(result), "status": "ok", "time": 0}
        except Exception as e:
            status = 404 if "not found" in str(e) else 403 if isinstance(e, PermissionError) else 400
            print(self.command, self.path, repr(e)[:500], file=sys.stderr, flush=True)
            out = {"status": {"error": str(e)}, "time": 0}
        raw = json.dumps(out).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_PUT = do_POST = do_DELETE = handle_one

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("http://127.0.0.1:%d" % server.server_port, flush=True)
sys.stdin.read()
