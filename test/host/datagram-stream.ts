/**
 * Sends numbered datagrams, about one per millisecond. Arguments: the address, the port, and the number of datagrams.
 */
import { createSocket } from 'node:dgram'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'

const [address = '', port = '', count = ''] = process.argv.slice(2)
const socket = createSocket('udp4')
for (let at = 0; at < Number(count); at++) {
  await promisify((done: (error: Error | null) => void) =>
    socket.send(String(at), Number(port), address, done),
  )()
  await delay(1)
}
socket.close()
