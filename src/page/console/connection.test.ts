import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { stallSockets } from '../../../test/stalled-socket.ts'
import { until } from '../../../test/contract/until.ts'
import { Connection, requestOf } from './connection.ts'
import type { Status } from './status.ts'

const at = (address: string) => requestOf(new URL(address, 'https://192.0.2.1:9000'))

test('a page without a query shows the serial console, and waits for starts', () => {
  assert.deepEqual(at('/ui/console/web-1'), { vm: 'web-1', mode: 'tty', follow: true })
})

test('SSH takes its own parameters from the address, and no others', () => {
  assert.deepEqual(
    at('/ui/console/web-1?mode=ssh&user=&accept_host_key=SHA256:a%2Bb+c&since=4&follow=true'),
    { vm: 'web-1', mode: 'ssh', user: undefined, acceptHostKey: 'SHA256:a+b+c' },
  )
})

test('the user of the SSH form means nothing to the serial console', () => {
  assert.deepEqual(at('/ui/console/web-1?mode=tty&user=root'), { vm: 'web-1', mode: 'tty', follow: true })
})

test('answers of the terminal for a guest that takes none need a bounded amount of memory', async (t) => {
  const sockets = stallSockets(t)
  let status: Status['kind'] | undefined
  const display = {
    waiting: 0,
    drawn: async () => {},
    begin: () => {},
    output: () => {},
    status: ({ kind }: Status) => void (status = kind),
  }
  const connection = new Connection({ vm: 'web-1', mode: 'tty', follow: true }, display)
  const shown = connection.show()
  const [socket] = await until(
    () => sockets,
    ({ length }) => length === 1,
  )
  assert.ok(socket !== undefined)
  socket.begin()
  await until(
    () => status,
    (kind) => kind === 'attached',
  )
  const answer = new Uint8Array(limits.consoleMessageBytesMax)
  for (let count = 0; count < 100; count += 1) connection.type(answer)
  const LAST = 7
  await until(
    () => {
      socket.bufferedAmount = 0
      connection.type(Uint8Array.of(LAST))
      return socket.lastByte
    },
    (byte) => byte === LAST,
  )
  const most = limits.clientConsoleInputBytesMax + limits.consolePageUnsentBytesMax + 2 * answer.length
  assert.ok(socket.sentBytes <= most, `${socket.sentBytes} bytes were kept`)
  socket.dispatchEvent(Object.assign(new Event('close'), { code: 1000, reason: 'vm_deleted' }))
  await shown
})
