import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { qmpSocketPath } from '../../core/monitor/qemu-command.ts'
import { inLogContext, logContext } from '../../log/log.ts'
import { QmpClients } from './qmp-clients.ts'
import type { Socket } from 'node:net'
import type { VmId } from '../../core/ids.ts'

const id = 'web-1' as VmId

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
