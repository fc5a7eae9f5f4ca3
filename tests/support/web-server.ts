/** Serves what was built of web/, as any static host would. */

import { readFile } from "node:fs/promises"
import { createServer, type RequestListener, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { extname, join, normalize } from "node:path"

const FOLDER = join(import.meta.dirname, "../../dist/web")
const TYPES: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" }

export const serveFile: RequestListener = async (request, response) => {
  const path = new URL(request.url ?? "/", "http://localhost").pathname
  const name = normalize(path === "/" ? "/index.html" : path)
  try {
    const bytes = await readFile(join(FOLDER, name))
    response.writeHead(200, { "content-type": TYPES[extname(name)] ?? "application/octet-stream" }).end(bytes)
  } catch {
    response.writeHead(404).end()
  }
}

/** Starts a server on this machine, on a free port unless told which. */
export async function startServer(listener: RequestListener = serveFile, port = 0): Promise<Server> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  return server
}

export const addressOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
