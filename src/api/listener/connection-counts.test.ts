import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import type { TLSSocket } from 'node:tls'
import { ConnectionCounts } from './connection-counts.ts'

test('a node has so many connections at once, whatever other nodes have', () => {
  const connections = new ConnectionCounts(limits.connectionsOfNodeMax)
  const open = (): TLSSocket => new EventEmitter() as TLSSocket
  const sockets = Array.from({ length: limits.connectionsOfNodeMax }, open)
  for (const socket of sockets) assert.ok(connections.admit('host-1', socket))
  assert.ok(!connections.admit('host-1', open()))
  assert.ok(connections.admit('host-2', open()))
  sockets[0]?.emit('close')
  assert.ok(connections.admit('host-1', open()))
  assert.ok(!connections.admit('host-1', open()))
})
