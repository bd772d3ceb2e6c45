/**
 * Runs behind a tap and obeys each line of a connection: `take N` reads N bytes and then answers `done`, `send N` sends
 * N bytes. Argument: the port, on all addresses.
 */
import { createServer } from 'node:net'
import type { Socket } from 'node:net'

const CHUNK = Buffer.alloc(64 * 1024)

async function serve(socket: Socket): Promise<void> {
  let text = ''
  let wanted = 0
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    if (wanted > 0) {
      wanted -= chunk.length
      if (wanted === 0) socket.write('done\n')
      continue
    }
    text += chunk.toString('latin1')
    const line = /^(take|send) (\d+)\n/.exec(text)
    if (line === null) continue
    const bytes = Number(line[2])
    const rest = text.slice(line[0].length)
    text = ''
    if (line[1] === 'send')
      for (let left = bytes; left > 0; left -= CHUNK.length) socket.write(CHUNK.subarray(0, left))
    else wanted = bytes - rest.length
  }
}

createServer((socket) => {
  socket.on('error', () => socket.destroy())
  void serve(socket).catch(() => {})
}).listen(Number(process.argv[2]), '::', () => console.log('ready'))
