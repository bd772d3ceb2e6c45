import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { limits } from '../../config/limits.ts'
import { qmpSocketPath } from '../../core/monitor/qemu-command.ts'
import { inLogContext, logContext } from '../../log/log.ts'
import { QmpClients } from './qmp-clients.ts'
import { QmpClient } from './qmp.ts'
import type { Socket } from 'node:net'
import type { VmId } from '../../core/ids.ts'

const id = 'web-1' as VmId

test('a monitor that closes its connection is read no faster over the next one', async (t) => {
  // No time passes, so what comes is one burst.
  t.mock.method(performance, 'now', () => 0)
  const runDirectory = mkdtempSync(join(tmpdir(), 'qmp-'))
  const path = qmpSocketPath(runDirectory, id)
  mkdirSync(dirname(path), { recursive: true })
  const line = `{"event": "STOP", "data": "${'x'.repeat(limits.qmpLineBytesMax / 2)}"}\n`
  const burst = Math.floor(limits.qmpBytesBurst / line.length)
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.write('{"QMP": {"version": {}, "capabilities": []}}\r\n')
    socket.once('data', () => {
      socket.write('{"return": {}, "id": 1}\r\n')
      socket.write(line.repeat(2 * burst))
    })
  }).listen(path)
  await once(server, 'listening')
  let events = 0
  const closed = Promise.withResolvers<void>()
  const clients = new QmpClients({
    runDirectory,
    greetingMs: 5000,
    onEvent: () => (events += 1),
    onClose: () => closed.resolve(),
  })
  t.after(() => {
    clients.close()
    for (const socket of sockets) socket.destroy()
    server.close()
    rmSync(runDirectory, { recursive: true })
  })
  await clients.of(id)
  await until(
    () => events,
    (count) => count >= burst,
  )
  sockets[0]?.destroy()
  await closed.promise
  const before = events
  await clients.of(id)
  // A whole burst of another monitor gives the events time to come.
  let others = 0
  const other = await QmpClient.connect(path, { onEvent: () => (others += 1) })
  t.after(() => other.close())
  await until(
    () => others,
    (count) => count >= burst,
  )
  assert.ok(events - before < burst / 2, `${events - before} came`)
})

test('an event of a connection carries no log context of the operation that made it', async (t) => {
  const runDirectory = mkdtempSync(join(tmpdir(), 'qmp-'))
  const path = qmpSocketPath(runDirectory, id)
  mkdirSync(dirname(path), { recursive: true })
  const server = createServer((socket) => {
    socket.write('{"QMP": {"version": {}, "capabilities": []}}\r\n')
    socket.once('data', () => socket.write('{"return": {}, "id": 1}\r\n'))
  }).listen(path)
  const connection = once(server, 'connection')
  await once(server, 'listening')
  const seen = Promise.withResolvers<object>()
  const clients = new QmpClients({
    runDirectory,
    greetingMs: 5000,
    onEvent: () => seen.resolve(logContext()),
    onClose: () => {},
  })
  t.after(() => {
    clients.close()
    server.close()
    rmSync(runDirectory, { recursive: true })
  })
  await inLogContext({ operation_id: 'op-1', step: 'monitor.ensure-running' }, () => clients.of(id))
  const [socket] = (await connection) as [Socket]
  socket.write('{"event": "STOP", "timestamp": {"seconds": 1, "microseconds": 2}}\r\n')
  assert.deepEqual(await seen.promise, {})
})
