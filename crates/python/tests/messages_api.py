"""A local Messages API that plays a script: one list of content blocks for each response."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0}


def use(tool_use_id, **tool_input):
    return {"type": "tool_use", "id": tool_use_id, "name": "memory", "input": tool_input}


def text(words):
    return {"type": "text", "text": words}


class MessagesApi:
    def __init__(self, url, requests):
        self.url = url
        self.requests = requests
        """The bodies of the received requests."""

    def results(self, request=-1):
        """The `tool_result` blocks of the last message of a request, by their ids."""
        content = self.requests[request]["messages"][-1]["content"]
        return {block["tool_use_id"]: block for block in content}


@contextmanager
def messages_api(*script):
    requests, responses = [], list(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            content = responses.pop(0)
            is_call = any(block["type"] == "tool_use" for block in content)
            message = {
                "id": f"msg_{len(requests)}",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-5-5",
                "content": content,
                "stop_reason": "tool_use" if is_call else "end_turn",
                "stop_sequence": None,
                "usage": USAGE,
            }
            body = json.dumps(message).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield MessagesApi(f"http://127.0.0.1:{server.server_port}", requests)
    finally:
        server.shutdown()
        server.server_close()
