// An HTTP server on the socket that superd passes: see node.toml.
const http = require("node:http");

let stopping = false;
const server = http.createServer((request, response) => {
  // Otherwise a client that never pauses would keep its connection, and node would not end
  if (stopping) response.setHeader("Connection", "close");
  response.end("hello\n");
});
server.listen({ fd: Number(process.env.SOCKET_FD_node) }, () => console.log("listening"));

// Accepts no more and closes idle connections. node ends with the last of the others.
process.on("SIGTERM", () => {
  stopping = true;
  server.close();
});
