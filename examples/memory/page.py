"""page.py DOOR SEGMENT PORT: a page in the browser, http://localhost:PORT, that shows the first word of a segment and
is there anew every second. It prints the port; 0 takes a free one."""

import http.server
import sys

from ringlet import memory


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            text = "%d" % int.from_bytes(word.read(0, 8), "little")
        except memory.DoorError as error:
            text = str(error)
        body = b"<meta http-equiv=refresh content=1><h1>%s</h1>" % text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


with memory.Door(sys.argv[1], timeout=10) as door:
    word = door.open(sys.argv[2])
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[3])), Page)
    print(server.server_port, flush=True)
    server.serve_forever()
