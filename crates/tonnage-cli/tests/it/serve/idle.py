"""Opens connections and keeps them: idle.py HOST PORT COUNT. Half of them have asked once. Ends when its input does."""

import resource
import socket
import sys

host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
assert most > count + 100, f"only {most} files may be open: raise ulimit -n"
held = []
for number in range(count):
    connection = socket.create_connection((host, port))
    if number % 2 == 0:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(1_000)
    held.append(connection)
print("open", flush=True)
sys.stdin.read()
